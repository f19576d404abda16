//! `up`, `ls`, `inspect`, `rm`, `logs`: sessions in the daemon.
//!
//! Runs in: client.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use http_body_util::BodyExt;
use hyper::Method;
use policy::{SecretSource, ServerName};

use super::client::{Client, block_on};
use super::flags::SessionFlags;
use super::start::{DaemonFlags, start};
use super::{say, table, trust};
use crate::api::place::Place;
use crate::api::{Secret, SessionView, State, UpRequest};
use crate::fault::{Fault, Kind};
use crate::host::daemon::Lock;

/// Make a session in the daemon; starts the daemon when none runs.
#[derive(Debug, Args)]
pub(super) struct Up {
    #[command(flatten)]
    session: SessionFlags,
    /// Keep the daemon's files in D (also SANDBOXD_DIR).
    #[arg(long, value_name = "D")]
    dir: Option<PathBuf>,
    /// Accept a session file that has changed since it was last used and lies where a box can write.
    #[arg(long)]
    accept_config: bool,
    /// Print the session as JSON.
    #[arg(long)]
    json: bool,
}

impl Up {
    pub(super) fn run(self) -> Result<i32, Fault> {
        self.session.become_user()?;
        let asked = self.session.read()?;
        let place = super::client::place(self.dir.as_deref())?;
        let source = match &asked.source {
            Some(source) => {
                trust::check(&place, source, &asked, self.accept_config)?;
                Some(source.path.clone())
            }
            None => None,
        };
        let secrets = read_secrets(&asked.file.secrets, &asked.file)?;
        let name = self.session.name()?;
        let (file, caller) = (asked.file, asked.caller);
        let request = UpRequest { name, file, caller, secrets, source };
        let view = block_on(async {
            let mut client = match Client::connect(&place).await {
                Ok(client) => client,
                Err(_) => reach(&place, self.dir.as_deref()).await?,
            };
            client.ask::<SessionView>(Method::POST, "/v1/sessions", &request).await
        })?;
        for note in &view.notes {
            say(note);
        }
        if self.json {
            return print_json(&view);
        }
        print(&format!("{}\n", view.name))?;
        Ok(0)
    }
}

/// Starts a daemon and connects to it, or to the one that somebody else has started meanwhile.
async fn reach(place: &Place, directory: Option<&Path>) -> Result<Client, Fault> {
    const PATIENCE: Duration = Duration::from_secs(5);
    const PACE: Duration = Duration::from_millis(20);
    let Err(fault) = start(place, directory) else { return Client::connect(place).await };
    let deadline = tokio::time::Instant::now() + PATIENCE;
    // A lock that is held is another daemon's, which is about to listen.
    while Lock::take(place).is_err() && tokio::time::Instant::now() < deadline {
        if let Ok(client) = Client::connect(place).await {
            return Ok(client);
        }
        tokio::time::sleep(PACE).await;
    }
    Err(fault)
}

