//! Finds and kills what a command has started, for a deadline that ends it.
//!
//! A command's tree is every process of its kernel session (launch makes one for it) and all their children.
//! A process that made a session of its own and whose parent has gone is a background job: it stays, as it
//! stays after the command's own end.
//!
//! Runs in: host (reads the host's /proc; every signal goes through a descriptor).

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};

use procfs::process::{Process, Stat, all_processes};

/// Forks race with us; after so many rounds without an end the command's own death must do.
const ROUNDS: usize = 20;

/// Kills the tree of the process behind a descriptor.
pub(super) fn kill(leader: BorrowedFd<'_>) {
    let Some(leader_pid) = number(leader) else { return };
    for _ in 0..ROUNDS {
        let tree = members(leader_pid);
        if tree.is_empty() {
            return;
        }
        for pid in tree {
            end(pid, leader_pid);
        }
    }
}

/// Kills one member, if it still is one when we hold it.
fn end(pid: i32, leader: i32) {
    let Ok(held) = sandbox_sys::process::open(pid) else { return };
    if members(leader).contains(&pid) {
        // Ignored: it has ended by itself.
        let _ = sandbox_sys::process::signal(held.as_fd(), nix::libc::SIGKILL);
    }
}

/// The process number of this namespace behind a descriptor (pidfd_open(2), fdinfo).
fn number(pidfd: BorrowedFd<'_>) -> Option<i32> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let text = std::fs::read_to_string(path).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("Pid:"))?
        .trim()
        .parse()
        .ok()
        .filter(|pid| *pid > 0)
}

/// Every living process of the leader's session, and their children.
fn members(leader: i32) -> BTreeSet<i32> {
    let stats: Vec<Stat> = all_processes()
        .into_iter()
        .flatten()
        .filter_map(|process| process.and_then(|process: Process| process.stat()).ok())
        .filter(|stat| stat.state != 'Z' && stat.state != 'X')
        .collect();
    let mut tree: BTreeSet<i32> = stats
        .iter()
        .filter(|stat| stat.session == leader || stat.pid == leader)
        .map(|stat| stat.pid)
        .collect();
    loop {
        let before = tree.len();
        tree.extend(
            stats
                .iter()
                .filter(|stat| tree.contains(&stat.ppid))
                .map(|stat| stat.pid)
                .collect::<Vec<_>>(),
        );
        if tree.len() == before {
            return tree;
        }
    }
}
