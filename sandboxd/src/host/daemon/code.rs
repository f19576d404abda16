//! A server that holds a secret runs no code that the agent can write.
//!
//! What the agent can write is what lies below a read-write mount: who may edit a server's program, or a
//! directory in which it looks for programs, has its token. Private directories are no way: each compartment
//! has its own.
//!
//! Runs in: host (reads metadata).

use std::path::{Path, PathBuf};

use policy::{Server, ServerDirectory};
use rootfs::{Access, MountPlan, Shape, Step};

use super::hops::hops;

use crate::fault::{Fault, Kind};

/// Programs whose first argument that is no option is code.
const INTERPRETERS: [&str; 21] = [
    "node", "nodejs", "deno", "bun", "tsx", "ts-node", "python", "python2", "python3", "pypy3",
    "uv", "uvx", "ruby", "perl", "php", "bash", "sh", "dash", "zsh", "java", "env",
];

/// Where a server would run: what it is told, and what its box shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start<'a> {
    pub(super) name: &'a str,
    pub(super) server: &'a Server,
    pub(super) plan: &'a MountPlan,
    /// The PATH of its environment.
    pub(super) path: &'a str,
    /// Where it starts.
    pub(super) directory: &'a Path,
}

/// Refuses a server that holds a secret and whose code the agent can write, unless the operator said so.
pub(super) fn check(start: Start<'_>) -> Result<(), Fault> {
    if !start.server.holds_secret() || start.server.trust_workspace_code {
        return Ok(());
    }
    let field = format!("mcp.{}", start.name);
    if start.server.cwd == ServerDirectory::Home {
        // Its home is its own; anything else was said, and then it is the operator's word.
        debug_assert!(writable(start.plan, start.directory).is_none());
    }
    for directory in start.path.split(':').filter(|entry| !entry.is_empty()) {
        if let Some(mount) = writable(start.plan, Path::new(directory)) {
            return Err(refuse(&format!("{field}.env.PATH"), directory, &mount));
        }
    }
    let Some(program) = start.server.command.first() else { return Ok(()) };
    for path in program_files(start, program) {
        if let Some(mount) = writable(start.plan, &path) {
            return Err(refuse(&format!("{field}.command"), &path.display().to_string(), &mount));
        }
    }
    match script(start) {
        Some((word, mount)) => Err(refuse(&format!("{field}.command"), &word, &mount)),
        None => Ok(()),
    }
}

fn refuse(field: &str, path: &str, mount: &Path) -> Fault {
    let message = format!(
        "policy: {field}: cannot give a secret to code that the agent can write: {path} lies below the \
         read-write mount {}",
        mount.display()
    );
    let hint = "install the server outside the workspace, or say trust_workspace_code = true to accept \
                that whoever edits it has its secret";
    Fault::new(Kind::Policy, message).field(field).hint(hint)
}

/// The program's file as the box finds it, and what it is a link to.
fn program_files(start: Start<'_>, program: &str) -> Vec<PathBuf> {
    let candidates: Vec<PathBuf> = if program.contains('/') {
        vec![start.directory.join(program)]
    } else {
        start.path.split(':').map(|directory| Path::new(directory).join(program)).collect()
    };
    let found = candidates.into_iter().find(|path| outside(start.plan, path).is_file());
    let Some(found) = found else { return Vec::new() };
    let mut files = vec![found.clone()];
    files.extend(hops(&outside(start.plan, &found)));
    files
}

/// The code that an interpreter is told to run, when it lies where the agent can write.
fn script(start: Start<'_>) -> Option<(String, PathBuf)> {
    let program = Path::new(start.server.command.first()?).file_name()?.to_str()?;
    let base = program.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let interprets = INTERPRETERS.iter().any(|known| *known == program || *known == base);
    let words = start.server.command.iter().skip(1);
    // What comes after the script is data for it: a workspace may well be named there.
    let mut code = words.filter(|word| !word.starts_with('-')).take(if interprets { 1 } else { 0 });
    let options = start.server.command.iter().skip(1).filter_map(|word| word.split_once('='));
    let mut named = options.filter(|(name, _)| name.starts_with('-')).map(|(_, value)| value);
    let first = code.find_map(|word| place(start, word));
    first.or_else(|| named.by_ref().filter(|_| interprets).find_map(|word| place(start, word)))
}

fn place(start: Start<'_>, word: &str) -> Option<(String, PathBuf)> {
    let path = start.directory.join(word);
    let real = outside(start.plan, &path);
    if !real.exists() {
        return None;
    }
    let way = std::iter::once(path).chain(hops(&real));
    let mount = way.into_iter().find_map(|step| writable(start.plan, &step))?;
    Some((word.to_owned(), mount))
}

/// The mount of the plan that a path of the box lies in.
fn mount<'a>(plan: &'a MountPlan, path: &Path) -> Option<(&'a Path, &'a Path, Access)> {
    let binds = plan.steps.iter().filter_map(|step| match step {
        Step::Bind { source, target, access } => {
            Some((source.path.as_path(), target.as_path(), *access))
        }
        Step::Directory { .. } | Step::File { .. } | Step::Copy { .. } | Step::Link { .. } => None,
    });
    binds
        .filter(|(_, target, _)| path.starts_with(target))
        .max_by_key(|(_, target, _)| target.components().count())
}

/// The read-write mount through which the agent decides what a path of the host is.
pub(super) fn exposed(plan: &MountPlan, path: &Path) -> Option<PathBuf> {
    hops(path).iter().find_map(|step| {
        plan.steps.iter().find_map(|mount| {
            let Step::Bind { source, access: Access::ReadWrite, .. } = mount else { return None };
            (source.shape != Shape::Device && step.starts_with(&source.path))
                .then(|| source.path.clone())
        })
    })
}

/// The path that the box's own link /workspace stands for.
fn followed(plan: &MountPlan, path: &Path) -> PathBuf {
    match path.strip_prefix("/workspace") {
        Ok(rest) => plan.directory.join(rest),
        Err(_) => path.to_owned(),
    }
}

/// Where on the host a path of the box is.
fn outside(plan: &MountPlan, path: &Path) -> PathBuf {
    let path = followed(plan, path);
    match mount(plan, &path) {
        Some((source, target, _)) => {
            path.strip_prefix(target).map_or_else(|_| path.clone(), |rest| source.join(rest))
        }
        None => path,
    }
}

/// The read-write mount that a path lies in, by the box's name or by the host's.
fn writable(plan: &MountPlan, path: &Path) -> Option<PathBuf> {
    let path = followed(plan, path);
    if let Some((_, target, Access::ReadWrite)) = mount(plan, &path)
        && !target.starts_with("/dev")
    {
        return Some(target.to_owned());
    }
    plan.steps.iter().find_map(|step| {
        let Step::Bind { source, target, access: Access::ReadWrite } = step else { return None };
        let below = path.starts_with(&source.path) && !target.starts_with("/dev");
        below.then(|| target.clone())
    })
}

#[cfg(test)]
#[path = "code_tests.rs"]
mod tests;
