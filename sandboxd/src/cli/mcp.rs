//! `sandboxd mcp`: the MCP servers of a session.
//!
//! `mcp stub` is what a brain's configuration names: a normal stdio server that is only a name and a route.
//!
//! Runs in: client (tokio, one thread).

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::pin::Pin;
use std::time::Duration;

use clap::{Args, Subcommand};
use hyper::Method;
use policy::ServerName;
use relay::stub;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::client::{Client, block_on};
use super::exec::nonblocking;
use super::session::{path, print, print_json};
use super::start::DaemonFlags;
use super::table;
use crate::api::place::Place;
use crate::api::{MCP, SessionView};
use crate::fault::{Fault, Kind};

#[derive(Debug, Subcommand)]
pub(super) enum Mcp {
    Ls(Ls),
    Call(Call),
    Stub(Stub),
}

impl Mcp {
    pub(super) fn run(self) -> Result<i32, Fault> {
        match self {
            Self::Ls(command) => command.run(),
            Self::Call(command) => command.run(),
            Self::Stub(command) => command.run(),
        }
    }
}

/// List a session's MCP servers and how they are.
#[derive(Debug, Args)]
pub(super) struct Ls {
    #[command(flatten)]
    daemon: DaemonFlags,
    /// The session's name or id.
    session: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Ls {
    fn run(self) -> Result<i32, Fault> {
        let place = self.daemon.place()?;
        let view: SessionView = block_on(async {
            let mut client = Client::connect(&place).await?;
            client.ask(Method::GET, &path(&self.session, ""), &()).await
        })?;
        if self.json {
            return print_json(&view.servers);
        }
        print(&table::servers(&view))?;
        Ok(0)
    }
}

/// Call one tool, or list the tools when none is named. Status 1 when the tool says that it failed.
#[derive(Debug, Args)]
pub(super) struct Call {
    #[command(flatten)]
    daemon: DaemonFlags,
    /// The session's name or id.
    session: String,
    /// The MCP server.
    server: ServerName,
    /// The tool.
    tool: Option<String>,
    /// Its arguments, a JSON object.
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,
}

/// Above the relay's own deadlines, whose errors say more.
const DEADLINE: Duration = Duration::from_secs(25 * 60 * 60);

impl Call {
    fn run(self) -> Result<i32, Fault> {
        let place = self.daemon.place()?;
        let is_object = self.arguments.trim_start().starts_with('{');
        let arguments: Box<RawValue> =
            serde_json::from_str(&self.arguments).ok().filter(|_| is_object).ok_or_else(|| {
                let message = format!(
                    "client: expected the tool's arguments as a JSON object, found {:?}",
                    self.arguments
                );
                Fault::new(Kind::User, message).field("JSON")
            })?;
        block_on(async {
            let stream = connect(&place, &self.session, &self.server).await?;
            let refuse = |error: stub::StubError| Fault::chain(Kind::Host, &error);
            match &self.tool {
                Some(tool) => {
                    let outcome =
                        stub::call(stream, tool, arguments, DEADLINE).await.map_err(refuse)?;
                    print(&format!("{}\n", outcome.result.get()))?;
                    Ok(i32::from(outcome.is_error))
                }
                None => {
                    for tool in stub::list_tools(stream, DEADLINE).await.map_err(refuse)? {
                        print(&format!("{}\n", tool.get()))?;
                    }
                    Ok(0)
                }
            }
        })
    }
}

/// Be an MCP server on standard input and output: the session's, by name. For a client's configuration.
#[derive(Debug, Args)]
pub(super) struct Stub {
    #[command(flatten)]
    daemon: DaemonFlags,
    /// The session's name or id.
    session: String,
    /// The MCP server.
    server: ServerName,
}

impl Stub {
    fn run(self) -> Result<i32, Fault> {
        let place = self.daemon.place()?;
        block_on(async {
            let (input, output) = streams()?;
            let wrong = |error: stub::StubError| Fault::chain(Kind::Host, &error);
            match connect(&place, &self.session, &self.server).await {
                Ok(stream) => stub::run(input, output, stream).await.map_err(wrong)?,
                Err(fault) => {
                    // The brain's client reads JSON-RPC; its user may read stderr.
                    super::tell(&fault);
                    stub::refuse(input, output, &fault.message).await.map_err(wrong)?;
                }
            }
            Ok(0)
        })
    }
}

async fn connect(place: &Place, session: &str, server: &ServerName) -> Result<UnixStream, Fault> {
    let client = Client::connect(place).await?;
    client.upgrade(&path(session, &format!("/mcp/{server}")), &(), MCP).await
}

type Input = Pin<Box<dyn AsyncRead + Send>>;
type Output = Pin<Box<dyn AsyncWrite + Send>>;

/// Our standard input and output, watched by the kernel where they can be: a pipe or a socket needs no thread.
fn streams() -> Result<(Input, Output), Fault> {
    let clone = |ours: std::os::fd::BorrowedFd<'_>| {
        ours.try_clone_to_owned().map_err(|error| Fault::chain(Kind::Host, &error))
    };
    let (input, output) = (clone(std::io::stdin().as_fd())?, clone(std::io::stdout().as_fd())?);
    let wrong = |error: std::io::Error| Fault::chain(Kind::Host, &error);
    let input: Input = match kind(&input) {
        Stream::Pipe => Box::pin(pipe::Receiver::from_owned_fd(input).map_err(wrong)?),
        Stream::Socket => Box::pin(UnixStream::from_std(input.into()).map_err(wrong)?),
        Stream::Other => Box::pin(tokio::io::stdin()),
    };
    let output: Output = match kind(&output) {
        Stream::Pipe => Box::pin(pipe::Sender::from_owned_fd(output).map_err(wrong)?),
        Stream::Socket => Box::pin(UnixStream::from_std(output.into()).map_err(wrong)?),
        Stream::Other => Box::pin(tokio::io::stdout()),
    };
    Ok((input, output))
}

enum Stream {
    Pipe,
    Socket,
    Other,
}

/// Says what a descriptor is, and makes it non-blocking when it is watched. A terminal or a file is not: its
/// open file may be shared with others, whom the flag would surprise.
fn kind(descriptor: &OwnedFd) -> Stream {
    let clone = descriptor.try_clone().map(std::fs::File::from);
    let kind = clone.and_then(|file| file.metadata()).map(|data| data.file_type());
    match kind {
        Ok(kind) if kind.is_fifo() && nonblocking(descriptor).is_ok() => Stream::Pipe,
        Ok(kind) if kind.is_socket() && nonblocking(descriptor).is_ok() => Stream::Socket,
        Ok(_) | Err(_) => Stream::Other,
    }
}
