//! Says where the host has a program that the box has not, and which flag shows it.
//!
//! Runs in: client (reads metadata along the caller's PATH).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use policy::Tool;

use crate::fault::Fault;

/// Gives a program that was not found a way out.
pub(super) fn hint_for(fault: Fault, command: &[OsString]) -> Fault {
    if fault.status != 127 {
        return fault;
    }
    match command.first().and_then(|name| find(name)) {
        Some(path) => {
            let hint = hint(&path);
            fault.hint(hint)
        }
        None => fault,
    }
}

/// Finds a program as the caller's shell would.
fn find(name: &OsStr) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return Path::new(name).is_file().then(|| PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file())
}

fn hint(path: &Path) -> String {
    let shown = path.display();
    let home = super::flags::home().unwrap_or_default();
    let tool = Tool::ALL.into_iter().find(|tool| {
        tool.row().mounts.iter().any(|mount| path.starts_with(home.join(mount)))
            || tool.row().path_entries.iter().any(|entry| match entry {
                policy::PathEntry::Directory(directory) => path.starts_with(home.join(directory)),
                policy::PathEntry::NewestOf(_) => false,
            })
    });
    match tool {
        Some(tool) => format!("this host has it as {shown}; --tools {tool} shows it in the box"),
        None => {
            let directory = path.parent().unwrap_or(path).display().to_string();
            format!(
                "this host has it as {shown}; --mount {directory} shows that directory in the box"
            )
        }
    }
}
