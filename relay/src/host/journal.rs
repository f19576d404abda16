//! Carries lines to the log of a server without ever making the child wait.
//!
//! Runs in: host (tokio; one task for each server).

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot};

use crate::log::{LogSink, LogStream};

/// How many lines may wait for a slow sink. At 64 KiB a line this is 16 MiB at most.
const QUEUE: usize = 256;

enum Entry {
    Line { incarnation: u64, stream: LogStream, line: Box<[u8]> },
    Flush(oneshot::Sender<()>),
}

/// The near end of the journal.
#[derive(Debug)]
pub(super) struct Journal {
    entries: mpsc::Sender<Entry>,
    dropped: AtomicU64,
}

impl Journal {
    /// Starts the task that owns the sink; it ends when the journal is dropped.
    pub(super) fn start(mut sink: Box<dyn LogSink>) -> Self {
        let (entries, mut queue) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            while let Some(entry) = queue.recv().await {
                match entry {
                    Entry::Line { incarnation, stream, line } => {
                        sink.line(incarnation, stream, &line);
                    }
                    // Ignored: who asked may have stopped waiting.
                    Entry::Flush(done) => drop(done.send(())),
                }
            }
        });
        Self { entries, dropped: AtomicU64::new(0) }
    }

    /// Notes a line; drops and counts it where the sink is too slow.
    pub(super) fn line(&self, incarnation: u64, stream: LogStream, line: &[u8]) {
        let lost = self.dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let text = format!("dropped {lost} lines: the log was too slow for them");
            self.push(incarnation, LogStream::Relay, text.as_bytes(), lost);
        }
        self.push(incarnation, stream, line, 1);
    }

    /// Notes the relay's own words.
    pub(super) fn say(&self, incarnation: u64, text: &str) {
        self.line(incarnation, LogStream::Relay, text.as_bytes());
    }

    /// Returns once everything noted so far is with the sink.
    pub(super) async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.entries.send(Entry::Flush(done)).await.is_ok() {
            // Ignored: a journal whose task is gone has nothing more to write.
            let _ = written.await;
        }
    }

    fn push(&self, incarnation: u64, stream: LogStream, line: &[u8], counts: u64) {
        let entry = Entry::Line { incarnation, stream, line: line.into() };
        if self.entries.try_send(entry).is_err() {
            self.dropped.fetch_add(counts, Ordering::Relaxed);
        }
    }
}
