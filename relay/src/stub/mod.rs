//! The client's side: what the brain starts in place of an MCP server, and single calls by hand.
//!
//! The stub holds no command, no environment and no token of the server: only a connection on which the
//! relay answers.
//!
//! Runs in: client (tokio).

mod call;
mod copy;
mod open;

pub use call::{CallOutcome, call, list_tools};
pub use copy::{refuse, run};

use std::io;
use std::time::Duration;

use thiserror::Error;

/// Says why a stub or a call came to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StubError {
    /// Standard input could not be read.
    #[error("cannot read the client's messages")]
    Input(#[source] io::Error),
    /// Standard output could not be written.
    #[error("cannot write messages to the client")]
    Output(#[source] io::Error),
    /// The connection to the relay ended before its time. Every open request was answered with an error.
    #[error("cannot go on without the connection to the relay")]
    Lost,
    /// The connection to the relay broke during a call.
    #[error("cannot talk to the relay")]
    Broken(#[source] io::Error),
    /// The call was answered with a JSON-RPC error.
    #[error("the answer to {method} is an error: {message}")]
    Refused {
        /// What was asked.
        method: String,
        /// The error's number.
        code: i64,
        /// The error's text.
        message: String,
    },
    /// No answer came in time.
    #[error("cannot wait longer than {} ms for an answer", .0.as_millis())]
    Late(Duration),
    /// The answer does not have the shape that MCP gives it.
    #[error("cannot read the answer to {0}")]
    Answer(String),
}
