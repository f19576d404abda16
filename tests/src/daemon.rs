//! A daemon of a test's own, the sessions in it, and a brain that calls their MCP servers.
//!
//! Each test's host has a directory of its own for the daemon (SANDBOXD_DIR), so each has its own daemon. It ends
//! with the test, however that ends.
//!
//! Runs in: the test's own process.

use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::deadline::{DEADLINE, eventually};
use crate::host::TestHost;
use crate::order::{Order, PROBE};
use crate::process::{Process, descendants, own_user};
use crate::running::{Finished, Running};
use crate::tree::Tree;

/// The daemon of a test's host: there from the first `up` on. Dropping it kills it, and its sessions with it.
#[derive(Debug)]
pub struct Daemon<'a> {
    host: &'a TestHost,
    directory: PathBuf,
}

impl<'a> Daemon<'a> {
    /// Names the daemon of a host; nothing runs yet.
    #[must_use]
    pub fn of(host: &'a TestHost) -> Self {
        Self::at(host, host.path("state"))
    }

    /// Names another daemon of a host, by its directory.
    #[must_use]
    pub fn at(host: &'a TestHost, directory: PathBuf) -> Self {
        Self { host, directory }
    }

    /// Returns the directory of its socket, records and logs.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns its socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.join("sandboxd.sock")
    }

    /// Begins a command of sandboxd.
    #[must_use]
    pub fn order(&self, words: &[&str]) -> Order<'a> {
        self.host.sandboxd().caller_variable("SANDBOXD_DIR", &self.directory).with(words)
    }

    /// Runs a command of sandboxd to its end.
    #[track_caller]
    pub fn does(&self, words: &[&str]) -> Finished {
        self.order(words).command([""; 0])
    }

    /// Writes a session file, outside every workspace, and returns where it is.
    ///
    /// # Panics
    /// When that fails.
    #[must_use]
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.host.path(&format!("files/{name}.toml"));
        fs::create_dir_all(path.parent().expect("it has one")).expect("cannot make a directory");
        fs::write(&path, text).expect("cannot write a file");
        path.display().to_string()
    }

    /// Begins `up` with a session file of this text.
    #[must_use]
    pub fn order_up(&self, name: &str, text: &str) -> Order<'a> {
        let file = self.file(name, text);
        self.order(&["up", "-f", &file, "--name", name])
    }

    /// Makes a session from a session file of this text, and returns what `inspect` would say of it.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    #[must_use]
    pub fn up(&self, name: &str, text: &str) -> Value {
        self.order_up(name, text).with(["--json"]).command([""; 0]).expect(0).json()
    }

    /// Begins `exec` in a session; the words after it are the box's.
    #[must_use]
    pub fn exec(&self, session: &str) -> Order<'a> {
        self.order(&["exec", session])
    }

    /// Runs the probe in a session that shows it ([`Recipe::with_probe`]) and returns what it answered.
    #[track_caller]
    #[must_use]
    pub fn probe(&self, session: &str, words: &[&str]) -> Value {
        let command = [PROBE].into_iter().chain(words.iter().copied());
        self.exec(session).command(command).expect(0).json()
    }

    /// Returns what `inspect` says.
    #[track_caller]
    #[must_use]
    pub fn inspect(&self, session: &str) -> Value {
        self.does(&["inspect", session, "--json"]).expect(0).json()
    }

    /// Returns what `ls` says.
    #[track_caller]
    #[must_use]
    pub fn list(&self) -> Vec<Value> {
        let list = self.does(&["ls", "--json"]).expect(0).json();
        list.as_array().cloned().expect("ls lists")
    }

    /// Ends a session.
    #[track_caller]
    pub fn remove(&self, session: &str) {
        self.does(&["rm", session]).done();
    }

    /// Returns the daemon's process, if there is one.
    #[must_use]
    pub fn find(&self) -> Option<Process> {
        let own = [b"SANDBOXD_DIR=", self.directory.as_os_str().as_bytes()].concat();
        own_user().into_iter().find(|process| {
            process.file("cmdline").starts_with(b"sandboxd\0serve\0")
                && process.file("environ").split(|byte| *byte == 0).any(|pair| *pair == own)
        })
    }

    /// Returns the daemon's process.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    #[must_use]
    pub fn process(&self) -> Process {
        self.find().expect("a daemon runs")
    }

    /// Returns all processes of its sessions, its zygote among them.
    #[must_use]
    pub fn family(&self) -> Vec<Process> {
        self.find().map(|daemon| descendants(daemon.pid)).unwrap_or_default()
    }

    /// Returns those of them that have this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Vec<Process> {
        self.family().into_iter().filter(|process| process.name == name).collect()
    }

    /// Kills it with SIGKILL, if it runs, and waits until it is gone.
    pub fn kill(&self) {
        let Some(process) = self.find() else { return };
        // Ignored: it has ended by itself.
        let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
        crate::deadline::within(DEADLINE, || self.find().is_none());
    }

    /// Begins to speak with its socket as no client of ours would.
    ///
    /// # Panics
    /// When nobody listens.
    #[must_use]
    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).expect("the daemon listens");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket has a deadline");
        stream
    }

    /// Sends these bytes and returns what comes: one answer, or what there is when the daemon closes.
    #[must_use]
    pub fn raw(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        // Ignored: a daemon may refuse before it has read everything.
        let _ = stream.write_all(request);
        let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
        while !is_whole(&heard) {
            match stream.read(&mut piece) {
                Ok(count @ 1..) => heard.extend_from_slice(&piece[..count]),
                Ok(_) | Err(_) => break,
            }
        }
        String::from_utf8_lossy(&heard).into_owned()
    }

    /// Sends one request and returns the answer's status and body.
    ///
    /// # Panics
    /// When the answer is none of HTTP.
    #[track_caller]
    #[must_use]
    pub fn request(&self, method: &str, path: &str, body: &[u8]) -> (u16, String) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: sandboxd\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let answer = self.raw(&[head.as_bytes(), body].concat());
        let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        (status.expect(&answer), body.expect(&answer))
    }

    /// Puts the tests' MCP server on the host, outside every workspace, and returns its directory.
    ///
    /// # Panics
    /// When that fails.
    #[must_use]
    pub fn servers(&self) -> Tree {
        let tree = self.host.project("srv");
        tree.write("server.py", include_str!("server.py"));
        tree
    }

    /// Calls a tool as a person would.
    #[track_caller]
    pub fn call(&self, session: &str, server: &str, tool: &str, arguments: &Value) -> Finished {
        self.does(&["mcp", "call", session, server, tool, &arguments.to_string()])
    }

    /// Calls a tool and returns the text of its result.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    #[must_use]
    pub fn ask(&self, session: &str, server: &str, tool: &str, arguments: &Value) -> String {
        let result = self.call(session, server, tool, arguments).expect(0).json();
        text(&result).to_owned()
    }

    /// Starts a stub for a brain.
    #[must_use]
    pub fn brain(&self, session: &str, server: &str) -> Brain {
        let order = self.order(&["mcp", "stub", session, server]).input("");
        Brain { stub: order.start([""; 0]), next: 0, read: 0 }
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        self.kill();
        // Its sessions end with it; a host whose directory goes before them would be missed by nobody, but the
        // next test counts processes.
        crate::deadline::within(Duration::from_secs(20), || self.find().is_none());
    }
}

