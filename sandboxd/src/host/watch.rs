//! Watches the trusted paths of a workspace from the outside and has them protected again.
//!
//! The kernel takes a read-only bind away when the host replaces the file below it; between that and the new
//! bind lie some milliseconds in which the box could write the new file. A trusted path that did not exist is
//! reported when it appears, and no more: nothing here can tell whether the box made it, and an agent may
//! well be asked to (`git init`).
//!
//! Runs in: host (tokio).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use policy::{TRUSTED_GIT_PATHS, TRUSTED_PATHS};
use rootfs::{Access, Guard, HostFacts};
use sandbox_sys::{Errno, Failing, Failure};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::line::register;
use super::session::Session;

/// The trusted paths that have appeared since the session was made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Appeared(Arc<Mutex<BTreeMap<PathBuf, &'static str>>>);

impl Appeared {
    /// Says of each path what a person should know of it.
    pub(crate) fn notes(&self) -> Vec<String> {
        let paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let note = |(path, what): (&PathBuf, &&str)| {
            format!("{} {what}; look at it before your own tools do", path.display())
        };
        paths.iter().map(note).collect()
    }

    fn add_written(&self, path: PathBuf) {
        tracing::warn!(path = %path.display(), "trusted path was open for writing");
        let what = "was open for writing when it was replaced";
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path, what);
    }

    fn add(&self, path: PathBuf) {
        let shown = path.display().to_string();
        let mut paths = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Vacant(place) = paths.entry(path) {
            place.insert("appeared while the box ran");
            tracing::warn!(path = shown, "trusted path appeared");
        }
    }
}

/// What is watched: the guards that stand, and the tree in which further ones may appear.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    /// As they stand.
    pub(crate) guards: Vec<Guard>,
    /// A workspace that the box can write.
    pub(crate) tree: Option<PathBuf>,
}

/// Watches the trusted paths from before the session stands, so that no replacement is missed.
#[derive(Debug)]
pub(crate) struct Watcher {
    watched: Watched,
    appeared: Appeared,
    /// Nothing where nothing is to be watched.
    watch: Option<Watch>,
}

impl Watcher {
    /// Begins to watch.
    pub(crate) fn new(watched: Watched, appeared: Appeared) -> Result<Self, Failure> {
        let is_empty = watched.guards.is_empty() && watched.tree.is_none();
        let watch = (!is_empty).then(|| Watch::new(&watched)).transpose()?;
        Ok(Self { watched, appeared, watch })
    }

    /// Watches until the session has ended. A path that cannot be protected again ends the session.
    pub(crate) async fn run(self, session: Arc<Session>) -> Result<(), Failure> {
        let Self { watched, appeared, watch } = self;
        if let Some(watch) = &watch {
            if let Err(failure) = attend(&session, &watched, &appeared, watch).await {
                // What is not watched is not protected for long.
                session.end().await;
                return Err(failure);
            }
            // To close watches that stand takes the kernel many milliseconds, those that are gone for a
            // moment none: they go while the session's processes do.
            watch.clear();
            // What the command did last.
            watched.report(&appeared);
        }
        session.ended().await;
        Ok(())
    }
}

/// Has protected again what is replaced, until the session's end begins.
async fn attend(
    session: &Session,
    watched: &Watched,
    appeared: &Appeared,
    watch: &Watch,
) -> Result<(), Failure> {
    loop {
        tokio::select! {
            () = session.ending() => return Ok(()),
            replaced = watch.next() => {
                let replaced = replaced?;
                if !watched.concern(&replaced) {
                    continue;
                }
                // Twice: what appears in a new directory before it is watched tells nobody of itself.
                let first = renew(session, watched, &replaced, appeared).await;
                watch.renew(watched);
                let second = renew(session, watched, &replaced, appeared).await;
                let held = is_held_open(&watched.affected(&replaced), appeared).await;
                if first.and(second).is_err() || held {
                    session.end().await;
                    return Ok(());
                }
            }
        }
    }
}

/// Has everything protected that was replaced, and reports what is new.
async fn renew(
    session: &Session,
    watched: &Watched,
    replaced: &BTreeSet<PathBuf>,
    appeared: &Appeared,
) -> Result<(), super::SessionError> {
    watched.report(appeared);
    let again = watched.affected(replaced);
    if again.is_empty() { Ok(()) } else { session.guard(&again).await }
}

/// How long the host's own tool may take to close what it has just put in place.
const CLOSING: Duration = Duration::from_millis(250);

/// Says whether somebody who opened a new trusted file before it was protected keeps it open for writing: a
/// descriptor writes on, whatever is mounted over its file. It is reported at once.
async fn is_held_open(again: &[Guard], appeared: &Appeared) -> bool {
    let paths: Vec<PathBuf> = again
        .iter()
        .filter(|guard| guard.access == Access::ReadOnly)
        .map(|guard| guard.root.join(&guard.path))
        .filter(|path| is_open(path))
        .collect();
    if paths.is_empty() {
        return false;
    }
    tokio::time::sleep(CLOSING).await;
    let held = paths.iter().any(|path| is_open(path));
    for path in paths {
        appeared.add_written(path);
    }
    held
}

