//! What the relay asks of whoever holds the walls: start a child, watch it, end it.
//!
//! Runs in: host (tokio).

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use thiserror::Error;
use tokio::net::unix::pipe;

/// Starts the child process of one MCP server, in its own compartment.
///
/// The relay calls it at most once at a time, never while an earlier child's compartment may still hold a
/// living process, and never drops the future before it has resolved.
pub trait Spawner: Send + Sync + 'static {
    /// Starts one child and returns its pipes.
    fn spawn(&self) -> Pin<Box<dyn Future<Output = Result<Child, SpawnError>> + Send + '_>>;
}

/// Says why a child could not be started.
#[derive(Debug, Clone, Error)]
#[error("{message}")]
pub struct SpawnError {
    /// The whole worded chain, shown to the user.
    pub message: String,
}

/// A started child: the relay's ends of its pipes, and its process.
pub struct Child {
    /// Writes to the child's standard input.
    pub stdin: pipe::Sender,
    /// Reads the child's standard output.
    pub stdout: pipe::Receiver,
    /// Reads the child's standard error.
    pub stderr: pipe::Receiver,
    /// The pid to show to users.
    pub pid: u32,
    /// Watches and ends the process.
    pub process: Box<dyn Process>,
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// Watches and ends one child.
pub trait Process: Send + 'static {
    /// Resolves when the command itself has ended, with how. Cancel-safe, and may be asked again.
    fn exited(&mut self) -> Pin<Box<dyn Future<Output = Ending> + Send + '_>>;
    /// Sends TERM to the command.
    fn terminate(&mut self);
    /// Ends the whole compartment; resolves when every process of it is dead.
    fn kill(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "status {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}
