//! Starts a command the way a hostile or careless caller would: on a terminal, or with open descriptors.
//!
//! Used on the host, where the harness itself says no `unsafe`.
//!
//! Runs in: probe (on the host, before it becomes the command).

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixDatagram, UnixStream};

use serde_json::{Value, json};

use crate::kernel::call;

/// Becomes a command whose controlling terminal is the one at `path`.
pub(crate) fn on_terminal(path: &str, command: &[OsString]) -> Value {
    let begun = nix::unistd::setsid().map(|_| ()).map_err(std::io::Error::from);
    let terminal = begun.and_then(|()| File::options().read(true).write(true).open(path));
    let terminal = match terminal {
        Ok(terminal) => terminal,
        Err(error) => return json!({ "wrong": error.to_string() }),
    };
    let number = terminal.as_raw_fd().unsigned_abs() as usize;
    const TIOCSCTTY: usize = 0x540E;
    let control = call(libc::SYS_ioctl, &[number, TIOCSCTTY, 0]);
    let placed = (0..3).try_for_each(|stream| call(libc::SYS_dup3, &[number, stream, 0]).map(drop));
    match control.map(drop).and(placed) {
        Ok(()) => become_command(command),
        Err(errno) => json!({ "wrong": errno.desc() }),
    }
}

/// Becomes a command that has a hostile descriptor at a number, open across its exec.
pub(crate) fn with(kind: &str, number: &str, command: &[OsString]) -> Value {
    let (Ok(number), Ok(descriptor)) = (number.parse::<usize>(), hostile(kind)) else {
        return json!({ "wrong": "cannot make the descriptor" });
    };
    let from = descriptor.into_raw_fd().unsigned_abs() as usize;
    // A copy at its own number is refused; there, being open across exec is all that is wanted.
    let placed = match from == number {
        true => call(libc::SYS_fcntl, &[number, libc::F_SETFD as usize, 0]),
        false => call(libc::SYS_dup3, &[from, number, 0]),
    };
    match placed {
        Ok(_) => become_command(command),
        Err(errno) => json!({ "wrong": errno.desc() }),
    }
}

fn hostile(kind: &str) -> std::io::Result<OwnedFd> {
    match kind {
        "directory" => File::open("/").map(OwnedFd::from),
        "listener" => TcpListener::bind("127.0.0.1:0").map(OwnedFd::from),
        // A TCP socket that is connected to nothing: it would connect from the host's network.
        "tcp" => {
            let socket = call(libc::SYS_socket, &[2, 1, 0])?;
            // SAFETY: the call has just made it, and nobody else knows its number.
            Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(socket).unwrap_or(-1)) })
        }
        "datagram" => {
            let (one, other) = UnixDatagram::pair()?;
            // The other end stays open in the command too: it must not come further either.
            let _number = other.into_raw_fd();
            Ok(one.into())
        }
        // A socket that has something to say: what goes in must go in.
        "stream" => {
            let (one, mut other) = UnixStream::pair()?;
            other.write_all(b"said over a socket\n")?;
            Ok(one.into())
        }
        file => File::options().read(true).open(file).map(OwnedFd::from),
    }
}

fn become_command(command: &[OsString]) -> Value {
    let words: Vec<CString> =
        command.iter().filter_map(|word| CString::new(word.as_bytes()).ok()).collect();
    let Some(program) = words.first() else { return json!({ "wrong": "no command" }) };
    let Err(errno) = nix::unistd::execvp(program, &words);
    json!({ "wrong": format!("cannot execute {}: {}", program.to_string_lossy(), errno.desc()) })
}
