//! Serves one exec connection: a command in the agent's compartment, its streams, its end.
//!
//! ```text
//! client  Start (with the descriptors that need no copying)  Input... InputEnd  Resize  Signal
//! host                                                       Output... Error...          Exit
//! ```
//! A connection that is lost hangs the command up (SIGHUP), as a terminal would.
//!
//! Runs in: host (tokio).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use sandbox_sys::{Failing, Failure, terminal};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::live::Live;
use super::tree;
use crate::api::ExecRequest;
use crate::api::frame::{self, Exit, FrameKind};
use crate::fault::Fault;
use crate::host::line::register;
use crate::host::{Job, SessionError, Streams};
use crate::wire::Ending;

/// Runs the command and tells the client all of it. An error means that the client is gone.
pub(super) async fn serve(
    live: Arc<Live>,
    request: ExecRequest,
    mut stream: UnixStream,
) -> io::Result<()> {
    let passed = receive_start(&stream).await?;
    let begun = tokio::select! {
        begun = begin(&live, &request, passed) => begun,
        () = expire(request.timeout_ms) => return tell(&mut stream, &Exit::TimedOut).await,
        () = gone(&stream) => return Ok(()),
    };
    let exit = match begun {
        Ok(started) if request.detach => {
            let pid = started.job.pid;
            tokio::spawn(detached(Arc::clone(&live), started));
            Exit::Detached(pid)
        }
        Ok(started) => return attend(started, request.timeout_ms, stream).await,
        Err(error) => Exit::Fault(Fault::from(error)),
    };
    tell(&mut stream, &exit).await
}

/// Resolves when the client has closed its side; what it may have sent stays where it is.
async fn gone(stream: &UnixStream) {
    const PACE: Duration = Duration::from_millis(50);
    loop {
        match stream.ready(Interest::READABLE).await {
            Ok(ready) if !ready.is_read_closed() => tokio::time::sleep(PACE).await,
            Ok(_) | Err(_) => return,
        }
    }
}

async fn tell<W: tokio::io::AsyncWrite + Unpin>(to: &mut W, exit: &Exit) -> io::Result<()> {
    let text = serde_json::to_vec(exit).unwrap_or_default();
    frame::write(to, FrameKind::Exit, &text).await?;
    to.flush().await
}

/// A command that runs, and our ends of what it does not share with the client.
struct Started {
    job: Job,
    input: Option<pipe::Sender>,
    output: Option<pipe::Receiver>,
    error: Option<pipe::Receiver>,
}

async fn begin(
    live: &Live,
    request: &ExecRequest,
    passed: [Option<OwnedFd>; 3],
) -> Result<Started, SessionError> {
    let mut environment = live.prepared.agent();
    let [input, output, error] = passed;
    let (streams, ours) = match &request.terminal {
        Some(wanted) => {
            environment.entry("TERM".to_owned()).or_insert_with(|| wanted.kind.clone());
            (Streams::Terminal { size: wanted.size, error: None }, [None, None, None])
        }
        None => pipes([input, output, error], request.detach).map_err(SessionError::Host)?,
    };
    let argv = request.argv.iter().map(|word| word.clone().into_bytes()).collect();
    let spec = live.prepared.command(argv, &environment, &live.prepared.plan().directory);
    let job = live.agent.launch(&spec, streams).await?;
    let [input, output, error] = ours;
    let watch = |error: io::Error| {
        SessionError::Host(
            Err::<(), _>(error)
                .failing("watch a pipe")
                .err()
                .unwrap_or_else(|| unreachable!("an error stays one")),
        )
    };
    Ok(Started {
        job,
        input: input.map(pipe::Sender::from_owned_fd).transpose().map_err(watch)?,
        output: output.map(pipe::Receiver::from_owned_fd).transpose().map_err(watch)?,
        error: error.map(pipe::Receiver::from_owned_fd).transpose().map_err(watch)?,
    })
}

type Ends = [Option<OwnedFd>; 3];

