//! `sandboxd run`: one command, one box, no daemon. It is client and host in one process.
//!
//! Runs in: client and host (the user's privileges; one thread, and those that copy).

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use clap::Args;
use policy::SessionFile;
use policy::syscalls::Profile;
use relay::egress::Egress;
use sandbox_sys::terminal as pty;
use tokio::signal::unix::{SignalKind, signal};

use super::flags::{Asked as Wanted, SessionFlags};
use super::stdio::{Copying, Kept, Plumbing};
use super::terminal::Raw;
use super::{say, search, trust};
use crate::api::place::Place;
use crate::fault::{Fault, Kind};
use crate::host::{
    self, Appeared, Asked, Job, Ordered, Post, Prepared, Session, SessionError, Watcher, Zygote,
    network,
};
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
        host::raise_descriptor_limit();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Fault::chain(Kind::Host, &error))?;
        let explain = |fault: Fault| search::hint_for(fault, &self.command);
        let refuse = |error: SessionError| explain(Fault::from(error));
        // The session's namespaces come into being while this process looks at what they are to hold.
        let zygote = runtime.block_on(async { Zygote::start() }).map_err(refuse)?;
        let first = runtime.block_on(zygote.ask()).map_err(refuse)?;
        let prepared = match self.prepare(&asked) {
            Ok(prepared) => prepared,
            Err(fault) => {
                runtime.block_on(first.abandon());
                return Err(fault);
            }
        };
        let terminal = asked.caller.terminal.as_deref();
        let appeared = Appeared::default();
        let asking = Asking { file: &asked.file, prepared: &prepared, terminal };
        let done = runtime.block_on(serve(first, asking, &self.command, &appeared));
        // Threads that read the caller's input may never end; the process does.
        runtime.shutdown_background();
        for note in appeared.notes() {
            say(&note);
        }
        let (ending, refused) = done.map_err(explain)?;
        for line in refused {
            say(&line);
        }
        Ok(ending.status())
    }

    /// Checks what is asked for, and looks at the host.
    fn prepare(&self, asked: &Wanted) -> Result<Prepared, Fault> {
        if !asked.file.servers.is_empty() {
            let message = "policy: `run` starts no MCP servers, and the session file has some";
            return Err(Fault::new(Kind::User, message)
                .field("mcp")
                .hint("`sandboxd up -f FILE` starts a session with servers"));
        }
        let name = self.session.name()?;
        let name = name.as_ref().map_or("box", |name| name.as_str());
        let place = Place::named(None, &asked.caller.home);
        if let Some(source) = &asked.source {
            trust::check(
                &Place::find(None, &asked.caller.home)?,
                source,
                asked,
                self.accept_config,
            )?;
        }
        let mut prepared = host::prepare(&asked.file, &asked.caller, name, &place)?;
        if let Some(source) = &asked.source {
            prepared.protect(&source.path);
        }
        for note in &prepared.notes {
            say(note);
        }
        Ok(prepared)
    }
}

/// What a session is to be, and what its caller's terminal is.
#[derive(Clone, Copy)]
struct Asking<'a> {
    file: &'a SessionFile,
    prepared: &'a Prepared,
    terminal: Option<&'a str>,
}

/// Starts the session, runs the command, ends the session. Returns what was refused on the way out, too.
async fn serve(
    first: Asked<'_>,
    asking: Asking<'_>,
    command: &[OsString],
    appeared: &Appeared,
) -> Result<(Ending, Vec<String>), Fault> {
    let Asking { file, prepared, terminal } = asking;
    let host = SessionError::Host;
    let watcher = Watcher::new(prepared.watched(), appeared.clone()).map_err(host)?;
    let wants_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let mut environment = prepared.agent();
    if wants_terminal {
        let kind = terminal.unwrap_or("xterm");
        environment.entry("TERM".to_owned()).or_insert_with(|| kind.to_owned());
    }
    let argv = command.iter().map(|word| word.as_bytes().to_vec()).collect();
    let spec = prepared.command(argv, &environment, &prepared.plan().directory);
    let (streams, kept) = Plumbing::make(wants_terminal).map_err(host)?.split();
    let post = Post::new().map_err(host)?;
    let ordered = post.order(&spec, streams).await?;
    let order = CompartmentOrder {
        profile: Profile::Agent,
        landlock_required: prepared.landlock_required,
        network: None,
    };
    let (session, compartment, sockets) =
        Session::start_ahead(first, &prepared.order, order, post).await?;
    // What the command asks for before this waits in the gateway's sockets.
    let egress = network::open(file, &prepared.order.network, sockets, "run", None)?;
    let session = Arc::new(session);
    let watching = tokio::spawn(watcher.run(Arc::clone(&session)));
    let done = accompany(&session, ordered, kept, wants_terminal).await;
    // Both at once: each of the two waits for the kernel before it is gone, and together they wait once.
    compartment.kill();
    session.end().await;
    if let Ok(Err(failure)) = watching.await {
        say(&format!("host: trusted paths were not watched to the end: {failure}"));
    }
    let (ending, company) = done?;
    company.finish();
    let refused =
        egress.iter().flat_map(Egress::refused).map(|refusal| super::egress::refusal(&refusal));
    Ok((ending, refused.collect()))
}

/// What goes along with a command, and is put in order when all of its session has ended.
struct Company {
    job: Job,
    copying: Copying,
    raw: Option<Raw>,
}

impl Company {
    /// What the session has written by now is still copied.
    fn finish(self) {
        drop(self.job);
        self.copying.finish();
        drop(self.raw);
    }
}

/// Waits until the command has started, and until it has ended.
async fn accompany(
    session: &Session,
    ordered: Ordered,
    kept: Kept,
    wants_terminal: bool,
) -> Result<(Ending, Company), SessionError> {
    let mut job = ordered.started().await?;
    // Raw only now: a command that could not be started leaves the terminal untouched.
    let raw = wants_terminal.then(Raw::begin).transpose().map_err(SessionError::Host)?;
    let copying = Plumbing::copy(kept, job.master.as_ref()).map_err(SessionError::Host)?;
    let ending = attend(session, &mut job).await?;
    Ok((ending, Company { job, copying, raw }))
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
