//! The rules: names, sessions, servers, files, the door out, system calls, limits.
//!
//! Parsed, checked, decided and explained here, and nowhere else. Nothing in this crate opens a file or a
//! socket, and nothing in it is `unsafe`.
//!
//! Runs in: any (pure data; decides nothing about where it runs).
#![forbid(unsafe_code)]

mod check;
pub mod egress;
mod error;
mod files;
mod flag;
mod name;
mod nearest;
mod parse;
mod paths;
mod secret;
mod server;
mod session;
pub mod syscalls;
mod tool;
mod variables;

pub use egress::{Egress, EgressMode, HostName, Resolver, Rule};
pub use error::PolicyError;
pub use files::{PathKind, TRUSTED_GIT_PATHS, TRUSTED_PATHS, TrustedPath};
pub use flag::{
    EnvFlag, check_mounts, check_rules, parse_allow_flag, parse_env_flag, parse_mount_flag,
    parse_resolver_flag, parse_workspace_flag,
};
pub use name::{NameError, SecretName, ServerName, SessionName};
pub use parse::Context;
pub use paths::workspace_refusal;
pub use secret::SecretSource;
pub use server::{EnvValue, Server, ServerDirectory, ServerNetwork, Timeouts};
pub use session::{
    LandlockDemand, Limits, MAX_MOUNTS, MAX_SERVERS, Mode, Mount, SessionFile, WallsPolicy,
    Workspace, WorkspaceChoice,
};
pub use tool::{PathEntry, Tool, ToolError, ToolRow, newest_version};
