//! Reads a session file.
//!
//! Runs in: any (pure data).
//!
//! ```text
//! text -> TOML with places (node) -> which keys may stand there (schema)
//!      -> one module for each table (session, mounts, egress, environment, secrets, servers)
//!      -> SessionFile
//! ```
//!
//! The first thing that is wrong ends the reading, with its line and its key. A key that the design knows
//! and this version does not enforce is such a thing: nothing is accepted and ignored.

mod duration;
mod egress;
mod environment;
mod mounts;
mod node;
mod schema;
mod secrets;
mod servers;
mod session;

use std::path::PathBuf;

use toml_edit::Document;

use crate::error::{Complaint, PolicyError};
use crate::paths::Bases;
use crate::session::SessionFile;
use node::{Node, Source};

/// What a session file's text does not say itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The file as messages name it: as the user typed it.
    pub file: String,
    /// Where the file's relative paths start: the file's directory, absolute and without symbolic links.
    pub directory: PathBuf,
    /// What `~/` stands for: the user's home, absolute and without symbolic links.
    pub home: PathBuf,
}

impl SessionFile {
    /// Reads and checks a session file.
    ///
    /// # Errors
    /// Names the file, the line and the key of the first thing that is wrong, and what was expected there.
    pub fn parse(text: &str, context: &Context) -> Result<Self, PolicyError> {
        let bases = Bases { directory: &context.directory, home: &context.home };
        let source = Source { file: &context.file, text, bases };
        let document = Document::parse(text).map_err(|error| {
            let line = error.span().map(|span| source.line(span.start));
            PolicyError::place(&context.file, line, "", Complaint::new(one_line(error.message())))
        })?;
        session::read(&Node::root(&source, document.as_table()))
    }
}

/// Makes the TOML parser's message one lower-case line.
fn one_line(message: &str) -> String {
    message.lines().map(str::trim).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

#[cfg(test)]
#[path = "schema_tests.rs"]
mod schema_tests;
