//! Servers with a child played by the test or by a python script, and clients on socket pairs.
//!
//! Runs in: tests (tokio).

use std::collections::VecDeque;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use relay::host::{
    Child, Ending, LogSink, LogStream, Process, Server, ServerSettings, SpawnError, Spawner,
};
use relay::log::Redactor;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, ReadHalf, WriteHalf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// How long a test waits for anything.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Waits for something that has to come.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    timeout(SOON, future).await.expect("it has to come in time")
}

/// The lines of a server's log.
#[derive(Clone, Default)]
pub(crate) struct Book(Arc<Mutex<Vec<(u64, LogStream, String)>>>, Arc<tokio::sync::Notify>);

struct Sink(Book, Redactor);

impl LogSink for Sink {
    fn line(&mut self, incarnation: u64, stream: LogStream, line: &[u8]) {
        let text = String::from_utf8_lossy(line).into_owned();
        self.0.0.lock().unwrap().push((incarnation, stream, text));
        self.0.1.notify_waiters();
    }

    fn redactor(&self) -> Redactor {
        self.1.clone()
    }
}

impl Book {
    fn count(&self, stream: LogStream, part: &str) -> usize {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| line.1 == stream && line.2.contains(part)).count()
    }

    /// Waits until a line holds `part`.
    pub(crate) async fn wait(&self, stream: LogStream, part: &str) {
        self.wait_for(stream, part, 1).await;
    }

    /// Waits until so many lines hold `part`.
    pub(crate) async fn wait_for(&self, stream: LogStream, part: &str, count: usize) {
        let found = async {
            loop {
                let told = self.1.notified();
                tokio::pin!(told);
                told.as_mut().enable();
                if self.count(stream, part) >= count {
                    return;
                }
                told.await;
            }
        };
        if timeout(SOON, found).await.is_err() {
            panic!("no {stream:?} line with {part:?} in {:#?}", self.0.lock().unwrap());
        }
    }
}

/// A server under test.
pub(crate) struct Host {
    pub(crate) server: Server,
    pub(crate) book: Book,
    children: mpsc::UnboundedReceiver<Played>,
    pids: Arc<Mutex<Vec<u32>>>,
}

/// What a test may choose.
pub(crate) fn settings() -> ServerSettings {
    ServerSettings {
        start: Duration::from_secs(15),
        call: Duration::from_secs(15),
        idle: Duration::from_secs(15),
        grace: Duration::from_millis(300),
        ..ServerSettings::new("tracker".parse().unwrap())
    }
}

impl Host {
    /// A server whose children the test plays itself.
    pub(crate) fn played(settings: ServerSettings) -> Self {
        let (children, taken) = mpsc::unbounded_channel();
        Self::start(settings, |_| Arc::new(Players { children }), taken)
    }

    /// A server whose child is the naughty script in this mode.
    pub(crate) fn naughty(mode: &str) -> Self {
        Self::naughty_with(mode, settings())
    }

    pub(crate) fn naughty_with(mode: &str, settings: ServerSettings) -> Self {
        let (_, none) = mpsc::unbounded_channel();
        let mode = mode.to_owned();
        let state = tempfile::tempdir().unwrap();
        Self::start(settings, |pids| Arc::new(Scripts { mode, state, pids }), none)
    }

    fn start(
        settings: ServerSettings,
        spawner: impl FnOnce(Arc<Mutex<Vec<u32>>>) -> Arc<dyn Spawner>,
        children: mpsc::UnboundedReceiver<Played>,
    ) -> Self {
        let (book, pids) = (Book::default(), Arc::default());
        let sink = Sink(book.clone(), Redactor::new(["s3cr3t-value"]));
        let server = Server::start(settings, spawner(Arc::clone(&pids)), Box::new(sink));
        Self { server, book, children, pids }
    }

    /// Connects a client.
    pub(crate) fn connect(&self) -> Client {
        let (near, far) = UnixStream::pair().unwrap();
        let server = self.server.clone();
        let served = tokio::spawn(async move { server.serve(far).await });
        Client::new(near, served)
    }

    /// Connects a client and says hello on a server whose child answers by itself.
    pub(crate) async fn greeted(&self) -> Client {
        let mut client = self.connect();
        client.hello().await;
        client
    }

    /// Takes the next child that the test plays.
    pub(crate) async fn child(&mut self) -> Played {
        soon(self.children.recv()).await.unwrap()
    }

    /// Says whether the relay asked for one more child.
    pub(crate) fn has_child(&mut self) -> bool {
        !self.children.is_empty()
    }

    /// Returns a client that said hello and the played child that answered.
    pub(crate) async fn pair(&mut self) -> (Client, Played) {
        let mut client = self.connect();
        client.send(&initialize("0", "{}")).await;
        let mut child = self.child().await;
        child.greet("{}").await;
        client.expect(&format!(r#"{{"jsonrpc":"2.0","id":0,"result":{}}}"#, greeting("{}"))).await;
        client.send(INITIALIZED).await;
        assert_eq!(child.take().await, INITIALIZED);
        (client, child)
    }

    /// Returns the pids of all started scripts.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.pids.lock().unwrap().clone()
    }
}

pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Returns an `initialize` request.
pub(crate) fn initialize(id: &str, capabilities: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"clientInfo":{{"name":"test","version":"1"}}}}}}"#
    )
}

