//! The environment of a payload, built from nothing.
//!
//! Runs in: client (what it knows of the caller), host (the rest).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What the client tells of its caller, and nothing else of it reaches a box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Caller {
    /// Its directory.
    pub(crate) directory: PathBuf,
    /// Its time zone, when TZ says one.
    pub(crate) time_zone: Option<String>,
    /// Its terminal's kind, when it has one.
    pub(crate) terminal: Option<String>,
    /// Its git name and email address.
    pub(crate) author: (Option<String>, Option<String>),
    /// Its file mode creation mask.
    pub(crate) umask: u32,
    /// Its PATH and home, for the commands that print secrets; a box does not get them.
    pub(crate) path: String,
    /// See `path`.
    pub(crate) home: PathBuf,
    /// Its limit of open descriptors, soft and hard.
    pub(crate) descriptors: (u64, u64),
}

/// Where programs are, behind the toolchains of the home.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the variables that every payload has.
pub(crate) fn base(
    caller: &Caller,
    user: &str,
    home: &Path,
    shell: &Path,
    path: &[PathBuf],
) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut set = |name: &str, value: String| all.insert(name.to_owned(), value);
    let directories = path.iter().map(|directory| directory.display().to_string());
    set("PATH", directories.chain([PATH.to_owned()]).collect::<Vec<_>>().join(":"));
    set("HOME", home.display().to_string());
    set("USER", user.to_owned());
    set("LOGNAME", user.to_owned());
    set("SHELL", shell.display().to_string());
    set("LANG", "C.UTF-8".to_owned());
    set("TMPDIR", "/tmp".to_owned());
    // A Python whose output is a pipe holds back what it prints; git would wait for a password that nobody
    // types.
    set("PYTHONUNBUFFERED", "1".to_owned());
    set("GIT_TERMINAL_PROMPT", "0".to_owned());
    // Where the caller's identity is (rootfs writes it): a git that was built with another prefix would look
    // elsewhere for what is system-wide.
    if let (Some(_), Some(_)) = &caller.author {
        set("GIT_CONFIG_SYSTEM", "/etc/gitconfig".to_owned());
    }
    if let Some(zone) = &caller.time_zone {
        set("TZ", zone.clone());
    }
    all
}
