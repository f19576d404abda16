//! What can go wrong with a session, by the process in which it went wrong.
//!
//! Runs in: host.

use sandbox_sys::Failure;
use thiserror::Error;

/// A session, compartment or command that could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum SessionError {
    /// Before anything was made.
    #[error("host: {0}")]
    Host(Failure),
    /// The zygote could not make the session's first process.
    #[error("zygote: {0}")]
    Zygote(Failure),
    /// The session could not be built.
    #[error("setup: {0}")]
    Setup(Failure),
    /// A compartment could not be made.
    #[error("supervisor: {0}")]
    Supervisor(Failure),
    /// A compartment's view or walls could not be made, or a command's process.
    #[error("init: {0}")]
    Init(Failure),
    /// The command could not be executed.
    #[error("launch: {0}")]
    Launch(Failure),
    /// A process of ours ended without a word.
    #[error("host: the {0} of the session ended without an answer")]
    Silent(&'static str),
}

impl SessionError {
    /// Returns the step that failed, where one is named.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Host(failure)
            | Self::Zygote(failure)
            | Self::Setup(failure)
            | Self::Supervisor(failure)
            | Self::Init(failure)
            | Self::Launch(failure) => Some(failure),
            Self::Silent(_) => None,
        }
    }
}
