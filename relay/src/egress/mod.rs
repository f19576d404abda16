//! The door out: the one way from a box to the outside, by name.
//!
//! ```text
//!            inside the gateway                            here                          outside
//!  question ──▶ UDP, TCP port 53 ──▶ dns ──▶ answer ──▶ names: name <-> synthetic address
//!  connect ───▶ a listener a port ─▶ flow ─▶ verdict ─▶ dial: resolve, check, connect ──▶ server
//!                                      └───────────────▶ pump: bytes, both ways ◀───────▶
//!  refused ───▶ packet socket ─────▶ packets                     audit: a record of everything
//! ```
//!
//! The sockets were made inside the gateway's network namespace, which has no link to the outside and no
//! process: they keep it alive, and when the last of them is closed there is no way out of the box at all.
//! `policy` decides; `dial` is the one file that connects to the outside.
//!
//! Runs in: host (tokio; the user's uid, no capability; treats every byte of a box as hostile).

mod answer;
mod audit;
mod dial;
mod dns;
mod door;
mod explain;
mod flow;
mod handle;
mod names;
mod packets;
mod pump;
mod rate;
mod record;
mod upstream;
mod verdict;
mod wire;

#[cfg(test)]
mod harness;

pub use door::Network;
pub use explain::Explanation;
pub use handle::{Egress, EgressError, EgressSettings, Gateway};
pub use record::{Outcome, Proto, Reason, Refusal};
pub use upstream::{Upstream, UpstreamError};
