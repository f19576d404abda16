//! The exec connection, spoken by hand: what a client that is no sandboxd may pass in, and what it may say.
//!
//! Runs in: the test's own process.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use sandboxd_tests::{DEADLINE, Daemon, Recipe, TestHost, eventually, needs, within};
use serde_json::{Value, json};

const OUTPUT: u8 = 3;
const ERROR: u8 = 4;
const EXIT: u8 = 7;

/// Asks for a command and returns the connection once it has become one of frames.
fn begin(daemon: &Daemon<'_>, request: &Value) -> UnixStream {
    let mut stream = daemon.connect();
    let body = request.to_string();
    let head = "POST /v1/sessions/shop/exec HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\n\
                upgrade: sandboxd-exec\r\n";
    let text = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).expect("it listens");
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("it answers");
        answer.push(byte[0]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    stream
}

/// Sends the first frame, with descriptors.
fn start(stream: &UnixStream, mask: u8, passed: &[OwnedFd]) {
    let numbers: Vec<i32> = passed.iter().map(AsRawFd::as_raw_fd).collect();
    let control = [ControlMessage::ScmRights(&numbers)];
    let control = if numbers.is_empty() { &control[..0] } else { &control[..] };
    let bytes = [0, 0, 0, 0, 1, mask];
    let sent = sendmsg::<()>(
        stream.as_raw_fd(),
        &[IoSlice::new(&bytes)],
        control,
        MsgFlags::empty(),
        None,
    );
    assert_eq!(sent, Ok(6));
}

fn send(stream: &mut UnixStream, kind: u8, bytes: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(bytes.len()).expect("it is short").to_be_bytes();
    stream.write_all(&[&[kind], &length[..], bytes].concat())
}

/// Reads frames to the end of the connection: what was said, and how it ended.
fn rest(stream: &mut UnixStream) -> (String, Option<Value>) {
    let (mut said, mut exit) = (Vec::new(), None);
    let mut head = [0; 5];
    while stream.read_exact(&mut head).is_ok() {
        let [kind, length @ ..] = head;
        let mut bytes = vec![0; usize::try_from(u32::from_be_bytes(length)).expect("it is short")];
        if stream.read_exact(&mut bytes).is_err() {
            break;
        }
        match kind {
            OUTPUT | ERROR => said.extend(bytes),
            EXIT => exit = serde_json::from_slice(&bytes).ok(),
            other => assert_eq!(other, EXIT, "no frame of the host's"),
        }
    }
    (String::from_utf8_lossy(&said).into_owned(), exit)
}

fn session(host: &TestHost) -> Daemon<'_> {
    let daemon = Daemon::of(host);
    let _view = daemon.up("shop", &Recipe::bare().with_probe(host).text());
    daemon
}

#[test]
fn frames_carry_input_output_errors_signals_and_the_end() {
    let host = needs!(TestHost::start());
    let daemon = session(&host);
    let command = json!({ "argv": ["sh", "-c", "cat; echo wrong >&2; exit 7"] });
    let mut stream = begin(&daemon, &command);
    start(&stream, 0, &[]);
    send(&mut stream, 1, b"some ").unwrap();
    send(&mut stream, 1, b"input\n").unwrap();
    send(&mut stream, 2, b"").unwrap();
    let (said, exit) = rest(&mut stream);
    assert!(said.contains("some input\n") && said.contains("wrong\n"), "{said}");
    assert_eq!(exit, Some(json!({ "status": 7 })));
    let mut stream = begin(&daemon, &json!({ "argv": ["sleep", "7020"] }));
    start(&stream, 0, &[]);
    send(&mut stream, 6, &[15]).unwrap();
    assert_eq!(rest(&mut stream).1, Some(json!({ "signal": 15 })));
    let mut stream = begin(&daemon, &json!({ "argv": ["sleep", "7021"], "timeout_ms": 10 }));
    start(&stream, 0, &[]);
    assert_eq!(rest(&mut stream).1, Some(json!("timed_out")));
    let mut stream = begin(&daemon, &json!({ "argv": ["no-such-program"] }));
    start(&stream, 0, &[]);
    let fault = rest(&mut stream).1.unwrap_or_default();
    assert_eq!((&fault["fault"]["status"], &fault["fault"]["kind"]), (&json!(127), &json!("user")));
}

