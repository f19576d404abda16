//! `sandboxd run`: one command, one box, no daemon. It is client and host in one process.
//!
//! Runs in: client and host (the user's privileges; one thread, and those that copy).

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use clap::Args;
use policy::syscalls::Profile;
use sandbox_sys::terminal as pty;
use tokio::signal::unix::{SignalKind, signal};

use super::flags::SessionFlags;
use super::stdio::{Copying, Plumbing};
use super::terminal::Raw;
use super::{say, search, trust};
use crate::api::place::Place;
use crate::fault::{Fault, Kind};
use crate::host::{self, Appeared, Job, Prepared, Session, SessionError, Zygote};
use crate::wire::{CompartmentOrder, Ending};

/// Run one command in a box of its own, without a daemon.
#[derive(Debug, Args)]
pub(super) struct Run {
    #[command(flatten)]
    session: SessionFlags,
    /// Accept a session file that has changed since it was last used and lies where a box can write.
    #[arg(long)]
    accept_config: bool,
    /// The command and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

impl Run {
    pub(super) fn run(self) -> Result<i32, Fault> {
        self.session.become_user()?;
        let asked = self.session.read()?;
        if !asked.file.servers.is_empty() {
            let message = "policy: `run` starts no MCP servers, and the session file has some";
            return Err(Fault::new(Kind::User, message)
                .field("mcp")
                .hint("`sandboxd up -f FILE` starts a session with servers"));
        }
        let name = self.session.name.as_ref().map_or("box", |name| name.as_str());
        let place = Place::named(None, &asked.caller.home);
        if let Some(source) = &asked.source {
            trust::check(
                &Place::find(None, &asked.caller.home)?,
                source,
                &asked,
                self.accept_config,
            )?;
        }
        let mut prepared = host::prepare(&asked.file, &asked.caller, name, &place)?;
        if let Some(source) = &asked.source {
            prepared.protect(&source.path);
        }
        host::raise_descriptor_limit();
        for note in &prepared.notes {
            say(note);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Fault::chain(Kind::Host, &error))?;
        let terminal = asked.caller.terminal.as_deref();
        let appeared = Appeared::default();
        let done = runtime.block_on(serve(&prepared, &self.command, terminal, &appeared));
        // Threads that read the caller's input may never end; the process does.
        runtime.shutdown_background();
        for note in appeared.notes() {
            say(&note);
        }
        let ending = done.map_err(|error| search::explain(error, &self.command))?;
        Ok(ending.status())
    }
}

/// Starts the session, runs the command, ends the session.
async fn serve(
    prepared: &Prepared,
    command: &[OsString],
    terminal: Option<&str>,
    appeared: &Appeared,
) -> Result<Ending, SessionError> {
    let zygote = Zygote::start()?;
    let session = Arc::new(Session::start(&zygote, &prepared.order).await?);
    let order =
        CompartmentOrder { profile: Profile::Agent, landlock_required: prepared.landlock_required };
    let compartment = session.compartment(order).await?;
    let watching = host::watch(Arc::clone(&session), prepared.watched(), appeared.clone());
    let watching = tokio::spawn(watching);
    let wants_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let mut environment = prepared.agent();
    if wants_terminal {
        let kind = terminal.unwrap_or("xterm");
        environment.entry("TERM".to_owned()).or_insert_with(|| kind.to_owned());
    }
    let argv = command.iter().map(|word| word.as_bytes().to_vec()).collect();
    let spec = prepared.command(argv, &environment, &prepared.plan().directory);
    let plumbing = Plumbing::make(wants_terminal).map_err(SessionError::Host)?;
    let (streams, kept) = plumbing.split();
    let mut job = compartment.launch(&spec, streams).await?;
    // Raw only now: a command that could not be started leaves the terminal untouched.
    let raw = wants_terminal.then(Raw::begin).transpose().map_err(SessionError::Host)?;
    let copying = Plumbing::copy(kept, job.master.as_ref()).map_err(SessionError::Host)?;
    let ending = attend(&session, &mut job).await?;
    watching.abort();
    finish(&session, job, copying).await;
    drop(raw);
    Ok(ending)
}

/// Ends the session; what it has written by then is still copied.
async fn finish(session: &Session, job: Job, copying: Copying) {
    session.end().await;
    drop(job);
    copying.finish();
}

/// Passes signals on until the command ends. Who asks twice does not have to wait for it.
async fn attend(session: &Session, job: &mut Job) -> Result<Ending, SessionError> {
    let listen = |kind| signal(kind).map_err(|_| SessionError::Silent("signal handler"));
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    let mut quit = listen(SignalKind::quit())?;
    let mut resized = listen(SignalKind::window_change())?;
    let signaller = job.signaller();
    let master = job.master.as_ref().and_then(|master| master.try_clone().ok());
    let mut asked = 0;
    loop {
        let kind = tokio::select! {
            ending = job.wait() => return Ok(ending),
            _ = resized.recv() => {
                if let (Some(master), Ok(size)) = (&master, pty::size(std::io::stdout().as_fd())) {
                    // Ignored: a terminal that is gone has no size.
                    let _ = pty::resize(master.as_fd(), size);
                }
                continue;
            }
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
            _ = hangup.recv() => SignalKind::hangup(),
            _ = quit.recv() => SignalKind::quit(),
        };
        asked += 1;
        if asked > 1 {
            session.end().await;
            return Ok(Ending::Signal(kind.as_raw_value()));
        }
        signaller.signal(kind.as_raw_value());
    }
}
