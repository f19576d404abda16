//! Pseudoterminals (pty(7)) and terminal settings.
//!
//! Runs in: any.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;

use crate::{check, own};

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub columns: u16,
}

/// Opens the other end of a pty master, by no path (TIOCGPTPEER, ioctl_tty(2)).
///
/// # Errors
/// What ioctl(2) says.
pub fn open_peer(master: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: TIOCGPTPEER takes an integer and returns a descriptor.
    own(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER as _, flags) }.into())
}

/// Unlocks a master's other end (TIOCSPTLCK).
///
/// # Errors
/// What ioctl(2) says.
pub fn unlock(master: BorrowedFd<'_>) -> Result<(), Errno> {
    let off: libc::c_int = 0;
    // SAFETY: TIOCSPTLCK reads one integer, which lives through the call.
    check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK as _, &raw const off) }.into())
        .map(drop)
}

/// Makes a terminal the controlling one of this session (TIOCSCTTY).
///
/// Must: setsid has run.
///
/// # Errors
/// What ioctl(2) says.
pub fn control(terminal: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: TIOCSCTTY takes an integer.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY as _, 0) }.into()).map(drop)
}

/// Reads a terminal's size.
///
/// # Errors
/// ENOTTY when it is no terminal.
pub fn size(terminal: BorrowedFd<'_>) -> Result<Size, Errno> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    let fd = terminal.as_raw_fd();
    // SAFETY: TIOCGWINSZ writes one winsize, which lives through the call.
    let result = unsafe { libc::ioctl(fd, libc::TIOCGWINSZ as _, &raw mut size) };
    check(result.into())?;
    Ok(Size { rows: size.ws_row, columns: size.ws_col })
}

/// Reads a terminal's size; one that does not know its own is taken for 24 lines of 80.
#[must_use]
pub fn size_or_default(terminal: BorrowedFd<'_>) -> Size {
    let known = size(terminal).ok().filter(|size| size.rows > 0 && size.columns > 0);
    known.unwrap_or(Size { rows: 24, columns: 80 })
}

/// Sets a terminal's size; who reads on it gets SIGWINCH.
///
/// # Errors
/// ENOTTY when it is no terminal.
pub fn resize(terminal: BorrowedFd<'_>, to: Size) -> Result<(), Errno> {
    let size = libc::winsize { ws_row: to.rows, ws_col: to.columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCSWINSZ reads one winsize, which lives through the call.
    check(
        unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ as _, &raw const size) }.into(),
    )
    .map(drop)
}
