//! Decides who may speak to the daemon: a process of the same user, in the daemon's own user namespace.
//!
//! A process in a box has the same uid, so the uid alone says nothing; its user namespace does, and it cannot
//! leave that one.
//!
//! Runs in: host (reads two links in /proc for each connection).

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use tokio::net::UnixStream;

/// Says why a connection was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// The kernel does not say who it is.
    #[error("the kernel does not say who connected")]
    Nobody,
    /// Another user.
    #[error("user {0} is not this daemon's")]
    User(u32),
    /// A process in another user namespace: a box, a container.
    #[error("process {0} lives in another user namespace")]
    Namespace(i32),
}

/// Checks the process at the other end.
///
/// The process is held by a descriptor while its namespace is read, so that the number cannot have become
/// another's in between.
pub(super) fn admit(stream: &UnixStream) -> Result<(), Refusal> {
    let peer = getsockopt(stream, PeerCredentials).map_err(|_| Refusal::Nobody)?;
    if peer.uid() != nix::unistd::Uid::current().as_raw() {
        return Err(Refusal::User(peer.uid()));
    }
    let elsewhere = Refusal::Namespace(peer.pid());
    let held = sandbox_sys::process::peer(stream.as_fd())
        .or_else(|_| sandbox_sys::process::open(peer.pid()))
        .map_err(|_| elsewhere)?;
    let own = fs::read_link("/proc/self/ns/user").map_err(|_| elsewhere)?;
    let path = format!("/proc/{}/ns/user", peer.pid());
    let theirs = fs::read_link(Path::new(&path)).map_err(|_| elsewhere)?;
    // Signal 0 asks whether the process we hold still lives; then it was its namespace that we read.
    sandbox_sys::process::signal(held.as_fd(), 0).map_err(|_| elsewhere)?;
    if own == theirs { Ok(()) } else { Err(elsewhere) }
}
