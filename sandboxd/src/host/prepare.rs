//! From what was asked for to what setup is told: looks at the host, plans, refuses.
//!
//! Runs in: host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use policy::{LandlockDemand, Mode, SessionFile, Tool, Workspace, WorkspaceChoice};
use rootfs::{Access, FactsError, HostFacts, MountPlan, Step, TreeFacts, Wishes};

use super::environment::{Caller, base};
use super::network;
use super::watch::Watched;
use crate::api::place::Place;
use crate::fault::{Fault, Kind};
use crate::wire::{LaunchSpec, SetupOrder};

/// A session that can be started.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// What setup is told.
    pub(crate) order: SetupOrder,
    /// What every payload's environment has.
    pub(crate) base: BTreeMap<String, String>,
    /// What the agent's has besides.
    pub(crate) declared: BTreeMap<String, String>,
    /// The workspace, when there is one.
    pub(crate) workspace: Option<(TreeFacts, Access)>,
    /// The private home.
    pub(crate) home: PathBuf,
    /// Whether less than all of Landlock is too little.
    pub(crate) landlock_required: bool,
    /// What the user should know; not errors.
    pub(crate) notes: Vec<String>,
    caller: Caller,
    processes: Option<u64>,
}

/// What one session may use when the file does not say: enough for any build, too little to choke a host.
const PROCESSES: u64 = 8192;

/// Looks at the host and plans the session.
pub(crate) fn prepare(
    file: &SessionFile,
    caller: &Caller,
    host_name: &str,
    place: &Place,
) -> Result<Prepared, Fault> {
    let facts = HostFacts::read().map_err(|error| Fault::chain(Kind::Host, &error))?;
    let mut notes = Vec::new();
    let workspace = workspace(file, caller, &facts, &mut notes)?;
    let tools = rootfs::tools(&facts.home, &file.tools);
    notes.extend(tools.missing.iter().map(missing_tool));
    let mut wishes = Wishes { workspace, host_name: host_name.to_owned(), ..Wishes::default() };
    wishes.author.clone_from(&caller.author);
    let network = network::order(file);
    wishes.name_server = network.has_gateway().then(|| network.gateway.v4.into());
    for path in &tools.mounts {
        let source = HostFacts::mount(path).map_err(|error| refuse(&error, "--tools"))?;
        wishes.mounts.push((source, path.clone(), Access::ReadOnly));
    }
    for mount in &file.mounts {
        let source = HostFacts::mount(&mount.source).map_err(|error| refuse(&error, "mounts"))?;
        wishes.mounts.push((source, mount.target.clone(), access(mount.mode)));
    }
    let trees = wishes.workspace.iter().flat_map(|(tree, access)| {
        std::iter::once(&tree.source).chain(&tree.repository).map(move |source| (source, access))
    });
    let mounts = wishes.mounts.iter().map(|(source, _, access)| (source, access));
    for (source, access) in trees.chain(mounts) {
        let exposed = place.exposed_by(&source.path).filter(|_| *access == Access::ReadWrite);
        if let Some(own) = exposed {
            return Err(exposes(&source.path, own));
        }
    }
    let plan = rootfs::plan(&facts, &wishes)
        .map_err(|error| Fault::chain(Kind::User, &error).field("mounts"))?;
    let mut base = base(caller, &facts.user, &facts.home, &facts.shell, &tools.path);
    base.extend(tools.env.into_iter().map(|(name, path)| (name, path.display().to_string())));
    Ok(Prepared {
        base,
        declared: file.env.clone(),
        workspace: wishes.workspace,
        home: facts.home.clone(),
        landlock_required: file.walls.landlock == LandlockDemand::Required,
        notes,
        caller: caller.clone(),
        processes: Some(file.limits.pids.map_or(PROCESSES, u64::from)),
        order: SetupOrder {
            uid: facts.uid,
            gid: facts.gid,
            host_name: host_name.to_owned(),
            plan,
            network,
        },
    })
}

impl Prepared {
    /// Returns the plan of the mounts.
    pub(crate) fn plan(&self) -> &MountPlan {
        &self.order.plan
    }

    /// Returns the agent's environment: the base and what was declared.
    pub(crate) fn agent(&self) -> BTreeMap<String, String> {
        let mut all = self.base.clone();
        all.extend(self.declared.clone());
        all
    }

    /// Returns what is to be watched while the session lives.
    pub(crate) fn watched(&self) -> Watched {
        let tree = self.workspace.as_ref().filter(|(_, access)| *access == Access::ReadWrite);
        Watched {
            guards: self.order.plan.guards.clone(),
            tree: tree.map(|(tree, _)| tree.source.path.clone()),
        }
    }

