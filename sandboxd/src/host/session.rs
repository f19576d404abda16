//! One session as the host holds it: its supervisor, and the end of everything in it.
//!
//! Runs in: host (tokio).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rootfs::Guard;
use sandbox_sys::{Errno, Failing, Failure, process};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, Notify};

use super::compartment::{Compartment, Post};
use super::error::SessionError;
use super::line::{AsyncLine, ended, register};
use super::zygote::{Asked, First, Zygote};
use crate::wire::{CompartmentOrder, SetupOrder, SetupReply, SupervisorOrder, SupervisorReply};

/// A session that stands. Dropping it ends it: the supervisor's socket closes.
#[derive(Debug)]
pub(crate) struct Session {
    /// One order at a time: the answers come in the order of the orders.
    supervisor: Mutex<AsyncLine>,
    /// Readable when every process of the session has ended.
    pidfd: Arc<AsyncFd<OwnedFd>>,
    /// Told when the end begins; one watcher waits for it.
    ending: Notify,
}

impl Session {
    /// Has a session built and waits until it stands. The sockets of its gateway come with it.
    pub(crate) async fn start(
        zygote: &Zygote,
        order: &SetupOrder,
    ) -> Result<(Self, Vec<OwnedFd>), SessionError> {
        let (line, pidfd) = zygote.make().await?;
        line.send(order, &[]).await.map_err(SessionError::Host)?;
        Self::stand(line, pidfd).await
    }

    /// Has a session built with its first compartment and waits until both stand.
    ///
    /// Both orders go out at once: whoever becomes the supervisor finds the second when the session stands.
    pub(crate) async fn start_with(
        first: First,
        order: &SetupOrder,
        compartment: CompartmentOrder,
        post: Post,
    ) -> Result<(Self, Compartment, Vec<OwnedFd>), SessionError> {
        let sent = send_both(&first.0, order, compartment, &post).await;
        Self::stand_with(first, sent, post).await
    }

    /// The same with a first process that may not be there yet: it will find its orders.
    pub(crate) async fn start_ahead(
        first: Asked<'_>,
        order: &SetupOrder,
        compartment: CompartmentOrder,
        post: Post,
    ) -> Result<(Self, Compartment, Vec<OwnedFd>), SessionError> {
        let sent = send_both(first.line(), order, compartment, &post).await;
        Self::stand_with(first.answer().await?, sent, post).await
    }

    async fn stand_with(
        (line, pidfd): First,
        sent: Result<(), Failure>,
        post: Post,
    ) -> Result<(Self, Compartment, Vec<OwnedFd>), SessionError> {
        // A setup that failed at once takes no second order; why it failed is what counts.
        let (session, sockets) = Self::stand(line, pidfd).await?;
        sent.map_err(SessionError::Host)?;
        let descriptors = answer(&*session.supervisor.lock().await).await?;
        let compartment = enter(post, descriptors).await?;
        Ok((session, compartment, sockets))
    }

    async fn stand(line: AsyncLine, pidfd: OwnedFd) -> Result<(Self, Vec<OwnedFd>), SessionError> {
        let answer = line.receive::<SetupReply>(&mut Vec::new()).await;
        match answer.map_err(SessionError::Host)? {
            None => Err(SessionError::Silent("setup")),
            Some((SetupReply::Failed(failure), _)) => Err(SessionError::Setup(failure)),
            Some((SetupReply::Ready, sockets)) => {
                let pidfd = register(pidfd, Interest::READABLE);
                let pidfd = pidfd.failing("watch the session").map_err(SessionError::Host)?;
                let session = Self {
                    supervisor: Mutex::new(line),
                    pidfd: Arc::new(pidfd),
                    ending: Notify::new(),
                };
                Ok((session, sockets))
            }
        }
    }

    /// Makes a compartment and waits until its walls stand.
    pub(crate) async fn compartment(
        &self,
        order: CompartmentOrder,
    ) -> Result<Compartment, SessionError> {
        let post = Post::new().map_err(SessionError::Host)?;
        let descriptors = self.order(&SupervisorOrder::Make(order), &[post.theirs()]).await?;
        enter(post, descriptors).await
    }

    /// Has trusted paths bound again after the host replaced one of them.
    pub(crate) async fn guard(&self, guards: &[Guard]) -> Result<(), SessionError> {
        self.order(&SupervisorOrder::Guard(guards.to_vec()), &[]).await.map(drop)
    }

    async fn order(
        &self,
        order: &SupervisorOrder,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Vec<OwnedFd>, SessionError> {
        let line = self.supervisor.lock().await;
        line.send(order, descriptors).await.map_err(SessionError::Host)?;
        answer(&line).await
    }

    /// Kills every process of the session and waits until the last has ended.
    pub(crate) async fn end(&self) {
        // Ignored: a session that has ended already is as it should be.
        let _ = process::signal(self.pidfd.get_ref().as_fd(), nix::libc::SIGKILL);
        self.ending.notify_one();
        self.ended().await;
    }

    /// Resolves when the end has begun: for the session's one watcher.
    pub(super) async fn ending(&self) {
        tokio::select! {
            () = self.ending.notified() => {}
            () = self.ended() => {}
        }
    }

    /// Resolves when every process of the session has ended.
    pub(crate) async fn ended(&self) {
        ended(&self.pidfd).await;
    }
}

async fn send_both(
    line: &AsyncLine,
    order: &SetupOrder,
    compartment: CompartmentOrder,
    post: &Post,
) -> Result<(), Failure> {
    line.send(order, &[]).await?;
    line.send(&SupervisorOrder::Make(compartment), &[post.theirs()]).await
}

/// Waits for the supervisor's answer.
async fn answer(supervisor: &AsyncLine) -> Result<Vec<OwnedFd>, SessionError> {
    let answer = supervisor.receive::<SupervisorReply>(&mut Vec::new()).await;
    match answer.map_err(SessionError::Host)? {
        None => Err(SessionError::Silent("supervisor")),
        Some((SupervisorReply::Failed(failure), _)) => Err(SessionError::Supervisor(failure)),
        Some((SupervisorReply::Made | SupervisorReply::Guarded, descriptors)) => Ok(descriptors),
    }
}

/// Waits until the walls of a compartment stand whose init the supervisor has made.
async fn enter(post: Post, mut descriptors: Vec<OwnedFd>) -> Result<Compartment, SessionError> {
    let missing = || Failure::new("find the new compartment", "", Errno::EBADMSG);
    let pidfd = descriptors.pop().ok_or_else(|| SessionError::Host(missing()))?;
    Compartment::begin(post, pidfd).await
}
