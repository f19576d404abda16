//! The kernel behind types: one wrapper a call, no policy in it.
//!
//! Everything above this crate takes a `BorrowedFd` and gets an `OwnedFd`; raw descriptors and process numbers
//! stop here. Every descriptor that leaves it is close-on-exec.
//!
//! Runs in: any (it decides nothing about where it runs).
#![allow(unsafe_code, reason = "this is the one crate of the workspace that may say it")]

pub mod channel;
mod failure;
pub mod file;
pub mod memory;
pub mod mount;
pub mod netlink;
pub mod process;

pub mod socket;
pub mod spawn;
pub mod terminal;

pub use failure::{Failing, Failure};
pub use nix::errno::Errno;

use std::os::fd::{FromRawFd, OwnedFd};

/// Turns a system call's return value into a result.
fn check(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result < 0 { Err(Errno::last()) } else { Ok(result) }
}

/// Owns a descriptor that a system call has just returned.
fn own(result: libc::c_long) -> Result<OwnedFd, Errno> {
    let raw = i32::try_from(check(result)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just made this descriptor for us and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}