/// Returns the result of `initialize` of a played child.
pub(crate) fn greeting(capabilities: &str) -> String {
    format!(
        r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{{"name":"p","version":"1.10"}}}}"#
    )
}

/// Returns a `tools/call`.
pub(crate) fn call(id: &str, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#
    )
}

/// A client's end of a connection.
pub(crate) struct Client {
    lines: Lines<BufReader<ReadHalf<UnixStream>>>,
    writer: WriteHalf<UnixStream>,
    pub(crate) served: tokio::task::JoinHandle<Result<(), relay::host::ServeError>>,
}

impl Client {
    fn new(
        near: UnixStream,
        served: tokio::task::JoinHandle<Result<(), relay::host::ServeError>>,
    ) -> Self {
        let (reader, writer) = tokio::io::split(near);
        Self { lines: BufReader::new(reader).lines(), writer, served }
    }

    pub(crate) async fn send(&mut self, line: &str) {
        self.send_raw(format!("{line}\n").as_bytes()).await;
    }

    pub(crate) async fn send_raw(&mut self, bytes: &[u8]) {
        soon(self.writer.write_all(bytes)).await.unwrap();
    }

    /// Takes the next line.
    pub(crate) async fn take(&mut self) -> String {
        soon(self.lines.next_line()).await.unwrap().expect("the relay closed the connection")
    }

    /// Takes the next line as JSON.
    pub(crate) async fn json(&mut self) -> serde_json::Value {
        serde_json::from_str(&self.take().await).unwrap()
    }

    pub(crate) async fn expect(&mut self, line: &str) {
        assert_eq!(self.take().await, line);
    }

    /// Waits for the end of the connection and returns what came before it.
    pub(crate) async fn rest(&mut self) -> Vec<String> {
        let mut rest = Vec::new();
        while let Ok(Some(line)) = soon(self.lines.next_line()).await {
            rest.push(line);
        }
        rest
    }

    /// Closes the client's side and keeps reading.
    pub(crate) async fn half_close(&mut self) {
        self.writer.shutdown().await.unwrap();
    }

    pub(crate) async fn hello(&mut self) -> serde_json::Value {
        self.send(&initialize("\"hello\"", "{}")).await;
        let answer = self.answer("hello").await;
        self.send(INITIALIZED).await;
        answer
    }

