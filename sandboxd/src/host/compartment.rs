//! One compartment as the host holds it: a line to its init, and the commands that run in it.
//!
//! Runs in: host (tokio).

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nix::fcntl::OFlag;
use sandbox_sys::terminal::Size;
use sandbox_sys::{Errno, Failing, Failure, memory, process};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use super::error::SessionError;
use super::line::{AsyncLine, ended, pair, register};
use crate::wire::{self, Ending, InitOrder, InitReply, LaunchSpec, Walls};

/// A compartment whose walls stand. Dropping the last handle ends it: init's socket closes.
#[derive(Debug)]
pub(crate) struct Compartment {
    orders: Orders,
    pidfd: AsyncFd<OwnedFd>,
    walls: Walls,
    reader: tokio::task::JoinHandle<()>,
}

/// Where an init gets its orders.
#[derive(Debug)]
struct Orders {
    line: Arc<AsyncLine>,
    next: AtomicU64,
    waiting: Waiting,
}

/// The post of an init that nobody has made yet. What is ordered waits there until its walls stand.
#[derive(Debug)]
pub(crate) struct Post {
    orders: Orders,
    theirs: OwnedFd,
}

/// A command that init was told to start.
#[derive(Debug)]
#[must_use = "nobody knows whether the command has started"]
pub(crate) struct Ordered {
    started: oneshot::Receiver<Result<Started, Failure>>,
    ended: oneshot::Receiver<Ending>,
    report: pipe::Receiver,
}

/// The commands that init will speak of, by our number.
type Waiting = Arc<Mutex<HashMap<u64, Watcher>>>;

#[derive(Debug)]
struct Watcher {
    started: Option<oneshot::Sender<Result<Started, Failure>>>,
    ended: oneshot::Sender<Ending>,
}

#[derive(Debug)]
struct Started {
    pid: i32,
    descriptors: Vec<OwnedFd>,
}

/// What a command gets as 0, 1 and 2.
#[derive(Debug)]
pub(crate) enum Streams {
    /// These three.
    Pipes([OwnedFd; 3]),
    /// A terminal of the box's own for all, or all but the error stream.
    Terminal {
        /// Its size.
        size: Size,
        /// Where errors go instead, when the caller keeps them apart.
        error: Option<OwnedFd>,
    },
}

/// A command that runs.
#[derive(Debug)]
pub(crate) struct Job {
    /// Its process number inside its compartment.
    pub(crate) pid: i32,
    /// The terminal's other end, when it has one.
    pub(crate) master: Option<OwnedFd>,
    pidfd: Arc<OwnedFd>,
    ended: oneshot::Receiver<Ending>,
}

impl Post {
    pub(crate) fn new() -> Result<Self, Failure> {
        let (line, theirs) = pair()?;
        let (next, waiting) = (AtomicU64::new(1), Waiting::default());
        Ok(Self { orders: Orders { line: Arc::new(line), next, waiting }, theirs })
    }

    /// Returns init's end.
    pub(super) fn theirs(&self) -> BorrowedFd<'_> {
        self.theirs.as_fd()
    }

    /// Orders a command ahead of the compartment.
    pub(crate) async fn order(
        &self,
        spec: &LaunchSpec,
        streams: Streams,
    ) -> Result<Ordered, SessionError> {
        self.orders.launch(spec, streams).await
    }
}

impl Compartment {
    /// Waits until init has taken the walls.
    pub(super) async fn begin(post: Post, pidfd: OwnedFd) -> Result<Self, SessionError> {
        let Post { orders, theirs } = post;
        // Init has its own copy; with this one open, its end would not be seen.
        drop(theirs);
        let answer = orders.line.receive::<InitReply>(&mut Vec::new()).await;
        let walls = match answer.map_err(SessionError::Host)? {
            Some((InitReply::Ready(walls), _)) => walls,
            Some((InitReply::Failed(failure), _)) => return Err(SessionError::Init(failure)),
            Some(_) | None => return Err(SessionError::Silent("init")),
        };
        let pidfd = register(pidfd, Interest::READABLE);
        let pidfd = pidfd.failing("watch the compartment").map_err(SessionError::Host)?;
        let reader = tokio::spawn(read(Arc::clone(&orders.line), Arc::clone(&orders.waiting)));
        Ok(Self { orders, pidfd, walls, reader })
    }

