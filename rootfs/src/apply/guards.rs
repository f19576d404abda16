//! Trusted paths: bound onto themselves, so that nothing inside can write, rename or remove them.
//!
//! The kernel takes a mount away when the *host* replaces the file under it (git writes a new `config` and
//! renames it over the old one). The host then tells the supervisor, which comes here again.
//!
//! Runs in: setup, supervisor (CAP_SYS_ADMIN in the session's user namespace).

use std::os::fd::{AsFd, OwnedFd};

use nix::sys::statvfs::FsFlags;
use sandbox_sys::mount::{
    Attributes, Resolve, attach, clone_tree, is_mount_root, open_path, set_attributes,
};
use sandbox_sys::{Errno, Failing, Failure};

use super::relative;
use crate::plan::{Access, Guard};

/// Binds a trusted path onto itself, unless that stands already; `false` when it is not there (any more).
///
/// # Errors
/// The step that the kernel refused: then the path is not protected, and the caller ends the session.
pub fn guard(guard: &Guard) -> Result<bool, Failure> {
    let gone = [Errno::ENOENT as i32, Errno::ESTALE as i32, Errno::EINVAL as i32];
    for _ in 1..TRIES {
        match attempt(guard) {
            // What was found has been replaced again; another look finds what stands there now.
            Err(failure) if gone.contains(&failure.errno) => {}
            done => return done,
        }
    }
    attempt(guard)
}

/// git replaces its configuration several times in a row.
const TRIES: usize = 16;

fn attempt(guard: &Guard) -> Result<bool, Failure> {
    let path = guard.root.join(&guard.path);
    let Some(found) = find(guard)? else { return Ok(false) };
    if stands(&found, guard.access).failing_on("look at", &path)? {
        return Ok(true);
    }
    let mount = clone_tree(found.as_fd()).failing_on("clone the mount of", &path)?;
    let read_only = guard.access == Access::ReadOnly;
    let attributes = Attributes { read_only, no_devices: true, no_exec: false };
    set_attributes(mount.as_fd(), attributes, true).failing_on("protect", &path)?;
    attach(mount.as_fd(), found.as_fd()).failing_on("protect", &path)?;
    Ok(true)
}

/// Says whether the protection is there already. The host may have a mount of its own in that place: it cannot
/// be moved either, but it can be written unless it says otherwise.
fn stands(found: &OwnedFd, access: Access) -> Result<bool, Errno> {
    if !is_mount_root(found.as_fd())? {
        return Ok(false);
    }
    let flags = nix::sys::statvfs::fstatvfs(found)?.flags();
    Ok(access == Access::ReadWrite || flags.contains(FsFlags::ST_RDONLY))
}

/// Opens the path from its mount's root without following a link: what is below it, others may have made.
fn find(guard: &Guard) -> Result<Option<OwnedFd>, Failure> {
    let root = super::root()?;
    let top = open_path(root.as_fd(), &relative(&guard.root), Resolve::Beneath)
        .failing_on("open", &guard.root)?;
    match open_path(top.as_fd(), &guard.path, Resolve::Beneath) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Ok(None),
        Err(error) => Err(error).failing_on("open", &guard.root.join(&guard.path)),
    }
}
