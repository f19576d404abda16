//! The same rules for the flags of the command line.
//!
//! Runs in: any (pure data).

use std::path::Path;

use crate::egress::{Budget, Resolver, Rule};
use crate::error::{Complaint, PolicyError, quote};
use crate::paths::{self, Bases};
use crate::session::{Mode, Mount, SessionFile, Workspace, WorkspaceChoice};
use crate::variables;

/// What one `--env` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvFlag {
    /// `--env K`: the variable as the caller has it.
    Copy(String),
    /// `--env K=V`: this value.
    Set(String, String),
}

/// Reads `--workspace DIR[:rw|ro]` or `--workspace none`.
///
/// `directory` is the caller's, absolute and without symbolic links. What stands after the last `:` is part
/// of DIR unless it is a mode; a directory that is called `none` is written `./none`.
///
/// # Errors
/// Names the flag and what was expected of it; a mode that this version does not enforce by its name.
pub fn parse_workspace_flag(
    text: &str,
    directory: &Path,
    home: &Path,
) -> Result<WorkspaceChoice, PolicyError> {
    read_workspace(text, Bases { directory, home })
        .map_err(|complaint| PolicyError::flag("--workspace", complaint))
}

fn read_workspace(text: &str, bases: Bases<'_>) -> Result<WorkspaceChoice, Complaint> {
    check_nul(text)?;
    if text == "none" {
        return Ok(WorkspaceChoice::None);
    }
    let (path, mode) = match text.rsplit_once(':') {
        Some((path, "rw")) => (path, Mode::ReadWrite),
        Some((path, "ro")) => (path, Mode::ReadOnly),
        Some((_, "staged")) => return Err(staged()),
        _ => (text, Mode::ReadWrite),
    };
    if path == "none" && path != text {
        let message = format!("expected \"none\" without a mode, found {}", quote(text));
        return Err(Complaint::new(message).hint("a directory of that name is written ./none"));
    }
    let path = paths::workspace(path, bases)?;
    Ok(WorkspaceChoice::At(Workspace { path, mode }))
}

/// Says that the mode `staged` is not built yet; the flag and the file share the words.
pub(crate) fn staged() -> Complaint {
    let message = "\"staged\" is not enforced by this version of sandboxd, which has \"rw\", \"ro\" and \"none\"";
    Complaint::new(message)
}

/// Reads `--mount SRC[:DST][:ro|rw]`; the mode is `ro` and DST is SRC when not said.
///
/// `directory` is the caller's, absolute and without symbolic links. A path that holds a `:` cannot be
/// given by the flag; a session file can name it.
///
/// # Errors
/// Names the flag and what was expected of it.
pub fn parse_mount_flag(text: &str, directory: &Path, home: &Path) -> Result<Mount, PolicyError> {
    read_mount(text, Bases { directory, home })
        .map_err(|complaint| PolicyError::flag("--mount", complaint))
}

fn read_mount(text: &str, bases: Bases<'_>) -> Result<Mount, Complaint> {
    check_nul(text)?;
    let (rest, mode) = match text.rsplit_once(':') {
        Some((rest, "rw")) => (rest, Mode::ReadWrite),
        Some((rest, "ro")) => (rest, Mode::ReadOnly),
        _ => (text, Mode::ReadOnly),
    };
    let (source, target) = match rest.split_once(':') {
        None => (rest, None),
        Some((_, target)) if target.contains(':') => {
            let message = format!("expected SRC[:DST][:ro|rw], found {}", quote(text));
            return Err(Complaint::new(message)
                .hint("a path that holds a \":\" can be named in [[mounts]] of a session file"));
        }
        Some((source, target)) => (source, Some(target)),
    };
    let source = paths::resolve(source, bases)?;
    let target = match target {
        Some(target) => paths::target(target)?,
        None => {
            paths::check_target(&source)?;
            source.clone()
        }
    };
    Ok(Mount { source, target, mode })
}

/// Reads `--env K` or `--env K=V`.
///
/// # Errors
/// Names the flag and what was expected of it, never the value.
pub fn parse_env_flag(text: &str) -> Result<EnvFlag, PolicyError> {
    read_env(text).map_err(|complaint| PolicyError::flag("--env", complaint))
}

fn read_env(text: &str) -> Result<EnvFlag, Complaint> {
    check_nul(text)?;
    match text.split_once('=') {
        None => variables::check_name(text).map(|()| EnvFlag::Copy(text.to_owned())),
        Some((name, value)) => {
            variables::check_name(name).map(|()| EnvFlag::Set(name.to_owned(), value.to_owned()))
        }
    }
}

/// Checks all mounts of a session together, those of the file and those of the flags: how many there are,
/// and that no two of them, nor one and the workspace, share a target.
///
/// # Errors
/// Names `--mount`, since each list was checked alone before.
pub fn check_mounts(mounts: &[Mount], workspace: &WorkspaceChoice) -> Result<(), PolicyError> {
    paths::check_together(mounts, workspace)
        .map_err(|clash| PolicyError::flag("--mount", clash.complaint))
}

/// Reads `--allow NAME[:PORT,...]`, in every form that a rule of `[egress] allow` has.
///
/// # Errors
/// Names the flag and what was expected of it.
pub fn parse_allow_flag(text: &str) -> Result<Rule, PolicyError> {
    text.parse().map_err(|wrong| PolicyError::flag("--allow", Complaint::from(wrong)))
}

/// Reads `--resolver ADDR[:PORT]`.
///
/// # Errors
/// Names the flag and what was expected of it.
pub fn parse_resolver_flag(text: &str) -> Result<Resolver, PolicyError> {
    text.parse()
        .map_err(|wrong| PolicyError::flag("--resolver", Complaint::new(format!("{wrong}"))))
}

/// Checks all rules of a session together, those of the file and those of the flags: how many there are,
/// and how many ports they name.
///
/// # Errors
/// Names `--allow`, since each list was checked alone before.
pub fn check_rules(file: &SessionFile) -> Result<(), PolicyError> {
    let mut budget = Budget::default();
    file.rules()
        .try_for_each(|rule| budget.spend(rule))
        .map_err(|complaint| PolicyError::flag("--allow", complaint))
}

fn check_nul(text: &str) -> Result<(), Complaint> {
    if text.contains('\0') {
        return Err(Complaint::new("expected text without a NUL byte"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "flag_tests.rs"]
mod tests;
