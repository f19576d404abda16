//! The tasks on the three pipes of one child.
//!
//! Reading and writing are independent: a child that writes before it reads, or reads before it writes,
//! never waits for the relay. Its stderr is read from the first moment on.
//!
//! Runs in: host (tokio; treats every byte of a child as hostile).

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::exchange::{Loss, Shared, answered_id};

use super::outlet::Outlet;
use super::spawner::{Child, Ending, Process};
use crate::jsonrpc::{find_message, id_at_end};
use crate::lines::{Frame, Lines};
use crate::log::LogStream;

/// The longest piece of stderr that is logged as one line.
const PIECE: usize = 64 * 1024;
/// How long a child that closed its output may take to tell its status.
const LINGER: Duration = Duration::from_millis(500);
/// How long the last words of a dead child may take; its pipes are at their end, so it is a moment.
const DRAIN: Duration = Duration::from_secs(2);

/// A living child.
pub(super) struct Link {
    process: Box<dyn Process>,
    stdin: Arc<Outlet>,
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
    errors: JoinHandle<()>,
    /// Keeps the child's input open, so that what it never read can be found there.
    spare: Option<OwnedFd>,
}

/// What is known about a child that is gone.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) loss: Loss,
    /// What it left in its input.
    pub(super) unread: Vec<u8>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("stdin", &self.stdin).finish_non_exhaustive()
    }
}

impl Link {
    /// Takes a child into service.
    pub(super) fn start(shared: &Arc<Shared>, child: Child) -> Self {
        let incarnation = shared.exchange().incarnation();
        let errors = tokio::spawn(drain(shared.clone(), incarnation, child.stderr));
        // Without it a call that nobody read is answered with an error: no harm.
        let spare = child.stdin.as_fd().try_clone_to_owned().ok();
        let stdin = Arc::new(Outlet::new(child.stdin));
        let writer = tokio::spawn(write(shared.clone(), stdin.clone()));
        let lines = Lines::new(child.stdout, shared.settings.max_frame);
        let unterminated = lines.unterminated();
        // Known before the first line is read, so that no line is taken for an earlier child's.
        shared.exchange().spawned(child.pid, stdin.clone(), unterminated);
        let reader = tokio::spawn(read(shared.clone(), incarnation, lines));
        Self { process: child.process, stdin, reader, writer, errors, spare }
    }

    /// Resolves when the child is lost. Cancel-safe; to be asked once more only if it did not resolve.
    pub(super) async fn lost(&mut self) -> Loss {
        tokio::select! {
            biased;
            ending = self.process.exited() => Loss::Exited(ending),
            _ = &mut self.reader => Loss::Closed,
            _ = &mut self.writer => Loss::Deaf,
        }
    }

    /// Ends the compartment of a child that is lost or given up; returns how it was lost, as well as known.
    pub(super) async fn put_down(mut self, mut loss: Loss, grace: Duration) -> Gone {
        if loss == Loss::Deaf {
            // It may still be answering, or about to end.
            loss = timeout(grace, self.ended()).await.unwrap_or(loss);
        }
        if loss == Loss::Closed {
            let ending = timeout(LINGER, self.process.exited()).await;
            loss = ending.map_or(loss, Loss::Exited);
        }
        Gone { loss, unread: self.finish().await }
    }

    /// Ends the child in the polite order.
    pub(super) async fn wind_down(mut self, grace: Duration) -> Gone {
        self.spare = None;
        self.stdin.close();
        if timeout(grace, self.exited()).await.is_err() {
            self.process.terminate();
            // Ignored: what has not ended by now is killed.
            let _ = timeout(grace, self.exited()).await;
        }
        Gone { loss: Loss::Put, unread: self.finish().await }
    }

    async fn exited(&mut self) -> Ending {
        self.process.exited().await
    }

    /// Resolves when the child ended or closed its output.
    async fn ended(&mut self) -> Loss {
        if self.reader.is_finished() {
            return Loss::Closed;
        }
        tokio::select! {
            biased;
            ending = self.process.exited() => Loss::Exited(ending),
            _ = &mut self.reader => Loss::Closed,
        }
    }

    /// Kills the compartment and takes the last words from its pipes: an answer written before the end
    /// counts. Returns what was left in its input.
    async fn finish(mut self) -> Vec<u8> {
        self.process.kill().await;
        let queued = self.stdin.halt();
        let by = Instant::now() + DRAIN;
        for task in [&mut self.reader, &mut self.errors] {
            if !task.is_finished() && timeout_at(by, &mut *task).await.is_err() {
                task.abort();
            }
        }
        self.writer.abort();
        let mut unread = self.spare.map(|pipe| left_in(&pipe)).unwrap_or_default();
        unread.extend(queued);
        unread
    }
}

