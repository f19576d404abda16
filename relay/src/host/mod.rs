//! One MCP server of a session: many client connections on one child process.
//!
//! Runs in: host (tokio; treats every byte of a child and of a client as hostile).
//!
//! ```text
//!  connection ──lines──▶ ┌──────────┐ ──outlet──▶ child stdin
//!  connection ──lines──▶ │ Exchange │ ◀──lines─── child stdout
//!  connection ◀─outlet── │ (a lock) │             child stderr ──▶ tail, journal
//!                        └────┬─────┘
//!                          driver: spawns, ends, keeps the deadlines
//! ```
//!
//! Whoever read a line (a connection's task or the task on the child's stdout) takes the lock, has the
//! exchange decide, and writes the answer straight into the other side's pipe, without a hop to another
//! task. What a pipe does not take at once waits in its outlet (`outlet.rs`). The driver is the one task that
//! may start or end a child; the table in `server::life` tells it when.

mod connection;
mod driver;
mod exchange;
mod handle;
mod journal;
mod link;
mod outlet;
mod spawner;

pub use crate::log::{LogSink, LogStream};
pub use crate::server::life::State;
pub use connection::ServeError;
pub use handle::{Server, ServerSettings, Status};
pub use spawner::{Child, Ending, Process, SpawnError, Spawner};
