//! What a payload gets as 0, 1 and 2, and who copies.
//!
//! A pipe or /dev/null of the caller's may be passed on as it is. A terminal could be typed into, a regular
//! file reopened for writing through /proc/self/fd, and a socket keeps the network it was made in: those stay
//! outside, and threads here copy between them and pipes.
//!
//! Runs in: client (threads that block; the payload's bytes pass and are not looked at).

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::JoinHandle;

use nix::fcntl::OFlag;
use sandbox_sys::terminal;
use sandbox_sys::{Failing, Failure};

use crate::api::is_harmless;
use crate::host::Streams;

/// The copying that goes on beside a command.
#[derive(Debug, Default)]
pub(super) struct Copying {
    /// These end when everything was written.
    outputs: Vec<JoinHandle<()>>,
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

    /// Starts the copying. `master` is the command's terminal, when it has one.
    pub(super) fn copy(kept: Kept, master: Option<&OwnedFd>) -> Result<Copying, Failure> {
        let mut copying = Copying::default();
        for (direction, end) in kept.0 {
            let end = File::from(end);
            match direction {
                Direction::Input => feed(std::io::stdin().as_fd(), end)?,
                Direction::Output => copying.drain(end, std::io::stdout().as_fd())?,
                Direction::Error => copying.drain(end, std::io::stderr().as_fd())?,
            }
        }
        if let Some(master) = master {
            let clone = || master.try_clone().map(File::from).failing("hold the terminal");
            feed(std::io::stdin().as_fd(), clone()?)?;
            copying.drain(clone()?, std::io::stdout().as_fd())?;
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
    fn drain(&mut self, mut from: File, to: BorrowedFd<'_>) -> Result<(), Failure> {
        let mut to = File::from(to.try_clone_to_owned().failing("hold a standard stream")?);
        // A terminal whose last user is gone answers EIO, which is its end of file.
        self.outputs.push(std::thread::spawn(move || copy(&mut from, &mut to)));
        Ok(())
    }

    /// Waits until everything that the box wrote has been written.
    pub(super) fn finish(self) {
        for output in self.outputs {
            // Ignored: a thread that panicked has told its own story.
            let _ = output.join();
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

/// Passes a descriptor on as it is where that is harmless; else makes a pipe and keeps its other end.
fn pass(
    ours: BorrowedFd<'_>,
    direction: Direction,
    kept: &mut Vec<(Direction, OwnedFd)>,
) -> Result<OwnedFd, Failure> {
    let copy = ours.try_clone_to_owned().failing("hold a standard stream")?;
    if is_harmless(&copy) {
        return Ok(copy);
    }
    let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC).failing("make a pipe")?;
    let (theirs, end) = if direction == Direction::Input { (read, write) } else { (write, read) };
    kept.push((direction, end));
    Ok(theirs)
}