    /// Has a file below the workspace protected too: the session's own, which says what the box may.
    pub(crate) fn protect(&mut self, file: &Path) {
        let mounts = self.order.plan.steps.iter().filter_map(|step| match step {
            Step::Bind { source, target, access: Access::ReadWrite } => {
                let name = file.strip_prefix(&source.path).ok()?;
                Some((target.clone(), name.to_owned()))
            }
            Step::Bind { .. }
            | Step::Directory { .. }
            | Step::File { .. }
            | Step::Copy { .. }
            | Step::Link { .. } => None,
        });
        for (root, name) in mounts.collect::<Vec<_>>() {
            self.order.plan.protect(&root, &name);
        }
    }

    /// Makes the specification of a command.
    pub(crate) fn command(
        &self,
        argv: Vec<Vec<u8>>,
        environment: &BTreeMap<String, String>,
        directory: &Path,
    ) -> LaunchSpec {
        let pair = |(name, value): (&String, &String)| format!("{name}={value}").into_bytes();
        LaunchSpec {
            argv,
            environment: environment.iter().map(pair).collect(),
            directory: directory.as_os_str().as_encoded_bytes().to_vec(),
            umask: self.caller.umask,
            descriptors: descriptors(self.caller.descriptors),
            processes: self.processes,
        }
    }
}

/// The caller's own limit of descriptors, and no more than a quarter of ours.
///
/// The kernel counts descriptors in flight between sockets for the user as a whole and compares with the
/// sender's limit (unix(7), ETOOMANYREFS): payloads that could fill it up to ours would stop the host from
/// passing any.
fn descriptors((soft, hard): (u64, u64)) -> (u64, u64) {
    const LEAST: u64 = 1024;
    let own = getrlimit(Resource::RLIMIT_NOFILE).map_or(LEAST, |(_, hard)| hard);
    let hard = hard.min((own / 4).max(LEAST));
    (soft.min(hard), hard)
}

/// Raises our own limit of descriptors to what it may be: each session takes several.
pub(crate) fn raise_descriptor_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Ignored: raising the soft limit to the hard one is always allowed.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn access(mode: Mode) -> Access {
    match mode {
        Mode::ReadOnly => Access::ReadOnly,
        Mode::ReadWrite => Access::ReadWrite,
    }
}

fn missing_tool(tool: &Tool) -> String {
    format!(
        "--tools {tool}: the home directory has no toolchain of that kind; the system's is used"
    )
}

fn exposes(tree: &Path, own: &Path) -> Fault {
    let message = format!(
        "policy: cannot show {} read-write: a box could then write the daemon's own directory {}",
        tree.display(),
        own.display()
    );
    Fault::new(Kind::Policy, message)
        .hint("show it read-only, or move the daemon's files with --dir")
}

fn refuse(error: &FactsError, field: &str) -> Fault {
    let mut fault = Fault::chain(Kind::User, error).field(field);
    fault.message = format!("host: {}", fault.message);
    if let FactsError::Socket { .. } = error {
        return fault
            .hint("mount a directory without sockets, or the single files that are needed");
    }
    fault
}

fn workspace(
    file: &SessionFile,
    caller: &Caller,
    facts: &HostFacts,
    notes: &mut Vec<String>,
) -> Result<Option<(TreeFacts, Access)>, Fault> {
    let wanted = match &file.workspace {
        WorkspaceChoice::None => return Ok(None),
        WorkspaceChoice::At(workspace) => workspace.clone(),
        WorkspaceChoice::Unsaid => match unsaid(caller, facts) {
            Ok(workspace) => workspace,
            Err(note) => {
                notes.push(note);
                return Ok(None);
            }
        },
    };
    let tree = HostFacts::tree(&wanted.path).map_err(|error| refuse(&error, "workspace"))?;
    if let Some(reason) = policy::workspace_refusal(&tree.source.path, &facts.home) {
        let message =
            format!("policy: cannot use {} as workspace: {reason}", wanted.path.display());
        return Err(Fault::new(Kind::Policy, message)
            .field("workspace")
            .hint("name a directory of a project, or --workspace none"));
    }
    if let Some(repository) = &tree.repository {
        if let Some(reason) = policy::workspace_refusal(&repository.path, &facts.home) {
            let path = repository.path.display();
            let message = format!("policy: cannot show the worktree's repository {path}: {reason}");
            return Err(Fault::new(Kind::Policy, message).field("workspace"));
        }
        notes.push(format!("the worktree's repository {} is shown too", repository.path.display()));
    }
    if wanted.mode == Mode::ReadWrite {
        notes.extend(tree.unprotected.iter().map(|(path, why)| {
            format!("{} cannot be protected from the box: {why}", path.display())
        }));
    }
    Ok(Some((tree, access(wanted.mode))))
}

/// The default: the caller's directory, unless it may not be one.
fn unsaid(caller: &Caller, facts: &HostFacts) -> Result<Workspace, String> {
    match policy::workspace_refusal(&caller.directory, &facts.home) {
        None => Ok(Workspace { path: caller.directory.clone(), mode: Mode::ReadWrite }),
        Some(reason) => Err(format!(
            "no workspace: the current directory {} is not shown in the box, because {reason}",
            caller.directory.display()
        )),
    }
}
