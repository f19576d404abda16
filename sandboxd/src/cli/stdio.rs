//! What a payload gets as 0, 1 and 2, and who copies.
//!
//! Nothing of the caller's is passed in. A terminal could be typed into; a regular file reopened for writing
//! through /proc/self/fd; a socket keeps the network it was made in; and a pipe can be reopened there in its
//! other direction: a script that a shell reads from a pipe could be written to, what others put into an
//! output be taken out. So a payload gets pipes that were made for it, or /dev/null, and threads here copy.
//!
//! Runs in: client (threads that block; the payload's bytes pass and are not looked at).

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::JoinHandle;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sandbox_sys::terminal;
use sandbox_sys::{Failing, Failure};

use crate::host::Streams;

/// The copying that goes on beside a command.
#[derive(Debug)]
pub(super) struct Copying {
    /// These end when everything was written.
    outputs: Vec<JoinHandle<()>>,
    /// Closed to say that the command has ended.
    stop: Option<OwnedFd>,
}

/// The streams for a command, and the ends that we keep.
#[derive(Debug)]
pub(super) struct Plumbing {
    /// What the command gets.
    pub(super) streams: Streams,
    kept: Vec<(Direction, OwnedFd)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Input,
    Output,
    Error,
}

impl Plumbing {
    /// Looks at our own three descriptors and makes what the command gets in their place.
    ///
    /// With a terminal on both sides the command gets one of its own.
    pub(super) fn make(wants_terminal: bool) -> Result<Self, Failure> {
        let (input, output, error) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let mut kept = Vec::new();
        if wants_terminal {
            let size = terminal::size_or_default(output.as_fd());
            let apart = !error.is_terminal();
            let error =
                apart.then(|| pass(error.as_fd(), Direction::Error, &mut kept)).transpose()?;
            return Ok(Self { streams: Streams::Terminal { size, error }, kept });
        }
        let pipes = [
            pass(input.as_fd(), Direction::Input, &mut kept)?,
            pass(output.as_fd(), Direction::Output, &mut kept)?,
            pass(error.as_fd(), Direction::Error, &mut kept)?,
        ];
        Ok(Self { streams: Streams::Pipes(pipes), kept })
    }

    /// Starts the copying. `master` is the command's terminal, when it has one here.
    pub(super) fn copy(kept: Kept, master: Option<&OwnedFd>) -> Result<Copying, Failure> {
        let (stopped, stop) = nix::unistd::pipe2(OFlag::O_CLOEXEC).failing("make a pipe")?;
        let mut copying = Copying { outputs: Vec::new(), stop: Some(stop) };
        for (direction, end) in kept.0 {
            let end = File::from(end);
            match direction {
                Direction::Input => feed(std::io::stdin().as_fd(), end)?,
                Direction::Output => copying.drain(end, std::io::stdout().as_fd(), &stopped)?,
                Direction::Error => copying.drain(end, std::io::stderr().as_fd(), &stopped)?,
            }
        }
        if let Some(master) = master {
            let clone = || master.try_clone().map(File::from).failing("hold the terminal");
            feed(std::io::stdin().as_fd(), clone()?)?;
            copying.drain(clone()?, std::io::stdout().as_fd(), &stopped)?;
        }
        Ok(copying)
    }

    /// Takes the streams and the ends that we keep apart.
    pub(super) fn split(self) -> (Streams, Kept) {
        (self.streams, Kept(self.kept))
    }
}

/// The ends of the pipes that are ours.
#[derive(Debug)]
pub(super) struct Kept(Vec<(Direction, OwnedFd)>);

impl Copying {
    fn drain(&mut self, from: File, to: BorrowedFd<'_>, stopped: &OwnedFd) -> Result<(), Failure> {
        let mut to = File::from(to.try_clone_to_owned().failing("hold a standard stream")?);
        let stopped = stopped.try_clone().failing("hold a pipe")?;
        self.outputs.push(std::thread::spawn(move || drain(from, &mut to, &stopped)));
        Ok(())
    }

    /// Waits until everything has been written that the command wrote before it ended.
    ///
    /// Its background processes may hold a pipe open for ever: what is in it now is copied, and no more.
    pub(super) fn finish(mut self) {
        drop(self.stop.take());
        for output in self.outputs {
            // Ignored: a thread that panicked has told its own story.
            let _ = output.join();
        }
    }
}

/// Copies until the end; once `stopped` is closed, until there is nothing left at the moment.
fn drain(mut from: File, to: &mut File, stopped: &OwnedFd) {
    let mut buffer = vec![0; 64 * 1024];
    let mut last = false;
    loop {
        let mut sources = [
            PollFd::new(from.as_fd(), PollFlags::POLLIN),
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
        ];
        let wait = if last { PollTimeout::ZERO } else { PollTimeout::NONE };
        let count = if last { 1 } else { 2 };
        let _polled = poll(&mut sources[..count], wait);
        let [has_more, has_ended] = sources.map(|source| source.any().unwrap_or(false));
        match (has_more, last || has_ended) {
            (true, _) => match from.read(&mut buffer) {
                Ok(count @ 1..) if to.write_all(&buffer[..count]).is_ok() => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // A terminal whose last user is gone answers EIO, which is its end of file.
                Ok(_) | Err(_) => return,
            },
            (false, true) if last => return,
            (false, true) => last = true,
            (false, false) => {}
        }
    }
}

/// Feeds a command's input. Nobody waits for this thread: the caller's input may never end.
fn feed(from: BorrowedFd<'_>, mut to: File) -> Result<(), Failure> {
    let mut from = File::from(from.try_clone_to_owned().failing("hold a standard stream")?);
    std::thread::spawn(move || copy(&mut from, &mut to));
    Ok(())
}

fn copy(from: &mut File, to: &mut File) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                if to.write_all(&buffer[..count]).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Makes what the command gets instead of one of ours, and keeps the other end.
fn pass(
    ours: BorrowedFd<'_>,
    direction: Direction,
    kept: &mut Vec<(Direction, OwnedFd)>,
) -> Result<OwnedFd, Failure> {
    if is_null(ours) {
        let null = File::options().read(true).write(true).open("/dev/null");
        return null.map(OwnedFd::from).failing("open /dev/null");
    }
    let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC).failing("make a pipe")?;
    let (theirs, end) = if direction == Direction::Input { (read, write) } else { (write, read) };
    kept.push((direction, end));
    Ok(theirs)
}

/// /dev/null by its numbers (1:3) and not by its name.
fn is_null(ours: BorrowedFd<'_>) -> bool {
    let null = nix::sys::stat::makedev(1, 3);
    let is_device = |kind| kind & nix::libc::S_IFMT == nix::libc::S_IFCHR;
    nix::sys::stat::fstat(ours).is_ok_and(|data| is_device(data.st_mode) && data.st_rdev == null)
}
