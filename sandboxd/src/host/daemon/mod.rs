//! The daemon: one for a user and a directory, for as long as its lock is held.
//!
//! ```text
//! lock -> clean up after a daemon before us -> zygote -> socket -> serve -> (TERM) end all sessions
//! ```
//!
//! Runs in: host (tokio, several threads; the user's uid, no capability, no_new_privs).

mod admit;
mod code;
mod exec;
mod hops;
mod live;
mod logs;
mod record;
mod registry;
mod router;
mod secret;
mod server;
mod tree;

pub(crate) use record::write_whole;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

use self::record::Record;
use self::registry::Registry;
use crate::api::place::Place;
use crate::fault::{Fault, Kind};
use crate::host::{self, Zygote};

/// The held lock of a directory: while it lives, no other daemon does there.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Unlocked when it closes.
    _file: File,
}

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    /// When another daemon holds it.
    pub(crate) fn take(place: &Place) -> Result<Self, Fault> {
        let path = place.lock();
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(|error| Fault::chain(Kind::Host, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(_) => {
                let message = format!("host: a daemon already runs in {}", path.display());
                Err(Fault::new(Kind::User, message).hint("`sandboxd ls` asks it for its sessions"))
            }
        }
    }
}

/// Serves until TERM or INT, then ends every session. `ready` is told once the socket listens.
pub(crate) async fn serve(place: &Place, lock: Lock, ready: impl FnOnce()) -> Result<(), Fault> {
    host::raise_descriptor_limit();
    let no_new = sandbox_sys::process::set_no_new_privs();
    no_new.map_err(|error| {
        Fault::new(Kind::Host, format!("host: cannot give up new privileges: {}", error.desc()))
    })?;
    let records = Record::read_all(&place.sessions())?;
    for record in &records {
        tracing::warn!(session = record.name.as_str(), id = record.id, "session was lost");
    }
    let zygote = Zygote::start()?;
    let registry = Arc::new(Registry::new(zygote, place.clone(), records));
    let listener = listen(place)?;
    let router = router::router(Arc::clone(&registry));
    let listen = |kind| signal(kind).map_err(|error| Fault::chain(Kind::Internal, &error));
    let (mut interrupt, mut terminate) =
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    ready();
    tracing::info!(socket = %place.socket().display(), "daemon ready");
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    tokio::spawn(connection(stream, router.clone()));
                }
                Err(error) => {
                    // Out of descriptors, most likely: those who hold some will let go of them.
                    tracing::error!(%error, "connection lost");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            },
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    tracing::info!("daemon ends");
    // Ignored: a socket that is gone is as it should be.
    let _ = std::fs::remove_file(place.socket());
    registry.end_all().await;
    registry.end_zygote().await;
    drop(lock);
    Ok(())
}

/// Listens at the place's socket; the lock says that what stands there is a dead daemon's.
fn listen(place: &Place) -> Result<UnixListener, Fault> {
    let path = place.socket();
    let cannot = |error: &std::io::Error| {
        let mut fault = Fault::chain(Kind::Host, error);
        fault.message = format!("host: cannot listen at {}: {}", path.display(), fault.message);
        fault
    };
    match std::fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(cannot(&error)),
    }
    UnixListener::bind(&path).map_err(|error| cannot(&error))
}

/// Serves one client, if it may be one. A box that finds the socket gets nothing, not even an answer.
async fn connection(stream: UnixStream, router: Router) {
    if let Err(refusal) = admit::admit(&stream) {
        tracing::warn!(%refusal, "connection refused");
        return;
    }
    let service = TowerToHyperService::new(router);
    let served =
        http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades().await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection lost");
    }
}
