//! `serve`, and the start of a daemon by the first `up`.
//!
//! Runs in: client (until the daemon is there), host (`serve`).

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use sandbox_sys::Failing;
use sandbox_sys::spawn::{Program, spawn};
use tracing_subscriber::filter::LevelFilter;

use super::client;
use super::flags::become_user;
use crate::api::place::Place;
use crate::fault::{Fault, Kind};
use crate::host::daemon::{self, Lock};

/// Run the daemon in the foreground. `up` starts one in the background when none runs.
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    pub(super) daemon: DaemonFlags,
    /// How the log is written, on stderr.
    #[arg(long, value_enum, default_value = "text")]
    log: LogForm,
    /// How much is logged: error, warn, info, debug, trace.
    #[arg(long, default_value = "info")]
    log_level: LevelFilter,
    /// Tell on standard output when the socket listens, then close it.
    #[arg(long, hide = true)]
    tell_ready: bool,
}

/// Which daemon.
#[derive(Debug, Args)]
pub(super) struct DaemonFlags {
    /// Keep the socket, records and logs in D (also SANDBOXD_DIR).
    #[arg(long, value_name = "D")]
    pub(super) dir: Option<PathBuf>,
    /// As root: the user whose daemon it is.
    #[arg(long, value_name = "USER")]
    pub(super) user: Option<String>,
}

impl DaemonFlags {
    /// As root, becomes the user; then finds the daemon's place.
    pub(super) fn place(&self) -> Result<Place, Fault> {
        become_user(self.user.as_deref(), Some("."))?;
        client::place(self.dir.as_deref())
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogForm {
    Text,
    Json,
}

impl Serve {
    pub(super) fn run(self) -> Result<i32, Fault> {
        let place = self.daemon.place()?;
        self.begin_log();
        sandbox_sys::process::set_name(c"host");
        let lock = Lock::take(&place)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Fault::chain(Kind::Host, &error))?;
        let ready = || {
            notify_manager();
            super::say(&format!("ready at {}", place.socket().display()));
            if self.tell_ready {
                tell_starter();
            }
        };
        runtime.block_on(daemon::serve(&place, lock, ready))?;
        Ok(0)
    }

    fn begin_log(&self) {
        let log =
            tracing_subscriber::fmt().with_max_level(self.log_level).with_writer(std::io::stderr);
        match self.log {
            LogForm::Text => log.with_ansi(false).with_target(false).init(),
            LogForm::Json => log.json().init(),
        }
    }
}

/// Tells a service manager (sd_notify(3)): one datagram to the socket that it names.
fn notify_manager() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name),
        None => SocketAddr::from_pathname(&name),
    };
    let sent = UnixDatagram::unbound()
        .and_then(|socket| socket.send_to_addr(b"READY=1", &address?).map(drop));
    if let Err(error) = sent {
        tracing::warn!(%error, "service manager not told");
    }
}

/// Tells the client that started us, and lets its pipe go.
fn tell_starter() {
    let mut stdout = std::io::stdout();
    // Ignored: a client that is gone needs no word.
    let _ = stdout.write_all(b"ready\n").and_then(|()| stdout.flush());
    if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        // Ignored: then the pipe closes with the daemon.
        let _ = sandbox_sys::process::place(null.as_fd(), 1, true);
    }
}

/// Starts a daemon in the background and waits until it listens.
///
/// It has `/` as its directory, a kernel session of its own and its log in the state directory; of the
/// caller's environment it gets what says where things are.
pub(super) fn start(place: &Place, directory: Option<&Path>) -> Result<(), Fault> {
    let cannot = |error: sandbox_sys::Failure| Fault::new(Kind::Host, format!("client: {error}"));
    let log = place.log();
    let mut options = OpenOptions::new();
    let log_file = options.create(true).append(true).mode(0o600).open(&log);
    let log_file = log_file.failing_on("open the daemon's log", &log).map_err(cannot)?;
    trim(&log_file);
    let (mut ready, theirs) = std::io::pipe().failing("make a pipe").map_err(cannot)?;
    let null = File::open("/dev/null").failing("open /dev/null").map_err(cannot)?;
    let string = |bytes: &[u8]| CString::new(bytes).unwrap_or_default();
    let mut argv = vec![c"sandboxd".to_owned(), c"serve".to_owned(), c"--tell-ready".to_owned()];
    if let Some(directory) = directory {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        argv.extend([c"--dir".to_owned(), string(directory.as_os_str().as_bytes())]);
    }
    let kept = ["PATH", "HOME", "USER", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "SANDBOXD_DIR"];
    let environment: Vec<CString> = kept
        .iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)))
        .map(|(name, value)| string(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
        .collect();
    let program = Program {
        path: c"/proc/self/exe",
        argv: &argv,
        environment: &environment,
        directory: c"/",
        descriptors: &[null.as_fd(), theirs.as_fd(), log_file.as_fd()],
    };
    spawn(&program).failing("start the daemon").map_err(cannot)?;
    drop(theirs);
    let mut word = String::new();
    // It says one word and closes, or dies and closes.
    let _read = ready.read_to_string(&mut word);
    if word == "ready\n" {
        return Ok(());
    }
    let message = format!("client: the daemon did not start: {}", last_line(&log));
    Err(Fault::new(Kind::Host, message).hint(format!("its log is {}", log.display())))
}

/// Keeps a background daemon's log bounded: one that has grown long starts again.
fn trim(log: &File) {
    const LIMIT: u64 = 8 * 1024 * 1024;
    if log.metadata().is_ok_and(|data| data.len() > LIMIT) {
        // Ignored: a log that stays long is still a log.
        let _ = log.set_len(0);
    }
}

fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().rev().find(|line| line.starts_with("sandboxd: "));
    line.map_or("it said nothing", |line| line.trim_start_matches("sandboxd: ")).to_owned()
}
