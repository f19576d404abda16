//! Sealed memory files: bytes that cross to another process and that nobody can change afterwards.
//!
//! Runs in: any.

use std::fs::File;
use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::fstat;
use nix::sys::uio::pread;

fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// Puts bytes into a memory file and seals it against every change (memfd_create(2), F_ADD_SEALS).
///
/// # Errors
/// What the calls say, such as ENOSPC or EMFILE.
pub fn sealed(name: &str, bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file = File::from(memfd_create(name, flags)?);
    file.write_all(bytes).map_err(|error| errno(&error))?;
    let seals = SealFlag::F_SEAL_WRITE
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}

/// Reads a memory file from its start, at most `limit` bytes.
///
/// # Errors
/// EFBIG when it is longer; else what read(2) says.
pub fn read(file: BorrowedFd<'_>, limit: usize) -> Result<Vec<u8>, Errno> {
    let length = usize::try_from(fstat(file)?.st_size).map_err(|_| Errno::EFBIG)?;
    if length > limit {
        return Err(Errno::EFBIG);
    }
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        let offset = i64::try_from(filled).map_err(|_| Errno::EFBIG)?;
        match pread(file, &mut bytes[filled..], offset)? {
            0 => return Err(Errno::EIO),
            count => filled += count,
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn sealed_bytes_can_be_read_and_not_changed() {
        let file = sealed("test", b"secret").unwrap();
        assert_eq!(read(file.as_fd(), 6).unwrap(), b"secret");
        assert_eq!(read(file.as_fd(), 5), Err(Errno::EFBIG));
        assert_eq!(nix::unistd::write(&file, b"x"), Err(Errno::EPERM));
    }
}
