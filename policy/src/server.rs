//! An MCP server that runs in the box.
//!
//! Runs in: any (pure data).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::SecretName;
use crate::egress::Rule;

/// How many tool calls a server may be given at once.
pub(crate) const CONCURRENCY_RANGE: RangeInclusive<u32> = 1..=64;

/// How long a timeout may be.
pub(crate) const TIMEOUT_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);

/// `[mcp.NAME]`: a server that is started by a command, in a compartment of its own, on the first call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// `command`: the program and its arguments, never empty. Nothing in it is expanded.
    pub command: Vec<String>,
    /// `env`: the variables of this server alone.
    pub env: BTreeMap<String, EnvValue>,
    /// `cwd`: where it starts. When not said: its private home if it holds a secret or the file says that
    /// there is no workspace, else the workspace.
    pub cwd: ServerDirectory,
    /// `trust_workspace_code`: lets a server that holds a secret run code that the agent can write.
    /// `false` when not said.
    pub trust_workspace_code: bool,
    /// `concurrency`: tool calls that it is given at once, 1 to 64; 1 when not said.
    pub concurrency: u32,
    /// `timeouts`: how long it may take.
    pub timeouts: Timeouts,
    /// `egress`: what it may reach from a network of its own, none twice. Only beside `own_network`.
    #[serde(default)]
    pub egress: Option<Vec<Rule>>,
    /// `network`: whether its network is its own (`"own"`, implied by `egress`) or the session's
    /// (`"session"`, the default).
    #[serde(default)]
    pub own_network: bool,
}

impl Server {
    /// Returns whether any variable of this server is a secret.
    #[must_use]
    pub fn holds_secret(&self) -> bool {
        self.secrets().next().is_some()
    }

    /// Returns which network this server is in.
    #[must_use]
    pub fn network(&self) -> ServerNetwork<'_> {
        match self.egress.as_deref() {
            Some([]) => ServerNetwork::Loopback,
            Some(rules) => ServerNetwork::Own(rules),
            None if self.own_network => ServerNetwork::Loopback,
            None => ServerNetwork::Session,
        }
    }

    /// Returns the name of each secret in this server's environment, in the order of the variables; one
    /// that two variables use comes twice.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretName> {
        self.env.values().filter_map(|value| match value {
            EnvValue::Literal(_) => None,
            EnvValue::Secret { name, .. } => Some(name),
        })
    }
}

/// Which network a server is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerNetwork<'a> {
    /// The session's: localhost and what `[egress]` allows, together with the agent.
    Session,
    /// Its own, with no interface but loopback: no list, or an empty one.
    Loopback,
    /// Its own, with a door of its own: these rules, of which there is at least one.
    Own(&'a [Rule]),
}

/// The value of one variable of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvValue {
    /// `"text"`: the text itself. It is not treated as a secret.
    Literal(String),
    /// `{ secret = "NAME", prefix = "Bearer " }`: the prefix and then the secret of that name.
    Secret {
        /// `secret`: a key of `[secrets]`.
        name: SecretName,
        /// `prefix`: what stands before the secret; empty when not said.
        prefix: String,
    },
}

/// Where a server starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerDirectory {
    /// `"home"`: its private home, which no other compartment sees.
    Home,
    /// `"workspace"`: the session's workspace.
    Workspace,
}

/// How long a server may take; each 1 second to 24 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// `start`: from its start to its answer to the first request; 60 s when not said.
    pub start: Duration,
    /// `call`: one tool call in all; 300 s when not said.
    pub call: Duration,
    /// `idle`: a tool call without progress; not above `call`, and 120 s or `call` when not said.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(60),
            call: Duration::from_secs(300),
            idle: Duration::from_secs(120),
        }
    }
}
