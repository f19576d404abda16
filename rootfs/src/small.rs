//! Reads small files of a tree that others may have filled: a box may have left a FIFO, a device or an endless
//! file where a few bytes are expected.
//!
//! Runs in: host.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc::{O_NOCTTY, O_NOFOLLOW, O_NONBLOCK};

/// What git writes into such files is far shorter; a configuration may be long.
const LIMIT: u64 = 256 * 1024;

/// Reads a regular file's text, and no more of it than is sensible.
pub(crate) fn read(path: &Path) -> Option<String> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    let file = options.open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(LIMIT).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;

    #[test]
    fn only_a_regular_file_is_read() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        std::fs::write(path("file"), "text").unwrap();
        nix::unistd::mkfifo(&path("fifo"), Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("endless")).unwrap();
        assert_eq!(read(&path("file")).as_deref(), Some("text"));
        for name in ["fifo", "link", "endless", "absent"] {
            assert_eq!(read(&path(name)), None, "{name}");
        }
    }
}
