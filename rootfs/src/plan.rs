//! Turns what the host has and what was asked for into one ordered list of mounts. Pure.
//!
//! ```text
//! steps     setup, once a session: a root of our own, then binds of the host's files
//! guards    setup and supervisor: what a host would later execute or trust, bound read-only onto itself
//! private   init, once a compartment: /tmp, /dev/shm, HOME; what lies below them is moved over
//! rules     init: the same paths again, as Landlock rights, derived here and nowhere else
//! ```
//!
//! Runs in: any (pure data).

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::facts::{HostFacts, RootEntry, TreeFacts};

/// What payloads may do below a mounted path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Read and execute.
    ReadOnly,
    /// Everything that the user may.
    ReadWrite,
}

/// What kind of file a mount point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A device node.
    Device,
}

/// A path of the host as it was when the host looked at it.
///
/// The source is opened later, by setup, in the new mount namespace (a descriptor from before it cannot be
/// cloned: EINVAL). Device and inode say whether it is still the same file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Where it is on the host.
    pub path: PathBuf,
    /// Its device and inode number.
    pub identity: (u64, u64),
    /// Its kind.
    pub shape: Shape,
}

/// One step of building the session's root, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Makes a directory, with its parents (0755).
    Directory {
        /// Where.
        path: PathBuf,
    },
    /// Writes a small file that we make up.
    File {
        /// Where.
        path: PathBuf,
        /// Its bytes.
        content: Vec<u8>,
    },
    /// Copies a small file of the host: a bind would vanish when the host replaces it.
    Copy {
        /// From where.
        source: PathBuf,
        /// To where.
        path: PathBuf,
    },
    /// Makes a symbolic link.
    Link {
        /// Where.
        path: PathBuf,
        /// What it says.
        target: PathBuf,
    },
    /// Mounts a path of the host, with what is mounted below it.
    Bind {
        /// What.
        source: Source,
        /// Where.
        target: PathBuf,
        /// How.
        access: Access,
    },
}

/// A path below the workspace that is bound onto itself.
///
/// The ancestors of a trusted path are guarded too, read-write: else `mv .git elsewhere` would take the
/// protection along. A mount point can be neither renamed nor removed from inside (EBUSY).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// The mount that it lies below.
    pub root: PathBuf,
    /// Where, from there.
    pub path: PathBuf,
    /// Read-only for the trusted path itself.
    pub access: Access,
}

/// A directory that each compartment has for itself, in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Private {
    /// Where.
    pub path: PathBuf,
    /// Its permission bits.
    pub mode: u32,
    /// Mounts of the session that lie below it and are moved over.
    pub nested: Vec<(PathBuf, Shape)>,
}

/// What Landlock grants below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rights {
    /// See the names in directories.
    List,
    /// Read and execute.
    Read,
    /// Read and write existing files: /proc.
    Update,
    /// Read, write and control devices.
    Device,
    /// Everything.
    Write,
}

/// One Landlock rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The path and all below it.
    pub path: PathBuf,
    /// What is granted.
    pub rights: Rights,
}

/// Everything that setup and init mount, in order, and what Landlock grants on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountPlan {
    /// The session's root.
    pub steps: Vec<Step>,
    /// What is protected in the workspace.
    pub guards: Vec<Guard>,
    /// What each compartment has for itself.
    pub private: Vec<Private>,
    /// What Landlock grants.
    pub rules: Vec<Rule>,
    /// Where payloads start.
    pub directory: PathBuf,
}

/// What one session asks for, already looked at on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes {
    /// The tree that the agent works on.
    pub workspace: Option<(TreeFacts, Access)>,
    /// Further paths: source, target, access.
    pub mounts: Vec<(Source, PathBuf, Access)>,
    /// The box's host name.
    pub host_name: String,
    /// The caller's git name and email address: the box's system-wide identity, so that what a repository
    /// says of its own still wins.
    pub author: (Option<String>, Option<String>),
    /// The name server of the box, when anything in it has a door out.
    pub name_server: Option<IpAddr>,
}

/// Says why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Two mounts want one place, or one wants the system's.
    #[error("cannot mount {0} twice")]
    Twice(PathBuf),
    /// A mount inside another, where no directory of the user's tree stands for it.
    #[error(
        "cannot mount {target} inside {outer}: it does not exist there, and nothing is created in it"
    )]
    NoPlace {
        /// The mount point that is missing.
        target: PathBuf,
        /// The mount that it would lie in.
        outer: PathBuf,
    },
}