    /// Returns the walls that stand around it.
    pub(crate) fn walls(&self) -> Walls {
        self.walls
    }

    /// Starts a command and waits until it has been executed.
    ///
    /// # Errors
    /// When it cannot be: [`SessionError::Launch`] carries the errno of the exec.
    pub(crate) async fn launch(
        &self,
        spec: &LaunchSpec,
        streams: Streams,
    ) -> Result<Job, SessionError> {
        self.orders.launch(spec, streams).await?.started().await
    }

    /// Resolves when every process of the compartment has ended.
    pub(crate) async fn ended(&self) {
        ended(&self.pidfd).await;
    }

    /// Kills every process of the compartment.
    pub(crate) fn kill(&self) {
        // Ignored: a compartment that has ended already is as it should be.
        let _ = process::signal(self.pidfd.get_ref().as_fd(), nix::libc::SIGKILL);
    }

    /// Kills every process of the compartment and waits until the last has ended.
    pub(crate) async fn end(&self) {
        self.kill();
        ended(&self.pidfd).await;
    }
}

impl Orders {
    async fn launch(&self, spec: &LaunchSpec, streams: Streams) -> Result<Ordered, SessionError> {
        let host = SessionError::Host;
        let mut bytes = wire::encode(spec).failing("encode the command").map_err(host)?;
        let file = memory::sealed("command", &bytes).failing("pass the command on").map_err(host);
        zeroize::Zeroize::zeroize(&mut bytes);
        let file = file?;
        let (report, write) = report_pipe().map_err(host)?;
        let job = self.next.fetch_add(1, Ordering::Relaxed);
        let (started, was_started) = oneshot::channel();
        let (has_ended, ended) = oneshot::channel();
        lock(&self.waiting).insert(job, Watcher { started: Some(started), ended: has_ended });
        let sent = self.send(job, [file.as_fd(), write.as_fd()], &streams).await;
        drop((file, write, streams));
        if let Err(failure) = sent {
            lock(&self.waiting).remove(&job);
            return Err(host(failure));
        }
        Ok(Ordered { started: was_started, ended, report })
    }

    async fn send(
        &self,
        job: u64,
        first: [BorrowedFd<'_>; 2],
        streams: &Streams,
    ) -> Result<(), Failure> {
        let mut descriptors = first.to_vec();
        let terminal = match streams {
            Streams::Pipes(pipes) => {
                descriptors.extend(pipes.iter().map(AsFd::as_fd));
                None
            }
            Streams::Terminal { size, error } => {
                descriptors.extend(error.iter().map(AsFd::as_fd));
                Some(*size)
            }
        };
        self.line.send(&InitOrder::Launch { job, terminal }, &descriptors).await
    }
}

impl Ordered {
    /// Waits until the command has been executed.
    ///
    /// # Errors
    /// When it cannot be: [`SessionError::Launch`] carries the errno of the exec.
    pub(crate) async fn started(self) -> Result<Job, SessionError> {
        let started = self.started.await.map_err(|_| SessionError::Silent("init"))?;
        let mut started = started.map_err(SessionError::Init)?;
        let missing = || Failure::new("find the command's process", "", Errno::EBADMSG);
        let master = (started.descriptors.len() > 1).then(|| started.descriptors.pop()).flatten();
        let pidfd = started.descriptors.pop().ok_or_else(|| SessionError::Host(missing()))?;
        // Whoever gives up waiting kills what is neither launch nor a command yet: a process of the same
        // compartment may have stopped it.
        let mut unborn = Unborn(Some(pidfd));
        read_report(self.report).await?;
        let pidfd = unborn.0.take().ok_or_else(|| SessionError::Host(missing()))?;
        Ok(Job { pid: started.pid, master, pidfd: Arc::new(pidfd), ended: self.ended })
    }
}

impl Drop for Compartment {
    fn drop(&mut self) {
        // The reader holds the line; without it the line closes and init ends.
        self.reader.abort();
    }
}

impl Job {
    /// Waits for the command's end. The end of its whole compartment counts as SIGKILL.
    pub(crate) async fn wait(&mut self) -> Ending {
        (&mut self.ended).await.unwrap_or(Ending::Signal(nix::libc::SIGKILL))
    }