#[test]
fn a_pipe_may_be_passed_in_and_nothing_else() {
    let host = needs!(TestHost::start());
    let daemon = session(&host);
    let command = json!({ "argv": ["/mnt/probe", "fds"] });
    let file = host.project("files");
    file.write("file", "x");
    let kinds: [(&str, OwnedFd); 7] = [
        ("directory", File::open("/").unwrap().into()),
        ("file", File::open(file.at("file")).unwrap().into()),
        ("tcp", TcpListener::bind("127.0.0.1:0").unwrap().into()),
        ("stream", UnixStream::pair().unwrap().0.into()),
        ("datagram", UnixDatagram::pair().unwrap().0.into()),
        ("device", File::open("/dev/zero").unwrap().into()),
        ("terminal", nix::pty::openpty(None, None).unwrap().slave),
    ];
    for (kind, passed) in kinds {
        let mut stream = begin(&daemon, &command);
        start(&stream, 1, &[passed]);
        assert_eq!(rest(&mut stream), (String::new(), None), "{kind}");
    }
    // One that was promised and does not come.
    let mut stream = begin(&daemon, &command);
    start(&stream, 0b111, &[]);
    assert_eq!(rest(&mut stream), (String::new(), None));
    // The twins.
    let (read, mut write) = std::io::pipe().unwrap();
    write.write_all(b"through a pipe\n").unwrap();
    drop(write);
    let mut stream = begin(&daemon, &json!({ "argv": ["cat"] }));
    start(&stream, 1, &[read.into()]);
    assert_eq!(rest(&mut stream), ("through a pipe\n".to_owned(), Some(json!({ "status": 0 }))));
    let mut stream = begin(&daemon, &json!({ "argv": ["cat"] }));
    start(&stream, 1, &[File::open("/dev/null").unwrap().into()]);
    assert_eq!(rest(&mut stream), (String::new(), Some(json!({ "status": 0 }))));
}

#[test]
fn descriptors_that_nobody_asked_for_are_closed() {
    let host = needs!(TestHost::start());
    let daemon = session(&host);
    let pid = daemon.process().pid;
    let count = || std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    let before = count();
    for round in 0..40_u8 {
        let many = || (0..20).map(|_| File::open("/").unwrap().into()).collect::<Vec<OwnedFd>>();
        let mut stream = begin(&daemon, &json!({ "argv": ["/mnt/probe", "fds"] }));
        start(&stream, 0, &many());
        if round % 2 == 0 {
            // Ignored: who passes such may be refused at once.
            let _ = send(&mut stream, 2, b"");
            let (said, exit) = rest(&mut stream);
            // They did not come in either.
            let fds: Value = serde_json::from_str(&said).unwrap_or_default();
            let is_small = fds.as_object().is_some_and(|fds| fds.len() == 3);
            assert!(is_small || exit.is_none(), "{said}");
        }
    }
    assert!(within(DEADLINE, || count() <= before), "{} of {before}", count());
    assert_eq!(daemon.exec("shop").shell("echo works").expect(0).text(), "works\n");
}

#[test]
fn a_frame_that_is_none_ends_the_connection_and_hangs_the_command_up() {
    let host = needs!(TestHost::start());
    let daemon = session(&host);
    let frames: [&[u8]; 6] = [
        &[99, 0, 0, 0, 0],
        &[1, 0xff, 0xff, 0xff, 0xff],
        &[1, 0, 4, 0, 1],
        &[0, 0, 0, 0, 1, 0],
        &[3, 0, 0, 0, 0],
        &[7, 0, 0, 0, 0],
    ];
    for frame in frames {
        let mut stream = begin(&daemon, &json!({ "argv": ["sleep", "7022"] }));
        start(&stream, 0, &[]);
        stream.write_all(frame).unwrap();
        assert_eq!(rest(&mut stream), (String::new(), None), "{frame:?}");
    }
    // First frames that are none: nothing is started at all.
    for first in
        [&[1_u8, 0, 0, 0, 0][..], &[0, 0, 0, 0, 2, 0, 0], b"x", &[0, 0xff, 0xff, 0xff, 0xff, 0]]
    {
        let mut stream = begin(&daemon, &json!({ "argv": ["sleep", "7022"] }));
        stream.write_all(first).unwrap();
        assert_eq!(rest(&mut stream), (String::new(), None), "{first:?}");
    }
    eventually("nothing of it runs on", || daemon.named("sleep").is_empty());
    assert_eq!(daemon.exec("shop").shell("echo works").expect(0).text(), "works\n");
}