/// Says whether a trusted file is open for writing somewhere. What cannot be asked is taken for closed: the
/// file system has no leases, or the file is gone again.
fn is_open(path: &Path) -> bool {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
    let file =
        options.open(path).ok().filter(|file| file.metadata().is_ok_and(|data| data.is_file()));
    file.is_some_and(|file| sandbox_sys::file::is_being_written(file.as_fd()).unwrap_or(false))
}

impl Watched {
    /// The guards that lie at or below one of the replaced paths, outermost first as they came.
    fn affected(&self, replaced: &BTreeSet<PathBuf>) -> Vec<Guard> {
        let is_below = |guard: &&Guard| {
            let path = guard.root.join(&guard.path);
            replaced.iter().any(|changed| path.starts_with(changed))
        };
        self.guards.iter().filter(is_below).cloned().collect()
    }

    /// Says whether one of the paths is trusted, or leads to what may be.
    fn concern(&self, replaced: &BTreeSet<PathBuf>) -> bool {
        let names = TRUSTED_PATHS.iter().map(|row| row.path);
        let git = TRUSTED_GIT_PATHS.iter().filter_map(|row| Path::new(row.path).file_name());
        let git: Vec<_> = git.collect();
        let is_trusted = |path: &PathBuf| {
            let Some(tree) = &self.tree else { return false };
            let Ok(name) = path.strip_prefix(tree) else { return false };
            let leads = names.clone().any(|row| Path::new(row).starts_with(name));
            let in_git = name.starts_with(".git")
                && path.file_name().is_some_and(|file| git.contains(&file));
            leads || in_git
        };
        let lost = replaced.contains(Path::new("/"));
        lost || !self.affected(replaced).is_empty() || replaced.iter().any(is_trusted)
    }

    /// Reports what is trusted by now and has no guard.
    fn report(&self, appeared: &Appeared) {
        for path in self.newcomers() {
            appeared.add(path);
        }
    }

    /// What is trusted by now and has no guard.
    fn newcomers(&self) -> Vec<PathBuf> {
        let Some(tree) = &self.tree else { return Vec::new() };
        let known = |guard: &Guard| {
            self.guards.iter().any(|other| other.root == guard.root && other.path == guard.path)
        };
        HostFacts::guards(tree)
            .into_iter()
            .filter(|guard| guard.access == Access::ReadOnly && !known(guard))
            .map(|guard| guard.root.join(&guard.path))
            .collect()
    }

    /// The directories in which trusted names and their ancestors stand, or would.
    fn directories(&self) -> BTreeSet<PathBuf> {
        let parent = |guard: &Guard| guard.root.join(&guard.path).parent().map(Path::to_owned);
        let mut all: BTreeSet<PathBuf> = self.guards.iter().filter_map(parent).collect();
        if let Some(tree) = &self.tree {
            let parent = |path: &str| tree.join(path).parent().map(Path::to_owned);
            all.extend(TRUSTED_PATHS.iter().filter_map(|row| parent(row.path)));
        }
        all
    }
}

#[derive(Debug)]
struct Watch {
    inotify: Inotify,
    /// The same open file, for tokio.
    readable: AsyncFd<OwnedFd>,
    directories: Mutex<Vec<(WatchDescriptor, PathBuf)>>,
}

/// A name appears anew, by creation or by a rename over the old one.
const APPEARED: AddWatchFlags = AddWatchFlags::IN_CREATE.union(AddWatchFlags::IN_MOVED_TO);

impl Watch {
    fn new(watched: &Watched) -> Result<Self, Failure> {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        let inotify = Inotify::init(flags).failing("watch the trusted paths")?;
        let clone = inotify.as_fd().try_clone_to_owned().failing("watch the trusted paths")?;
        let readable = register(clone, Interest::READABLE).failing("watch the trusted paths")?;
        let watch = Self { inotify, readable, directories: Mutex::default() };
        for directory in watched.directories() {
            match watch.add(&directory) {
                Ok(()) | Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                Err(error) => return Err(error).failing_on("watch", &directory),
            }
        }
        Ok(watch)
    }

    fn add(&self, directory: &Path) -> Result<(), Errno> {
        let descriptor = self.inotify.add_watch(directory, APPEARED)?;
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        directories.retain(|(known, path)| *known != descriptor && path != directory);
        directories.push((descriptor, directory.to_owned()));
        Ok(())
    }

    /// Watches directories that are new, or were replaced themselves.
    fn renew(&self, watched: &Watched) {
        for directory in watched.directories() {
            // Ignored: a directory that is gone again will be seen when it comes back.
            let _ = self.add(&directory);
        }
    }

    /// Watches nothing any more.
    fn clear(&self) {
        let mut directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        for (descriptor, _) in directories.drain(..) {
            // Ignored: a directory that was removed took its watch along.
            let _ = self.inotify.rm_watch(descriptor);
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
        // Events were lost: anything may have been replaced, so everything is protected again.
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            return Some(PathBuf::from("/"));
        }
        let name: &OsString = event.name.as_ref()?;
        let directories = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = directories.iter().find(|(known, _)| *known == event.wd)?;
        Some(directory.1.join(name))
    }
}
