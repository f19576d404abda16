//! sandboxd: one rootless box per agent session on a bare Linux host.
//!
//! One program with roles; each folder beside this file is one of them, and its head says what it may do.
//!
//! Runs in: client, host, zygote (the table below); setup, supervisor, init and launch are the zygote's forks.

mod api;
mod cli;
mod fault;
mod host;
mod identity;
mod init;
mod launch;
mod setup;
mod supervisor;
mod wire;
mod zygote;

use std::process::ExitCode;

fn main() -> ExitCode {
    let role = std::env::args_os().next().unwrap_or_default();
    let status = if role == zygote::NAME { zygote::run() } else { cli::run() };
    ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX))
}
