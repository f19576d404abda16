//! Looks at this host once: what of it a box can be shown, and what in a tree is trusted.
//!
//! Runs in: host (reads metadata and a few small files; opens nothing for a box).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use nix::unistd::Uid;
use thiserror::Error;

use crate::plan::{Guard, Shape, Source};
use crate::users::Account;
use crate::{small, trusted};

/// An entry of `/` or `/etc` that a box gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootEntry {
    /// A symbolic link, made again as it is.
    Link {
        /// Where.
        path: PathBuf,
        /// What it says.
        target: PathBuf,
    },
    /// A directory (or, in /etc, a file).
    Directory(Source),
}

/// What this host has that every box is shown, and who the user is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// Programs and libraries.
    pub root: Vec<RootEntry>,
    /// Configuration that programs need.
    pub etc: Vec<RootEntry>,
    /// Device nodes.
    pub devices: Vec<Source>,
    /// The user's number.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// The user's name.
    pub user: String,
    /// The user's home: a private directory of the same path in the box.
    pub home: PathBuf,
    /// The user's shell when it is one that a box has, else /bin/sh.
    pub shell: PathBuf,
}

/// A workspace as it is on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFacts {
    /// The tree itself.
    pub source: Source,
    /// The repository that a linked git worktree belongs to, when it lies elsewhere.
    pub repository: Option<Source>,
    /// What in it is trusted and exists, with its ancestors, ordered from the outside in.
    pub guards: Vec<Guard>,
    /// Sockets of the host's in it, which a box must not reach: no mount mode stops connect(2).
    pub sockets: Vec<PathBuf>,
    /// Trusted names that cannot be protected, and why.
    pub unprotected: Vec<(PathBuf, &'static str)>,
}

/// Says what of the host could not be read, or may not be shown.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FactsError {
    /// The path cannot be looked at.
    #[error("cannot read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The path is neither a directory nor a regular file.
    #[error("cannot mount {0}: expected a directory or a regular file")]
    Kind(PathBuf),
    /// A socket leads to whatever listens on it: no mount, not even a read-only one, stops connect(2).
    #[error(
        "cannot mount {path}: {socket} in it is a socket of this host, which a box could connect to"
    )]
    Socket {
        /// What was asked for.
        path: PathBuf,
        /// The socket.
        socket: PathBuf,
    },
    /// The path has bytes that are no UTF-8.
    #[error("cannot use the path {0:?}: it is not UTF-8")]
    Encoding(PathBuf),
    /// The user has no entry that says where its home is.
    #[error("cannot find the user with number {0} in /etc/passwd, nor its HOME in the environment")]
    User(u32),
}

const ROOT: [&str; 9] =
    ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt", "nix/store"];

/// Directories of /etc. No entry may hold a secret: private keys, registries' tokens and the like stay out.
const ETC_DIRECTORIES: [&str; 18] = [
    "alternatives",
    "ssl/certs",
    "pki/tls/certs",
    "pki/ca-trust",
    "ca-certificates",
    "crypto-policies",
    "ld.so.conf.d",
    "fonts",
    "terminfo",
    "profile.d",
    "perl",
    "vim",
    "chromium.d",
    "ImageMagick-6",
    "ImageMagick-7",
    "xdg",
    "gdb",
    "bash_completion.d",
];

/// Directories of /etc by the start of their name: java-17-openjdk, python3.11 ...
const ETC_PREFIXES: [&str; 4] = ["java", "python3", "php", "ghc"];

const ETC_FILES: [&str; 26] = [
    "ld.so.cache",
    "ld.so.conf",
    "localtime",
    "timezone",
    "protocols",
    "services",
    "rpc",
    "networks",
    "shells",
    "mime.types",
    "inputrc",
    "profile",
    "bash.bashrc",
    "bashrc",
    "os-release",
    "debian_version",
    "redhat-release",
    "lsb-release",
    "gai.conf",
    "host.conf",
    "magic",
    "locale.alias",
    "locale.conf",
    "ca-certificates.conf",
    "ssl/openssl.cnf",
    "pki/tls/openssl.cnf",
];

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