/// Says whether an answer of HTTP has come to its end: a head, and as much as that announced.
fn is_whole(heard: &[u8]) -> bool {
    let text = String::from_utf8_lossy(heard).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(if head.starts_with("http/1.1 101") { 0 } else { usize::MAX })
}

/// Returns the text of a tool's result.
///
/// # Panics
/// When it has none.
#[track_caller]
#[must_use]
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("the result has a text")
}

/// The text of a session file in the making.
#[derive(Debug, Clone)]
pub struct Recipe {
    head: String,
    mounts: String,
    servers: String,
}

impl Recipe {
    /// A box without a workspace.
    #[must_use]
    pub fn bare() -> Self {
        Self::with_head("[workspace]\nmode = \"none\"\n")
    }

    /// A box on a tree, read-write.
    #[must_use]
    pub fn on(tree: &Tree) -> Self {
        Self::with_head(&format!("[workspace]\npath = {}\n", quoted(tree.path())))
    }

    /// A box on a tree, read-only.
    #[must_use]
    pub fn reading(tree: &Tree) -> Self {
        Self::with_head(&format!("[workspace]\npath = {}\nmode = \"ro\"\n", quoted(tree.path())))
    }

    fn with_head(head: &str) -> Self {
        Self { head: head.to_owned(), mounts: String::new(), servers: String::new() }
    }

    /// Adds lines of TOML: whole tables.
    #[must_use]
    pub fn with(mut self, tables: &str) -> Self {
        self.servers.push_str(tables);
        self.servers.push('\n');
        self
    }