/// Takes the client's descriptors where it passed some, and makes pipes for the rest.
fn pipes(passed: Ends, detach: bool) -> Result<(Streams, Ends), Failure> {
    let [input, output, error] = passed;
    let (input, ours_input) = match (input, detach) {
        (Some(input), false) => (input, None),
        (_, true) => (null()?, None),
        (None, false) => {
            let (read, write) = pipe()?;
            (read, Some(nonblocking(write)?))
        }
    };
    let output_end = |passed: Option<OwnedFd>| match passed.filter(|_| !detach) {
        Some(passed) => Ok::<_, Failure>((passed, None)),
        None => {
            let (read, write) = pipe()?;
            Ok((write, Some(nonblocking(read)?)))
        }
    };
    let ((output, ours_output), (error, ours_error)) = (output_end(output)?, output_end(error)?);
    Ok((Streams::Pipes([input, output, error]), [ours_input, ours_output, ours_error]))
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Failure> {
    nix::unistd::pipe2(OFlag::O_CLOEXEC).failing("make a pipe")
}

fn nonblocking(end: OwnedFd) -> Result<OwnedFd, Failure> {
    fcntl(&end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).failing("make a pipe")?;
    Ok(end)
}

fn null() -> Result<OwnedFd, Failure> {
    std::fs::File::open("/dev/null").map(OwnedFd::from).failing("open /dev/null")
}

/// What goes to the client, in the order in which it came.
type Outgoing = mpsc::Sender<(FrameKind, Vec<u8>)>;

/// Copies until the command has ended and all its output has been sent.
async fn attend(started: Started, timeout: Option<u64>, stream: UnixStream) -> io::Result<()> {
    let Started { mut job, input, output, error } = started;
    let (from, mut to) = stream.into_split();
    let (outgoing, mut queue) = mpsc::channel::<(FrameKind, Vec<u8>)>(8);
    let master = job.master.take().map(Terminal::new).transpose()?.map(Arc::new);
    let mut copies = Vec::new();
    if let Some(master) = &master {
        copies.push(tokio::spawn(read_terminal(Arc::clone(master), outgoing.clone())));
    }
    for (end, kind) in [(output, FrameKind::Output), (error, FrameKind::Error)] {
        if let Some(end) = end {
            copies.push(tokio::spawn(read_pipe(end, kind, outgoing.clone())));
        }
    }
    drop(outgoing);
    let signaller = job.signaller();
    let sink = Sink { input, master, signaller: signaller.clone() };
    let mut reader = tokio::spawn(read_client(from, sink));
    let writing = tokio::spawn(async move {
        while let Some((kind, bytes)) = queue.recv().await {
            frame::write(&mut to, kind, &bytes).await?;
        }
        Ok::<OwnedWriteHalf, io::Error>(to)
    });
    let exit = tokio::select! {
        ending = job.wait() => ended(ending),
        () = expire(timeout) => {
            tree::kill(signaller.process()).await;
            // The command's own death is certain now; its output is complete when it has happened.
            job.wait().await;
            Exit::TimedOut
        }
        _ = &mut reader => {
            signaller.signal(nix::libc::SIGHUP);
            return Ok(());
        }
    };
    finish(copies, writing, exit).await
}

/// Background processes of the command may hold its output open for ever: what they write later than this is
/// not the command's any more.
const DRAIN: Duration = Duration::from_millis(250);

async fn finish(
    copies: Vec<tokio::task::JoinHandle<()>>,
    writing: tokio::task::JoinHandle<io::Result<OwnedWriteHalf>>,
    exit: Exit,
) -> io::Result<()> {
    let deadline = tokio::time::Instant::now() + DRAIN;
    for mut copy in copies {
        if tokio::time::timeout_at(deadline, &mut copy).await.is_err() {
            copy.abort();
        }
    }
    let mut to = writing.await.map_err(|_| io::ErrorKind::BrokenPipe)??;
    tell(&mut to, &exit).await
}

fn ended(ending: Ending) -> Exit {
    match ending {
        Ending::Status(status) => Exit::Status(status),
        Ending::Signal(signal) => Exit::Signal(signal),
    }
}

async fn expire(timeout: Option<u64>) {
    match timeout {
        Some(milliseconds) => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
        None => std::future::pending().await,
    }
}

async fn read_pipe(mut from: pipe::Receiver, kind: FrameKind, to: Outgoing) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if to.send((kind, buffer[..count].to_vec())).await.is_err() {
            return;
        }
    }
}

/// The master of a command's terminal.
struct Terminal(AsyncFd<OwnedFd>);

