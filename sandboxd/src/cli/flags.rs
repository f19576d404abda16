//! The flags that say what a session is: the same for `run` and `up`.
//!
//! Runs in: client.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::{Mode, umask};
use policy::{Context, EnvFlag, SessionFile, SessionName, Tool};
use rootfs::Account;

use sandbox_sys::Failure;

use super::author;
use super::session::SourceFile;
use crate::fault::{Fault, Kind};
use crate::host::Caller;

/// What a session is.
#[derive(Debug, Args)]
pub(super) struct SessionFlags {
    /// Read the session file FILE (sandbox.toml). Nothing is read that is not named.
    #[arg(short, long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// The tree to work on, at its own path: DIR, DIR:ro, or none. Default: the current directory.
    #[arg(long, value_name = "DIR[:rw|ro]|none")]
    workspace: Option<String>,
    /// Show a further file or directory of the host, read-only unless `:rw` is said.
    #[arg(long = "mount", value_name = "SRC[:DST][:ro|rw]")]
    mounts: Vec<String>,
    /// Show a toolchain of the home directory: rust, node, python, go.
    #[arg(long = "tools", value_name = "TOOL", value_delimiter = ',')]
    tools: Vec<String>,
    /// Let the box reach NAME (`*.NAME`: the names below it), on port 443 unless others are said.
    #[arg(long = "allow", value_name = "NAME[:PORT,...]")]
    allow: Vec<String>,
    /// Ask this name server when a name is dialled, not the host's.
    #[arg(long, value_name = "ADDR[:PORT]")]
    resolver: Option<String>,
    /// Set a variable, or pass on the caller's of that name.
    #[arg(long = "env", value_name = "K[=V]")]
    env: Vec<String>,
    /// As root: the user to be (default: the workspace's owner). Nothing runs as root.
    #[arg(long, value_name = "USER")]
    pub(super) user: Option<String>,
    /// The session's name; also the box's host name.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// What was asked for, read and checked, and what is to be known of who asks.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) file: SessionFile,
    /// Where the session file is, and what it says.
    pub(super) source: Option<SourceFile>,
    pub(super) caller: Caller,
}

impl SessionFlags {
    /// Reads the session file and the flags.
    ///
    /// Must: root has become the user already, so that every path is read with that user's rights.
    pub(super) fn read(&self) -> Result<Asked, Fault> {
        let directory = directory()?;
        let home = home()?;
        let (mut file, source) = match &self.file {
            Some(path) => {
                read_file(path, &directory, &home).map(|(file, from)| (file, Some(from)))?
            }
            None => (SessionFile::default(), None),
        };
        if let Some(text) = &self.workspace {
            file.workspace = policy::parse_workspace_flag(text, &directory, &home)?;
        }
        for text in &self.mounts {
            file.mounts.push(policy::parse_mount_flag(text, &directory, &home)?);
        }
        policy::check_mounts(&file.mounts, &file.workspace)?;
        let rules: Result<Vec<_>, _> =
            self.allow.iter().map(|text| policy::parse_allow_flag(text)).collect();
        file.egress.add(rules?);
        policy::check_rules(&file)?;
        if let Some(text) = &self.resolver {
            file.egress.resolver = Some(policy::parse_resolver_flag(text)?);
        }
        for text in &self.tools {
            let tool: Tool = text.parse().map_err(|error| {
                let message = format!("policy: --tools: {error}");
                Fault::new(Kind::User, message).field("--tools")
            })?;
            if !file.tools.contains(&tool) {
                file.tools.push(tool);
            }
        }
        for text in &self.env {
            let (name, value) = variable(text)?;
            file.env.insert(name, value);
        }
        Ok(Asked { file, source, caller: caller(directory, &home)? })
    }
}

fn variable(text: &str) -> Result<(String, String), Fault> {
    match policy::parse_env_flag(text)? {
        EnvFlag::Set(name, value) => Ok((name, value)),
        EnvFlag::Copy(name) => match std::env::var(&name) {
            Ok(value) => Ok((name, value)),
            Err(_) => {
                let message =
                    format!("policy: --env {name}: the caller has no such variable in UTF-8");
                Err(Fault::new(Kind::User, message)
                    .field("--env")
                    .hint(format!("say --env {name}=VALUE to set it")))
            }
        },
    }
}

/// Reads a session file; its relative paths start where it lies.
fn read_file(
    path: &Path,
    directory: &Path,
    home: &Path,
) -> Result<(SessionFile, SourceFile), Fault> {
    let shown = path.display().to_string();
    let cannot = |error: &std::io::Error| {
        let what = format!("policy: cannot read the session file {shown}");
        let mut fault = Fault::chain(Kind::User, error).field("--file");
        fault.message = format!("{what}: {}", fault.message.to_lowercase());
        fault
    };
    let real = fs::canonicalize(directory.join(path)).map_err(|error| cannot(&error))?;
    let text = fs::read_to_string(&real).map_err(|error| cannot(&error))?;
    let directory = real.parent().unwrap_or(Path::new("/")).to_owned();
    let context = Context { file: shown, directory, home: home.to_owned() };
    Ok((SessionFile::parse(&text, &context)?, SourceFile::new(&real, &text)))
}

