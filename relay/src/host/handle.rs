//! The handle to one MCP server.
//!
//! Runs in: host (tokio).

use std::sync::Arc;
use std::time::Duration;

use policy::ServerName;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::{self, ServeError};
use super::driver::drive;
use super::exchange::Shared;
use super::journal::Journal;
use super::spawner::Spawner;
use crate::log::LogSink;
use crate::server::life::State;

/// What the session file says about one server, and its name.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Its name, used in every message about it.
    pub name: ServerName,
    /// How many `tools/call` may be under way at once; 0 is taken as 1.
    pub concurrency: usize,
    /// How long a start may take, from the message that needs the child to its answer to `initialize`,
    /// further tries included.
    pub start: Duration,
    /// How long one request may take in all, once it is sent to the child.
    pub call: Duration,
    /// How long one request may take without progress.
    pub idle: Duration,
    /// How long the child may take to end after its input was closed, and once more after TERM.
    pub grace: Duration,
    /// The longest message, in bytes, in both directions.
    pub max_frame: usize,
}

impl ServerSettings {
    /// The longest message where nothing else is said.
    pub const MAX_FRAME: usize = 16 << 20;

    /// Returns the settings of a server for which nothing was said.
    #[must_use]
    pub fn new(name: ServerName) -> Self {
        Self {
            name,
            concurrency: 1,
            start: Duration::from_secs(60),
            call: Duration::from_secs(300),
            idle: Duration::from_secs(120),
            grace: Duration::from_secs(2),
            max_frame: Self::MAX_FRAME,
        }
    }
}

/// Where a server stands, as `sandboxd mcp ls` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The state of its life.
    pub state: State,
    /// The pid of the child, where one runs.
    pub pid: Option<u32>,
    /// How often it was started.
    pub incarnation: u64,
    /// How many `tools/call` came.
    pub calls: u64,
    /// How many requests were answered with an error, the child's own ones too.
    pub errors: u64,
    /// The last line of its stderr, escaped, redacted and cut.
    pub last_stderr: Option<String>,
    /// How many requests wait for the child or for their turn.
    pub waiting: usize,
    /// How many `tools/call` are under way.
    pub running: usize,
}

/// One MCP server of a session: any number of connections, at most one child. Cheap to clone; when the
/// last clone is dropped the server is ended as by [`Server::end`], without anybody waiting for it.
#[derive(Debug, Clone)]
pub struct Server {
    owner: Arc<Owner>,
}

#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.exchange().end();
    }
}

impl Server {
    /// Takes a server into service. No child is started before a message needs one. Must be called on a
    /// tokio runtime with time and I/O.
    #[must_use]
    pub fn start(
        settings: ServerSettings,
        spawner: Arc<dyn Spawner>,
        log: Box<dyn LogSink>,
    ) -> Self {
        let redactor = log.redactor();
        let shared = Arc::new(Shared::new(settings, Journal::start(log), redactor));
        tokio::spawn(drive(shared.clone(), spawner));
        Self { owner: Arc::new(Owner { shared }) }
    }

    /// Serves one client until it has closed its side and has every answer. A dropped future disconnects
    /// the client.
    ///
    /// # Errors
    /// When the connection broke, when the client does not read what it asked for, and when the server was
    /// ended.
    pub async fn serve<S>(&self, connection: S) -> Result<(), ServeError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        connection::serve(&self.owner.shared, connection).await
    }

    /// Returns where the server stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.owner.shared.exchange().status()
    }

    /// Ends the server for good and returns when every process of its compartment is dead: end of input,
    /// `grace`, TERM, `grace`, then the compartment. Whatever waits gets an error at once; what is under
    /// way may still be answered until the child is gone, then it gets an error.
    pub async fn end(&self) {
        let mut ended = self.owner.shared.ended.subscribe();
        self.owner.shared.exchange().end();
        // Ignored: the sender lives as long as this handle.
        let _ = ended.wait_for(|ended| *ended).await;
        self.owner.shared.journal.flush().await;
    }
}
