//! Finds and kills what a command has started, for a deadline that ends it.
//!
//! A command's tree is every process of its kernel session (launch makes one for it) and all their children.
//! A process that made a session of its own and whose parent has gone is a background job: it stays, as it
//! stays after the command's own end.
//!
//! Runs in: host (a thread that blocks; reads the host's /proc; every signal goes through a descriptor).

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use procfs::process::{Process, Stat, all_processes};

/// Forks race with us; after so many rounds without an end the command's own death must do.
const ROUNDS: usize = 20;

/// Kills the tree of a command. The descriptor is of the process that leads its kernel session.
pub(super) async fn kill(leader: Arc<OwnedFd>) {
    // Ignored: a thread that panicked has told its own story.
    let _ = tokio::task::spawn_blocking(move || kill_blocking(&leader)).await;
}

fn kill_blocking(leader: &OwnedFd) {
    let Some(pid) = number(leader) else { return };
    // A process of the host has a number in fewer namespaces; so none is hit whatever numbers are used again.
    let Some(depth) = depth(pid) else { return };
    for _ in 0..ROUNDS {
        let held: BTreeMap<i32, OwnedFd> = members(pid, depth)
            .into_iter()
            .filter_map(|member| Some((member, sandbox_sys::process::open(member).ok()?)))
            .collect();
        if held.is_empty() {
            return;
        }
        // Who is a member now that we hold it is the one that we hold.
        for member in members(pid, depth) {
            if let Some(process) = held.get(&member) {
                // Ignored: it has ended by itself.
                let _ = sandbox_sys::process::signal(process.as_fd(), nix::libc::SIGKILL);
            }
        }
    }
}

/// The process number in this namespace behind a descriptor (pidfd_open(2), fdinfo).
fn number(pidfd: &OwnedFd) -> Option<i32> {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let text = std::fs::read_to_string(path).ok()?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    pid.trim().parse().ok().filter(|pid| *pid > 0)
}

/// In how many pid namespaces a process has a number (proc(5), NSpid).
fn depth(pid: i32) -> Option<usize> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    Some(line.split_whitespace().count())
}

/// Every living process of the leader's kernel session, and their children, that deep in namespaces.
fn members(leader: i32, wanted: usize) -> BTreeSet<i32> {
    let stats: Vec<Stat> = all_processes()
        .into_iter()
        .flatten()
        .filter_map(|process| process.and_then(|process: Process| process.stat()).ok())
        .filter(|stat| stat.state != 'Z' && stat.state != 'X')
        .collect();
    let is_first = |stat: &&Stat| stat.session == leader || stat.pid == leader;
    let mut tree: BTreeSet<i32> = stats.iter().filter(is_first).map(|stat| stat.pid).collect();
    loop {
        let is_child = |stat: &&Stat| tree.contains(&stat.ppid) && !tree.contains(&stat.pid);
        let children: Vec<i32> = stats.iter().filter(is_child).map(|stat| stat.pid).collect();
        if children.is_empty() {
            break;
        }
        tree.extend(children);
    }
    tree.retain(|pid| depth(*pid) == Some(wanted));
    tree
}
