//! A server that holds a secret runs no code that the agent can write.
//!
//! What the agent can write is what lies below a read-write mount: who may edit a server's program, or a
//! directory in which it looks for programs, has its token. Private directories are no way: each compartment
//! has its own.
//!
//! Runs in: host (reads metadata).

use std::path::{Path, PathBuf};

use policy::{EnvValue, Server, ServerDirectory};
use rootfs::{Access, MountPlan, Shape, Step};

use super::hops::hops;

use crate::fault::{Fault, Kind};

/// Programs that run the file named by their first argument, and give it the rest as data.
const INTERPRETERS: [&str; 9] =
    ["node", "nodejs", "python", "python2", "python3", "pypy3", "ruby", "perl", "php"];

/// Where programs of the system are: what they do with a path, nobody here knows (`make -C`, `sh -c`).
const SYSTEM: [&str; 5] = ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/lib"];

/// Variables that name code, or settings that name code, by how they begin.
const VARIABLES: [&str; 22] = [
    "HOME",
    "XDG_",
    "NODE_",
    "NPM_",
    "npm_",
    "PYTHON",
    "PIP_",
    "UV_",
    "VIRTUAL_ENV",
    "PERL",
    "RUBY",
    "GEM_",
    "BUNDLE_",
    "JAVA_",
    "CARGO_",
    "RUSTUP_",
    "GO",
    "GIT_",
    "LD_",
    "BASH_ENV",
    "ENV",
    "SHELL",
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
    for directory in start.path.split(':') {
        // An empty or relative entry is looked for where the server starts.
        if let Some(mount) = writable(start.plan, &start.directory.join(directory)) {
            return Err(refuse(&format!("{field}.env.PATH"), directory, &mount));
        }
    }
    for (name, value) in &start.server.env {
        let EnvValue::Literal(value) = value else { continue };
        let names_code = VARIABLES.iter().any(|start| name.starts_with(start));
        if let Some((path, mount)) = value.split(':').find_map(|part| place(start, part))
            && names_code
        {
            return Err(refuse(&format!("{field}.env.{name}"), &path, &mount));
        }
    }
    let Some(program) = start.server.command.first() else { return Ok(()) };
    let files = program_files(start, program);
    for path in &files {
        if let Some(mount) = writable(start.plan, path) {
            return Err(refuse(&format!("{field}.command"), &path.display().to_string(), &mount));
        }
    }
    match code_words(start, &files).into_iter().find_map(|word| mentioned(start, word)) {
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

/// The program's file as the box finds it, what it is a link to, and who interprets it.
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
    files.extend(files.last().and_then(|file| interpreter(file)));
    files
}

/// The program after `#!` (execve(2)).
fn interpreter(file: &Path) -> Option<PathBuf> {
    use std::io::Read;
    let mut head = Vec::new();
    std::fs::File::open(file).ok()?.take(256).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    line.split_whitespace().next().map(PathBuf::from)
}

/// The words of the command that may decide what runs.
///
/// A server's own program, outside the system's directories, takes its words as data: a workspace may well be
/// among them. So does a script that an interpreter is given without any option before it. All words of
/// everything else may be code.
fn code_words<'a>(start: Start<'a>, files: &[PathBuf]) -> Vec<&'a str> {
    let words = start.server.command.iter().skip(1).map(String::as_str);
    let program = files.first().map(PathBuf::as_path);
    let is_system = program.is_none_or(|file| SYSTEM.iter().any(|root| file.starts_with(root)));
    let name = program.and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    let base = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let interprets = INTERPRETERS.iter().any(|known| *known == name || *known == base);
    let script_comes_first = words.clone().next().is_some_and(|word| !word.starts_with('-'));
    match (interprets, is_system) {
        (true, _) if script_comes_first => words.take(1).collect(),
        (false, false) => Vec::new(),
        (true, _) | (false, true) => words.collect(),
    }
}

/// What a word names below a read-write mount: as a path, as the value of an option, or somewhere in a line.
fn mentioned(start: Start<'_>, word: &str) -> Option<(String, PathBuf)> {
    let value = word.split_once('=').map_or(word, |(_, value)| value);
    place(start, word).or_else(|| place(start, value)).or_else(|| {
        let mount = writable_mounts(start.plan).find(|mount| {
            mount.to_str().is_some_and(|text| word.contains(text)) || word.contains("/workspace")
        });
        mount.map(|mount| (word.to_owned(), mount.to_owned()))
    })
}

/// Where the box has what the agent can write.
fn writable_mounts(plan: &MountPlan) -> impl Iterator<Item = &Path> {
    plan.steps.iter().filter_map(|step| match step {
        Step::Bind { source, target, access: Access::ReadWrite }
            if source.shape != Shape::Device =>
        {
            Some(target.as_path())
        }
        Step::Bind { .. }
        | Step::Directory { .. }
        | Step::File { .. }
        | Step::Copy { .. }
        | Step::Link { .. } => None,
    })
}

/// What a word names, when it exists and the agent decides on it.
fn place(start: Start<'_>, word: &str) -> Option<(String, PathBuf)> {
    if word.is_empty() || word == "." && start.server.cwd == ServerDirectory::Home {
        return None;
    }
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
