//! A session that stands in the daemon: its agent's compartment, its servers, its log.
//!
//! Runs in: host (tokio).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use policy::ServerName;
use policy::syscalls::Profile;
use relay::egress::{Egress, Explanation, Outcome};
use relay::host::{Server, ServerSettings};
use relay::log::{FileLog, LogSink, LogStream, Redactor};
use rootfs::Access;

use super::logs;
use super::record::Record;
use super::secret::Store;
use super::server::Starter;
use crate::api::{ServerView, SessionView, State, UpRequest, WallsView};
use crate::fault::{Fault, Kind};
use crate::host::{
    Appeared, Compartment, Post, Prepared, Session, SessionError, Watcher, Zygote, network,
};
use crate::wire::CompartmentOrder;

/// How long a server has between the end of its input, TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);

/// The longest line that the relay takes from either side.
const MAX_FRAME: usize = 16 * 1024 * 1024;

/// How much of a log is kept on disk, with the file before it.
const LOG_LIMIT: u64 = 8 * 1024 * 1024;

/// A session and all that belongs to it.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) record: Record,
    pub(super) session: Arc<Session>,
    pub(super) prepared: Arc<Prepared>,
    pub(super) agent: Compartment,
    servers: BTreeMap<ServerName, Entry>,
    directory: PathBuf,
    /// The door out, when the session or one of its servers has one. Dropping it closes it.
    pub(super) egress: Option<Egress>,
    /// The trusted paths that were not there at the start.
    appeared: Appeared,
    /// The output of commands that nobody waits for.
    log: Mutex<FileLog>,
}

#[derive(Debug)]
struct Entry {
    policy: policy::Server,
    relay: Server,
}

impl Live {
    /// Builds the session; nothing is left when it cannot be.
    pub(super) async fn start(
        zygote: &Zygote,
        record: Record,
        request: UpRequest,
        prepared: Prepared,
        sessions: &Path,
    ) -> Result<Arc<Self>, Fault> {
        let directory = record.directory(sessions);
        let prepared = Arc::new(prepared);
        let order = CompartmentOrder {
            profile: Profile::Agent,
            landlock_required: prepared.landlock_required,
            network: None,
        };
        let appeared = Appeared::default();
        let watcher =
            Watcher::new(prepared.watched(), appeared.clone()).map_err(SessionError::Host)?;
        let post = Post::new().map_err(SessionError::Host)?;
        let first = zygote.make().await?;
        let (session, agent, sockets) =
            Session::start_with(first, &prepared.order, order, post).await?;
        let session = Arc::new(session);
        let egress = network::open(
            &request.file,
            &prepared.order.network,
            sockets,
            &record.id,
            Some(directory.join("logs").join(logs::EGRESS)),
        )?;
        let servers = servers(request, &session, &prepared, &directory)?;
        let log = Mutex::new(open_log(&log_path(&directory, None), Redactor::default())?);
        // Last, when nothing can fail any more: the task keeps the session.
        tokio::spawn(watch(watcher, Arc::clone(&session)));
        Ok(Arc::new(Self {
            record,
            session,
            prepared,
            agent,
            servers,
            directory,
            egress,
            appeared,
            log,
        }))
    }

    /// Says what would become of a connection, by the code that decides.
    pub(super) fn explain(
        &self,
        server: Option<&ServerName>,
        host: &str,
        port: u16,
    ) -> Result<Explanation, Fault> {
        if let Some(name) = server
            && !self.servers.contains_key(name)
        {
            let message = format!("host: the session has no MCP server {name}");
            return Err(Fault::new(Kind::User, message).field("server"));
        }
        match &self.egress {
            Some(egress) => Ok(egress.explain(server, host, port)),
            None => Ok(Explanation {
                network: server.cloned(),
                host: host.to_owned(),
                port,
                verdict: Outcome::Deny,
                reason: None,
                rule: None,
                fix: Some(format!("--allow {host}:{port}")),
            }),
        }
    }

    /// Returns the relay of a server.
    pub(super) fn server(&self, name: &ServerName) -> Option<&Server> {
        self.servers.get(name).map(|entry| &entry.relay)
    }

    /// Returns the names of the servers.
    pub(super) fn server_names(&self) -> impl Iterator<Item = &ServerName> {
        self.servers.keys()
    }

    /// Returns where a server's log, or the session's own, is.
    pub(super) fn log_path(&self, server: Option<&ServerName>) -> PathBuf {
        log_path(&self.directory, server)
    }