/// The devices of a box: those that give or take nothing of the host's.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Computes the plan.
///
/// # Errors
/// When two wishes exclude each other.
pub fn plan(facts: &HostFacts, wishes: &Wishes) -> Result<MountPlan, PlanError> {
    let mut plan = MountPlan { directory: facts.home.clone(), ..MountPlan::default() };
    system(&mut plan, facts);
    configuration(&mut plan, facts, wishes);
    devices(&mut plan, facts);
    let mut private = vec![
        Private { path: "/tmp".into(), mode: 0o1777, nested: Vec::new() },
        Private { path: "/dev/shm".into(), mode: 0o1777, nested: Vec::new() },
        Private { path: facts.home.clone(), mode: 0o700, nested: Vec::new() },
    ];
    for place in &private {
        plan.directory(&place.path);
        plan.allow(&place.path, Rights::Write);
    }
    let null = facts.devices.iter().find(|source| source.path == Path::new("/dev/null"));
    granted(&mut plan, wishes, null)?;
    nest(&mut plan, &mut private);
    plan.private = private;
    Ok(plan)
}

/// The host's programs and libraries, and the directories that programs expect to find.
fn system(plan: &mut MountPlan, facts: &HostFacts) {
    plan.allow(Path::new("/"), Rights::List);
    for entry in &facts.root {
        match entry {
            RootEntry::Link { path, target } => {
                plan.steps.push(Step::Link { path: path.clone(), target: target.clone() });
            }
            RootEntry::Directory(source) => plan.bind(source, &source.path, Access::ReadOnly),
        }
    }
    for path in ["/proc", "/sys", "/run", "/var"] {
        plan.directory(Path::new(path));
    }
    let link = |path: &str, target: &str| Step::Link { path: path.into(), target: target.into() };
    plan.steps.push(link("/var/tmp", "../tmp"));
    plan.steps.push(link("/var/run", "../run"));
    plan.allow(Path::new("/proc"), Rights::Update);
}

/// /etc: what programs need to start, and nothing else of the host's.
fn configuration(plan: &mut MountPlan, facts: &HostFacts, wishes: &Wishes) {
    let etc = Path::new("/etc");
    plan.directory(etc);
    plan.allow(etc, Rights::Read);
    for entry in &facts.etc {
        match entry {
            RootEntry::Link { path, target } => {
                plan.steps.push(Step::Link { path: path.clone(), target: target.clone() });
            }
            RootEntry::Directory(source) if source.shape == Shape::Directory => {
                plan.bind(source, &source.path, Access::ReadOnly);
            }
            RootEntry::Directory(source) => plan
                .steps
                .push(Step::Copy { source: source.path.clone(), path: source.path.clone() }),
        }
    }
    let (uid, gid, user) = (facts.uid, facts.gid, &facts.user);
    let home = facts.home.display();
    let host = &wishes.host_name;
    let passwd = format!(
        "root:x:0:0:root:/root:/usr/sbin/nologin\n{user}:x:{uid}:{gid}:{user}:{home}:{}\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        facts.shell.display()
    );
    let group = format!("root:x:0:\n{user}:x:{gid}:\nnogroup:x:65534:\n");
    let hosts = format!("127.0.0.1 localhost {host}\n::1 localhost ip6-localhost ip6-loopback\n");
    let mut write = |name: &str, text: String| {
        plan.steps.push(Step::File { path: etc.join(name), content: text.into_bytes() });
    };
    write("passwd", passwd);
    write("group", group);
    write("hosts", hosts);
    write("hostname", format!("{host}\n"));
    write("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".to_owned());
    if let (Some(name), Some(email)) = &wishes.author {
        let quote = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let (name, email) = (quote(name), quote(email));
        write("gitconfig", format!("[user]\n\tname = \"{name}\"\n\temail = \"{email}\"\n"));
    }
    let resolver = match wishes.name_server {
        // It answers at once, so a name that is refused costs nobody five seconds.
        Some(address) => format!("nameserver {address}\noptions timeout:2 attempts:2\n"),
        None => "# This box has no network but its own loopback.\n".to_owned(),
    };
    write("resolv.conf", resolver);
}

/// /dev: a few nodes, and terminals of its own (mounted by init).
fn devices(plan: &mut MountPlan, facts: &HostFacts) {
    let dev = Path::new("/dev");
    plan.directory(dev);
    plan.allow(dev, Rights::Read);
    for source in facts.devices.iter().filter(|source| {
        source.path.file_name().is_some_and(|name| DEVICES.iter().any(|device| *device == name))
    }) {
        let (source, target) = (source.clone(), source.path.clone());
        plan.allow(&target, Rights::Device);
        plan.steps.push(Step::Bind { source, target, access: Access::ReadWrite });
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        plan.steps.push(Step::Link { path: dev.join(name), target: target.into() });
    }
    plan.directory(&dev.join("pts"));
    plan.allow(&dev.join("pts"), Rights::Device);
}

