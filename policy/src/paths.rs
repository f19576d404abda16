//! Paths as users write them: where they start and where they may lie.
//!
//! Runs in: any (pure data).
//!
//! Nothing here looks at a disk, so a `..` after a named directory cannot be resolved (that directory may
//! be a symbolic link) and is refused; at the start of a relative path it can, since the directory that
//! such a path starts at is known without symbolic links.

use std::path::{Component, Path, PathBuf};

use crate::error::{Complaint, quote};
use crate::session::{MAX_MOUNTS, Mount, WorkspaceChoice};

/// Where the paths of one file, or of one command line, start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bases<'a> {
    /// Where a relative path starts: absolute and without symbolic links.
    pub directory: &'a Path,
    /// What `~/` stands for.
    pub home: &'a Path,
}

/// Makes a path absolute, without `.` and `..`.
pub(crate) fn resolve(text: &str, bases: Bases<'_>) -> Result<PathBuf, Complaint> {
    if text.is_empty() {
        return Err(Complaint::new("expected a path, found an empty string"));
    }
    let (start, rest) = match text.strip_prefix('~') {
        Some("") => (bases.home, Path::new("")),
        Some(rest) if rest.starts_with('/') => {
            (bases.home, Path::new(rest.trim_start_matches('/')))
        }
        Some(_) => {
            let message = format!("expected \"~/\" and a path, found {}", quote(text));
            return Err(Complaint::new(message).hint("a file of that name is written \"./~...\""));
        }
        None => (bases.directory, Path::new(text)),
    };
    let whole = walk(start, rest, text)?;
    if whole.to_str().is_none() {
        return Err(Complaint::new("expected a path that is UTF-8 from the root on"));
    }
    Ok(whole)
}

/// Follows `rest` from `start`, or from `/` when it is absolute.
fn walk(start: &Path, rest: &Path, text: &str) -> Result<PathBuf, Complaint> {
    let mut whole = start.to_path_buf();
    let mut is_named = rest.is_absolute() || text.starts_with('~');
    for component in rest.components() {
        match component {
            Component::RootDir | Component::Prefix(_) => whole = PathBuf::from("/"),
            Component::CurDir => {}
            Component::ParentDir if is_named => {
                let message =
                    format!("expected a path with \"..\" at its start only, found {}", quote(text));
                let hint =
                    "a symbolic link before \"..\" would lead elsewhere; write the path without it";
                return Err(Complaint::new(message).hint(hint));
            }
            // Ignored at the root: `/..` is `/`.
            Component::ParentDir => _ = whole.pop(),
            Component::Normal(name) => {
                is_named = true;
                whole.push(name);
            }
        }
    }
    Ok(whole)
}

/// Reads a path in the box: absolute as it stands, and not one of the box's own places.
pub(crate) fn target(text: &str) -> Result<PathBuf, Complaint> {
    let path = Path::new(text);
    if !path.is_absolute() {
        let message = format!("expected an absolute path in the box, found {}", quote(text));
        return Err(Complaint::new(message));
    }
    if path.components().any(|part| part == Component::ParentDir) {
        let message = format!("expected a path without \"..\", found {}", quote(text));
        return Err(Complaint::new(message));
    }
    let path: PathBuf = path.components().collect();
    check_target(&path)?;
    Ok(path)
}

/// Refuses a path in the box that the box's own file system needs.
pub(crate) fn check_target(path: &Path) -> Result<(), Complaint> {
    const WHOLE: [&str; 3] = ["/proc", "/dev", "/sys"];
    const ITSELF: [&str; 6] = ["/", "/etc", "/usr", "/tmp", "/run", "/workspace"];
    let is_own = WHOLE.iter().any(|own| path.starts_with(own))
        || ITSELF.iter().any(|own| path == Path::new(own));
    if !is_own {
        return Ok(());
    }
    let shown = quote(&path.to_string_lossy());
    Err(Complaint::new(format!("expected a path that the box does not need itself, found {shown}"))
        .hint("mount it below a directory of its own, such as /mnt/NAME"))
}

/// Returns why a directory may not be a workspace, or nothing when it may.
///
/// Both paths are absolute and without symbolic links. A home, or a directory above it, holds credentials
/// and the settings that programs on the host obey; the others are the box's own places.
#[must_use]
pub fn workspace_refusal(path: &Path, home: &Path) -> Option<&'static str> {
    const WHOLE: [&str; 3] = ["/proc", "/dev", "/sys"];
    const ITSELF: [&str; 4] = ["/etc", "/usr", "/tmp", "/run"];
    if path == Path::new("/") {
        return Some("it is the root of the file system");
    }
    if path == home {
        return Some("it is the home directory");
    }
    if home.starts_with(path) {
        return Some("the home directory lies in it");
    }
    let is_own = WHOLE.iter().any(|own| path.starts_with(own))
        || ITSELF.iter().any(|own| path == Path::new(own));
    is_own.then_some("the box needs this path itself")
}

/// Reads the path of a workspace.
pub(crate) fn workspace(text: &str, bases: Bases<'_>) -> Result<PathBuf, Complaint> {
    let path = resolve(text, bases)?;
    match workspace_refusal(&path, bases.home) {
        None => Ok(path),
        Some(why) => {
            let shown = quote(&path.to_string_lossy());
            let message =
                format!("expected a directory that may be a workspace, found {shown}: {why}");
            Err(Complaint::new(message).hint("choose a directory below it, or mode \"none\""))
        }
    }
}

/// A mount that cannot stand beside those before it.
#[derive(Debug)]
pub(crate) struct Clash {
    /// Its place in the list.
    pub index: usize,
    /// Why it cannot.
    pub complaint: Complaint,
}

/// Checks all mounts of a session together: how many there are, and that no two share a target.
pub(crate) fn check_together(mounts: &[Mount], workspace: &WorkspaceChoice) -> Result<(), Clash> {
    if mounts.len() > MAX_MOUNTS {
        let message = format!("expected at most {MAX_MOUNTS} mounts, found {}", mounts.len());
        return Err(Clash { index: MAX_MOUNTS, complaint: Complaint::new(message) });
    }
    for (index, mount) in mounts.iter().enumerate() {
        let is_workspace = matches!(workspace, WorkspaceChoice::At(at) if at.path == mount.target);
        let is_twice = mounts.iter().take(index).any(|other| other.target == mount.target);
        if !is_workspace && !is_twice {
            continue;
        }
        let what = if is_workspace { "the workspace's" } else { "an earlier mount's" };
        let shown = quote(&mount.target.to_string_lossy());
        let message = format!("expected a target of its own, found {what}: {shown}");
        return Err(Clash { index, complaint: Complaint::new(message) });
    }
    Ok(())
}
