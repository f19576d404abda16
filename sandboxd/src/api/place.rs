//! Where the daemon's files are, and that nobody else can put theirs there.
//!
//! ```text
//! $XDG_RUNTIME_DIR/sandboxd/   (else /run/user/UID/, else /tmp/sandboxd-UID/)         sandboxd.sock, lock
//! $XDG_STATE_HOME/sandboxd/    (else ~/.local/state/sandboxd/)   sessions/ID/, trusted.json, daemon.log
//! --dir D or SANDBOXD_DIR                                        all of them in D
//! ```
//!
//! Runs in: client, host.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::fault::{Fault, Kind};

/// The two directories, both there and both ours alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    run: PathBuf,
    state: PathBuf,
}

impl Place {
    /// Finds the directories and makes those that are missing.
    ///
    /// # Errors
    /// When one belongs to somebody else or is open to others: then it may hold somebody else's socket.
    pub(crate) fn find(named: Option<&Path>, home: &Path) -> Result<Self, Fault> {
        let place = Self::named(named, home);
        let place = Self { run: make(&place.run)?, state: make(&place.state)? };
        make(&place.sessions())?;
        Ok(place)
    }

    /// Says where the directories are, whether they exist or not.
    pub(crate) fn named(named: Option<&Path>, home: &Path) -> Self {
        let variable = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let all = named.map(Path::to_owned).or_else(|| {
            std::env::var_os("SANDBOXD_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from)
        });
        if let Some(all) = all {
            let all = real(all);
            return Self { run: all.clone(), state: all };
        }
        let uid = nix::unistd::Uid::current();
        Self {
            // MCP clients start a stub with a few variables only, and this is not among them: so the directory
            // that a login session has is found without it.
            run: usable_runtime(variable("XDG_RUNTIME_DIR"))
                .or_else(|| usable_runtime(Some(format!("/run/user/{uid}").into())))
                .unwrap_or_else(|| format!("/tmp/sandboxd-{uid}").into()),
            state: real(
                variable("XDG_STATE_HOME")
                    .filter(|path| is_ours(path))
                    .unwrap_or_else(|| home.join(".local/state"))
                    .join("sandboxd"),
            ),
        }
    }

    /// Returns the daemon's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.run.join("sandboxd.sock")
    }

    /// Returns the file whose lock says that a daemon lives.
    pub(crate) fn lock(&self) -> PathBuf {
        self.run.join("lock")
    }

    /// Returns the directory of the sessions' records and logs.
    pub(crate) fn sessions(&self) -> PathBuf {
        self.state.join("sessions")
    }

    /// Returns the record of the session files that were accepted.
    pub(crate) fn trusted(&self) -> PathBuf {
        self.state.join("trusted.json")
    }

    /// Returns the log of a daemon that `up` started.
    pub(crate) fn log(&self) -> PathBuf {
        self.state.join("daemon.log")
    }

    /// Says which of the daemon's own directories a box could write if it could write this tree: who writes
    /// there says what is trusted.
    pub(crate) fn exposed_by(&self, tree: &Path) -> Option<&Path> {
        [&self.run, &self.state]
            .into_iter()
            .find(|own| own.starts_with(tree) || tree.starts_with(own))
            .map(PathBuf::as_path)
    }
}

/// The path without symbolic links, as far as it exists.
fn real(path: PathBuf) -> PathBuf {
    let path = std::path::absolute(&path).unwrap_or(path);
    let mut rest = PathBuf::new();
    let mut existing = path.as_path();
    loop {
        if let Ok(real) = fs::canonicalize(existing) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
        let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else {
            return path;
        };
        rest = if rest.as_os_str().is_empty() { name.into() } else { Path::new(name).join(rest) };
        existing = parent;
    }
}

/// Root that has become a user still has root's variables, which name root's directories.
fn is_ours(path: &Path) -> bool {
    let owner = path.ancestors().find_map(|path| fs::metadata(path).ok()).map(|data| data.uid());
    owner == Some(nix::unistd::Uid::current().as_raw())
}

/// The runtime directory of a login session; as root turned user it is root's, and not used.
fn usable_runtime(named: Option<PathBuf>) -> Option<PathBuf> {
    let named = named?;
    is_ours(&named).then(|| real(named.join("sandboxd")))
}

/// Makes a directory for ourselves alone, or checks that it is one.
fn make(path: &Path) -> Result<PathBuf, Fault> {
    let cannot = |error: &std::io::Error| {
        let mut fault = Fault::chain(Kind::Host, error).field("--dir");
        fault.message =
            format!("client: cannot make the directory {}: {}", path.display(), fault.message);
        fault
    };
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| cannot(&error))?;
    let data = fs::symlink_metadata(path).map_err(|error| cannot(&error))?;
    let uid = nix::unistd::Uid::current().as_raw();
    if data.is_dir() && data.uid() == uid && data.mode() & 0o077 == 0 {
        return fs::canonicalize(path).map_err(|error| cannot(&error));
    }
    let message = format!(
        "client: cannot use the directory {}: expected one of this user with mode 0700",
        path.display()
    );
    Err(Fault::new(Kind::Host, message)
        .field("--dir")
        .hint("name another directory with --dir or SANDBOXD_DIR"))
}
