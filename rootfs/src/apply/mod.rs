//! Builds what the plan says, inside the new namespaces.
//!
//! ```text
//! setup       Sources::open(plan) -> build() -> pivot() -> guard() -> Root
//! init        compartment::mount(plan)
//! supervisor  guards::guard(guard) again, when the host replaced a trusted path
//! ```
//!
//! Runs in: setup, supervisor, init (CAP_SYS_ADMIN in the session's user namespace, nothing outside).

pub mod compartment;
pub mod floor;
pub mod guards;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use sandbox_sys::mount::{Resolve, open_path};
use sandbox_sys::{Failing, Failure};

use crate::plan::Shape;

/// Returns a path as seen from the root directory that it starts at.
fn relative(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// Makes a directory and its parents below `root`; those that exist stay as they are.
fn make_directories(root: BorrowedFd<'_>, path: &Path, mode: u32) -> Result<(), Failure> {
    let place = relative(path);
    let make = || mkdirat(root, &place, Mode::from_bits_truncate(mode));
    match with_parents(root, path, make)? {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        // Inside a mount of the host's nothing is made: what must be there is there.
        Err(Errno::EROFS | Errno::EACCES | Errno::EPERM) => Ok(()),
        Err(error) => Err(error).failing_on("make the directory", &path),
    }
}

/// Makes something; when its parents are missing, makes those and tries again.
fn with_parents<T>(
    root: BorrowedFd<'_>,
    path: &Path,
    make: impl Fn() -> Result<T, Errno>,
) -> Result<Result<T, Errno>, Failure> {
    match (make(), path.parent()) {
        (Err(Errno::ENOENT), Some(parent)) => {
            make_directories(root, parent, 0o755)?;
            Ok(make())
        }
        (made, _) => Ok(made),
    }
}

/// Makes an empty file, or opens the one that is there.
fn make_file(root: BorrowedFd<'_>, path: &Path) -> Result<Result<OwnedFd, Errno>, Failure> {
    let flags = OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    let place = relative(path);
    with_parents(root, path, || openat(root, &place, flags, Mode::from_bits_truncate(0o644)))
}

/// Makes what a mount can stand on, where it is missing, and opens it.
fn mount_point(root: BorrowedFd<'_>, path: &Path, shape: Shape) -> Result<OwnedFd, Failure> {
    let place = relative(path);
    match open_path(root, &place, Resolve::Beneath) {
        // A symbolic link on the way is none of ours: nothing is made behind it.
        Err(Errno::ENOENT) => {}
        found => return found.failing_on("open the place for", &path),
    }
    if shape == Shape::Directory {
        make_directories(root, path, 0o755)?;
    } else {
        make_file(root, path)?.failing_on("make a place for", &path)?;
    }
    open_path(root, &place, Resolve::Beneath).failing_on("open the place for", &path)
}

/// Opens the root directory of this process.
fn root() -> Result<OwnedFd, Failure> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    nix::fcntl::open("/", flags, Mode::empty()).failing("open the root directory")
}

/// Attaches a detached mount where a path of this process's root says.
fn attach(mount: &OwnedFd, path: &Path, shape: Shape) -> Result<(), Failure> {
    let root = root()?;
    let point = mount_point(root.as_fd(), path, shape)?;
    sandbox_sys::mount::attach(mount.as_fd(), point.as_fd()).failing_on("mount", &path)
}
