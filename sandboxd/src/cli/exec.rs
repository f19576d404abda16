//! `sandboxd exec`: a command in the agent's compartment of a session in the daemon.
//!
//! Runs in: client (one thread, and those that copy).

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use clap::Args;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use sandbox_sys::terminal as pty;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::client::{Client, block_on};
use super::session::path;
use super::start::DaemonFlags;
use super::stdio::Plumbing;
use super::terminal::Raw;
use crate::api::frame::{self, Exit, FrameKind};
use crate::api::{EXEC, ExecRequest, TerminalRequest};
use crate::fault::{Fault, Kind};
use crate::host::Streams;

/// Run a command in a session, beside those that run there already.
#[derive(Debug, Args)]
pub(super) struct Exec {
    #[command(flatten)]
    daemon: DaemonFlags,
    /// Give the command a terminal of the box's own; without it, when both input and output are one.
    #[arg(short, long)]
    tty: bool,
    /// End the command and all it has started after D (such as 30s or 5m); status 124.
    #[arg(long, value_name = "D", value_parser = duration)]
    timeout: Option<Duration>,
    /// Return at once; the output goes to `sandboxd logs`.
    #[arg(long, conflicts_with_all = ["tty", "timeout"])]
    detach: bool,
    /// The session's name or id.
    session: String,
    /// The command and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// The status of a command that its deadline ended (timeout(1)).
const TIMED_OUT: i32 = 124;

/// Reads a duration: a number and ms, s, m or h.
fn duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a number and ms, s, m or h, found {text:?}");
    let split = text.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(expected)?;
    let number: u64 = text[..split].parse().map_err(|_| expected())?;
    let unit = match &text[split..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(expected()),
    };
    number
        .checked_mul(unit)
        .filter(|total| *total > 0)
        .map(Duration::from_millis)
        .ok_or_else(expected)
}

impl Exec {
    pub(super) fn run(self) -> Result<i32, Fault> {
        let place = self.daemon.place()?;
        let wants_terminal = self.tty
            || !self.detach && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let request = ExecRequest {
            argv: self.command.iter().map(text).collect::<Result<_, _>>()?,
            terminal: wants_terminal.then(terminal),
            timeout_ms: self
                .timeout
                .map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            detach: self.detach,
        };
        let exit = block_on(async {
            let client = Client::connect(&place).await?;
            let stream = client.upgrade(&path(&self.session, "/exec"), &request, EXEC).await?;
            converse(stream, wants_terminal, self.detach).await
        })?;
        match exit {
            Exit::Status(status) => Ok(status),
            Exit::Signal(signal) => Ok(128 + signal),
            Exit::TimedOut => {
                super::say("host: the command ran longer than --timeout and was ended");
                Ok(TIMED_OUT)
            }
            Exit::Detached(pid) => {
                super::session::print(&format!("{pid}\n"))?;
                Ok(0)
            }
            Exit::Fault(fault) => Err(super::search::hint_for(fault, &self.command)),
        }
    }
}

fn text(word: &OsString) -> Result<String, Fault> {
    word.to_str().map(str::to_owned).ok_or_else(|| {
        Fault::new(
            Kind::User,
            format!("client: cannot pass the argument {word:?} on: it is not UTF-8"),
        )
    })
}

fn terminal() -> TerminalRequest {
    let size = pty::size_or_default(std::io::stdout().as_fd());
    TerminalRequest { size, kind: std::env::var("TERM").unwrap_or_else(|_| "xterm".to_owned()) }
}

fn lost(error: &std::io::Error) -> Fault {
    let mut fault = Fault::chain(Kind::Host, error);
    fault.message = format!("client: lost the session: {}", fault.message);
    fault
}

/// Frames for the host, in the order in which they were made.
type Outgoing = mpsc::Sender<(FrameKind, Vec<u8>)>;

/// Talks until the command has ended.
async fn converse(mut stream: UnixStream, terminal: bool, detach: bool) -> Result<Exit, Fault> {
    let cannot = |failure| Fault::new(Kind::Host, format!("client: {failure}"));
    let plumbing = (!terminal && !detach).then(|| Plumbing::make(false)).transpose();
    let (streams, kept) = plumbing.map_err(cannot)?.map(Plumbing::split).unzip();
    start(&stream, streams).await.map_err(|error| lost(&error))?;
    if detach {
        return read_exit(&mut stream).await;
    }
    let copying = kept.map(|kept| Plumbing::copy(kept, None)).transpose().map_err(cannot)?;
    let raw = (terminal && std::io::stdin().is_terminal()).then(Raw::begin).transpose();
    let raw = raw.map_err(cannot)?;
    let (mut from, to) = stream.into_split();
    let (outgoing, queue) = mpsc::channel(8);
    tokio::spawn(write_frames(to, queue));
    if terminal {
        feed(outgoing.clone());
    }
    let mut listening = tokio::spawn(async move {
        match listen(outgoing).await {
            Some(signal) => signal,
            // The connection is lost, which the reader tells.
            None => std::future::pending().await,
        }
    });
    let mut buffer = Vec::new();
    let exit = loop {
        let kind = tokio::select! {
            kind = frame::read(&mut from, &mut buffer) => kind.map_err(|error| lost(&error))?,
            // Who asks twice does not have to wait; the host hangs the command up.
            Ok(signal) = &mut listening => return Ok(Exit::Signal(signal)),
        };
        match kind {
            Some(FrameKind::Output) => show(&mut std::io::stdout().lock(), &buffer),
            Some(FrameKind::Error) => show(&mut std::io::stderr().lock(), &buffer),
            Some(FrameKind::Exit) => break exit(&buffer)?,
            Some(_) | None => return Err(lost(&std::io::ErrorKind::UnexpectedEof.into())),
        }
    };
    listening.abort();
    if let Some(copying) = copying {
        copying.finish();
    }
    drop(raw);
    Ok(exit)
}

