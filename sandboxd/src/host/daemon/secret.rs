//! Reads the secrets of a session at the moment a server needs them. Kept in memory only, shown to nobody.
//!
//! ```text
//! env:VAR        the client read it and sent it when the session was made
//! file:PATH      read here, at each spawn
//! command:[...]  run here, at each spawn: the one program that the host starts besides itself
//! ```
//!
//! Runs in: host (tokio).

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use policy::{SecretName, SecretSource};
use sandbox_sys::spawn::{Program, spawn};
use thiserror::Error;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::unix::pipe;

use super::code;
use crate::api::Secret;
use crate::host::line::{ended, register};
use crate::host::{Caller, Prepared};

/// The longest secret, in bytes.
const LIMIT: u64 = 64 * 1024;

/// How long a command may take to print one.
const DEADLINE: Duration = Duration::from_secs(10);

/// Says why a secret could not be read. No variant carries anything of its value.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum SecretError {
    /// The client did not send it.
    #[error("cannot read the secret {0}: the variable is not set in the caller's environment")]
    Unset(SecretName),
    /// The file cannot be read.
    #[error("cannot read the secret {name} from {path}")]
    File {
        /// Which secret.
        name: SecretName,
        /// From where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The command cannot be started.
    #[error("cannot read the secret {name}: cannot start its command {program}")]
    Start {
        /// Which secret.
        name: SecretName,
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The command failed or took too long.
    #[error("cannot read the secret {name}: its command {how}")]
    Command {
        /// Which secret.
        name: SecretName,
        /// How it ended.
        how: String,
    },
    /// The agent decides what is read or run.
    #[error("cannot read the secret {name}: {path} lies below {mount}, which the box can write")]
    Exposed {
        /// Which secret.
        name: SecretName,
        /// The program or file.
        path: PathBuf,
        /// The read-write mount.
        mount: PathBuf,
    },
    /// It is not a text that an environment variable can hold.
    #[error("cannot use the secret {0}: expected 1 to 65536 bytes of UTF-8 without NUL")]
    Text(SecretName),
}

/// The secrets of one session: where each comes from, and those that the client sent.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) sources: BTreeMap<SecretName, SecretSource>,
    pub(crate) sent: BTreeMap<SecretName, Secret>,
    pub(crate) caller: Caller,
    /// What the box can write says what is trusted here.
    pub(crate) prepared: Arc<Prepared>,
}

impl Store {
    /// Refuses a source that the agent decides on: it would run code of the agent's outside, or read what the
    /// agent names.
    pub(crate) fn check(&self, name: &SecretName) -> Result<(), SecretError> {
        let path = match self.sources.get(name) {
            None | Some(SecretSource::Env(_)) => return Ok(()),
            Some(SecretSource::File(path)) => path.clone(),
            Some(SecretSource::Command(argv)) => {
                let program = argv.first().map(String::as_str).unwrap_or_default();
                let Some(path) = self.find(program) else { return Ok(()) };
                path
            }
        };
        match code::exposed(self.prepared.plan(), &path) {
            Some(mount) => Err(SecretError::Exposed { name: name.clone(), path, mount }),
            None => Ok(()),
        }
    }

    /// Reads one secret from its source.
    pub(crate) async fn read(&self, name: &SecretName) -> Result<Secret, SecretError> {
        self.check(name)?;
        let bytes = match self.sources.get(name) {
            None | Some(SecretSource::Env(_)) => {
                return self
                    .sent
                    .get(name)
                    .cloned()
                    .ok_or_else(|| SecretError::Unset(name.clone()));
            }
            Some(SecretSource::File(path)) => read_file(name, path).await?,
            Some(SecretSource::Command(argv)) => {
                let run = self.run(name, argv);
                tokio::time::timeout(DEADLINE, run).await.map_err(|_| SecretError::Command {
                    name: name.clone(),
                    how: format!("took longer than {} s", DEADLINE.as_secs()),
                })??
            }
        };
        check(name, bytes)
    }