impl Terminal {
    fn new(master: OwnedFd) -> io::Result<Self> {
        fcntl(&master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        register(master, Interest::READABLE | Interest::WRITABLE).map(Self)
    }
}

async fn read_terminal(terminal: Arc<Terminal>, to: Outgoing) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = terminal
            .0
            .async_io(Interest::READABLE, |fd| Ok(nix::unistd::read(fd, &mut buffer)?))
            .await;
        // A terminal whose last user is gone answers EIO, which is its end of file.
        let Ok(count @ 1..) = read else { return };
        if to.send((FrameKind::Output, buffer[..count].to_vec())).await.is_err() {
            return;
        }
    }
}

/// Where what the client sends goes.
struct Sink {
    input: Option<pipe::Sender>,
    master: Option<Arc<Terminal>>,
    signaller: crate::host::Signaller,
}

/// Obeys the client until it is gone.
async fn read_client(mut from: OwnedReadHalf, mut sink: Sink) {
    let mut buffer = Vec::new();
    while let Ok(Some(kind)) = frame::read(&mut from, &mut buffer).await {
        match kind {
            FrameKind::Input => sink.write(&buffer).await,
            FrameKind::InputEnd => sink.input = None,
            FrameKind::Resize => sink.resize(&buffer),
            FrameKind::Signal => {
                if let [signal] = *buffer.as_slice() {
                    sink.signaller.signal(i32::from(signal));
                }
            }
            // Not a client's word: the connection is of no more use.
            FrameKind::Start | FrameKind::Output | FrameKind::Error | FrameKind::Exit => return,
        }
    }
}

impl Sink {
    async fn write(&mut self, mut bytes: &[u8]) {
        if let Some(input) = &mut self.input
            && input.write_all(bytes).await.is_err()
        {
            self.input = None;
        }
        let Some(master) = &self.master else { return };
        while !bytes.is_empty() {
            let write = |fd: &OwnedFd| Ok(nix::unistd::write(fd, bytes)?);
            match master.0.async_io(Interest::WRITABLE, write).await {
                Ok(count) => bytes = &bytes[count..],
                Err(_) => return,
            }
        }
    }

    fn resize(&self, bytes: &[u8]) {
        if let (Some(master), Some(size)) = (&self.master, frame::decode_size(bytes)) {
            // Ignored: a terminal that is gone has no size.
            let _ = terminal::resize(master.0.get_ref().as_fd(), size);
        }
    }
}

/// Logs the output of a command that nobody waits for.
async fn detached(live: Arc<Live>, started: Started) {
    let Started { mut job, output, error, .. } = started;
    let number = u64::try_from(job.pid).unwrap_or(0);
    let mut copies = Vec::new();
    for end in [output, error].into_iter().flatten() {
        copies.push(tokio::spawn(log_lines(Arc::clone(&live), number, end)));
    }
    job.wait().await;
    for copy in copies {
        // Ignored: a task that panicked has told its own story.
        let _ = copy.await;
    }
}

async fn log_lines(live: Arc<Live>, job: u64, from: pipe::Receiver) {
    use tokio::io::AsyncBufReadExt;
    let mut lines = tokio::io::BufReader::new(from);
    loop {
        let mut line = Vec::new();
        let mut piece = (&mut lines).take(64 * 1024);
        match piece.read_until(b'\n', &mut line).await {
            Ok(1..) => live.log(job, line.strip_suffix(b"\n").unwrap_or(&line)),
            Ok(0) | Err(_) => return,
        }
    }
}

/// Receives the first frame, and the descriptors that ride along with it.
async fn receive_start(stream: &UnixStream) -> io::Result<[Option<OwnedFd>; 3]> {
    let (mask, mut descriptors) =
        stream.async_io(Interest::READABLE, || receive_descriptors(stream)).await?;
    let mut passed = [None, None, None];
    descriptors.reverse();
    for (bit, place) in passed.iter_mut().enumerate() {
        if mask & (1 << bit) != 0 {
            *place = descriptors.pop().filter(is_passable);
            if place.is_none() {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
    Ok(passed)
}

/// A client that is no sandboxd might pass anything; a payload gets a pipe or /dev/null.
fn is_passable(descriptor: &OwnedFd) -> bool {
    crate::api::is_harmless(descriptor)
}

fn receive_descriptors(stream: &UnixStream) -> io::Result<(u8, Vec<OwnedFd>)> {
    let mut bytes = [0_u8; 6];
    let (length, descriptors) = sandbox_sys::channel::receive_into(stream.as_fd(), &mut bytes)?;
    match (length, bytes) {
        (6, [kind, 0, 0, 0, 1, mask]) if kind == FrameKind::Start as u8 => Ok((mask, descriptors)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
