//! Finds what in a tree the host would later execute or trust.
//!
//! The names are policy's. What they lead to is found here: hooks that are links into the tree, programs and
//! files that a git configuration names there, the git directories of submodules and of linked worktrees. A
//! protected name whose target can be written would protect nothing.
//!
//! Runs in: host (reads metadata, links and git configurations; follows nothing that leads out of the tree).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use policy::{PathKind, TRUSTED_GIT_PATHS, TRUSTED_PATHS, TrustedPath};

use crate::plan::{Access, Guard};
use crate::small;

/// What is trusted in one tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trusted {
    /// What to protect, from the outside in.
    pub(crate) guards: Vec<Guard>,
    /// What cannot be protected, and why.
    pub(crate) unprotected: Vec<(PathBuf, &'static str)>,
    /// How many directories were looked into.
    visited: usize,
}

/// A box may have left any number of names: so many are protected, so many directories looked into.
const GUARDS: usize = 512;
const VISITS: usize = 2048;

/// A directory of modules may be nested (a submodule's submodules), but not for ever.
const DEPTH: usize = 6;

/// Keys of a git configuration whose value git executes, or reads further settings from (git-config(1)).
const KEYS: [&str; 16] = [
    "hookspath",
    "path",
    "fsmonitor",
    "sshcommand",
    "editor",
    "pager",
    "program",
    "command",
    "textconv",
    "clean",
    "smudge",
    "process",
    "driver",
    "helper",
    "cmd",
    "askpass",
];

/// Finds what is trusted below a workspace.
pub(crate) fn in_workspace(root: &Path) -> Trusted {
    let mut trusted = Trusted::default();
    trusted.add_rows(root, Path::new(""), TRUSTED_PATHS);
    if root.join(".git").is_dir() {
        trusted.add_git(root, Path::new(".git"), DEPTH);
    }
    trusted.sort();
    trusted
}

/// Finds what is trusted in a git directory that is mounted by itself.
pub(crate) fn in_repository(common: &Path) -> Trusted {
    let mut trusted = Trusted::default();
    trusted.add_git(common, Path::new(""), DEPTH);
    trusted.sort();
    trusted
}

impl Trusted {
    /// Joins what was found below another root.
    pub(crate) fn extend(&mut self, other: Self) {
        self.guards.extend(other.guards);
        self.unprotected.extend(other.unprotected);
        self.sort();
    }

    fn sort(&mut self) {
        self.guards.sort_by(|a, b| (&a.root, &a.path).cmp(&(&b.root, &b.path)));
    }

    /// Adds the rows that apply below `base`.
    fn add_rows(&mut self, root: &Path, base: &Path, rows: &[TrustedPath]) {
        for row in rows {
            let name = base.join(row.path);
            let Ok(data) = fs::symlink_metadata(root.join(&name)) else { continue };
            let applies = match row.kind {
                PathKind::File => data.is_file(),
                PathKind::Directory => data.is_dir(),
            };
            if applies || data.is_symlink() {
                self.add(root, &name);
            }
        }
    }

