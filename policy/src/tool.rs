//! Toolchains that live in a user's home, as data.
//!
//! Runs in: any (pure data).
//!
//! `tools = ["rust"]` shows the rows below, read-only and each at its own path, so that absolute paths
//! inside a toolchain stay right. A row names directories that hold programs and libraries, never a file
//! that may hold a credential: `.cargo/credentials.toml`, `.cargo/config.toml` and `.cargo/registry`,
//! `.npmrc`, `.config/pip`, `.netrc` stay hidden. Not in the rows, and why:
//!
//! - conda (`miniconda3`, `anaconda3`): its `.condarc` lies among the programs and may hold a token.
//! - `.asdf/installs/rust`: each version is its own `CARGO_HOME`, with its credentials in it.
//! - `.local/bin` as a whole: it holds whatever the user put there.
//! - `go/bin`: read-only at its own path it would make `go install` fail in the box.
//! - shims (`.pyenv/shims`, `.volta/bin`): they want their manager's state, some of it writable; the
//!   versions' own `bin` directories work alone.
//!
//! What a user wrote into a toolchain's own directory (`npm config set --global`) comes along with it.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A toolchain that `tools` and `--tools` may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    /// `"rust"`: rustup's toolchains and cargo's programs.
    Rust,
    /// `"node"`: Node.js as installed by nvm, fnm, volta, mise, asdf or nodenv.
    Node,
    /// `"python"`: Python as installed by pyenv, uv, mise or asdf, and uv itself.
    Python,
    /// `"go"`: Go as installed below `.local/go` or `sdk`, or by mise, asdf or goenv.
    Go,
}

impl Tool {
    /// Every toolchain, in the order in which messages name them.
    pub const ALL: [Self; 4] = [Self::Rust, Self::Node, Self::Python, Self::Go];

    /// Returns the name that a file and a flag use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Node => "node",
            Self::Python => "python",
            Self::Go => "go",
        }
    }

    /// Returns where this toolchain lives in a home.
    #[must_use]
    pub fn row(self) -> &'static ToolRow {
        match self {
            Self::Rust => &RUST,
            Self::Node => &NODE,
            Self::Python => &PYTHON,
            Self::Go => &GO,
        }
    }
}

/// Says that a text names no toolchain.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
#[error("expected one of rust, node, python, go, found {found:?}")]
pub struct ToolError {
    /// What stood there, cut to 80 characters.
    pub found: String,
}

impl FromStr for Tool {
    type Err = ToolError;

    fn from_str(text: &str) -> Result<Self, ToolError> {
        Self::ALL
            .into_iter()
            .find(|tool| tool.as_str() == text)
            .ok_or_else(|| ToolError { found: text.chars().take(80).collect() })
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where one toolchain lives in a user's home. Every path starts at that home.
#[derive(Debug, PartialEq, Eq)]
pub struct ToolRow {
    /// The toolchain.
    pub tool: Tool,
    /// Directories and files to show read-only at their own paths; those that do not exist are left out.
    pub mounts: &'static [&'static str],
    /// Directories to put on `PATH`, before the system's; those that do not exist are left out.
    pub path_entries: &'static [PathEntry],
    /// Variables to set to a path in the home, where that path exists.
    pub env: &'static [(&'static str, &'static str)],
}

/// One directory for `PATH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathEntry {
    /// This directory.
    Directory(&'static str),
    /// `dir/*/bin`, with the one `*` standing for whichever name `newest_version` chooses among those in
    /// `dir`.
    NewestOf(&'static str),
}

use PathEntry::{Directory, NewestOf};

/// `CARGO_HOME` is left at its default below the private home: cargo must be able to write there.
const RUST: ToolRow = ToolRow {
    tool: Tool::Rust,
    mounts: &[".rustup", ".cargo/bin"],
    path_entries: &[Directory(".cargo/bin")],
    env: &[("RUSTUP_HOME", ".rustup")],
};

const NODE: ToolRow = ToolRow {
    tool: Tool::Node,
    mounts: &[
        ".nvm/versions",
        ".local/share/fnm/node-versions",
        ".local/share/fnm/aliases",
        ".volta/tools/image",
        ".local/share/mise/installs/node",
        ".asdf/installs/nodejs",
        ".nodenv/versions",
    ],
    path_entries: &[
        NewestOf(".nvm/versions/node/*/bin"),
        Directory(".local/share/fnm/aliases/default/bin"),
        NewestOf(".local/share/fnm/node-versions/*/installation/bin"),
        NewestOf(".volta/tools/image/node/*/bin"),
        NewestOf(".volta/tools/image/yarn/*/bin"),
        NewestOf(".volta/tools/image/pnpm/*/bin"),
        NewestOf(".local/share/mise/installs/node/*/bin"),
        NewestOf(".asdf/installs/nodejs/*/bin"),
        NewestOf(".nodenv/versions/*/bin"),
    ],
    env: &[],
};

const PYTHON: ToolRow = ToolRow {
    tool: Tool::Python,
    mounts: &[
        ".pyenv/versions",
        ".local/share/uv/python",
        ".local/bin/uv",
        ".local/bin/uvx",
        ".local/share/mise/installs/python",
        ".asdf/installs/python",
    ],
    path_entries: &[
        NewestOf(".pyenv/versions/*/bin"),
        NewestOf(".local/share/uv/python/*/bin"),
        Directory(".local/bin"),
        NewestOf(".local/share/mise/installs/python/*/bin"),
        NewestOf(".asdf/installs/python/*/bin"),
    ],
    env: &[],
};

/// `GOROOT` is not set: each `go` finds its own tree beside itself.
const GO: ToolRow = ToolRow {
    tool: Tool::Go,
    mounts: &[
        ".local/go",
        "sdk",
        ".local/share/mise/installs/go",
        ".asdf/installs/golang",
        ".goenv/versions",
    ],
    path_entries: &[
        Directory(".local/go/bin"),
        NewestOf("sdk/*/bin"),
        NewestOf(".local/share/mise/installs/go/*/bin"),
        NewestOf(".asdf/installs/golang/*/go/bin"),
        NewestOf(".goenv/versions/*/bin"),
    ],
    env: &[],
};

/// Returns the name with the highest version number in it, a release before any pre-release.
///
/// A name without a number in it (`system`, `latest`, a named environment) is no version.
pub fn newest_version<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names
        .into_iter()
        .filter_map(|name| Version::read(name).map(|version| (version, name)))
        .max_by(|(one, _), (other, _)| one.compare(other))
        .map(|(_, name)| name)
}

/// The version in a directory's name: `v22.1.0`, `go1.25.1`, `cpython-3.13.1-linux-x86_64-gnu`.
struct Version {
    numbers: Vec<u64>,
    is_release: bool,
}

impl Version {
    fn read(name: &str) -> Option<Self> {
        let start = name.find(|c: char| c.is_ascii_digit())?;
        let rest = name.get(start..)?;
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at_checked(end)?;
        let numbers: Vec<u64> = number.split('.').map_while(|part| part.parse().ok()).collect();
        let is_release = suffix.is_empty() || suffix.starts_with("-linux");
        Some(Self { numbers, is_release })
    }

    fn compare(&self, other: &Self) -> Ordering {
        (self.is_release, &self.numbers).cmp(&(other.is_release, &other.numbers))
    }
}

#[cfg(test)]
#[path = "tool_tests.rs"]
mod tests;
