//! Starts programs by plain fork and exec, from a small process with one thread: what every contender is started
//! by, and what all of them are measured against.
//!
//! Runs in: bench.

use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

/// A command line, ready for exec.
#[derive(Debug)]
pub struct Command {
    words: Vec<CString>,
    environment: Vec<CString>,
}

impl Command {
    /// Makes one; the environment is this process's own.
    pub fn new<S: AsRef<str>>(words: &[S]) -> Self {
        let words = words.iter().map(|word| c_string(word.as_ref())).collect();
        let environment =
            std::env::vars().map(|(name, value)| c_string(&format!("{name}={value}"))).collect();
        Self { words, environment }
    }

    /// Starts it with these three descriptors.
    #[expect(clippy::disallowed_methods, reason = "plain fork and exec is what is measured")]
    pub fn start(&self, stdio: [BorrowedFd<'_>; 3]) -> io::Result<Child> {
        let pointers = |list: &[CString]| -> Vec<*const c_char> {
            list.iter().map(|item| item.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (words, environment) = (pointers(&self.words), pointers(&self.environment));
        let stdio: [RawFd; 3] = stdio.map(|descriptor| descriptor.as_raw_fd());
        // SAFETY: this process has one thread, and the child calls nothing but what signal-safety(7) allows.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: dup2, execve and _exit take integers and the arrays made before the fork, which end
                // with null.
                unsafe {
                    for (number, descriptor) in (0..).zip(stdio) {
                        libc::dup2(descriptor, number);
                    }
                    libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                    libc::execve(words[0], words.as_ptr(), environment.as_ptr());
                    libc::_exit(127)
                }
            }
            pid => Ok(Child(pid)),
        }
    }

    /// Runs it to its end and says how long that took. A status other than 0 is an error.
    pub fn time(&self, null: BorrowedFd<'_>) -> io::Result<Duration> {
        self.time_with([null; 3])
    }

    /// The same with descriptors of its own.
    pub fn time_with(&self, stdio: [BorrowedFd<'_>; 3]) -> io::Result<Duration> {
        let start = Instant::now();
        let status = self.start(stdio)?.wait()?;
        let taken = start.elapsed();
        if status == 0 { Ok(taken) } else { Err(self.failed(status)) }
    }

    /// Runs it, and shows what it says when it fails.
    pub fn run(&self, null: BorrowedFd<'_>) -> io::Result<()> {
        let stderr = io::stderr();
        let status = self.start([null, null, std::os::fd::AsFd::as_fd(&stderr)])?.wait()?;
        if status == 0 { Ok(()) } else { Err(self.failed(status)) }
    }

    fn failed(&self, status: i32) -> io::Error {
        let words: Vec<_> = self.words.iter().map(|word| word.to_string_lossy()).collect();
        io::Error::other(format!("`{}` ended with wait status {status:#x}", words.join(" ")))
    }
}

fn c_string(text: &str) -> CString {
    CString::new(text).expect("a word of a command line has no NUL")
}

/// A process of ours that runs.
#[derive(Debug)]
pub struct Child(libc::pid_t);

impl Child {
    /// Waits for its end and returns the status as wait(2) has it.
    pub fn wait(self) -> io::Result<i32> {
        let mut status = 0;
        // SAFETY: status lives through the call.
        match unsafe { libc::waitpid(self.0, &raw mut status, 0) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(status),
        }
    }

    /// Asks it to end and waits until it has.
    pub fn end(self) -> io::Result<i32> {
        // SAFETY: takes integers; the process is ours and was not waited for, so the number is its own.
        unsafe { libc::kill(self.0, libc::SIGTERM) };
        self.wait()
    }
}