    /// Returns what signals the command.
    pub(crate) fn signaller(&self) -> Signaller {
        Signaller(Arc::clone(&self.pidfd))
    }
}

/// Signals a command and its process group, for as long as it runs and never another process.
#[derive(Debug, Clone)]
pub(crate) struct Signaller(Arc<OwnedFd>);

impl Signaller {
    /// Returns the descriptor of the command's process.
    pub(crate) fn process(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.0)
    }

    pub(crate) fn signal(&self, signal: i32) {
        // Ignored: a command that has ended cannot be signalled, and need not be.
        let _ = process::signal_group(self.0.as_fd(), signal);
    }
}

/// A process that has not become its command yet; it is killed when nobody waits for that any more.
struct Unborn(Option<OwnedFd>);

impl Drop for Unborn {
    fn drop(&mut self) {
        if let Some(pidfd) = &self.0 {
            // Ignored: it has ended by itself.
            let _ = process::signal(pidfd.as_fd(), nix::libc::SIGKILL);
        }
    }
}

/// Hands what init says to those who wait for it. Ends when init does; who still waits then learns it.
async fn read(line: Arc<AsyncLine>, waiting: Waiting) {
    let mut buffer = Vec::new();
    loop {
        let Ok(Some((reply, descriptors))) = line.receive::<InitReply>(&mut buffer).await else {
            break;
        };
        match reply {
            InitReply::Started { job, pid } => {
                tell(&waiting, job, Ok(Started { pid, descriptors }))
            }
            InitReply::NotStarted { job, failure } => {
                tell(&waiting, job, Err(failure));
                lock(&waiting).remove(&job);
            }
            InitReply::Ended { job, ending } => {
                if let Some(watcher) = lock(&waiting).remove(&job) {
                    // Ignored: nobody waits any more.
                    let _ = watcher.ended.send(ending);
                }
            }
            // Said once, and before this task began: an init that says it again is not believed.
            InitReply::Ready(_) | InitReply::Failed(_) => break,
        }
    }
    lock(&waiting).clear();
}

fn tell(waiting: &Waiting, job: u64, what: Result<Started, Failure>) {
    let started = lock(waiting).get_mut(&job).and_then(|watcher| watcher.started.take());
    if let Some(started) = started {
        // Ignored: nobody waits any more, and the descriptors close.
        let _ = started.send(what);
    }
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, HashMap<u64, Watcher>> {
    // A map is whole between two calls, so a panic elsewhere has not spoilt it.
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pipe that says why a command was not executed; exec closes it.
fn report_pipe() -> Result<(pipe::Receiver, OwnedFd), Failure> {
    let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC).failing("make the report pipe")?;
    nix::fcntl::fcntl(&read, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
        .failing("make the report pipe")?;
    let read = pipe::Receiver::from_owned_fd(read).failing("watch the report pipe")?;
    Ok((read, write))
}

/// A report is one small record.
const REPORT_LIMIT: u64 = 8192;

async fn read_report(pipe: pipe::Receiver) -> Result<(), SessionError> {
    let mut report = Vec::new();
    let read = pipe.take(REPORT_LIMIT).read_to_end(&mut report).await;
    read.failing("read the report").map_err(SessionError::Host)?;
    if report.is_empty() {
        return Ok(());
    }
    let failure = wire::decode(&report).failing("understand the report");
    Err(SessionError::Launch(failure.map_err(SessionError::Host)?))
}