impl HostFacts {
    /// Reads what this host has. Costs some hundred microseconds; it changes only with the host's packages.
    ///
    /// # Errors
    /// When the user is in no user database.
    pub fn read() -> Result<Self, FactsError> {
        let uid = Uid::current();
        let user = Account::current().ok_or(FactsError::User(uid.as_raw()))?;
        let entry = |base: &str, name: &str| look(&Path::new(base).join(name));
        let mut etc: Vec<RootEntry> = ETC_DIRECTORIES
            .iter()
            .chain(&ETC_FILES)
            .filter_map(|name| entry("/etc", name))
            .collect();
        etc.extend(by_prefix());
        Ok(Self {
            root: ROOT.iter().filter_map(|name| entry("/", name)).collect(),
            etc,
            devices: DEVICES
                .iter()
                .filter_map(|name| device(&Path::new("/dev").join(name)))
                .collect(),
            uid: uid.as_raw(),
            gid: nix::unistd::Gid::current().as_raw(),
            home: home(&user.home, &user.name),
            shell: shell(&user.shell),
            user: user.name,
        })
    }

    /// Looks at a tree that is to be a workspace.
    ///
    /// # Errors
    /// When it cannot be read, is no directory, or its path is not UTF-8.
    pub fn tree(path: &Path) -> Result<TreeFacts, FactsError> {
        let source = wished(path)?;
        if source.shape != Shape::Directory {
            return Err(FactsError::Kind(path.to_owned()));
        }
        let root = source.path.clone();
        let mut found = trusted::in_workspace(&root);
        let mut repository = None;
        if let Some(common) = linked_repository(&root)
            && !common.starts_with(&root)
        {
            found.extend(trusted::in_repository(&common));
            repository = Some(Self::mount(&common)?);
        }
        let (guards, unprotected) = (found.guards, found.unprotected);
        let sockets = sockets(&root);
        Ok(TreeFacts { source, repository, guards, sockets, unprotected })
    }

    /// Looks again at what is trusted in a tree, and from the outside in.
    #[must_use]
    pub fn guards(root: &Path) -> Vec<Guard> {
        trusted::in_workspace(root).guards
    }

    /// Looks at a path that is to be mounted.
    ///
    /// # Errors
    /// When it cannot be read, is neither directory nor regular file, or directly holds a socket.
    pub fn mount(path: &Path) -> Result<Source, FactsError> {
        let source = wished(path)?;
        if source.shape == Shape::Directory {
            let entries = fs::read_dir(path).map_err(|error| unreadable(path, error))?;
            for entry in entries.flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_socket()) {
                    return Err(FactsError::Socket { path: path.to_owned(), socket: entry.path() });
                }
            }
        }
        Ok(source)
    }
}

