//! Starts the zygote and asks it for sessions.
//!
//! Runs in: host (tokio).

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::libc::SIGKILL;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use sandbox_sys::process::{open, signal};
use sandbox_sys::spawn::{Program, spawn};
use sandbox_sys::{Errno, Failing, Failure};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, MutexGuard};
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
    pub(crate) async fn make(&self) -> Result<First, SessionError> {
        let mut running = self.running.lock().await;
        match answer(&running.line, ask(&running.line).await).await {
            Err(SessionError::Silent(_)) => {
                *running = start()?;
                answer(&running.line, ask(&running.line).await).await
            }
            answered => answered,
        }
    }

    /// Asks for the first process of a session and does not wait for it.
    pub(crate) async fn ask(&self) -> Result<Asked<'_>, SessionError> {
        let running = self.running.lock().await;
        let session = ask(&running.line).await?;
        Ok(Asked { running, session })
    }

    /// Ends it, and with it every session that still stands.
    pub(crate) async fn end(&self) {
        let mut running = self.running.lock().await;
        // Ignored: one that has ended already is as it should be.
        let _ = signal(running.pidfd.get_ref().as_fd(), SIGKILL);
        // Ignored: a task that panicked has told its own story.
        let _ = (&mut running.reaper).await;
    }
}

/// A session's first process: the line on which it waits for its order, and its pidfd.
pub(crate) type First = (AsyncLine, OwnedFd);

/// A first process that was asked for and may not be there yet.
#[derive(Debug)]
#[must_use = "the process waits for an order, or for its end"]
pub(crate) struct Asked<'z> {
    running: MutexGuard<'z, Running>,
    session: AsyncLine,
}

impl Asked<'_> {
    /// Returns the line on which the process will find its order.
    pub(super) fn line(&self) -> &AsyncLine {
        &self.session
    }

    /// Waits until it is there.
    pub(crate) async fn answer(self) -> Result<First, SessionError> {
        answer(&self.running.line, Ok(self.session)).await
    }

    /// Ends it: no session comes of it. What went wrong with it interests nobody any more.
    pub(crate) async fn abandon(self) {
        let Ok((_line, pidfd)) = self.answer().await else { return };
        // Ignored: a process that has ended already is as it should be.
        let _ = signal(pidfd.as_fd(), SIGKILL);
        if let Ok(pidfd) = register(pidfd, Interest::READABLE) {
            ended(&pidfd).await;
        }
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

/// Returns our end of the new session's line.
async fn ask(line: &AsyncLine) -> Result<AsyncLine, SessionError> {
    let (session, theirs) = pair().map_err(SessionError::Host)?;
    let sent = line.send(&MakeSession, &[theirs.as_fd()]).await;
    sent.map(|()| session).map_err(|_| SessionError::Silent("zygote"))
}

async fn answer(
    line: &AsyncLine,
    session: Result<AsyncLine, SessionError>,
) -> Result<First, SessionError> {
    let session = session?;
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