    /// Writes a line of a detached command's output.
    pub(super) fn log(&self, job: u64, line: &[u8]) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.line(job, LogStream::Stderr, line);
    }

    /// Resolves when the session, or the agent's compartment in it, has ended.
    pub(super) async fn ended(&self) {
        tokio::select! {
            () = self.session.ended() => {}
            () = self.agent.ended() => {}
        }
    }

    /// Ends the session: its servers first, in good order, then everything.
    pub(super) async fn end(&self) {
        let ends: Vec<_> = self
            .servers
            .values()
            .map(|entry| {
                let relay = entry.relay.clone();
                tokio::spawn(async move { relay.end().await })
            })
            .collect();
        let ended = async {
            for end in ends {
                // Ignored: a server that could not be ended in good order dies with the session.
                let _ = end.await;
            }
        };
        // Ignored: likewise.
        let _ = tokio::time::timeout(3 * GRACE, ended).await;
        self.agent.kill();
        self.session.end().await;
    }

    /// Says in a few words where the agent's compartment may go.
    fn network(&self) -> String {
        let order = &self.prepared.order.network;
        match order.session {
            Some(_) => format!("filter: {} ports", order.ports.len()),
            None => "none".to_owned(),
        }
    }

    /// Describes the session.
    pub(super) fn view(&self) -> SessionView {
        let walls = self.agent.walls();
        let namespaces = ["user", "mount", "pid", "net", "ipc", "uts", "cgroup"];
        let mode = self.prepared.workspace.as_ref().map(|(_, access)| match access {
            Access::ReadOnly => "ro".to_owned(),
            Access::ReadWrite => "rw".to_owned(),
        });
        SessionView {
            walls: Some(WallsView {
                namespaces: namespaces.map(str::to_owned).to_vec(),
                landlock: walls.landlock,
                seccomp: walls.seccomp,
                network: self.network(),
            }),
            mode,
            servers: self
                .servers
                .iter()
                .map(|(name, entry)| (name.clone(), entry.view()))
                .collect(),
            notes: [self.prepared.notes.clone(), self.appeared.notes()].concat(),
            ..lost(&self.record, State::Running)
        }
    }
}

/// Has the trusted paths watched for as long as the session lasts.
async fn watch(watcher: Watcher, session: Arc<Session>) {
    if let Err(failure) = watcher.run(session).await {
        tracing::error!(%failure, "trusted paths are not watched");
    }
}

impl Entry {
    fn view(&self) -> ServerView {
        ServerView {
            status: serde_json::to_value(self.relay.status()).unwrap_or_default(),
            holds_secret: self.policy.holds_secret(),
            cwd: self.policy.cwd,
            trust_workspace_code: self.policy.trust_workspace_code,
        }
    }
}

/// Describes a session of which only the record is left.
pub(super) fn lost(record: &Record, state: State) -> SessionView {
    SessionView {
        id: record.id.clone(),
        name: record.name.clone(),
        tenancy: record.tenancy,
        state,
        created: record.created,
        workspace: record.workspace.clone(),
        mode: None,
        walls: None,
        servers: BTreeMap::new(),
        notes: Vec::new(),
    }
}

/// Gives each server a relay; none is started before its first call.
fn servers(
    request: UpRequest,
    session: &Arc<Session>,
    prepared: &Arc<Prepared>,
    directory: &Path,
) -> Result<BTreeMap<ServerName, Entry>, Fault> {
    let networks: Vec<Option<usize>> =
        request.file.servers.keys().map(|name| network::place(&request.file, name)).collect();
    let secrets = Arc::new(Store {
        sources: request.file.secrets,
        sent: request.secrets,
        caller: request.caller,
        prepared: Arc::clone(prepared),
    });
    let mut servers = BTreeMap::new();
    for ((name, policy), network) in request.file.servers.into_iter().zip(networks) {
        let redactor = Redactor::default();
        let log = open_log(&log_path(directory, Some(&name)), redactor.clone())?;
        let starter = Starter {
            name: name.clone(),
            server: policy.clone(),
            session: Arc::clone(session),
            network,
            prepared: Arc::clone(prepared),
            secrets: Arc::clone(&secrets),
            redactor,
        };
        starter.check()?;
        let settings = settings(&name, &policy);
        let relay = Server::start(settings, Arc::new(starter), Box::new(log));
        servers.insert(name, Entry { policy, relay });
    }
    Ok(servers)
}

/// Where in a session's directory a log is: a server's, or that of detached commands.
pub(super) fn log_path(directory: &Path, server: Option<&ServerName>) -> PathBuf {
    let name = server.map_or_else(|| "session.log".to_owned(), |name| format!("mcp-{name}.log"));
    directory.join("logs").join(name)
}

fn open_log(path: &Path, redactor: Redactor) -> Result<FileLog, Fault> {
    FileLog::open(path, LOG_LIMIT, redactor).map_err(|error| Fault::chain(Kind::Host, &error))
}

fn settings(name: &ServerName, policy: &policy::Server) -> ServerSettings {
    ServerSettings {
        name: name.clone(),
        concurrency: usize::try_from(policy.concurrency).unwrap_or(1),
        start: policy.timeouts.start,
        call: policy.timeouts.call,
        idle: policy.timeouts.idle,
        grace: GRACE,
        max_frame: MAX_FRAME,
    }
}
