//! One session as the host holds it: its supervisor, and the end of everything in it.
//!
//! Runs in: host (tokio).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rootfs::Guard;
use sandbox_sys::{Errno, Failing, Failure, process};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;

use super::compartment::Compartment;
use super::error::SessionError;
use super::line::{AsyncLine, ended, pair, register};
use super::zygote::Zygote;
use crate::wire::{CompartmentOrder, SetupOrder, SetupReply, SupervisorOrder, SupervisorReply};

/// A session that stands. Dropping it ends it: the supervisor's socket closes.
#[derive(Debug)]
pub(crate) struct Session {
    /// One order at a time: the answers come in the order of the orders.
    supervisor: Mutex<AsyncLine>,
    /// Readable when every process of the session has ended.
    pidfd: Arc<AsyncFd<OwnedFd>>,
}

impl Session {
    /// Has a session built and waits until it stands.
    pub(crate) async fn start(zygote: &Zygote, order: &SetupOrder) -> Result<Self, SessionError> {
        let (line, pidfd) = zygote.make().await?;
        line.send(order, &[]).await.map_err(SessionError::Host)?;
        let answer = line.receive::<SetupReply>(&mut Vec::new()).await;
        match answer.map_err(SessionError::Host)? {
            None => Err(SessionError::Silent("setup")),
            Some((SetupReply::Failed(failure), _)) => Err(SessionError::Setup(failure)),
            Some((SetupReply::Ready, _)) => {
                let pidfd = register(pidfd, Interest::READABLE);
                let pidfd = pidfd.failing("watch the session").map_err(SessionError::Host)?;
                Ok(Self { supervisor: Mutex::new(line), pidfd: Arc::new(pidfd) })
            }
        }
    }

    /// Makes a compartment and waits until its walls stand.
    pub(crate) async fn compartment(
        &self,
        order: CompartmentOrder,
    ) -> Result<Compartment, SessionError> {
        let (line, theirs) = pair().map_err(SessionError::Host)?;
        let mut descriptors = self.order(&SupervisorOrder::Make(order), Some(theirs)).await?;
        let missing = || Failure::new("find the new compartment", "", Errno::EBADMSG);
        let pidfd = descriptors.pop().ok_or_else(|| SessionError::Host(missing()))?;
        Compartment::begin(line, pidfd).await
    }

    /// Has trusted paths bound again after the host replaced one of them.
    pub(crate) async fn guard(&self, guards: &[Guard]) -> Result<(), SessionError> {
        self.order(&SupervisorOrder::Guard(guards.to_vec()), None).await.map(drop)
    }

    async fn order(
        &self,
        order: &SupervisorOrder,
        descriptor: Option<OwnedFd>,
    ) -> Result<Vec<OwnedFd>, SessionError> {
        let line = self.supervisor.lock().await;
        let descriptors: Vec<_> = descriptor.iter().map(AsFd::as_fd).collect();
        line.send(order, &descriptors).await.map_err(SessionError::Host)?;
        drop(descriptor);
        let answer = line.receive::<SupervisorReply>(&mut Vec::new()).await;
        match answer.map_err(SessionError::Host)? {
            None => Err(SessionError::Silent("supervisor")),
            Some((SupervisorReply::Failed(failure), _)) => Err(SessionError::Supervisor(failure)),
            Some((SupervisorReply::Made | SupervisorReply::Guarded, descriptors)) => {
                Ok(descriptors)
            }
        }
    }

    /// Kills every process of the session and waits until the last has ended.
    pub(crate) async fn end(&self) {
        // Ignored: a session that has ended already is as it should be.
        let _ = process::signal(self.pidfd.get_ref().as_fd(), nix::libc::SIGKILL);
        self.ended().await;
    }

    /// Resolves when every process of the session has ended.
    pub(crate) async fn ended(&self) {
        ended(&self.pidfd).await;
    }
}
