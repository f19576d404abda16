//! The doors: calls in, to the MCP servers of a box, byte for byte.
//!
//! The relay spawns nothing and mounts nothing: whoever holds the walls gives it a [`host::Spawner`] and
//! carries connections to [`host::Server::serve`].
//!
//! Runs in: any, host and client (each module says which).
#![forbid(unsafe_code)]

pub mod egress;
pub mod host;
mod jsonrpc;
mod lines;
pub mod log;
mod server;
pub mod stub;

pub use jsonrpc::code;