/// Reads the secrets that come from the client's own environment, those that a server uses.
fn read_secrets(
    sources: &BTreeMap<policy::SecretName, SecretSource>,
    file: &policy::SessionFile,
) -> Result<BTreeMap<policy::SecretName, Secret>, Fault> {
    let mut secrets = BTreeMap::new();
    for (name, source) in sources {
        let SecretSource::Env(variable) = source else { continue };
        let used =
            file.servers.values().any(|server| server.secrets().any(|secret| secret == name));
        match std::env::var(variable) {
            Ok(value) if !value.is_empty() => {
                secrets.insert(name.clone(), Secret::new(value));
            }
            Ok(_) | Err(_) if used => {
                let message = format!(
                    "client: cannot read the secret {name}: {variable} is not set in this environment"
                );
                return Err(Fault::new(Kind::User, message).field(format!("secrets.{name}")));
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(secrets)
}

/// List the sessions.
#[derive(Debug, Args)]
pub(super) struct Ls {
    #[command(flatten)]
    daemon: DaemonFlags,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Ls {
    pub(super) fn run(self) -> Result<i32, Fault> {
        let place = self.daemon.place()?;
        let sessions: Vec<SessionView> = block_on(async {
            match Client::connect(&place).await {
                Ok(mut client) => client.ask(Method::GET, "/v1/sessions", &()).await,
                // No daemon: no session lives.
                Err(_) => Ok(Vec::new()),
            }
        })?;
        if self.json {
            return print_json(&sessions);
        }
        print(&table::sessions(&sessions))?;
        Ok(0)
    }
}

/// Show what a session is and what stands around it.
#[derive(Debug, Args)]
pub(super) struct Inspect {
    #[command(flatten)]
    daemon: DaemonFlags,
    /// The session's name or id.
    session: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(super) fn run(self) -> Result<i32, Fault> {
        let place = self.daemon.place()?;
        let view: SessionView = block_on(async {
            let mut client = Client::connect(&place).await?;
            client.ask(Method::GET, &path(&self.session, ""), &()).await
        })?;
        if self.json {
            return print_json(&view);
        }
        print(&table::session(&view))?;
        Ok(0)
    }
}

/// End sessions: every process, mount and file of theirs goes.
#[derive(Debug, Args)]
pub(super) struct Rm {
    #[command(flatten)]
    daemon: DaemonFlags,
    /// The sessions' names or ids.
    #[arg(required = true)]
    sessions: Vec<String>,
}

impl Rm {
    pub(super) fn run(self) -> Result<i32, Fault> {
        let place = self.daemon.place()?;
        let mut worst = None;
        for session in &self.sessions {
            let removed = block_on(async {
                Client::connect(&place).await?.order(Method::DELETE, &path(session, "")).await
            });
            match (removed, &worst) {
                (Ok(()), _) => {}
                (Err(fault), None) => worst = Some(fault),
                // One is returned and told at the end; the others are told now.
                (Err(fault), Some(_)) => say(&fault.to_string()),
            }
        }
        worst.map_or(Ok(0), Err)
    }
}

/// Show the output of detached commands, or what an MCP server wrote to its stderr.
#[derive(Debug, Args)]
pub(super) struct Logs {
    #[command(flatten)]
    daemon: DaemonFlags,
    /// The session's name or id.
    session: String,
    /// The MCP server.
    server: Option<ServerName>,
    /// Go on until the session ends.
    #[arg(short, long)]
    follow: bool,
}

impl Logs {
    pub(super) fn run(self) -> Result<i32, Fault> {
        let place = self.daemon.place()?;
        let server = self.server.as_ref().map(|name| format!("&server={name}")).unwrap_or_default();
        let query = format!("/logs?follow={}{server}", self.follow);
        block_on(async {
            let mut client = Client::connect(&place).await?;
            let mut body = client.stream(&path(&self.session, &query)).await?;
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| Fault::chain(Kind::Host, &error))?;
                if let Ok(bytes) = frame.into_data()
                    && print_bytes(&bytes).is_err()
                {
                    break;
                }
            }
            Ok(0)
        })
    }
}

/// The path of a session in the API; a name that is none finds nothing.
pub(super) fn path(session: &str, rest: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let session: String = session
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("/v1/sessions/{session}{rest}")
}

pub(super) fn print_json(value: &impl serde::Serialize) -> Result<i32, Fault> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Fault::chain(Kind::Internal, &error))?;
    print(&format!("{text}\n"))?;
    Ok(0)
}

/// Prints the answer, on stdout.
pub(super) fn print(text: &str) -> Result<(), Fault> {
    print_bytes(text.as_bytes()).map_err(|error| Fault::chain(Kind::Host, &error))
}

fn print_bytes(bytes: &[u8]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush())
}

/// Where a session file is, and what it says.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl SourceFile {
    pub(super) fn new(path: &Path, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }
}

/// Says in a word where a session is in its life.
pub(super) fn state(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Lost => "lost",
    }
}
