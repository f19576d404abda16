//! What a session file asks for, as data.
//!
//! Runs in: any (pure data).
//!
//! A `SessionFile` is made by `SessionFile::parse` (or by flags alone, from its default), checked once
//! there, and then passed on as JSON. A reader of that JSON refuses keys it does not know, so that a
//! restriction that only a newer client knows is never dropped on the way, and `SessionFile::check` holds
//! such a file to the same rules as one that was parsed.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::egress::{Egress, Rule};
use crate::{SecretName, SecretSource, Server, ServerName, Tool};

/// The most servers that one file may define.
pub const MAX_SERVERS: usize = 64;

/// The most extra mounts that one session may have.
pub const MAX_MOUNTS: usize = 64;

/// How many processes a session may be limited to: fewer than 16 would not carry a shell with a pipe
/// beside the box's own processes; the upper end is far above any machine's own limit.
pub(crate) const PIDS_RANGE: RangeInclusive<u32> = 16..=1 << 20;

/// Everything that one session file says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionFile {
    /// `[workspace]`: the directory that the agent works in.
    pub workspace: WorkspaceChoice,
    /// `tools`: toolchains of the user's home that are shown in the box, read-only, in the order named.
    pub tools: Vec<Tool>,
    /// `[[mounts]]`: further files and directories of the host, in the order of the file.
    pub mounts: Vec<Mount>,
    /// `[egress]`: what may be reached from the session's network.
    #[serde(default)]
    pub egress: Egress,
    /// `[env]`: variables of the agent's compartment. A server sees its own `env` only.
    pub env: BTreeMap<String, String>,
    /// `[secrets]`: where each secret is read from. A value never stands in the file.
    pub secrets: BTreeMap<SecretName, SecretSource>,
    /// `[mcp.NAME]`: the MCP servers that run in the box.
    pub servers: BTreeMap<ServerName, Server>,
    /// `[limits]`: what the session may use at most.
    pub limits: Limits,
    /// `[walls]`: what the host must offer, else the session is refused.
    pub walls: WallsPolicy,
}

impl SessionFile {
    /// Returns every rule: those of the session's network, then those of each server that has its own.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.egress
            .allow
            .iter()
            .chain(self.servers.values().filter_map(|s| s.egress.as_ref()).flatten())
    }
}

/// Which directory, if any, the agent works in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceChoice {
    /// Nothing was said: the caller's current directory, read-write, where that may be a workspace.
    #[default]
    Unsaid,
    /// `mode = "none"`: the session has no workspace.
    None,
    /// A named directory.
    At(Workspace),
}

/// A directory of the host that is shown in the box at its own path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    /// `path`: the directory, absolute. A relative path starts at the file's directory.
    pub path: PathBuf,
    /// `mode`: `"rw"` (the default: what the box writes is at once in the directory) or `"ro"`.
    pub mode: Mode,
}

/// Whether what lies in a mounted directory may be changed from inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// `"ro"`: nothing below can be changed.
    #[serde(rename = "ro")]
    ReadOnly,
    /// `"rw"`: changes go straight into the host's files.
    #[serde(rename = "rw")]
    ReadWrite,
}

/// One entry of `[[mounts]]`: a file or directory of the host, shown in every compartment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// `source`: the path on the host, absolute. A relative path starts at the file's directory, `~/` at
    /// the user's home.
    pub source: PathBuf,
    /// `target`: the absolute path in the box; the source's own path when not said.
    pub target: PathBuf,
    /// `mode`: `"ro"` (the default) or `"rw"`.
    pub mode: Mode,
}

/// `[limits]`: what the whole session may use at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// `pids`: processes and threads at once, 16 to 1048576; no limit of sandboxd's own when not said.
    pub pids: Option<u32>,
}

/// `[walls]`: which walls must stand, else the session is refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WallsPolicy {
    /// `landlock`: how much of Landlock the kernel must offer.
    pub landlock: LandlockDemand,
}

/// How much of Landlock the kernel must offer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandlockDemand {
    /// `"available"`: as much as the kernel has; `inspect` names what is on.
    #[default]
    Available,
    /// `"required"`: ABI 6 or newer; on an older kernel the session is refused.
    Required,
}
