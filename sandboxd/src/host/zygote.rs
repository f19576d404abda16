//! Starts the zygote and asks it for sessions.
//!
//! Runs in: host (tokio).

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use sandbox_sys::spawn::{Program, spawn};
use sandbox_sys::{Errno, Failing, Failure};
use tokio::sync::Mutex;

use super::error::SessionError;
use super::line::{AsyncLine, pair};
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
        spawn(&program).failing("start the zygote").map_err(SessionError::Host)?;
        Ok(Self { line: Mutex::new(line) })
    }

    /// Makes the first process of a session; it waits for its order on the returned line.
    pub(crate) async fn make(&self) -> Result<(AsyncLine, OwnedFd), SessionError> {
        let (session, theirs) = pair().map_err(SessionError::Host)?;
        let line = self.line.lock().await;
        line.send(&MakeSession, &[theirs.as_fd()]).await.map_err(SessionError::Host)?;
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
}
