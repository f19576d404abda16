//! Starts the zygote and asks it for sessions.
//!
//! Runs in: host (tokio).

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::sys::wait::{Id, WaitPidFlag, waitid};
use sandbox_sys::process::{open, signal};
use sandbox_sys::spawn::{Program, spawn};
use sandbox_sys::{Errno, Failing, Failure};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::error::SessionError;
use super::line::{AsyncLine, ended, pair, register};
use crate::wire::{MakeSession, ZygoteReply};
use crate::zygote::NAME;

/// The running zygote. Dropping it ends the zygote, and with it every session.
#[derive(Debug)]
pub(crate) struct Zygote {
    /// One order at a time: the answers come in the order of the orders.
    running: Mutex<Running>,
}

#[derive(Debug)]
struct Running {
    line: AsyncLine,
    pidfd: Arc<AsyncFd<OwnedFd>>,
    /// Waits for its end.
    reaper: JoinHandle<()>,
}

/// Our own program, whatever became of its path.
const SELF: &CStr = c"/proc/self/exe";

impl Zygote {
    /// Starts it: our own program again, with an empty environment and a bare argument list.
    pub(crate) fn start() -> Result<Self, SessionError> {
        start().map(|running| Self { running: Mutex::new(running) })
    }

    /// Makes the first process of a session; it waits for its order on the returned line.
    ///
    /// A zygote that has died took its sessions along; the next one is started here.
    pub(crate) async fn make(&self) -> Result<(AsyncLine, OwnedFd), SessionError> {
        let mut running = self.running.lock().await;
        match ask(&running.line).await {
            Err(SessionError::Silent(_)) => {
                *running = start()?;
                ask(&running.line).await
            }
            answered => answered,
        }
    }
}

impl Zygote {
    /// Ends it, and with it every session that still stands.
    pub(crate) async fn end(&self) {
        let mut running = self.running.lock().await;
        // Ignored: one that has ended already is as it should be.
        let _ = signal(running.pidfd.get_ref().as_fd(), nix::libc::SIGKILL);
        // Ignored: a task that panicked has told its own story.
        let _ = (&mut running.reaper).await;
    }
}

fn start() -> Result<Running, SessionError> {
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
    let pidfd = open(pid).failing("hold the zygote").map_err(SessionError::Host)?;
    let pidfd = register(pidfd, Interest::READABLE).failing("watch the zygote");
    let pidfd = Arc::new(pidfd.map_err(SessionError::Host)?);
    let reaper = tokio::spawn(reap(Arc::clone(&pidfd)));
    Ok(Running { line, pidfd, reaper })
}

/// Waits for the zygote's end, so that no zombie of it stays.
async fn reap(pidfd: Arc<AsyncFd<OwnedFd>>) {
    ended(&pidfd).await;
    // Ignored: it is our child and has ended.
    let _ = waitid(Id::PIDFd(pidfd.get_ref().as_fd()), WaitPidFlag::WEXITED);
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