/// The caller's directory, with its symbolic links resolved.
fn directory() -> Result<PathBuf, Fault> {
    std::env::current_dir().map_err(|error| {
        let mut fault = Fault::chain(Kind::User, &error);
        fault.message = format!("client: cannot find the current directory: {}", fault.message);
        fault
    })
}

/// The user's home, from the user database: HOME may say anything.
pub(super) fn home() -> Result<PathBuf, Fault> {
    let home = Account::current().map(|user| user.home).ok_or_else(|| {
        Fault::new(
            Kind::Host,
            "client: cannot find this user in /etc/passwd, nor HOME in the environment",
        )
    })?;
    Ok(fs::canonicalize(&home).unwrap_or(home))
}

/// Reads what of its caller a box may know.
pub(super) fn caller(directory: PathBuf, home: &Path) -> Result<Caller, Fault> {
    // The mask can only be read by setting it.
    let mask = umask(Mode::empty());
    umask(mask);
    let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| {
        Fault::new(
            Kind::Host,
            format!("client: cannot read the descriptor limit: {}", error.desc()),
        )
    })?;
    Ok(Caller {
        directory,
        time_zone: std::env::var("TZ").ok(),
        terminal: std::env::var("TERM").ok(),
        author: author::read(home),
        path: std::env::var("PATH").unwrap_or_default(),
        home: home.to_owned(),
        umask: mask.bits(),
        descriptors,
    })
}

/// As root, becomes the user whose box it is to be; everybody else stays who they are.
///
/// This comes before a file is read: no part of the program goes on as root, and paths, secrets and the daemon
/// are that user's.
pub(super) fn become_user(flag: Option<&str>, workspace: Option<&str>) -> Result<(), Fault> {
    use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
    if !Uid::effective().is_root() {
        return match flag {
            None => Ok(()),
            Some(_) => Err(Fault::new(Kind::User, "client: --user is for root alone")
                .field("--user")
                .hint("leave it out: the box's user is the caller")),
        };
    }
    let user = match flag {
        Some(name) => Account::named(name).ok_or_else(|| {
            Fault::new(Kind::User, format!("client: --user {name:?}: there is no such user"))
                .field("--user")
        })?,
        None => owner(workspace)?,
    };
    if user.uid == 0 {
        return Err(Fault::new(Kind::Policy, "client: no box runs as root").field("--user").hint(
            "name an ordinary user with --user NAME, or give the workspace to one with chown",
        ));
    }
    // Supplementary groups would survive the user namespace and open doors there.
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let done = setgroups(&[])
        .and_then(|()| setresgid(gid, gid, gid))
        .and_then(|()| setresuid(uid, uid, uid))
        // The change of user closed /proc/self to us; the maps of the zygote's children are written there.
        .and_then(|()| sandbox_sys::process::set_dumpable(true));
    done.map_err(|error| {
        let failure = Failure::new("become the user", user.name.clone(), error);
        Fault::new(Kind::Host, format!("client: {failure}"))
    })
}

/// The owner of the workspace, or of the current directory.
fn owner(workspace: Option<&str>) -> Result<Account, Fault> {
    let named = workspace.filter(|text| *text != "none").map(|text| {
        let path = text.rsplit_once(':').map_or(text, |(path, mode)| match mode {
            "rw" | "ro" | "staged" => path,
            _ => text,
        });
        PathBuf::from(path)
    });
    let path = named.unwrap_or_else(|| ".".into());
    let uid = fs::metadata(&path).map_err(|error| {
        let mut fault = Fault::chain(Kind::User, &error).field("--workspace");
        fault.message = format!("client: cannot read {}: {}", path.display(), fault.message);
        fault
    })?;
    Account::numbered(uid.uid()).ok_or_else(|| {
        let message = format!("client: the owner of {} is no user of this host", path.display());
        Fault::new(Kind::User, message).field("--user").hint("name a user with --user NAME")
    })
}

impl SessionFlags {
    /// The session's name, when one was said.
    pub(super) fn name(&self) -> Result<Option<SessionName>, Fault> {
        let parse = |name: &String| {
            name.parse().map_err(|error| {
                let message = format!("policy: --name: {error}");
                Fault::new(Kind::User, message).field("--name")
            })
        };
        self.name.as_ref().map(parse).transpose()
    }

    /// As root, becomes the session's user.
    pub(super) fn become_user(&self) -> Result<(), Fault> {
        become_user(self.user.as_deref(), self.workspace.as_deref())
    }
}