    /// Runs a command with the caller's PATH and HOME and nothing else.
    async fn run(&self, name: &SecretName, argv: &[String]) -> Result<Vec<u8>, SecretError> {
        let program = argv.first().cloned().unwrap_or_default();
        let start = |source: std::io::Error| SecretError::Start {
            name: name.clone(),
            program: program.clone(),
            source,
        };
        let path = self.find(&program).ok_or_else(|| start(std::io::ErrorKind::NotFound.into()))?;
        let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
            .map_err(|error| start(error.into()))?;
        nix::fcntl::fcntl(&read, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))
            .map_err(|error| start(error.into()))?;
        let pidfd = self.start(&path, argv, &write).map_err(&start)?;
        drop(write);
        let guard = Ended(register(pidfd, Interest::READABLE).map_err(&start)?);
        let mut bytes = Vec::new();
        let output = pipe::Receiver::from_owned_fd(read).map_err(&start)?;
        output.take(LIMIT + 1).read_to_end(&mut bytes).await.map_err(&start)?;
        match guard.status().await {
            Ok(WaitStatus::Exited(_, 0)) => Ok(bytes),
            Ok(WaitStatus::Exited(_, status)) => Err(SecretError::Command {
                name: name.clone(),
                how: format!("ended with status {status}"),
            }),
            Ok(_) | Err(_) => {
                Err(SecretError::Command { name: name.clone(), how: "was killed".to_owned() })
            }
        }
    }

    fn start(&self, path: &Path, argv: &[String], output: &OwnedFd) -> std::io::Result<OwnedFd> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let string = |bytes: &[u8]| CString::new(bytes).unwrap_or_default();
        let argv: Vec<CString> = argv.iter().map(|word| string(word.as_bytes())).collect();
        let home = self.caller.home.as_os_str().as_bytes();
        let environment = [
            string(&[b"PATH=", self.caller.path.as_bytes()].concat()),
            string(&[b"HOME=", home].concat()),
        ];
        let directory = string(self.directory().as_os_str().as_bytes());
        let pid = spawn(&Program {
            path: &string(path.as_os_str().as_bytes()),
            argv: &argv,
            environment: &environment,
            directory: &directory,
            descriptors: &[null.as_fd(), output.as_fd(), null.as_fd()],
        })?;
        Ok(sandbox_sys::process::open(pid)?)
    }

    /// The caller's directory; its home when the box can write there, for programs obey what lies around them.
    fn directory(&self) -> &Path {
        let (directory, home) = (&self.caller.directory, &self.caller.home);
        let exposed = code::exposed(self.prepared.plan(), directory).is_some();
        if exposed { home } else { directory }
    }

    /// Finds a program as the caller's shell would, but never where the box can write.
    fn find(&self, program: &str) -> Option<PathBuf> {
        if program.contains('/') {
            return Some(self.caller.directory.join(program));
        }
        std::env::split_paths(OsStr::new(&self.caller.path))
            .filter(|directory| directory.is_absolute())
            .filter(|directory| code::exposed(self.prepared.plan(), directory).is_none())
            .map(|directory| directory.join(program))
            .find(|path| path.is_file())
    }
}

/// A child that is killed when nobody waits for it any more.
struct Ended(tokio::io::unix::AsyncFd<OwnedFd>);

impl Ended {
    async fn status(&self) -> Result<WaitStatus, nix::errno::Errno> {
        ended(&self.0).await;
        waitid(Id::PIDFd(self.0.get_ref().as_fd()), WaitPidFlag::WEXITED)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let pidfd = self.0.get_ref().as_fd();
        // Ignored: a child that has ended and was waited for is as it should be.
        let _ = sandbox_sys::process::signal(pidfd, nix::libc::SIGKILL);
        // Ignored: as above.
        let _ = waitid(Id::PIDFd(pidfd), WaitPidFlag::WEXITED);
    }
}

async fn read_file(name: &SecretName, path: &Path) -> Result<Vec<u8>, SecretError> {
    let cannot = |source| SecretError::File { name: name.clone(), path: path.to_owned(), source };
    // Not to wait for a writer of a FIFO, nor to make a terminal ours.
    let mut options = tokio::fs::OpenOptions::new();
    options.read(true).custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY);
    let file = options.open(path).await.map_err(cannot)?;
    if !file.metadata().await.map_err(cannot)?.is_file() {
        return Err(cannot(std::io::Error::other("expected a regular file")));
    }
    let mut bytes = Vec::new();
    file.take(LIMIT + 1).read_to_end(&mut bytes).await.map_err(cannot)?;
    Ok(bytes)
}

/// Takes the newline off that editors and `echo` leave, and checks the rest.
fn check(name: &SecretName, mut bytes: Vec<u8>) -> Result<Secret, SecretError> {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    let fits = !bytes.is_empty() && bytes.len() as u64 <= LIMIT && !bytes.contains(&0);
    let text = String::from_utf8(bytes).ok().filter(|_| fits);
    text.map(Secret::new).ok_or_else(|| SecretError::Text(name.clone()))
}
