//! A daemon of our own, in a directory of its own, with one session; and a connection to it.
//!
//! Runs in: bench.

use std::fs::DirBuilder;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::process::{Child, Command};
use crate::{Options, Outcome};

/// The name of the session.
pub const SESSION: &str = "bench";

/// A daemon; it ends when this is dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Option<Child>,
    /// Its directory.
    pub directory: String,
}

impl Daemon {
    /// Starts one and waits until it listens, then brings a session up with these flags.
    pub fn start(options: &Options, name: &str, program: &str, flags: &[&str]) -> Outcome<Self> {
        let directory = options.stage.parent().ok_or("expected a stage below a directory")?;
        let directory = directory.join(format!("daemon-{name}")).display().to_string();
        DirBuilder::new().mode(0o700).create(&directory)?;
        let null = options.null.as_fd();
        let words = [program, "serve", "--log-level", "error", "--dir", &directory];
        let child = Command::new(&words).start([null; 3])?;
        let daemon = Self { child: Some(child), directory };
        let deadline = Instant::now() + Duration::from_secs(10);
        while daemon.connect().is_err() {
            if Instant::now() > deadline {
                return Err("the daemon did not start".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        std::env::set_current_dir(&options.stage)?;
        let mut words = vec![program, "up", "--dir", &daemon.directory, "--name", SESSION];
        words.extend(flags);
        Command::new(&words).run(null)?;
        Ok(daemon)
    }

    /// Connects, and has the daemon answer a first request, so that the connection is open on both sides.
    pub fn connect(&self) -> io::Result<UnixStream> {
        let mut stream = UnixStream::connect(format!("{}/sandboxd.sock", self.directory))?;
        stream.write_all(b"GET /v1/version HTTP/1.1\r\nHost: sandboxd\r\n\r\n")?;
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer)?;
        if buffer[..count].starts_with(b"HTTP/1.1 200") {
            Ok(stream)
        } else {
            Err(io::Error::other("the daemon did not answer"))
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            // Ignored: it ends its session first, and nothing can be done about one that does not.
            let _ = child.end();
        }
    }
}

/// Runs a command in the session over an open connection and waits for its exit frame.
pub fn exec(stream: &mut UnixStream, argv: &str, null: &impl AsFd) -> Outcome<Duration> {
    let body = format!("{{\"argv\":[\"{argv}\"]}}");
    let request = format!(
        "POST /v1/sessions/{SESSION}/exec HTTP/1.1\r\nHost: sandboxd\r\nContent-Type: application/json\r\n\
         Connection: upgrade\r\nUpgrade: sandboxd-exec\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut buffer = [0; 4096];
    let start = Instant::now();
    stream.write_all(request.as_bytes())?;
    let mut filled = 0;
    while !buffer[..filled].ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer[filled..])? {
            0 => return Err("the daemon closed the connection".into()),
            count => filled += count,
        }
    }
    if !buffer.starts_with(b"HTTP/1.1 101") {
        return Err(String::from_utf8_lossy(&buffer[..filled]).into());
    }
    send_start(stream, null)?;
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    stream.read_exact(&mut buffer[..length])?;
    let taken = start.elapsed();
    match (head[0], &buffer[..length]) {
        (7, b"{\"status\":0}") => Ok(taken),
        (_, other) => Err(String::from_utf8_lossy(other).into()),
    }
}

/// The first frame, with three descriptors of /dev/null.
fn send_start(stream: &UnixStream, null: &impl AsFd) -> io::Result<()> {
    let bytes = [0_u8, 0, 0, 0, 1, 7];
    let descriptors = [null.as_fd().as_raw_fd(); 3];
    let length = u32::try_from(size_of_val(&descriptors)).unwrap_or(12);
    let mut control = [0_u64; 8];
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: msghdr is integers and pointers, for which all zeroes is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: CMSG_SPACE only computes.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(length) } as usize;
    // SAFETY: the control buffer is large enough for one header with three integers, and aligned for it; all
    // pointers are to values of this frame.
    let sent = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(length) as usize;
        std::ptr::copy_nonoverlapping(descriptors.as_ptr(), libc::CMSG_DATA(header).cast(), 3);
        libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    if sent == 6 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
