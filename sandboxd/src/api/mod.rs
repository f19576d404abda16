//! What client and daemon say to each other over the unix socket: HTTP/1.1 and JSON under /v1 (docs/API.md).
//!
//! Runs in: client, host (pure data, and where the socket is).

pub(crate) mod frame;
pub(crate) mod place;

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use nix::sys::stat::{SFlag, fstat, makedev};
use policy::{SecretName, ServerDirectory, ServerName, SessionFile, SessionName};
use sandbox_sys::terminal::Size;
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::host::Caller;

/// A value that is never shown and is wiped when it goes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, zeroize::ZeroizeOnDrop, Zeroize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(value: String) -> Self {
        Self(value)
    }

    /// Shows the value: to the environment of the one server that it is for, and to the redactor.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// `POST /v1/sessions`: makes a session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpRequest {
    /// The name; one is made up when there is none.
    pub(crate) name: Option<SessionName>,
    /// What the session is.
    pub(crate) file: SessionFile,
    /// Who asks.
    pub(crate) caller: Caller,
    /// The values of secrets that come from the client's environment.
    pub(crate) secrets: BTreeMap<SecretName, Secret>,
    /// The session file, which the box may not write when it lies in a mounted tree.
    pub(crate) source: Option<PathBuf>,
}

/// Where a session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It stands.
    Running,
    /// The daemon that held it died, and it with it.
    Lost,
}

/// A session, as `ls` and `inspect` show it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SessionView {
    pub(crate) id: String,
    pub(crate) name: SessionName,
    pub(crate) tenancy: u32,
    pub(crate) state: State,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) workspace: Option<PathBuf>,
    /// `rw` or `ro`, when there is a workspace.
    pub(crate) mode: Option<String>,
    /// What enforces: `None` for a session that is lost.
    pub(crate) walls: Option<WallsView>,
    pub(crate) servers: BTreeMap<ServerName, ServerView>,
    /// What the user should know; not errors.
    pub(crate) notes: Vec<String>,
}

/// The walls that stand around a session's compartments.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WallsView {
    /// The namespaces that are the session's own.
    pub(crate) namespaces: Vec<String>,
    /// The Landlock ABI that is enforced; 0 is none.
    pub(crate) landlock: u32,
    /// Instructions of the system call filter.
    pub(crate) seccomp: usize,
    /// The network: `none` is loopback alone.
    pub(crate) network: String,
}

/// An MCP server, as `inspect` and `mcp ls` show it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ServerView {
    /// What the relay says of it.
    pub(crate) status: serde_json::Value,
    /// Whether its environment holds a secret. Neither name nor value is shown.
    pub(crate) holds_secret: bool,
    /// Where it starts.
    pub(crate) cwd: ServerDirectory,
    /// Whether it may run code that the agent can write although it holds a secret.
    pub(crate) trust_workspace_code: bool,
}

/// `POST /v1/sessions/ID/exec` with `Upgrade: sandboxd-exec`: runs a command in the agent's compartment.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecRequest {
    /// The command and its arguments.
    pub(crate) argv: Vec<String>,
    /// The size and kind of the caller's terminal, when the command gets one of its own.
    #[serde(default)]
    pub(crate) terminal: Option<TerminalRequest>,
    /// How long it may run, in milliseconds.
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
    /// Whether it runs on without a caller; its output goes to the session's log.
    #[serde(default)]
    pub(crate) detach: bool,
}

/// The terminal that a command is to have.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TerminalRequest {
    pub(crate) size: Size,
    /// The value of TERM.
    pub(crate) kind: String,
}

/// The word for an exec connection in `Upgrade`.
pub(crate) const EXEC: &str = "sandboxd-exec";

/// The word for an MCP connection in `Upgrade`; the bytes are those of the stdio transport.
pub(crate) const MCP: &str = "sandboxd-mcp";

/// Says whether the daemon takes a descriptor from a client: a pipe, or /dev/null by its numbers (1:3).
///
/// A terminal could be typed into, a regular file reopened for writing through /proc/self/fd, and a socket
/// keeps the network it was made in. A pipe can be reopened there in its other direction, so a client passes
/// none but those that it has made for this one command.
pub(crate) fn is_harmless(descriptor: &OwnedFd) -> bool {
    fstat(descriptor).is_ok_and(|data| {
        let kind = SFlag::from_bits_truncate(data.st_mode & SFlag::S_IFMT.bits());
        kind == SFlag::S_IFIFO || kind == SFlag::S_IFCHR && data.st_rdev == makedev(1, 3)
    })
}
