//! Builds one session from the inside: identity, network, root. Then it is the supervisor.
//!
//! ```text
//! Fresh --map--> Mapped --network--> Networked --mount--> Rooted --reduce--> Reduced --supervise-->
//! ```
//! Each step consumes the proof of the one before, so no step can be left out or done twice.
//!
//! Runs in: setup (one thread; all capabilities in the session's user namespace, nothing outside).

mod network;

use std::convert::Infallible;
use std::fs;
use std::os::fd::AsFd;

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::stat::{Mode, umask};
use rootfs::Guard;
use rootfs::apply::{floor, guards};
use sandbox_sys::{Errno, Failing, Failure, process};

use self::network::Networks;
use crate::supervisor;
use crate::wire::{Line, SetupOrder, SetupReply};

/// Runs setup and, when all stands, the supervisor. Returns the exit status of the process.
pub(crate) fn run(mut line: Line) -> i32 {
    // Every file that we make has the mode that we say.
    umask(Mode::empty());
    process::reset_signals();
    let order = match line.receive::<SetupOrder>() {
        Ok(Some((order, _))) => order,
        Ok(None) => return 0,
        Err(failure) => return refuse(&line, failure),
    };
    let reduced = Fresh::begin()
        .and_then(|fresh| fresh.map(&order))
        .and_then(|mapped| mapped.network(&order))
        .and_then(|networked| networked.mount(&order))
        .and_then(Rooted::reduce);
    match reduced {
        Ok(reduced) => {
            let Err(failure) = reduced.supervise(line, order);
            // The host that could have read it is gone, or has been told already.
            drop(failure);
            0
        }
        Err(failure) => refuse(&line, failure),
    }
}

fn refuse(line: &Line, failure: Failure) -> i32 {
    // Ignored: a host that is gone needs no answer.
    let _ = line.send(&SetupReply::Failed(failure), &[]);
    125
}

/// A process in new namespaces that is nobody yet.
#[must_use = "the session has no identity"]
struct Fresh(());

/// The user is mapped to itself.
#[must_use = "the session has no network namespace of its own to speak of"]
struct Mapped(());

/// Loopback is up, and the door out where there is to be one.
#[must_use = "the session still sees the host's files"]
struct Networked(Networks);

/// The root is the session's own.
#[must_use = "the process still has every capability of its user namespace"]
struct Rooted(Networks);

/// Nothing is left but what the supervisor needs.
#[must_use = "nobody supervises the session"]
struct Reduced(Networks);

impl Fresh {
    /// Must: the process was made a moment ago by the zygote, whose death is to be its own.
    fn begin() -> Result<Self, Failure> {
        process::die_with_parent().failing("tie the session to its zygote")?;
        Ok(Self(()))
    }

    /// Writes the maps: the user's number to itself and nothing else; there is no uid 0 in a box.
    ///
    /// Must not: be dumpable = false yet, or /proc/self belongs to root and the writes fail (EACCES).
    fn map(self, order: &SetupOrder) -> Result<Mapped, Failure> {
        let (uid, gid) = (order.uid, order.gid);
        // When the host runs out of memory, a box goes before the host's own programs.
        fs::write("/proc/self/oom_score_adj", "200").failing("be killed before the host")?;
        fs::write("/proc/self/setgroups", "deny").failing("give up changing groups")?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")).failing("map the user")?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")).failing("map the group")?;
        Ok(Mapped(()))
    }
}

impl Mapped {
    fn network(self, order: &SetupOrder) -> Result<Networked, Failure> {
        nix::unistd::sethostname(&order.host_name)
            .failing_on("set the host name", &order.host_name)?;
        network::build(&order.network).map(Networked)
    }
}

impl Networked {
    fn mount(self, order: &SetupOrder) -> Result<Rooted, Failure> {
        // Through the host's /proc, for the session's own comes with its compartments.
        fs::write("/proc/sys/user/max_user_namespaces", "0")
            .failing("forbid nested user namespaces")?;
        share_watches()?;
        floor::Sources::open(&order.plan)?.build()?.pivot()?;
        guard_all(&order.plan.guards)?;
        Ok(Rooted(self.0))
    }
}

/// Leaves the user's other programs, and the host's own watch of the trusted paths, room for watches: the kernel
/// counts those of a box for the user as well (inotify(7), namespaces(7)).
fn share_watches() -> Result<(), Failure> {
    for (kind, host) in [("instances", "max_user_instances"), ("watches", "max_user_watches")] {
        let limit = fs::read_to_string(format!("/proc/sys/fs/inotify/{host}"));
        let limit =
            limit.failing("read the limit of watches")?.trim().parse::<u64>().unwrap_or(128);
        let path = format!("/proc/sys/user/max_inotify_{kind}");
        fs::write(&path, (limit / 4).max(1).to_string())
            .failing_on("limit the watches by", &path)?;
    }
    Ok(())
}

/// Protects every trusted path that was there when the host looked.
fn guard_all(all: &[Guard]) -> Result<(), Failure> {
    for guard in all {
        if !guards::guard(guard)? {
            let path = guard.root.join(&guard.path).display().to_string();
            return Err(Failure::new(
                "protect (it was removed while the box was made)",
                path,
                Errno::ENOENT,
            ));
        }
    }
    Ok(())
}

impl Rooted {
    /// Empties the bounding set, for all that comes, and keeps CAP_SYS_ADMIN alone.
    ///
    /// Permitted may exceed the bounding set (capabilities(7)), so this order needs no loop at each launch.
    fn reduce(self) -> Result<Reduced, Failure> {
        let cannot = |_| Failure::new("give up capabilities", "", Errno::EPERM);
        caps::clear(None, CapSet::Bounding).map_err(cannot)?;
        let kept = CapsHashSet::from([Capability::CAP_SYS_ADMIN]);
        caps::clear(None, CapSet::Inheritable).map_err(cannot)?;
        caps::set(None, CapSet::Effective, &kept).map_err(cannot)?;
        caps::set(None, CapSet::Permitted, &kept).map_err(cannot)?;
        process::set_no_new_privs().failing("give up new privileges")?;
        process::set_dumpable(false).failing("close this process to others")?;
        Ok(Reduced(self.0))
    }
}

impl Reduced {
    fn supervise(self, line: Line, order: SetupOrder) -> Result<Infallible, Failure> {
        let Networks { gateway, servers } = self.0;
        let sockets: Vec<_> = gateway.iter().map(AsFd::as_fd).collect();
        line.send(&SetupReply::Ready, &sockets)?;
        // Held by the host alone from now on: its death is the end of the gateway.
        drop(gateway);
        supervisor::run(line, &order.plan, &servers)
    }
}
