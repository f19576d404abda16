//! The tests' eyes and hands inside a box: tries what an attacker would try, and says in JSON what came of it.
//!
//! ```text
//! probe calls                 every refused system call and its allowed twin, each with its outcome
//! probe sockets               the same for families, types and protocols of sockets
//! probe processes             which processes are listed, and what can be read of each
//! probe reach PID             every way into one process
//! probe scan HALF HALF        looks for the two halves, put together, in all that can be reached
//! probe identity              user, groups, capabilities, walls, namespaces, limits, signals
//! probe environment           the variables, as the kernel keeps them
//! probe fds                   the open descriptors
//! probe through FD            every way out by one descriptor
//! probe try OP ARG... [, ..]  single operations on files and sockets
//! probe orphans N             makes N grandchildren without parents, and counts what is left of them
//! probe bomb                  forks for as long as it is let
//! probe terminal PATH CMD...  on the host: runs a command on a terminal of its own
//! probe with KIND N CMD...    on the host: runs a command with a hostile descriptor at N
//! ```
//! The attacks work only where there is a box around them: on a host they would be real.
//!
//! An outcome is `OK`, the name of an errno, or the name of the signal that ended the attempt.
//!
//! Runs in: probe (one thread; a payload's privileges).
#![expect(unsafe_code, reason = "an attacker makes system calls that no safe wrapper has")]

mod calls;
mod crowd;
mod descriptors;
mod files;
mod identity;
mod kernel;
mod processes;
mod scan;
mod sockets;
mod starter;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let texts: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let answer = match texts.as_slice() {
        ["calls" | "sockets" | "processes" | "bomb" | "orphans", ..] if !identity::is_boxed() => {
            json!({ "wrong": "not in a user namespace of its own" })
        }
        ["calls"] => calls::all(),
        ["sockets"] => sockets::all(),
        ["processes"] => processes::all(),
        ["reach", pid] => pid.parse().map_or(Value::Null, processes::reach),
        ["scan", first, second] => scan::scan(&format!("{first}{second}")),
        ["identity"] => identity::identity(),
        ["environment"] => identity::environment(),
        ["fds"] => descriptors::list(),
        ["through", number] => number.parse().map_or(Value::Null, descriptors::through),
        ["try", rest @ ..] => files::attempt_all(rest),
        ["orphans", count] => crowd::orphans(count.parse().unwrap_or(1)),
        ["bomb"] => crowd::bomb(),
        ["terminal", path, _, ..] => starter::on_terminal(path, words.get(2..).unwrap_or_default()),
        ["with", kind, number, _, ..] => {
            starter::with(kind, number, words.get(3..).unwrap_or_default())
        }
        _ => json!({ "wrong": "usage" }),
    };
    let status = u8::from(answer.get("wrong").is_some());
    let written = writeln!(std::io::stdout(), "{answer}");
    ExitCode::from(if written.is_ok() { status } else { 1 })
}
