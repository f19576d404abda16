//! Makes the first process of each session, by a fork that is cheap because this process is small.
//!
//! It is our own program, started with an empty environment and a bare argument list: what a fork copies then
//! shows nothing of the caller in anybody's /proc entry. It never holds a secret and never reads an order's
//! content: a session's plan goes to setup over the socket that rides along.
//!
//! Runs in: zygote (one thread; the user's privileges).

use std::os::fd::{AsFd, IntoRawFd, OwnedFd};

use policy::syscalls::Profile;
use sandbox_sys::process::{self, Namespaces};
use sandbox_sys::{Errno, Failing, Failure};

use crate::init::filter;
use crate::setup;
use crate::wire::{Line, MakeSession, ZygoteReply};

/// Where the starter leaves the socket; 0 to 2 are /dev/null.
pub(crate) const SOCKET: i32 = 3;

/// The name by which the program knows that it is to be the zygote, and which `ps` shows.
pub(crate) const NAME: &str = "sandboxd-zygote";

/// Serves orders until the host is gone. Its end is the end of its sessions.
pub(crate) fn run() -> i32 {
    process::set_name(c"zygote");
    let Some(socket) = process::take_inherited(SOCKET) else { return 125 };
    let mut line = Line::new(socket);
    let ready = prepare();
    warm(Profile::Agent);
    loop {
        let reply = match line.receive::<MakeSession>() {
            Ok(None) => return 0,
            Ok(Some((MakeSession, descriptors))) => ready.clone().and_then(|()| make(descriptors)),
            Err(failure) => Err(failure),
        };
        let sent = match reply {
            Ok(born) => line.send(&ZygoteReply::Made(born.pid), &[born.pidfd.as_fd()]),
            Err(failure) => line.send(&ZygoteReply::Failed(failure), &[]),
        };
        if sent.is_err() {
            return 0;
        }
        warm(Profile::Server);
    }
}

/// Compiles a filter ahead, so that every init inherits it. A filter that does not compile is told by init.
fn warm(profile: Profile) {
    // Ignored: see above.
    let _ = filter::compiled(profile);
}

fn prepare() -> Result<(), Failure> {
    process::set_no_new_privs().failing("give up new privileges")?;
    process::reap_automatically().failing("let the kernel reap the sessions")?;
    match process::join_anonymous_keyring() {
        // A kernel without keyrings has none to leave.
        Ok(()) | Err(Errno::ENOSYS) => Ok(()),
        Err(error) => Err(error).failing("leave the caller's keyring"),
    }
}

fn make(mut descriptors: Vec<OwnedFd>) -> Result<process::Born, Failure> {
    let Some(socket) = descriptors.pop() else {
        return Err(Failure::new("find the socket of the new session", "", Errno::EBADMSG));
    };
    process::spawn_in(Namespaces::SESSION, || child(socket)).failing("create a user namespace")
}

/// The new process: lets go of everything that is the zygote's and becomes setup.
fn child(socket: OwnedFd) -> i32 {
    process::set_name(c"setup");
    let placed = process::place(socket.as_fd(), SOCKET, false);
    // The number is closed with all others below; nobody owns it any more.
    let _closed_below = socket.into_raw_fd();
    let closed = process::close_from(SOCKET.unsigned_abs() + 1);
    let Some(socket) = process::take_inherited(SOCKET) else { return 125 };
    match placed.and(closed) {
        Ok(()) => setup::run(Line::new(socket)),
        Err(_) => 125,
    }
}
