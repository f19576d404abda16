//! Where a secret is read from.
//!
//! Runs in: any (pure data).
//!
//! A session file holds references only; the value exists in the host's memory and in the one server that
//! was given it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A value of `[secrets]`: a reference to where the secret is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretSource {
    /// `"env:VAR"`: a variable of the client's environment, read when the session is made or changed.
    Env(String),
    /// `"file:PATH"`: a file, absolute here, read by the host each time a server that needs it starts.
    /// A relative path starts at the session file's directory.
    File(PathBuf),
    /// `'command:["PROGRAM", "ARGUMENT"]'`: a program that prints the secret, run by the host each time a
    /// server that needs it starts.
    Command(Vec<String>),
}