/// The workspace and the mounts that were asked for.
fn granted(plan: &mut MountPlan, wishes: &Wishes, null: Option<&Source>) -> Result<(), PlanError> {
    let mut binds: Vec<(Source, PathBuf, Access)> = wishes.mounts.clone();
    if let Some((tree, access)) = &wishes.workspace {
        binds.push((tree.source.clone(), tree.source.path.clone(), *access));
        binds.extend(
            tree.repository.iter().map(|common| (common.clone(), common.path.clone(), *access)),
        );
        plan.directory.clone_from(&tree.source.path);
        plan.steps.push(Step::Link { path: "/workspace".into(), target: tree.source.path.clone() });
    }
    binds.sort_by(|a, b| a.1.cmp(&b.1));
    for pair in binds.windows(2) {
        if let [(_, first, _), (_, second, _)] = pair
            && first == second
        {
            return Err(PlanError::Twice(first.clone()));
        }
    }
    for (source, target, _) in &binds {
        check_place(&binds, source, target)?;
    }
    for (source, target, access) in &binds {
        plan.bind(source, target, *access);
        // Else `mv` of a directory above would take the inner mount out of the way.
        let outer =
            binds.iter().rfind(|(_, other, _)| other != target && target.starts_with(other));
        if let Some((_, outer, Access::ReadWrite)) = outer
            && let Ok(name) = target.strip_prefix(outer)
            && let Some(parent) = name.parent()
        {
            plan.hold(outer, parent);
        }
    }
    let sockets = wishes.workspace.iter().flat_map(|(tree, _)| &tree.sockets);
    if let Some(null) = null {
        for socket in sockets {
            plan.steps.push(Step::Bind {
                source: null.clone(),
                target: socket.clone(),
                access: Access::ReadOnly,
            });
        }
    }
    if let Some((tree, Access::ReadWrite)) = &wishes.workspace {
        plan.guards.extend(tree.guards.iter().cloned());
        plan.guards.sort_by(|a, b| (&a.root, &a.path).cmp(&(&b.root, &b.path)));
        plan.guards.dedup();
    }
    Ok(())
}

/// A mount inside another stands on what is there already: itself, seen through the outer one. Anything else
/// would need a mount point, and none is made in the user's tree.
fn check_place(
    binds: &[(Source, PathBuf, Access)],
    source: &Source,
    target: &Path,
) -> Result<(), PlanError> {
    let outer = binds.iter().rfind(|(_, other, _)| other != target && target.starts_with(other));
    let Some((outer, place, _)) = outer else { return Ok(()) };
    let stands = target.strip_prefix(place).is_ok_and(|rest| outer.path.join(rest) == source.path);
    if stands {
        return Ok(());
    }
    Err(PlanError::NoPlace { target: target.to_owned(), outer: place.clone() })
}

/// Finds, for each private directory, the mounts that it would hide.
fn nest(plan: &mut MountPlan, private: &mut [Private]) {
    for step in &plan.steps {
        let Step::Bind { source, target, .. } = step else { continue };
        let below = |place: &Private| target.starts_with(&place.path) && *target != place.path;
        let Some(place) = private
            .iter_mut()
            .filter(|place| below(place))
            .max_by_key(|place| place.path.as_os_str().len())
        else {
            continue;
        };
        if !place.nested.iter().any(|(other, _)| target.starts_with(other)) {
            place.nested.push((target.clone(), source.shape));
        }
    }
    // A HOME below /tmp is private twice: the outer one comes first, and each makes its own mount points.
    private.sort_by(|a, b| a.path.cmp(&b.path));
}

impl MountPlan {
    /// Makes directories below a mount immovable.
    fn hold(&mut self, root: &Path, name: &Path) {
        for path in name.ancestors().filter(|path| !path.as_os_str().is_empty()) {
            if !self.guards.iter().any(|guard| guard.root == root && guard.path == path) {
                let (root, path) = (root.to_owned(), path.to_owned());
                self.guards.push(Guard { root, path, access: Access::ReadWrite });
            }
        }
        self.guards.sort_by(|a, b| (&a.root, &a.path).cmp(&(&b.root, &b.path)));
    }

    /// Guards a file below a mount, with its ancestors.
    pub fn protect(&mut self, root: &Path, name: &Path) {
        if let Some(parent) = name.parent() {
            self.hold(root, parent);
        }
        self.guards.retain(|guard| guard.root != root || guard.path != name);
        let (root, path) = (root.to_owned(), name.to_owned());
        self.guards.push(Guard { root, path, access: Access::ReadOnly });
        self.guards.sort_by(|a, b| (&a.root, &a.path).cmp(&(&b.root, &b.path)));
    }

    fn directory(&mut self, path: &Path) {
        self.steps.push(Step::Directory { path: path.to_owned() });
    }

    fn allow(&mut self, path: &Path, rights: Rights) {
        self.rules.push(Rule { path: path.to_owned(), rights });
    }

    fn bind(&mut self, source: &Source, target: &Path, access: Access) {
        self.allow(
            target,
            match access {
                Access::ReadOnly => Rights::Read,
                Access::ReadWrite => Rights::Write,
            },
        );
        self.steps.push(Step::Bind { source: source.clone(), target: target.to_owned(), access });
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
