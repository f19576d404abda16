//! Pid 1 of a compartment: mounts its view, takes its walls once, starts commands, reaps.
//!
//! ```text
//! mount_private -> take_walls -> Ready -> { order: launch | child ended: tell | host gone: end }
//! ```
//! It installs no signal handler, so that no signal from inside can end it (pid_namespaces(7)); the signal of
//! a child's end is blocked and read from a descriptor. The walls are inherited by all that it starts: one
//! Landlock domain for the whole compartment, or its processes could not signal and trace each other.
//!
//! Runs in: init (one thread; the supervisor's CAP_SYS_ADMIN until its walls stand, then a payload's).

pub(crate) mod filter;
mod walls;

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use rootfs::MountPlan;
use rootfs::apply::compartment;
use sandbox_sys::process::{self, Born};
use sandbox_sys::terminal::{self, Size};
use sandbox_sys::{Errno, Failing, Failure};

pub(crate) use walls::landlock_abi;

use crate::launch::{self, Stdio};
use crate::wire::{CompartmentOrder, Ending, InitOrder, InitReply, Line, Walls};

/// Runs the compartment until the host is gone. Returns the exit status of the process.
pub(crate) fn run(line: Line, order: CompartmentOrder, plan: &MountPlan) -> i32 {
    process::reset_signals();
    match begin(order, plan) {
        Ok((walls, ended)) => {
            let jobs = HashMap::new();
            // Ignored: when the answer or the service fails, the host is gone and so is the compartment.
            let _ = line.send(&InitReply::Ready(walls), &[]);
            let _ = Init { line, ended, jobs }.serve();
            0
        }
        Err(failure) => refuse(&line, failure),
    }
}

/// Says why there is no compartment. Returns the exit status of the process.
pub(crate) fn refuse(line: &Line, failure: Failure) -> i32 {
    // Ignored: a host that is gone needs no answer.
    let _ = line.send(&InitReply::Failed(failure), &[]);
    125
}

fn begin(order: CompartmentOrder, plan: &MountPlan) -> Result<(Walls, SignalFd), Failure> {
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block().failing("block the signal of a child's end")?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let ended = SignalFd::with_flags(&children, flags).failing("watch for the end of children")?;
    compartment::mount_private(plan)?;
    let walls = walls::take(order, plan)?;
    Ok((walls, ended))
}

struct Init {
    line: Line,
    ended: SignalFd,
    /// The host's numbers of the commands that run, by process number.
    jobs: HashMap<i32, u64>,
}

impl Init {
    fn serve(&mut self) -> Result<(), Failure> {
        loop {
            let (order, child) = self.wait()?;
            if child {
                while self.ended.read_signal().failing("read a child's end")?.is_some() {}
                self.reap()?;
            }
            if order && !self.obey()? {
                return Ok(());
            }
        }
    }

    /// Waits until there is an order, or a child has ended.
    fn wait(&self) -> Result<(bool, bool), Failure> {
        let mut sources = [
            PollFd::new(self.line.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.ended.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut sources, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).failing("wait for an order"),
        }
        let [order, child] = sources.map(|source| source.any().unwrap_or(false));
        Ok((order, child))
    }

    /// Reaps every child that has ended, ours and those whose parents left them.
    fn reap(&mut self) -> Result<(), Failure> {
        loop {
            let (pid, ending) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, status)) => (pid, Ending::Status(status)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, Ending::Signal(signal as i32)),
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(()),
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(error) => return Err(error).failing("reap a child"),
            };
            if let Some(job) = self.jobs.remove(&pid.as_raw()) {
                self.line.send(&InitReply::Ended { job, ending }, &[])?;
            }
        }
    }

    /// Does what the host says; `false` when it is gone.
    fn obey(&mut self) -> Result<bool, Failure> {
        let Some((order, descriptors)) = self.line.receive::<InitOrder>()? else {
            return Ok(false);
        };
        let InitOrder::Launch { job, terminal } = order;
        match start(terminal, descriptors) {
            Ok((born, master)) => {
                self.jobs.insert(born.pid, job);
                let mut descriptors = vec![born.pidfd.as_fd()];
                descriptors.extend(master.as_ref().map(AsFd::as_fd));
                self.line.send(&InitReply::Started { job, pid: born.pid }, &descriptors)?;
            }
            Err(failure) => self.line.send(&InitReply::NotStarted { job, failure }, &[])?,
        }
        Ok(true)
    }
}

/// Forks launch with its descriptors; returns the terminal's master when it has one.
fn start(
    terminal: Option<Size>,
    descriptors: Vec<OwnedFd>,
) -> Result<(Born, Option<OwnedFd>), Failure> {
    let missing = || Failure::new("find the descriptors of the command", "", Errno::EBADMSG);
    let mut descriptors = descriptors.into_iter();
    let mut next = || descriptors.next().ok_or_else(missing);
    let (specification, report) = (next()?, next()?);
    let (stdio, master) = match terminal {
        Some(size) => {
            let (master, peer) = open_terminal(size)?;
            (Stdio::Terminal { peer, error: next().ok() }, Some(master))
        }
        None => (Stdio::Pipes([next()?, next()?, next()?]), None),
    };
    let born = process::fork(|| launch::run(&specification, File::from(report), &stdio))
        .failing("make a process")?;
    Ok((born, master))
}

fn open_terminal(size: Size) -> Result<(OwnedFd, OwnedFd), Failure> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = nix::fcntl::open("/dev/ptmx", flags, Mode::empty()).failing("open a terminal")?;
    terminal::unlock(master.as_fd()).failing("unlock the terminal")?;
    terminal::resize(master.as_fd(), size).failing("set the size of the terminal")?;
    let peer = terminal::open_peer(master.as_fd()).failing("open the terminal's other end")?;
    Ok((master, peer))
}
