//! Watches the trusted paths of a workspace from the outside and has them protected again.
//!
//! The kernel takes a read-only bind away when the host replaces the file below it. Between that and the new
//! bind lie some milliseconds in which the box could write the new file; THREAT-MODEL names it.
//!
//! Runs in: host (tokio).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use rootfs::Guard;
use sandbox_sys::{Errno, Failing, Failure};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::line::register;
use super::session::Session;

/// Watches until the session has ended. A path that cannot be protected again ends the session.
pub(crate) async fn watch(session: Arc<Session>, guards: Vec<Guard>) -> Result<(), Failure> {
    if guards.is_empty() {
        session.ended().await;
        return Ok(());
    }
    let watch = Watch::new(&guards)?;
    loop {
        tokio::select! {
            () = session.ended() => return Ok(()),
            replaced = watch.next() => {
                let again = affected(&guards, &replaced?);
                if again.is_empty() {
                    continue;
                }
                // Twice: what appeared in a new directory before it was watched tells nobody of itself.
                let first = session.guard(&again).await;
                watch.renew(&again);
                let second = session.guard(&again).await;
                if first.and(second).is_err() {
                    session.end().await;
                    return Ok(());
                }
            }
        }
    }
}

/// The guards that lie at or below one of the replaced paths, outermost first as they came.
fn affected(guards: &[Guard], replaced: &BTreeSet<PathBuf>) -> Vec<Guard> {
    let is_below = |guard: &&Guard| {
        let path = guard.root.join(&guard.path);
        replaced.iter().any(|changed| path.starts_with(changed))
    };
    guards.iter().filter(is_below).cloned().collect()
}

struct Watch {
    inotify: Inotify,
    /// The same open file, for tokio.
    readable: AsyncFd<OwnedFd>,
    directories: std::sync::Mutex<Vec<(WatchDescriptor, PathBuf)>>,
}

/// A name appears anew, by creation or by a rename over the old one.
const APPEARED: AddWatchFlags = AddWatchFlags::IN_CREATE.union(AddWatchFlags::IN_MOVED_TO);

impl Watch {
    fn new(guards: &[Guard]) -> Result<Self, Failure> {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        let inotify = Inotify::init(flags).failing("watch the trusted paths")?;
        let clone = inotify.as_fd().try_clone_to_owned().failing("watch the trusted paths")?;
        let readable = register(clone, Interest::READABLE).failing("watch the trusted paths")?;
        let watch = Self { inotify, readable, directories: std::sync::Mutex::default() };
        for directory in parents(guards) {
            watch.add(&directory).failing_on("watch", &directory)?;
        }
        Ok(watch)
    }

    fn add(&self, directory: &Path) -> Result<(), Errno> {
        let descriptor = self.inotify.add_watch(directory, APPEARED)?;
        let mut directories =
            self.directories.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        directories.retain(|(known, path)| *known != descriptor && path != directory);
        directories.push((descriptor, directory.to_owned()));
        Ok(())
    }

    /// Watches directories that were replaced themselves.
    fn renew(&self, guards: &[Guard]) {
        for directory in parents(guards) {
            // Ignored: a directory that is gone again will be seen when it comes back.
            let _ = self.add(&directory);
        }
    }

    /// Waits for changes and returns the paths that are new.
    async fn next(&self) -> Result<BTreeSet<PathBuf>, Failure> {
        let events = self
            .readable
            .async_io(Interest::READABLE, |_| {
                self.inotify.read_events().map_err(std::io::Error::from)
            })
            .await
            .failing("read what changed at the trusted paths")?;
        Ok(events.into_iter().filter_map(|event| self.path(&event)).collect())
    }

    fn path(&self, event: &InotifyEvent) -> Option<PathBuf> {
        let name: &OsString = event.name.as_ref()?;
        let directories =
            self.directories.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let directory = directories.iter().find(|(known, _)| *known == event.wd)?;
        Some(directory.1.join(name))
    }
}

/// The directories in which trusted names and their ancestors stand.
fn parents(guards: &[Guard]) -> BTreeSet<PathBuf> {
    let parent = |guard: &Guard| guard.root.join(&guard.path).parent().map(Path::to_owned);
    guards.iter().filter_map(parent).collect()
}