    /// Shows a path, read-only.
    #[must_use]
    pub fn mount(mut self, path: &Path) -> Self {
        self.mounts.push_str(&format!("[[mounts]]\nsource = {}\n", quoted(path)));
        self
    }

    /// Shows the probe.
    #[must_use]
    pub fn with_probe(mut self, host: &TestHost) -> Self {
        let source = quoted(host.probe());
        self.mounts.push_str(&format!("[[mounts]]\nsource = {source}\ntarget = \"{PROBE}\"\n"));
        self
    }

    /// Adds the tests' own server in a mode; `more` are further lines of its table.
    #[must_use]
    pub fn server(self, name: &str, servers: &Tree, mode: &str, more: &str) -> Self {
        let script = quoted(&servers.at("server.py"));
        self.with(&format!(
            "[mcp.{name}]\ncommand = [\"python3\", \"-S\", \"-E\", {script}, \"{mode}\"]\n{more}"
        ))
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> String {
        [self.head.as_str(), &self.mounts, &self.servers].concat()
    }
}

fn quoted(path: &Path) -> String {
    json!(path).to_string()
}

/// A brain's end of one stub: what it sends, and the lines that it gets.
#[derive(Debug)]
pub struct Brain {
    stub: Running,
    next: u64,
    /// How many bytes of the output have been taken as lines.
    read: usize,
}

impl Brain {
    /// Sends a line.
    pub fn send(&mut self, line: &str) {
        self.stub.says(&format!("{line}\n"));
    }

    /// Sends a request with the next id, its params as they are, and returns the id.
    pub fn asks(&mut self, method: &str, params: &str) -> u64 {
        self.next += 1;
        let id = self.next;
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
        ));
        id
    }

    /// Takes the next line that comes.
    ///
    /// # Panics
    /// When none comes.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let (stub, read) = (&self.stub, self.read);
        let mut line = None;
        eventually("the stub says a line", || {
            let output = stub.output();
            line = output[read..].split_once('\n').map(|(line, _)| line.to_owned());
            line.is_some() || stub.has_ended()
        });
        let line = line.expect("the stub ended without a word");
        self.read += line.len() + 1;
        line
    }

    /// Takes lines until the answer to an id comes.
    ///
    /// # Panics
    /// When it does not come.
    #[track_caller]
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let answer: Value = serde_json::from_str(&self.line()).expect("the stub says JSON");
            if answer["id"] == id && answer.get("method").is_none() {
                return answer;
            }
        }
    }

    /// Greets the server, as every client does first, and returns its answer.
    #[track_caller]
    pub fn greet(&mut self) -> Value {
        let id = self.asks(
            "initialize",
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"brain","version":"1"}}"#,
        );
        let answer = self.answer(id);
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        answer
    }

    /// Begins a call of a tool, its arguments as they are.
    pub fn begins(&mut self, tool: &str, arguments: &str) -> u64 {
        self.asks("tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#))
    }

    /// Calls a tool and returns the whole answer.
    #[track_caller]
    pub fn calls(&mut self, tool: &str, arguments: &str) -> Value {
        let id = self.begins(tool, arguments);
        self.answer(id)
    }

    /// Calls a tool and returns its text.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn text(&mut self, tool: &str, arguments: &str) -> String {
        let answer = self.calls(tool, arguments);
        let text = answer["result"]["content"][0]["text"].as_str().map(str::to_owned);
        assert!(text.is_some(), "{answer}");
        text.unwrap_or_default()
    }

    /// Sends a request with these params and returns the result, byte for byte.
    ///
    /// # Panics
    /// When the answer has none.
    #[track_caller]
    pub fn raw(&mut self, method: &str, params: &str) -> String {
        #[derive(serde::Deserialize)]
        struct Answer {
            id: Value,
            result: Box<RawValue>,
        }
        let id = self.asks(method, params);
        loop {
            let line = self.line();
            let Ok(answer) = serde_json::from_str::<Answer>(&line) else {
                assert!(!line.contains("\"error\""), "{line}");
                continue;
            };
            if answer.id == id {
                return answer.result.get().to_owned();
            }
        }
    }

    /// Returns the stub's process.
    #[must_use]
    pub fn stub(&self) -> &Running {
        &self.stub
    }

    /// Goes away: ends the stub's input and waits for its end.
    #[track_caller]
    pub fn leaves(mut self) -> Finished {
        self.stub.ends_input();
        self.stub.wait()
    }
}
