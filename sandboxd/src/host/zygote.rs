//! Starts the zygote and asks it for sessions.
//!
//! Runs in: host (tokio).

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::wait::{Id, WaitPidFlag, waitid};
use sandbox_sys::spawn::{Program, spawn};
use sandbox_sys::{Errno, Failing, Failure};
use tokio::io::Interest;
use tokio::sync::Mutex;

use super::error::SessionError;
use super::line::{AsyncLine, ended, pair, register};
use crate::wire::{MakeSession, ZygoteReply};
use crate::zygote::NAME;

/// The running zygote. Dropping it ends the zygote, and with it every session.
#[derive(Debug)]
pub(crate) struct Zygote {
    /// One order at a time: the answers come in the order of the orders.
    line: Mutex<AsyncLine>,
}

/// Our own program, whatever became of its path.
const SELF: &CStr = c"/proc/self/exe";

impl Zygote {
    /// Starts it: our own program again, with an empty environment and a bare argument list.
    pub(crate) fn start() -> Result<Self, SessionError> {
        start().map(|line| Self { line: Mutex::new(line) })
    }

    /// Makes the first process of a session; it waits for its order on the returned line.
    ///
    /// A zygote that has died took its sessions along; the next one is started here.
    pub(crate) async fn make(&self) -> Result<(AsyncLine, OwnedFd), SessionError> {
        let mut line = self.line.lock().await;
        match ask(&line).await {
            Err(SessionError::Silent(_)) => {
                *line = start()?;
                ask(&line).await
            }
            answered => answered,
        }
    }
}

fn start() -> Result<AsyncLine, SessionError> {
    let (line, theirs) = pair().map_err(SessionError::Host)?;
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.failing("open /dev/null").map_err(SessionError::Host)?;
    let argv = [CString::new(NAME).unwrap_or_default()];
    let program = Program {
        path: SELF,
        argv: &argv,
        environment: &[],
        directory: c"/",
        descriptors: &[null.as_fd(), null.as_fd(), null.as_fd(), theirs.as_fd()],
    };
    let pid = spawn(&program).failing("start the zygote").map_err(SessionError::Host)?;
    let pidfd = sandbox_sys::process::open(pid).failing("hold the zygote");
    tokio::spawn(reap(pidfd.map_err(SessionError::Host)?));
    Ok(line)
}

/// Waits for the zygote's end, so that no zombie of it stays.
async fn reap(pidfd: OwnedFd) {
    if let Ok(pidfd) = register(pidfd, Interest::READABLE) {
        ended(&pidfd).await;
        // Ignored: it is our child and has ended.
        let _ = waitid(Id::PIDFd(pidfd.get_ref().as_fd()), WaitPidFlag::WEXITED);
    }
}

async fn ask(line: &AsyncLine) -> Result<(AsyncLine, OwnedFd), SessionError> {
    let (session, theirs) = pair().map_err(SessionError::Host)?;
    if line.send(&MakeSession, &[theirs.as_fd()]).await.is_err() {
        return Err(SessionError::Silent("zygote"));
    }
    drop(theirs);
    let answer = line.receive::<ZygoteReply>(&mut Vec::new()).await;
    match answer.map_err(SessionError::Host)? {
        None => Err(SessionError::Silent("zygote")),
        Some((ZygoteReply::Failed(failure), _)) => Err(SessionError::Zygote(failure)),
        Some((ZygoteReply::Made(_), mut descriptors)) => {
            let missing = || Failure::new("find the new process", "", Errno::EBADMSG);
            let pidfd = descriptors.pop().ok_or_else(|| SessionError::Host(missing()))?;
            Ok((session, pidfd))
        }
    }
}
