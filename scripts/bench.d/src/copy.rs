//! Plain copying over the hops that the relay has: stdio, a unix socket, a daemon, a pipe, the server. Two
//! blocking threads a process, no byte looked at: what a relay could at best be, and what ours is measured by.
//!
//! Runs in: bench (its children, two threads each).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use crate::Outcome;
use crate::process::Command;

/// The client's end: standard input and output to the socket.
pub fn stub(socket: &str) -> Outcome<()> {
    let stream = UnixStream::connect(socket)?;
    let (mut from, mut to) = (stream.try_clone()?, stream);
    let mut input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    thread::spawn(move || {
        copy(&mut input, &mut to);
        // Ignored: the end of input is the end of the connection; one that is gone needs none.
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    copy(&mut from, &mut output);
    Ok(())
}

/// The daemon's end: one client, one server.
pub fn daemon(socket: &str, server: &str) -> Outcome<()> {
    let listener = UnixListener::bind(socket)?;
    let (mut from, _) = listener.accept()?;
    let mut to = from.try_clone()?;
    let (theirs_in, mut ours_out) = std::io::pipe()?;
    let (mut ours_in, theirs_out) = std::io::pipe()?;
    let stderr = std::io::stderr();
    let child =
        Command::new(&[server]).start([theirs_in.as_fd(), theirs_out.as_fd(), stderr.as_fd()])?;
    drop((theirs_in, theirs_out));
    thread::spawn(move || copy(&mut from, &mut ours_out));
    copy(&mut ours_in, &mut to);
    child.end()?;
    Ok(())
}

fn copy(from: &mut impl Read, to: &mut impl Write) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}