    /// Adds one path, its ancestors first.
    fn add(&mut self, root: &Path, name: &Path) {
        if has_link(root, name) {
            self.warn(root, name, "it is, or lies behind, a symbolic link");
            return;
        }
        let Ok(data) = fs::symlink_metadata(root.join(name)) else { return };
        if data.is_file() && data.nlink() > 1 {
            self.warn(root, name, "it has another name (a hard link), which may be writable");
        }
        for ancestor in name.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()) {
            self.push(root, ancestor, Access::ReadWrite);
        }
        self.push(root, name, Access::ReadOnly);
    }

    /// The names of the directories in a directory, as long as there are not too many.
    fn directories(&mut self, path: &Path) -> Vec<std::ffi::OsString> {
        let left = VISITS.saturating_sub(self.visited);
        let names: Vec<_> = fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .take(left)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.file_name())
            .collect();
        self.visited += names.len();
        names
    }

    fn warn(&mut self, root: &Path, name: &Path, why: &'static str) {
        let path = root.join(name);
        if !self.unprotected.iter().any(|(known, _)| *known == path) {
            self.unprotected.push((path, why));
        }
    }

    fn push(&mut self, root: &Path, path: &Path, access: Access) {
        let same = |guard: &&mut Guard| guard.root == root && guard.path == path;
        if let Some(known) = self.guards.iter_mut().find(same) {
            if access == Access::ReadOnly {
                known.access = access;
            }
            return;
        }
        if self.guards.len() >= GUARDS {
            self.warn(root, path, "there are too many such paths in this tree");
            return;
        }
        self.guards.push(Guard { root: root.to_owned(), path: path.to_owned(), access });
    }

    /// Adds what git obeys in a git directory, its submodules and its linked worktrees.
    fn add_git(&mut self, root: &Path, git: &Path, depth: usize) {
        self.add_rows(root, git, TRUSTED_GIT_PATHS);
        self.add_hook_targets(root, git);
        for (section, key, value) in configuration(&root.join(git).join("config")) {
            if section == "core" && key == "worktree" {
                // A submodule's worktree has a file that names this git directory.
                self.add_mentioned(root, &git.join(&value).join(".git"));
            } else if KEYS.contains(&key.as_str()) {
                let base = if section.starts_with("include") { git } else { Path::new("") };
                let program = value.trim_start_matches('!').split_whitespace().next();
                self.add_mentioned(root, &base.join(program.unwrap_or_default()));
            }
        }
        for entry in self.directories(&root.join(git).join("worktrees")) {
            for name in ["commondir", "gitdir", "config.worktree"] {
                let path = git.join("worktrees").join(&entry).join(name);
                if root.join(&path).is_file() {
                    self.add(root, &path);
                }
            }
        }
        if depth > 0 {
            self.add_modules(root, &git.join("modules"), depth - 1);
        }
    }

    /// Adds the git directories below `modules`: a module's name may itself have slashes.
    fn add_modules(&mut self, root: &Path, base: &Path, depth: usize) {
        for entry in self.directories(&root.join(base)) {
            let path = base.join(entry);
            if root.join(&path).join("HEAD").is_file() {
                self.add_git(root, &path, depth);
            } else if depth > 0 {
                self.add_modules(root, &path, depth - 1);
            }
        }
    }

    /// Adds the programs that hooks are links to.
    fn add_hook_targets(&mut self, root: &Path, git: &Path) {
        let hooks = root.join(git).join("hooks");
        for entry in fs::read_dir(&hooks).into_iter().flatten().flatten() {
            if let Ok(target) = fs::read_link(entry.path()) {
                self.add_mentioned(root, &git.join("hooks").join(target));
            }
        }
    }

    /// Adds a path that something trusted names, when it exists in the tree.
    fn add_mentioned(&mut self, root: &Path, path: &Path) {
        let Some(name) = within(root, path) else { return };
        if fs::symlink_metadata(root.join(&name)).is_ok() {
            self.add(root, &name);
        }
    }
}

/// The path from the root, without `.` and `..`; nothing for one that leads out, or to the root itself.
fn within(root: &Path, path: &Path) -> Option<PathBuf> {
    let path = match path.strip_prefix(root) {
        Ok(rest) => rest,
        Err(_) if path.is_absolute() => return None,
        Err(_) => path,
    };
    let mut name = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => name.push(part),
            Component::ParentDir => {
                if !name.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!name.as_os_str().is_empty()).then_some(name)
}

/// Says whether any part of a name is a symbolic link.
fn has_link(root: &Path, name: &Path) -> bool {
    name.ancestors()
        .filter(|path| !path.as_os_str().is_empty())
        .any(|path| fs::symlink_metadata(root.join(path)).is_ok_and(|data| data.is_symlink()))
}

/// The settings of a git configuration: section and key in lower case, value without quotes.
fn configuration(path: &Path) -> Vec<(String, String, String)> {
    let text = small::read(path).unwrap_or_default();
    let mut section = String::new();
    let mut settings = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let name = header.split([']', ' ', '"', '.']).next().unwrap_or_default();
            section = name.to_ascii_lowercase();
        } else if let Some((key, value)) = line.split_once('=') {
            let value = value.trim().trim_matches('"').to_owned();
            settings.push((section.clone(), key.trim().to_ascii_lowercase(), value));
        }
    }
    settings
}

#[cfg(test)]
#[path = "trusted_tests.rs"]
mod tests;