/// Finds sockets near the top of a tree: agents, editors and databases put theirs there.
fn sockets(root: &Path) -> Vec<PathBuf> {
    const DEPTH: usize = 3;
    const ENTRIES: usize = 4096;
    let mut found = Vec::new();
    let mut left = ENTRIES;
    let mut level = vec![root.to_owned()];
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for entry in level.iter().flat_map(fs::read_dir).flatten().flatten() {
            let Some(still) = left.checked_sub(1) else { return found };
            left = still;
            match entry.file_type() {
                Ok(kind) if kind.is_socket() => found.push(entry.path()),
                Ok(kind) if kind.is_dir() => next.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
        level = next;
    }
    found
}

fn unreadable(path: &Path, source: std::io::Error) -> FactsError {
    FactsError::Read { path: path.to_owned(), source }
}

/// A path that somebody asked for, with every symbolic link on the way resolved now.
fn wished(path: &Path) -> Result<Source, FactsError> {
    let real = fs::canonicalize(path).map_err(|error| unreadable(path, error))?;
    if real.to_str().is_none() {
        return Err(FactsError::Encoding(real));
    }
    let data = fs::metadata(&real).map_err(|error| unreadable(path, error))?;
    if data.file_type().is_socket() {
        return Err(FactsError::Socket { path: path.to_owned(), socket: real });
    }
    let shape = match (data.is_dir(), data.is_file()) {
        (true, _) => Shape::Directory,
        (_, true) => Shape::File,
        (false, false) => return Err(FactsError::Kind(path.to_owned())),
    };
    Ok(Source { path: real, identity: (data.dev(), data.ino()), shape })
}

/// An entry that every box gets, when the host has it.
fn look(path: &Path) -> Option<RootEntry> {
    let data = fs::symlink_metadata(path).ok()?;
    if data.is_symlink() && inside(path) {
        return Some(RootEntry::Link { path: path.to_owned(), target: fs::read_link(path).ok()? });
    }
    // A link that leads out of what a box has (as /etc/localtime may) stands for what it names.
    let data = fs::metadata(path).ok()?;
    let shape = if data.is_dir() { Shape::Directory } else { Shape::File };
    (data.is_dir() || data.is_file()).then(|| {
        RootEntry::Directory(Source {
            path: path.to_owned(),
            identity: (data.dev(), data.ino()),
            shape,
        })
    })
}

/// Says whether a symbolic link leads into what every box has.
fn inside(link: &Path) -> bool {
    fs::canonicalize(link)
        .is_ok_and(|real| ["/usr", "/opt", "/nix/store"].iter().any(|root| real.starts_with(root)))
}

fn by_prefix() -> Vec<RootEntry> {
    let Ok(entries) = fs::read_dir("/etc") else { return Vec::new() };
    let starts = |name: &OsStr| {
        name.to_str().is_some_and(|name| ETC_PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| starts(&entry.file_name()))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found.iter().filter(|path| path.is_dir()).filter_map(|path| look(path)).collect()
}

fn device(path: &Path) -> Option<Source> {
    let data = fs::metadata(path).ok()?;
    let identity = (data.dev(), data.ino());
    data.file_type().is_char_device().then(|| Source {
        path: path.to_owned(),
        identity,
        shape: Shape::Device,
    })
}

/// A home that is no directory of its own (`/`, or inside what is read-only) gets a usual place.
fn home(listed: &Path, user: &str) -> PathBuf {
    let system =
        ["/usr", "/etc", "/dev", "/proc", "/sys", "/run", "/bin", "/sbin", "/lib", "/nonexistent"];
    let usable = listed.is_absolute()
        && listed.components().count() > 1
        && listed.components().all(|part| !matches!(part, Component::ParentDir))
        && listed.to_str().is_some()
        && !system.iter().any(|root| listed.starts_with(root))
        && listed != Path::new("/tmp");
    if usable { listed.to_owned() } else { Path::new("/home").join(user) }
}

fn shell(listed: &Path) -> PathBuf {
    let known = listed.is_file()
        && ["/bin", "/usr"].iter().any(|root| listed.starts_with(root))
        && !listed.ends_with("nologin")
        && !listed.ends_with("false");
    if known { listed.to_owned() } else { "/bin/sh".into() }
}

/// The repository behind a linked worktree, whose `.git` is a file that names it (gitrepository-layout(5)).
///
/// That file is one that a box may have written, so it is believed only when the repository says the same:
/// its own entry for this worktree points back here. A box cannot write that, unless it could write the
/// repository already.
fn linked_repository(root: &Path) -> Option<PathBuf> {
    let text = small::read(&root.join(".git"))?;
    let entry = fs::canonicalize(root.join(text.strip_prefix("gitdir:")?.trim())).ok()?;
    let common = fs::canonicalize(entry.parent()?.parent()?).ok()?;
    let named = small::read(&entry.join("commondir"))?;
    let agrees = fs::canonicalize(entry.join(named.trim())).ok()? == common
        && entry.parent()? == common.join("worktrees");
    let back = small::read(&entry.join("gitdir"))?;
    let points_back = fs::canonicalize(entry.join(back.trim())).ok()? == root.join(".git");
    let is_repository = ["HEAD", "objects", "refs"].iter().all(|name| common.join(name).exists());
    (agrees && points_back && is_repository).then_some(common)
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
