//! A program that runs, and what it said by its end.
//!
//! Runs in: the test's own process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::{Read, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;

use crate::deadline::{DEADLINE, eventually, within};
use crate::process::Process;

/// Starts a program with exactly these surroundings: the one place where the tests start anything.
pub(crate) fn program(
    words: &[OsString],
    directory: &Path,
    environment: &BTreeMap<OsString, OsString>,
) -> Command {
    let (name, arguments) = words.split_first().expect("expected a command");
    #[expect(clippy::disallowed_methods, reason = "the tests are a user: they start programs")]
    let mut command = Command::new(name);
    command.args(arguments).current_dir(directory).env_clear().envs(environment);
    command
}

/// A program that was started. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: Collector,
    errors: Collector,
    words: Vec<OsString>,
}

impl Running {
    /// Starts a program with pipes; without an input it gets /dev/null.
    pub(crate) fn start(
        words: &[OsString],
        directory: &Path,
        environment: &BTreeMap<OsString, OsString>,
        input: Option<Vec<u8>>,
    ) -> Self {
        let mut command = program(words, directory, environment);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = command.spawn().unwrap_or_else(|error| cannot_start(words, &error));
        let mut running = Self {
            output: Collector::of(child.stdout.take().expect("it was piped")),
            errors: Collector::of(child.stderr.take().expect("it was piped")),
            input: child.stdin.take(),
            words: words.to_vec(),
            child,
        };
        if let Some(bytes) = input.filter(|bytes| !bytes.is_empty()) {
            running.feed(bytes);
        }
        running
    }

    /// Writes the whole input from beside, and then ends it.
    fn feed(&mut self, bytes: Vec<u8>) {
        let mut input = self.input.take().expect("its input was piped");
        std::thread::spawn(move || {
            // Ignored: a program may end before it has read everything.
            let _ = input.write_all(&bytes);
        });
    }

    /// Writes to the input, which stays open. The order must have said `input("")`.
    ///
    /// # Panics
    /// When the program does not read.
    pub fn says(&mut self, text: &str) {
        let input = self.input.as_mut().expect("its input was piped and not ended");
        input.write_all(text.as_bytes()).expect("it reads its input");
        input.flush().expect("it reads its input");
    }

    /// Writes a line to the input, and returns as many lines of what is said to it.
    ///
    /// # Panics
    /// When it ends without an answer.
    #[track_caller]
    pub fn asks(&mut self, question: &str, lines: usize) -> String {
        let before = self.output.bytes().len();
        self.says(&format!("{question}\n"));
        let mut answer = String::new();
        let answered = within(DEADLINE, || {
            answer = self.output.text().split_off(before);
            answer.matches('\n').count() >= lines || self.has_ended()
        });
        let is_whole = answered && answer.matches('\n').count() >= lines;
        let (words, errors) = (&self.words, self.errors.text());
        assert!(
            is_whole,
            "{words:?} gave no answer to {question:?}\nstdout: {answer}\nstderr: {errors}"
        );
        answer
    }

    /// Ends the input.
    pub fn ends_input(&mut self) {
        self.input = None;
    }

    /// Returns its process number.
    ///
    /// # Panics
    /// Never: process numbers fit.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process numbers fit")
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it has been waited for.
    pub fn signal(&self, signal: Signal) {
        nix::sys::signal::kill(Pid::from_raw(self.pid()), signal).expect("it is our child");
    }

    /// Says whether it has ended, without waiting for it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        Process::of(self.pid()).is_none_or(|process| process.state == 'Z')
    }

    /// Waits until its output contains a text.
    ///
    /// # Panics
    /// When that does not come, or it ends without.
    #[track_caller]
    pub fn answers(&mut self, text: &str) {
        let mut ended = false;
        let seen = within(DEADLINE, || {
            if self.output.text().contains(text) {
                return true;
            }
            ended = ended || self.child.try_wait().is_ok_and(|status| status.is_some());
            ended
        });
        // What it wrote last may come after its end was seen.
        let seen =
            seen && within(DEADLINE, || self.output.text().contains(text) || self.output.is_done());
        assert!(
            seen && self.output.text().contains(text),
            "{:?} never said {text:?}\nstdout: {}\nstderr: {}",
            self.words,
            self.output.text(),
            self.errors.text()
        );
    }

    /// Returns what it has said so far.
    #[must_use]
    pub fn output(&self) -> String {
        self.output.text()
    }

    /// Returns what it has said on its error stream so far.
    #[must_use]
    pub fn errors(&self) -> String {
        self.errors.text()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When the end does not come, or somebody else keeps its output open.
    #[track_caller]
    pub fn wait(mut self) -> Finished {
        self.input = None;
        let mut status = None;
        let ended = within(DEADLINE, || {
            status = self.child.try_wait().expect("it is our child");
            status.is_some()
        });
        assert!(
            ended,
            "{:?} did not end within {DEADLINE:?}\nstdout: {}\nstderr: {}",
            self.words,
            self.output.text(),
            self.errors.text()
        );
        eventually("nobody keeps its output open after its end", || {
            self.output.is_done() && self.errors.is_done()
        });
        Finished {
            words: self.words.clone(),
            status: number(status.expect("it has ended")),
            stdout: self.output.bytes(),
            stderr: self.errors.bytes(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ignored: a program that has ended is as it should be.
        let _ = self.child.kill();
        // Ignored: likewise.
        let _ = self.child.wait();
    }
}

#[expect(clippy::panic, reason = "how a test fails")]
fn cannot_start(words: &[OsString], error: &std::io::Error) -> ! {
    panic!("cannot start {words:?}: {error}")
}

/// A shell's number for an end: 128 and the signal.
pub(crate) fn number(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// A program that has ended.
#[derive(Clone, PartialEq, Eq)]
pub struct Finished {
    words: Vec<OsString>,
    /// Its exit status, or 128 and the signal that ended it.
    pub status: i32,
    /// What it wrote.
    pub stdout: Vec<u8>,
    /// What it wrote on its error stream.
    pub stderr: Vec<u8>,
}

impl fmt::Debug for Finished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { words, status, .. } = self;
        let (stdout, stderr) = (self.text(), self.complaint());
        write!(f, "{words:?}\nstatus: {status}\nstdout: {stdout}\nstderr: {stderr}")
    }
}

impl Finished {
    /// Wants an exit status.
    ///
    /// # Panics
    /// When it is another.
    #[track_caller]
    pub fn expect(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Wants success.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn done(self) {
        drop(self.expect(0));
    }

    /// Returns what it wrote.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns what it wrote on its error stream.
    #[must_use]
    pub fn complaint(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Returns what it wrote, read as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[track_caller]
    #[must_use]
    pub fn json(&self) -> Value {
        let read = serde_json::from_slice(&self.stdout);
        read.unwrap_or_else(|error| not_json(&error, &self.text(), &self.complaint()))
    }
}

#[track_caller]
#[expect(clippy::panic, reason = "how a test fails")]
fn not_json(error: &serde_json::Error, stdout: &str, stderr: &str) -> Value {
    panic!("expected JSON: {error}\nstdout: {stdout}\nstderr: {stderr}")
}

/// Reads a stream to its end, from beside.
#[derive(Debug)]
pub(crate) struct Collector {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Collector {
    pub(crate) fn of(mut stream: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bytes);
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 65536];
            // A terminal whose last user is gone answers EIO, which is its end of file.
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&buffer[..count]);
            }
        });
        Self { bytes, thread }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.thread.is_finished()
    }
}
