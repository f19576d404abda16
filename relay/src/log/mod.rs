//! The log of one MCP server: what it said on stderr, its noise on stdout, and what the relay saw.
//!
//! Runs in: host (plain blocking writes to a local file).

mod clock;
mod escape;
mod file;
mod redact;

pub(crate) use clock::rfc3339;
pub(crate) use escape::{escape, quote};
pub(crate) use file::Rotating;
pub use file::{FileLog, LogError};
pub use redact::Redactor;

/// Where a line of a server's log comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStream {
    /// The child's standard error.
    Stderr,
    /// What the child wrote to standard output that is no message.
    Noise,
    /// The relay's own words.
    Relay,
}

impl LogStream {
    /// Returns the word that stands in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stderr => "stderr",
            Self::Noise => "noise",
            Self::Relay => "relay",
        }
    }
}

/// Takes the lines of one server's log, in order, from a task of its own.
///
/// A slow sink never holds up the child: lines that do not fit in the queue before it are dropped, and
/// their number is logged.
pub trait LogSink: Send + 'static {
    /// Takes one line, without its newline, raw: any bytes, at most 64 KiB.
    fn line(&mut self, incarnation: u64, stream: LogStream, line: &[u8]);

    /// Returns what to remove from words shown to clients, such as the last line of stderr in an error.
    fn redactor(&self) -> Redactor {
        Redactor::default()
    }
}
