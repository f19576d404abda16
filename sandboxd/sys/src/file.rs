//! What the kernel knows of an open file that no other call tells.
//!
//! Runs in: any.

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;

use crate::check;

/// Says whether anybody has the file open for writing: the kernel gives a read lease only where nobody has
/// (fcntl(2), F_SETLEASE).
///
/// Must: the descriptor is open for reading, and the file is this user's.
///
/// # Errors
/// EACCES for somebody else's file; EINVAL where the file system has no leases.
pub fn is_being_written(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    // Not in the libc crate (linux/fcntl.h).
    const F_SETSIG: libc::c_int = 10;
    let fd = file.as_raw_fd();
    // Who opens the file while we hold the lease has it broken by a signal: one that is ignored by default.
    // SAFETY: takes only integers.
    check(unsafe { libc::fcntl(fd, F_SETSIG, libc::SIGURG) }.into())?;
    // SAFETY: takes only integers.
    match check(unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) }.into()) {
        Err(Errno::EAGAIN) => Ok(true),
        Err(error) => Err(error),
        Ok(_) => {
            // SAFETY: takes only integers.
            check(unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) }.into())?;
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::os::fd::AsFd;

    #[test]
    fn a_writer_is_seen_and_a_reader_is_not() {
        let path = std::env::temp_dir().join(format!("lease-{}", std::process::id()));
        std::fs::write(&path, "x").unwrap();
        let (file, _reader) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        assert_eq!(is_being_written(file.as_fd()), Ok(false));
        let writer = OpenOptions::new().append(true).open(&path).unwrap();
        assert_eq!(is_being_written(file.as_fd()), Ok(true));
        drop(writer);
        assert_eq!(is_being_written(file.as_fd()), Ok(false));
        std::fs::remove_file(&path).unwrap();
    }
}