/// Sends the first frame, and the pipes that were made for this command: the daemon copies no byte then.
async fn start(stream: &UnixStream, streams: Option<Streams>) -> std::io::Result<()> {
    let passed = match &streams {
        Some(Streams::Pipes(pipes)) => pipes.iter().map(AsFd::as_fd).collect(),
        Some(Streams::Terminal { .. }) | None => Vec::new(),
    };
    let mask = if passed.is_empty() { 0 } else { 0b111 };
    let bytes = [FrameKind::Start as u8, 0, 0, 0, 1, mask];
    let send = || Ok(sandbox_sys::channel::send(stream.as_fd(), &bytes, &passed)?);
    stream.async_io(tokio::io::Interest::WRITABLE, send).await
}

async fn read_exit(stream: &mut UnixStream) -> Result<Exit, Fault> {
    let mut buffer = Vec::new();
    match frame::read(stream, &mut buffer).await.map_err(|error| lost(&error))? {
        Some(FrameKind::Exit) => exit(&buffer),
        Some(_) | None => Err(lost(&std::io::ErrorKind::UnexpectedEof.into())),
    }
}

fn exit(bytes: &[u8]) -> Result<Exit, Fault> {
    serde_json::from_slice(bytes).map_err(|error| Fault::chain(Kind::Internal, &error))
}

fn show(to: &mut impl Write, bytes: &[u8]) {
    // Ignored: who closed our output wants no more of it; the command learns nothing, as behind a terminal.
    let _ = to.write_all(bytes).and_then(|()| to.flush());
}

async fn write_frames(mut to: OwnedWriteHalf, mut queue: mpsc::Receiver<(FrameKind, Vec<u8>)>) {
    while let Some((kind, bytes)) = queue.recv().await {
        if frame::write(&mut to, kind, &bytes).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
    // The host takes the end of this side for a caller that has gone: hold it until the process ends.
    std::future::pending::<()>().await;
}

/// Reads our input in a thread that nobody waits for: it may never end.
fn feed(to: Outgoing) {
    std::thread::spawn(move || {
        use std::io::Read;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match std::io::stdin().lock().read(&mut buffer) {
                Ok(count @ 1..) => {
                    if to.blocking_send((FrameKind::Input, buffer[..count].to_vec())).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => {
                    // Ignored: the command has ended.
                    let _ = to.blocking_send((FrameKind::InputEnd, Vec::new()));
                    return;
                }
            }
        }
    });
}

/// Passes signals and changes of the terminal's size on. Returns the second signal that asks for the end.
async fn listen(to: Outgoing) -> Option<i32> {
    let mut interrupt = signal(SignalKind::interrupt()).ok()?;
    let mut terminate = signal(SignalKind::terminate()).ok()?;
    let mut hangup = signal(SignalKind::hangup()).ok()?;
    let mut quit = signal(SignalKind::quit()).ok()?;
    let mut resized = signal(SignalKind::window_change()).ok()?;
    let mut asked = 0;
    loop {
        let kind = tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
            _ = hangup.recv() => SignalKind::hangup(),
            _ = quit.recv() => SignalKind::quit(),
            _ = resized.recv() => {
                if let Ok(size) = pty::size(std::io::stdout().as_fd()) {
                    to.send((FrameKind::Resize, frame::encode_size(size).to_vec())).await.ok()?;
                }
                continue;
            }
        };
        asked += 1;
        if asked > 1 {
            return Some(kind.as_raw_value());
        }
        let number = u8::try_from(kind.as_raw_value()).ok()?;
        to.send((FrameKind::Signal, vec![number])).await.ok()?;
    }
}

/// Makes a descriptor non-blocking for tokio.
pub(super) fn nonblocking(descriptor: &OwnedFd) -> std::io::Result<()> {
    let flags = OFlag::from_bits_truncate(fcntl(descriptor, FcntlArg::F_GETFL)?);
    fcntl(descriptor, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}
