//! The command line: what a person or an orchestrator types.
//!
//! Runs in: client (the user's own privileges and no more).

mod author;
mod client;
mod doctor;
mod egress;
mod exec;
mod flags;
mod mcp;
mod run;
mod search;
mod session;
mod start;
mod stdio;
mod table;
mod terminal;
mod trust;

use clap::{Parser, Subcommand};

use crate::fault::Fault;

/// One rootless box per agent session on a bare Linux host.
#[derive(Debug, Parser)]
#[command(name = "sandboxd", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Serve(start::Serve),
    Up(session::Up),
    Ls(session::Ls),
    Inspect(session::Inspect),
    Exec(exec::Exec),
    Logs(session::Logs),
    Rm(session::Rm),
    Doctor(doctor::Doctor),
    /// The door out of a session: what was reached, what was refused and why.
    #[command(subcommand)]
    Egress(egress::Egress),
    /// The MCP servers of a session.
    #[command(subcommand)]
    Mcp(mcp::Mcp),
}

/// Parses the arguments and does what they say. Returns the exit status.
pub(crate) fn run() -> i32 {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return explain_usage(&error),
    };
    let done = match arguments.command {
        Command::Run(command) => command.run(),
        Command::Serve(command) => command.run(),
        Command::Up(command) => command.run(),
        Command::Ls(command) => command.run(),
        Command::Inspect(command) => command.run(),
        Command::Exec(command) => command.run(),
        Command::Logs(command) => command.run(),
        Command::Rm(command) => command.run(),
        Command::Doctor(command) => command.run(),
        Command::Egress(command) => command.run(),
        Command::Mcp(command) => command.run(),
    };
    match done {
        Ok(status) => status,
        Err(fault) => {
            tell(&fault);
            fault.status
        }
    }
}

/// Usage goes where clap sends it: help to stdout, errors to stderr.
fn explain_usage(error: &clap::Error) -> i32 {
    // Ignored: there is no other place to say it.
    let _ = error.print();
    let runs = std::env::args_os().nth(1).is_some_and(|word| word == "run" || word == "exec");
    match error.exit_code() {
        0 => 0,
        // What runs a command keeps the statuses below 125 for that command.
        _ if runs => crate::fault::REFUSED,
        other => other,
    }
}

/// Tells of a fault, on stderr.
fn tell(fault: &Fault) {
    say(&fault.to_string());
}

/// Says a line or more on stderr.
fn say(text: &str) {
    use std::io::Write as _;
    // Ignored: there is no other place to say it.
    let _ = writeln!(std::io::stderr(), "sandboxd: {text}");
}
