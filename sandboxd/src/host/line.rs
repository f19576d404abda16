//! The host's end of a message socket: waits without holding a thread.
//!
//! Runs in: host (tokio).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use sandbox_sys::{Errno, Failing, Failure, channel};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::wire;

/// One end of a message socket.
#[derive(Debug)]
pub(crate) struct AsyncLine {
    socket: AsyncFd<OwnedFd>,
}

/// Makes a message socket: our end, and the one that goes to the other process.
pub(crate) fn pair() -> Result<(AsyncLine, OwnedFd), Failure> {
    let (ours, theirs) = channel::pair().failing("make a message socket")?;
    fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).failing("make a message socket")?;
    let both = Interest::READABLE | Interest::WRITABLE;
    let socket = register(ours, both).failing("watch a message socket")?;
    Ok((AsyncLine { socket }, theirs))
}

impl AsyncLine {
    /// Sends a message; waits while the socket is full.
    pub(crate) async fn send<T: Serialize>(
        &self,
        message: &T,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Failure> {
        let bytes = wire::encode(message).failing("encode an order")?;
        let send = |socket: &OwnedFd| {
            channel::send(socket.as_fd(), &bytes, descriptors).map_err(std::io::Error::from)
        };
        self.socket.async_io(Interest::WRITABLE, send).await.failing("send an order")
    }

    /// Receives a message; `None` when the other end is gone.
    pub(crate) async fn receive<T: DeserializeOwned>(
        &self,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<(T, Vec<OwnedFd>)>, Failure> {
        let mut receive = |socket: &OwnedFd| match channel::receive(socket.as_fd(), buffer) {
            // Told once of a peer that died with unread orders; what it had said before comes behind it.
            Err(Errno::ECONNRESET) => Ok(channel::receive(socket.as_fd(), buffer)?),
            received => Ok(received?),
        };
        let message = self.socket.async_io(Interest::READABLE, |socket| receive(socket)).await;
        match message {
            Err(error) => Err(error).failing("receive an answer"),
            Ok(None) => Ok(None),
            Ok(Some(message)) => {
                let answer = wire::decode(&message.bytes).failing("understand an answer")?;
                Ok(Some((answer, message.descriptors)))
            }
        }
    }
}

/// Has tokio watch a descriptor.
#[expect(
    deprecated,
    reason = "unsound for types that may answer another descriptor later; OwnedFd cannot"
)]
pub(crate) fn register(
    descriptor: OwnedFd,
    interest: Interest,
) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, interest)
}

/// Resolves when the process behind the descriptor has ended.
pub(crate) async fn ended(pidfd: &AsyncFd<OwnedFd>) {
    // Ignored: a descriptor that cannot be watched was checked when it was registered.
    let _ = pidfd.readable().await;
}