/// Returns what lies in a pipe, through another reading end of it; nothing where /proc does not give one.
fn left_in(pipe: &OwnedFd) -> Vec<u8> {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let reader = pipe::OpenOptions::new().open_receiver(path);
    let mut left = Vec::new();
    if let Ok(reader) = reader.and_then(pipe::Receiver::into_nonblocking_fd) {
        // Ignored: it ends with "would block", since the writing end is open; what came before is there.
        let _ = File::from(reader).read_to_end(&mut left);
    }
    left
}

/// Writes what the child did not take at once.
async fn write(shared: Arc<Shared>, stdin: Arc<Outlet>) {
    let end = stdin.run(|| shared.exchange().pump()).await;
    tracing::debug!(server = %shared.settings.name, ?end, "child input ended");
}

/// Takes the child's lines until its output ends.
async fn read(shared: Arc<Shared>, incarnation: u64, mut lines: Lines<pipe::Receiver>) {
    let mut answered = false;
    while let Ok(Some(frame)) = lines.next().await {
        match frame {
            Frame::Line(line) => take_line(&shared, incarnation, line, true),
            Frame::Rest(line) => take_line(&shared, incarnation, line, false),
            Frame::LongHead(head) => {
                let id = answered_id(head);
                answered = id.is_some();
                take_long(&shared, incarnation, id.as_deref());
            }
            Frame::LongTail(_) if answered => {}
            Frame::LongTail(tail) => take_long(&shared, incarnation, id_at_end(tail)),
        }
    }
}

/// Answers the request whose answer is too long, where it is known.
fn take_long(shared: &Shared, incarnation: u64, id: Option<&str>) {
    let limit = shared.settings.max_frame;
    let why = format!("more than {limit} bytes in one message");
    let text = format!("dropped a line of the child: {why}");
    shared.journal.say(incarnation, &text);
    shared.exchange().child_unreadable(incarnation, id, &why);
}

/// Takes one line: the messages in it, and noise around them. A line that looks like an answer and cannot
/// be read answers its request with an error, unless it is only the beginning of a line (`whole` is false).
fn take_line(shared: &Shared, incarnation: u64, bytes: &[u8], whole: bool) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return take_unreadable(shared, incarnation, bytes, whole.then_some("invalid UTF-8"));
    };
    let mut rest = text;
    while !rest.is_empty() {
        let Some(found) = find_message(rest) else {
            let why = whole.then_some("something that is no JSON-RPC message");
            return take_unreadable(shared, incarnation, rest.as_bytes(), why);
        };
        let mut exchange = shared.exchange();
        if !found.before.trim().is_empty() {
            exchange.child_noise(incarnation, found.before.trim().as_bytes());
        }
        exchange.child_message(incarnation, found.whole, &found.message);
        rest = found.after.trim();
    }
}

fn take_unreadable(shared: &Shared, incarnation: u64, line: &[u8], why: Option<&str>) {
    let mut exchange = shared.exchange();
    exchange.child_noise(incarnation, &line[..line.len().min(PIECE)]);
    if let Some(why) = why
        && memchr::memmem::find(line, b"\"jsonrpc\"").is_some()
    {
        exchange.child_unreadable(incarnation, answered_id(line).as_deref(), why);
    }
}

/// Reads the child's stderr, always, whatever becomes of the lines.
async fn drain(shared: Arc<Shared>, incarnation: u64, mut stderr: pipe::Receiver) {
    let mut buffer = Vec::with_capacity(4 * 1024);
    while let Ok(1..) = stderr.read_buf(&mut buffer).await {
        let mut from = 0;
        while let Some(at) = memchr::memchr(b'\n', &buffer[from..]) {
            take_error(&shared, incarnation, &buffer[from..from + at]);
            from += at + 1;
        }
        buffer.drain(..from);
        if buffer.len() >= PIECE {
            let cut = match shared.redactor().cut(&buffer) {
                0 => buffer.len(),
                cut => cut,
            };
            take_error(&shared, incarnation, &buffer[..cut]);
            buffer.drain(..cut);
        }
        if buffer.capacity() - buffer.len() < 4 * 1024 {
            buffer.reserve(buffer.len().clamp(8 * 1024, PIECE));
        }
    }
    take_error(&shared, incarnation, &buffer);
}

fn take_error(shared: &Shared, incarnation: u64, line: &[u8]) {
    if line.is_empty() {
        return;
    }
    shared.tail().push(line);
    for piece in line.chunks(PIECE) {
        shared.journal.line(incarnation, LogStream::Stderr, piece);
    }
}
