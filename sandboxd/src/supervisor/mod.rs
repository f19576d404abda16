//! Makes a session's compartments. Pid 1 of the session's outer pid namespace: its end is theirs.
//!
//! It holds no secret, no pipe and no terminal of any payload. What it forks has those of nobody else either.
//!
//! Runs in: supervisor (one thread; CAP_SYS_ADMIN in the session's user namespace, nothing outside).

use std::convert::Infallible;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};

use nix::sched::{CloneFlags, setns};
use rootfs::apply::guards;
use rootfs::{Guard, MountPlan};
use sandbox_sys::process::{self, Namespaces};
use sandbox_sys::{Errno, Failing, Failure};

use crate::init;
use crate::wire::{CompartmentOrder, Line, SupervisorOrder, SupervisorReply};
use crate::zygote::SOCKET;

/// Serves orders until the host is gone.
pub(crate) fn run(
    mut line: Line,
    plan: &MountPlan,
    networks: &[OwnedFd],
) -> Result<Infallible, Failure> {
    process::set_name(c"supervisor");
    process::reap_automatically().failing("let the kernel reap the compartments")?;
    loop {
        let Some((order, descriptors)) = line.receive::<SupervisorOrder>()? else {
            return Err(Failure::new("go on without a host", "", Errno::EPIPE));
        };
        match order {
            SupervisorOrder::Make(order) => match make(order, descriptors, plan, networks) {
                Ok(born) => line.send(&SupervisorReply::Made, &[born.pidfd.as_fd()])?,
                Err(failure) => line.send(&SupervisorReply::Failed(failure), &[])?,
            },
            SupervisorOrder::Guard(all) => line.send(&guard_again(&all), &[])?,
        }
    }
}

fn guard_again(all: &[Guard]) -> SupervisorReply {
    // A path that the host removed for good needs no protection: nothing there is trusted.
    match all.iter().try_for_each(|guard| guards::guard(guard).map(drop)) {
        Ok(()) => SupervisorReply::Guarded,
        Err(failure) => SupervisorReply::Failed(failure),
    }
}

fn make(
    order: CompartmentOrder,
    mut descriptors: Vec<OwnedFd>,
    plan: &MountPlan,
    networks: &[OwnedFd],
) -> Result<process::Born, Failure> {
    let Some(socket) = descriptors.pop() else {
        return Err(Failure::new("find the socket of the new compartment", "", Errno::EBADMSG));
    };
    let network = match order.network {
        Some(number) => Some(networks.get(number).ok_or_else(|| {
            Failure::new(
                "find the network of the new compartment",
                number.to_string(),
                Errno::EBADMSG,
            )
        })?),
        None => None,
    };
    process::spawn_in(Namespaces::COMPARTMENT, || child(socket, network, order, plan))
        .failing("create the namespaces of a compartment")
}

/// The new process: lets go of the supervisor's socket and becomes init.
fn child(
    socket: OwnedFd,
    network: Option<&OwnedFd>,
    order: CompartmentOrder,
    plan: &MountPlan,
) -> i32 {
    process::set_name(c"init");
    // Before its descriptor is closed with all others.
    let entered = network.map_or(Ok(()), |network| setns(network, CloneFlags::CLONE_NEWNET));
    let placed = process::place(socket.as_fd(), SOCKET, false);
    // The number is closed with all others below; nobody owns it any more.
    let _closed_below = socket.into_raw_fd();
    let closed = process::close_from(SOCKET.unsigned_abs() + 1);
    let Some(socket) = process::take_inherited(SOCKET) else { return 125 };
    let line = Line::new(socket);
    match entered.and(placed).and(closed).failing("enter the compartment's network") {
        Ok(()) => init::run(line, order, plan),
        Err(failure) => init::refuse(&line, failure),
    }
}
