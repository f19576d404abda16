//! The session's root: opened from the host, built in memory, pivoted to.
//!
//! The order is forced: every source is opened and cloned before the new root covers anything, for a staging
//! place may hide one of them; the old root goes last.
//!
//! Runs in: setup (one thread; CAP_SYS_ADMIN in the session's user namespace, nothing outside).

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::fcntl::AT_FDCWD;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::sendfile::sendfile;
use nix::sys::stat::fstat;
use nix::unistd::symlinkat;
use sandbox_sys::mount::{
    Attributes, Resolve, attach, clone_tree, new_filesystem, open_path, set_attributes,
};
use sandbox_sys::{Errno, Failing, Failure};

use super::{make_directories, make_file, mount_point, relative, with_parents};
use crate::plan::{Access, MountPlan, Shape, Source, Step};

/// A file of the host that is copied may be this long; it is configuration.
const COPY_LIMIT: usize = 4 * 1024 * 1024;

/// Where the new root stands while it is built. What it hides is not needed any more by then.
const STAGE: &str = "/usr";

/// Every source of the plan, cloned from the host's tree and still attached to nothing.
#[derive(Debug)]
#[must_use = "the sources must be built into a root"]
pub struct Sources<'a> {
    plan: &'a MountPlan,
    /// One a step, in the plan's order; `None` where a step needs none.
    mounts: Vec<Option<OwnedFd>>,
    copies: Vec<Option<File>>,
}

/// The new root, whole, beside the old one.
#[derive(Debug)]
#[must_use = "the process still has the host's root"]
pub struct Built {
    root: OwnedFd,
}

impl<'a> Sources<'a> {
    /// Opens and clones every source.
    ///
    /// # Errors
    /// When one is missing, is no longer the file that the host looked at, or may not be cloned.
    pub fn open(plan: &'a MountPlan) -> Result<Self, Failure> {
        // From now on nothing mounted here shows on the host, nor the other way round.
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
            .failing("make the mounts private")?;
        let mut sources = Self { plan, mounts: Vec::new(), copies: Vec::new() };
        for step in &plan.steps {
            let (mount, copy) = match step {
                Step::Bind { source, access, .. } => (Some(open_source(source, *access)?), None),
                Step::Copy { source, .. } => {
                    (None, Some(File::open(source).failing_on("open", source)?))
                }
                Step::Directory { .. } | Step::File { .. } | Step::Link { .. } => (None, None),
            };
            sources.mounts.push(mount);
            sources.copies.push(copy);
        }
        Ok(sources)
    }

    /// Builds the new root from the sources.
    ///
    /// # Errors
    /// The step that the kernel refused.
    pub fn build(self) -> Result<Built, Failure> {
        let options = [(c"mode", Some(c"0755")), (c"size", Some(c"16m"))];
        let attributes = Attributes { no_devices: true, ..Attributes::default() };
        let tmpfs = new_filesystem(c"tmpfs", &options, attributes).failing("make the new root")?;
        let stage = open_path(AT_FDCWD, Path::new(STAGE), Resolve::Anywhere)
            .failing_on("open the stage", &STAGE)?;
        attach(tmpfs.as_fd(), stage.as_fd()).failing_on("mount the new root on", &STAGE)?;
        let root = tmpfs;
        // Made while the host's /proc is still in sight: the kernel allows a new one only beside another, and
        // each compartment will want its own. Compartments cover this one.
        let attributes = Attributes { no_devices: true, no_exec: true, read_only: false };
        let proc = new_filesystem(c"proc", &[], attributes).failing("make a /proc")?;
        let steps = self.plan.steps.iter().zip(self.mounts).zip(self.copies);
        for ((step, mount), copy) in steps {
            build_step(&root, step, mount, copy)?;
        }
        let point = mount_point(root.as_fd(), Path::new("/proc"), Shape::Directory)?;
        attach(proc.as_fd(), point.as_fd()).failing("mount /proc")?;
        Ok(Built { root })
    }
}

fn build_step(
    root: &OwnedFd,
    step: &Step,
    mount: Option<OwnedFd>,
    copy: Option<File>,
) -> Result<(), Failure> {
    match step {
        Step::Directory { path } => make_directories(root.as_fd(), path, 0o755),
        Step::Link { path, target } => {
            let place = relative(path);
            with_parents(root.as_fd(), path, || symlinkat(target, root, &place))?
                .failing_on("make the link", path)
        }
        Step::File { path, content } => {
            let file = make_file(root.as_fd(), path)?.failing_on("make the file", path)?;
            File::from(file).write_all(content).failing_on("write the file", path)
        }
        Step::Copy { path, .. } => {
            let file = make_file(root.as_fd(), path)?.failing_on("make the file", path)?;
            let Some(source) = copy else { return Ok(()) };
            copy_file(&source, &file).failing_on("copy the file", path)
        }
        Step::Bind { source, target, .. } => {
            let Some(mount) = mount else { return Ok(()) };
            let point = mount_point(root.as_fd(), target, source.shape)?;
            attach(mount.as_fd(), point.as_fd()).failing_on("mount", target)
        }
    }
}

/// Copies a file inside the kernel: its bytes never come here.
fn copy_file(source: &File, target: &OwnedFd) -> Result<(), Errno> {
    let mut left = COPY_LIMIT;
    while left > 0 {
        match sendfile(target, source, None, left) {
            Ok(0) => break,
            Ok(count) => left = left.saturating_sub(count),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Opens a source and makes a detached copy of its mount with the attributes of a box.
fn open_source(source: &Source, access: Access) -> Result<OwnedFd, Failure> {
    let opened =
        open_path(AT_FDCWD, &source.path, Resolve::Anywhere).failing_on("open", &source.path)?;
    let found = fstat(&opened).failing_on("look at", &source.path)?;
    if (found.st_dev, found.st_ino) != source.identity {
        return Err(Failure::new(
            "mount (it was replaced while the box was made)",
            source.path.display().to_string(),
            Errno::ESTALE,
        ));
    }
    let mount = clone_tree(opened.as_fd()).failing_on("clone the mount of", &source.path)?;
    let attributes = Attributes {
        read_only: access == Access::ReadOnly,
        // On a device's own mount this would forbid the device.
        no_devices: source.shape != Shape::Device,
        no_exec: source.shape == Shape::Device,
    };
    set_attributes(mount.as_fd(), attributes, true)
        .failing_on("set the mount attributes of", &source.path)?;
    Ok(mount)
}

impl Built {
    /// Makes the new root the root of this process and lets the host's go, for good.
    ///
    /// # Errors
    /// The step that the kernel refused.
    pub fn pivot(self) -> Result<(), Failure> {
        nix::unistd::fchdir(&self.root).failing("enter the new root")?;
        nix::unistd::pivot_root(".", ".").failing("pivot to the new root")?;
        // The old root now lies on top of the new one (pivot_root(2), "pivot_root(".", ".")").
        umount2(".", MntFlags::MNT_DETACH).failing("let the host's root go")?;
        nix::unistd::chdir("/").failing("enter the new root")?;
        let read_only = Attributes { read_only: true, no_devices: true, no_exec: false };
        set_attributes(self.root.as_fd(), read_only, false).failing("make the root read-only")?;
        // Compartments are slaves of this tree: a guard that is bound again shows in all of them.
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SHARED, None::<&str>)
            .failing("share the mounts with the compartments")
    }
}