    /// Takes lines until the answer to a string id; the rest is passed over.
    pub(crate) async fn answer(&mut self, id: &str) -> serde_json::Value {
        loop {
            let message = self.json().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Calls a tool and returns the whole answer.
    pub(crate) async fn call(&mut self, id: &str, tool: &str) -> serde_json::Value {
        self.send(&call(&format!("\"{id}\""), tool)).await;
        self.answer(id).await
    }

    /// Calls a tool and returns its text; fails on an error.
    pub(crate) async fn text(&mut self, id: &str, tool: &str) -> String {
        let answer = self.call(id, tool).await;
        let text = &answer["result"]["content"][0]["text"];
        text.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Calls a tool and returns the error of the relay.
    pub(crate) async fn refusal(&mut self, id: &str, tool: &str) -> (i64, String) {
        let answer = self.call(id, tool).await;
        assert_eq!(answer["error"]["data"]["origin"], "relay", "{answer}");
        refusal(&answer)
    }
}

/// Returns number and text of an error.
pub(crate) fn refusal(answer: &serde_json::Value) -> (i64, String) {
    let error = &answer["error"];
    let code = error["code"].as_i64().unwrap_or_else(|| panic!("{answer}"));
    (code, error["message"].as_str().unwrap().to_owned())
}

/// A child played by the test.
pub(crate) struct Played {
    pub(crate) lines: Lines<BufReader<pipe::Receiver>>,
    pub(crate) stdout: Option<pipe::Sender>,
    pub(crate) stderr: Option<pipe::Sender>,
    ending: watch::Sender<Option<Ending>>,
    orders: mpsc::UnboundedReceiver<&'static str>,
    seen: VecDeque<&'static str>,
}

impl Played {
    pub(crate) async fn take(&mut self) -> String {
        soon(self.lines.next_line()).await.unwrap().expect("the relay closed the child's input")
    }

    /// Takes the next request; returns its id and the whole line.
    pub(crate) async fn request(&mut self) -> (String, String) {
        let line = self.take().await;
        // By hand: not every line here fits into values.
        let from = line.find("\"g").unwrap_or_else(|| panic!("{line}")) + 1;
        let length = line[from..].find('"').unwrap();
        (line[from..from + length].to_owned(), line)
    }

    pub(crate) async fn say(&mut self, line: &str) {
        self.say_raw(format!("{line}\n").as_bytes()).await;
    }

    pub(crate) async fn say_raw(&mut self, bytes: &[u8]) {
        soon(self.stdout.as_mut().unwrap().write_all(bytes)).await.unwrap();
    }

    pub(crate) async fn complain(&mut self, line: &str) {
        let line = format!("{line}\n");
        soon(self.stderr.as_mut().unwrap().write_all(line.as_bytes())).await.unwrap();
    }

    pub(crate) async fn answer(&mut self, id: &str, result: &str) {
        self.say(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{result}}}"#)).await;
    }

    /// Answers `initialize`.
    pub(crate) async fn greet(&mut self, capabilities: &str) -> String {
        let (id, line) = self.request().await;
        assert!(line.contains(r#""method":"initialize""#), "{line}");
        self.answer(&id, &greeting(capabilities)).await;
        line
    }

    /// The command ends; its pipes close.
    pub(crate) fn exit(&mut self, ending: Ending) {
        self.stdout = None;
        self.stderr = None;
        self.ending.send_replace(Some(ending));
    }

    /// Waits until the relay has sent TERM or killed.
    pub(crate) async fn ordered(&mut self, order: &str) {
        while !self.seen.contains(&order) {
            let next = soon(self.orders.recv()).await.expect("the relay gave no such order");
            self.seen.push_back(next);
        }
    }
}

struct Players {
    children: mpsc::UnboundedSender<Played>,
}

impl Spawner for Players {
    fn spawn(&self) -> Pin<Box<dyn Future<Output = Result<Child, SpawnError>> + Send + '_>> {
        Box::pin(async {
            let (stdin, input) = pipe::pipe().unwrap();
            let (output, stdout) = pipe::pipe().unwrap();
            let (errors, stderr) = pipe::pipe().unwrap();
            let (ending, watched) = watch::channel(None);
            let (ordering, orders) = mpsc::unbounded_channel();
            let played = Played {
                lines: BufReader::new(input).lines(),
                stdout: Some(output),
                stderr: Some(errors),
                ending,
                orders,
                seen: VecDeque::new(),
            };
            let refused = SpawnError { message: "init: no such program: nothing".to_owned() };
            self.children.send(played).map_err(|_| refused)?;
            let process = Box::new(PlayedProcess { watched, ordering });
            Ok(Child { stdin, stdout, stderr, pid: 1, process })
        })
    }
}

struct PlayedProcess {
    watched: watch::Receiver<Option<Ending>>,
    ordering: mpsc::UnboundedSender<&'static str>,
}

impl Process for PlayedProcess {
    fn exited(&mut self) -> Pin<Box<dyn Future<Output = Ending> + Send + '_>> {
        Box::pin(async {
            match self.watched.wait_for(Option::is_some).await {
                Ok(ending) => (*ending).unwrap(),
                // The test let go of the child without a word.
                Err(_) => Ending::Signal(9),
            }
        })
    }

    fn terminate(&mut self) {
        self.ordering.send("term").unwrap_or_default();
    }

    fn kill(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.ordering.send("kill").unwrap_or_default();
        Box::pin(async {})
    }
}

struct Scripts {
    mode: String,
    state: tempfile::TempDir,
    pids: Arc<Mutex<Vec<u32>>>,
}

impl Spawner for Scripts {
    fn spawn(&self) -> Pin<Box<dyn Future<Output = Result<Child, SpawnError>> + Send + '_>> {
        Box::pin(async {
            if self.mode == "no_program" {
                return Err(SpawnError { message: "init: cannot execute nothing: ENOENT".into() });
            }
            assert_ne!(self.mode, "panics");
            let (stdin, input) = pipe::pipe().unwrap();
            let (output, stdout) = pipe::pipe().unwrap();
            let (errors, stderr) = pipe::pipe().unwrap();
            let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/naughty.py");
            let child = tokio::process::Command::new("python3")
                .args(["-S", "-E"])
                .arg(script)
                .arg(&self.mode)
                .arg(self.state.path().join("starts"))
                .stdin(Stdio::from(input.into_blocking_fd().unwrap()))
                .stdout(Stdio::from(output.into_blocking_fd().unwrap()))
                .stderr(Stdio::from(errors.into_blocking_fd().unwrap()))
                .process_group(0)
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            let pid = child.id().unwrap();
            self.pids.lock().unwrap().push(pid);
            Ok(Child { stdin, stdout, stderr, pid, process: Box::new(Script(child, pid)) })
        })
    }
}

struct Script(tokio::process::Child, u32);

impl Script {
    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.1).unwrap())
    }
}

impl Process for Script {
    fn exited(&mut self) -> Pin<Box<dyn Future<Output = Ending> + Send + '_>> {
        Box::pin(async {
            use std::os::unix::process::ExitStatusExt;
            let status = self.0.wait().await.unwrap();
            status.code().map_or_else(|| Ending::Signal(status.signal().unwrap()), Ending::Code)
        })
    }

    fn terminate(&mut self) {
        kill(self.pid(), Signal::SIGTERM).unwrap_or_default();
    }

    fn kill(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            // Ignored: a group without a process is what is wanted.
            let _ = killpg(self.pid(), Signal::SIGKILL);
            self.0.wait().await.unwrap();
        })
    }
}
