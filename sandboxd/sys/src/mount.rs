//! The mount calls that nix does not have yet: open_tree, move_mount, fsopen, fsconfig, fsmount, mount_setattr,
//! and openat2.
//!
//! Runs in: any.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::NixPath;
use nix::errno::Errno;

use crate::{check, own};

const OPEN_TREE_CLONE: libc::c_uint = 1;
const OPEN_TREE_CLOEXEC: libc::c_uint = libc::O_CLOEXEC as libc::c_uint;
const AT_RECURSIVE: libc::c_uint = 0x8000;
const AT_EMPTY_PATH: libc::c_uint = libc::AT_EMPTY_PATH as libc::c_uint;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH: libc::c_uint = 0x40;
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_SET_FLAG: libc::c_uint = 0;
const FSCONFIG_SET_STRING: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;

/// The attributes of a mount that this project sets (mount_setattr(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// MOUNT_ATTR_RDONLY.
    pub read_only: bool,
    /// MOUNT_ATTR_NODEV: device nodes on it cannot be opened.
    pub no_devices: bool,
    /// MOUNT_ATTR_NOEXEC.
    pub no_exec: bool,
}

impl Attributes {
    fn bits(self) -> u64 {
        // Setuid bits count for nothing in a box, ever: no_new_privs says it, and so does every mount.
        let mut bits = 0x2;
        if self.read_only {
            bits |= 0x1;
        }
        if self.no_devices {
            bits |= 0x4;
        }
        if self.no_exec {
            bits |= 0x8;
        }
        bits
    }
}

/// How far the resolution of a path may go (openat2(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolve {
    /// Symlinks are followed, magic links (such as those in /proc/PID/fd) are not.
    Anywhere,
    /// Nothing above the directory, and no symlink at all: for paths whose parts others may have made.
    Beneath,
}

/// Opens a path as a name alone (O_PATH): the descriptor can be mounted, compared and opened from.
///
/// # Errors
/// What openat2(2) says: ELOOP for a symlink and EXDEV for an escape under [`Resolve::Beneath`].
pub fn open_path(
    directory: BorrowedFd<'_>,
    path: &Path,
    resolve: Resolve,
) -> Result<OwnedFd, Errno> {
    const RESOLVE_NO_MAGICLINKS: u64 = 0x02;
    const RESOLVE_NO_SYMLINKS: u64 = 0x04;
    const RESOLVE_BENEATH: u64 = 0x08;
    // SAFETY: open_how is plain integers, for which all zeroes is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
    how.resolve = match resolve {
        Resolve::Anywhere => RESOLVE_NO_MAGICLINKS,
        Resolve::Beneath => RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    path.with_nix_path(|path| {
        // SAFETY: both pointers are to live values of this frame and the size is that of open_how.
        own(unsafe {
            libc::syscall(
                libc::SYS_openat2,
                directory.as_raw_fd(),
                path.as_ptr(),
                &raw const how,
                size_of::<libc::open_how>(),
            )
        })
    })?
}

/// Clones the mount that a descriptor stands on, with those below it, detached from every tree.
///
/// Below it are mounts whose absence would show what they hide, so the kernel wants all of them (EINVAL).
///
/// # Errors
/// What open_tree(2) says; EINVAL for a descriptor from another mount namespace.
pub fn clone_tree(source: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH;
    // SAFETY: the path is an empty literal and the descriptor is borrowed for the call.
    own(unsafe { libc::syscall(libc::SYS_open_tree, source.as_raw_fd(), c"".as_ptr(), flags) })
}

/// Puts a detached mount where `target` stands.
///
/// # Errors
/// What move_mount(2) says.
pub fn attach(mount: BorrowedFd<'_>, target: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    // SAFETY: both paths are empty literals and both descriptors are borrowed for the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            target.as_raw_fd(),
            c"".as_ptr(),
            flags,
        )
    })
    .map(drop)
}

/// Sets attributes on a mount, and on those below it when `recursive`.
///
/// # Errors
/// What mount_setattr(2) says.
pub fn set_attributes(
    mount: BorrowedFd<'_>,
    attributes: Attributes,
    recursive: bool,
) -> Result<(), Errno> {
    #[repr(C)]
    struct MountAttr {
        set: u64,
        clear: u64,
        propagation: u64,
        userns: u64,
    }
    let attr = MountAttr { set: attributes.bits(), clear: 0, propagation: 0, userns: 0 };
    let flags = AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    // SAFETY: attr lives through the call and its size is given; the path is an empty literal.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    })
    .map(drop)
}

/// Makes a new filesystem instance and a detached mount of it.
///
/// An option without a value is a flag.
///
/// # Errors
/// What fsopen(2), fsconfig(2) and fsmount(2) say.
pub fn new_filesystem(
    kind: &CStr,
    options: &[(&CStr, Option<&CStr>)],
    attributes: Attributes,
) -> Result<OwnedFd, Errno> {
    // SAFETY: kind is a C string that lives through the call.
    let context = own(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) })?;
    for (key, value) in options {
        let (command, value) = match value {
            Some(value) => (FSCONFIG_SET_STRING, value.as_ptr()),
            None => (FSCONFIG_SET_FLAG, std::ptr::null()),
        };
        configure(&context, command, key.as_ptr(), value)?;
    }
    configure(&context, FSCONFIG_CMD_CREATE, std::ptr::null(), std::ptr::null())?;
    let bits = attributes.bits();
    // SAFETY: takes only integers and a borrowed descriptor.
    own(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, bits) })
}

fn configure(
    context: &OwnedFd,
    command: libc::c_uint,
    key: *const libc::c_char,
    value: *const libc::c_char,
) -> Result<(), Errno> {
    // SAFETY: the callers pass C strings that outlive the call, or null where the command takes none.
    check(unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), command, key, value, 0) })
        .map(drop)
}

/// Says whether a mount begins at this very file (statx(2), STATX_ATTR_MOUNT_ROOT).
///
/// # Errors
/// What statx(2) says.
pub fn is_mount_root(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    // SAFETY: statx is plain integers, for which all zeroes is a value.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the path is an empty literal and found lives through the call.
    let result = unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, 0, &raw mut found) };
    check(result.into())?;
    Ok(found.stx_attributes & libc::STATX_ATTR_MOUNT_ROOT as u64 != 0)
}
