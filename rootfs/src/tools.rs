//! Finds the toolchains of the user's home that were asked for.
//!
//! Runs in: host (reads metadata and directory listings).

use std::fs;
use std::path::{Path, PathBuf};

use policy::{PathEntry, Tool};

/// A toolchain as it is in this user's home.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFacts {
    /// What to show, read-only, at its own path.
    pub mounts: Vec<PathBuf>,
    /// Directories for PATH, before the system's.
    pub path: Vec<PathBuf>,
    /// Variables.
    pub env: Vec<(String, PathBuf)>,
    /// Toolchains of which the home has nothing.
    pub missing: Vec<Tool>,
}

/// Finds the toolchains below `home`.
#[must_use]
pub fn tools(home: &Path, wanted: &[Tool]) -> ToolFacts {
    let mut found = ToolFacts::default();
    for tool in wanted {
        let row = tool.row();
        let mounts: Vec<PathBuf> =
            row.mounts.iter().map(|path| home.join(path)).filter(|path| path.exists()).collect();
        if mounts.is_empty() {
            found.missing.push(*tool);
            continue;
        }
        found.path.extend(row.path_entries.iter().filter_map(|entry| match entry {
            PathEntry::Directory(path) => Some(home.join(path)).filter(|path| path.is_dir()),
            PathEntry::NewestOf(pattern) => newest(home, pattern),
        }));
        for (name, path) in row.env {
            let path = home.join(path);
            if path.exists() {
                found.env.push(((*name).to_owned(), path));
            }
        }
        found.mounts.extend(mounts);
    }
    found
}

/// Fills the `*` of `dir/*/bin` with the newest version that has the rest.
fn newest(home: &Path, pattern: &str) -> Option<PathBuf> {
    let (base, rest) = pattern.split_once("/*/")?;
    let base = home.join(base);
    let names: Vec<String> = fs::read_dir(&base)
        .ok()?
        .flatten()
        .filter(|entry| entry.path().join(rest).is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let name = policy::newest_version(names.iter().map(String::as_str))?;
    Some(base.join(name).join(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_comes_first_on_the_path_and_absent_tools_are_named() {
        let home = tempfile::tempdir().unwrap();
        for version in ["v9.1.0", "v20.1.0", "v18.0.0"] {
            fs::create_dir_all(home.path().join(".nvm/versions/node").join(version).join("bin"))
                .unwrap();
        }
        let found = tools(home.path(), &[Tool::Node, Tool::Rust]);
        assert_eq!(found.path, [home.path().join(".nvm/versions/node/v20.1.0/bin")]);
        assert_eq!(found.mounts, [home.path().join(".nvm/versions")]);
        assert_eq!(found.missing, [Tool::Rust]);
    }
}
