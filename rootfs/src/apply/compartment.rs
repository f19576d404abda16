//! A compartment's own view: processes, terminals, temporary files, home.
//!
//! Runs in: init (one thread; the supervisor's CAP_SYS_ADMIN, its walls do not stand yet).

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use sandbox_sys::mount::{
    Attributes, Resolve, clone_tree, new_filesystem, open_path, set_attributes,
};
use sandbox_sys::{Errno, Failing, Failure};

use super::{attach, relative, root};
use crate::plan::{MountPlan, Private, Shape};

/// Files of /proc that tell of the whole machine or command it, hidden behind /dev/null.
const MASKED: [&str; 9] = [
    "cmdline",
    "keys",
    "key-users",
    "timer_list",
    "kmsg",
    "kallsyms",
    "config.gz",
    "kcore",
    "sysrq-trigger",
];

/// Directories of /proc that only an administrator would write.
const READ_ONLY: [&str; 4] = ["sys", "irq", "bus", "fs"];

/// Mounts all that a compartment has for itself.
///
/// Must: a /proc of the session is visible, or the kernel refuses a new one.
///
/// # Errors
/// The step that the kernel refused.
pub fn mount_private(plan: &MountPlan) -> Result<(), Failure> {
    // What the supervisor mounts later shows here; nothing from here shows there.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)
        .failing("make the mounts a slave of the session's")?;
    mount_proc()?;
    mount_terminals()?;
    let nested = take_nested(&plan.private)?;
    for place in &plan.private {
        mount_directory(place)?;
    }
    for (mount, path, shape) in &nested {
        attach(mount, path, *shape)?;
    }
    Ok(())
}

/// Clones what lies below the private directories before these cover it.
fn take_nested(private: &[Private]) -> Result<Vec<(OwnedFd, PathBuf, Shape)>, Failure> {
    let root = root()?;
    let mut taken = Vec::new();
    for (path, shape) in private.iter().flat_map(|place| &place.nested) {
        let source =
            open_path(root.as_fd(), &relative(path), Resolve::Beneath).failing_on("open", path)?;
        let mount = clone_tree(source.as_fd()).failing_on("clone the mount of", path)?;
        taken.push((mount, path.clone(), *shape));
    }
    Ok(taken)
}

fn mount_directory(place: &Private) -> Result<(), Failure> {
    let mode = CString::new(format!("{:o}", place.mode)).unwrap_or_default();
    let attributes = Attributes { no_devices: true, ..Attributes::default() };
    let tmpfs = new_filesystem(c"tmpfs", &[(c"mode", Some(&mode))], attributes)
        .failing_on("make a private", &place.path)?;
    attach(&tmpfs, &place.path, Shape::Directory)
}

/// A /proc of this pid namespace alone. Processes that may not be looked into are not listed (proc(5),
/// hidepid=ptraceable): so pid 1, which is not dumpable, does not show.
fn mount_proc() -> Result<(), Failure> {
    let attributes = Attributes { no_devices: true, no_exec: true, read_only: false };
    let proc = new_filesystem(c"proc", &[(c"hidepid", Some(c"ptraceable"))], attributes)
        .failing("make a /proc of the compartment")?;
    attach(&proc, Path::new("/proc"), Shape::Directory)?;
    let root = root()?;
    let null = open_path(root.as_fd(), Path::new("dev/null"), Resolve::Beneath)
        .failing("open /dev/null")?;
    for name in MASKED {
        mask(&root, &null, name)?;
    }
    for name in READ_ONLY {
        let path = Path::new("proc").join(name);
        let Some(source) = present(&root, &path)? else { continue };
        let mount = clone_tree(source.as_fd()).failing_on("clone the mount of", &path)?;
        let attributes = Attributes { read_only: true, no_devices: true, no_exec: true };
        set_attributes(mount.as_fd(), attributes, true).failing_on("protect", &path)?;
        sandbox_sys::mount::attach(mount.as_fd(), source.as_fd()).failing_on("protect", &path)?;
    }
    Ok(())
}

fn mask(root: &OwnedFd, null: &OwnedFd, name: &str) -> Result<(), Failure> {
    let path = Path::new("proc").join(name);
    let Some(target) = present(root, &path)? else { return Ok(()) };
    let mount = clone_tree(null.as_fd()).failing("clone the mount of /dev/null")?;
    sandbox_sys::mount::attach(mount.as_fd(), target.as_fd()).failing_on("mask", &path)
}

/// Opens what this kernel may or may not have.
fn present(root: &OwnedFd, path: &Path) -> Result<Option<OwnedFd>, Failure> {
    match open_path(root.as_fd(), path, Resolve::Beneath) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error).failing_on("open", &path),
    }
}

/// Terminals of this compartment alone: a shared instance would let a sibling open them by their path.
fn mount_terminals() -> Result<(), Failure> {
    let options = [(c"ptmxmode", Some(c"0666")), (c"mode", Some(c"0620"))];
    let attributes = Attributes { no_exec: true, ..Attributes::default() };
    let pts = new_filesystem(c"devpts", &options, attributes).failing("make terminals")?;
    attach(&pts, Path::new("/dev/pts"), Shape::Directory)
}
