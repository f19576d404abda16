//! What the relay promises, with children made of pipes and with real ones that misbehave.
//!
//! Runs in: tests (tokio; the children are python3 or played by the test).
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod asks;
mod bytes;
mod harness;
mod life;
mod limits;
mod naughty;
mod routes;
mod stub;
