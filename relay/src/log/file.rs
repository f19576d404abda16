//! A log file of bounded size: the current one and one before it.
//!
//! Runs in: host (plain blocking writes to a local file).

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use thiserror::Error;

use super::clock::rfc3339;
use super::escape::escape;
use super::{LogSink, LogStream, Redactor};

/// Says why a log file could not be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogError {
    /// It could not be opened.
    #[error("cannot open the log file {path}")]
    Open {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Appends whole lines to a file that only its owner can read, and begins it anew when it is full: the one
/// before it keeps its name with `.1` added.
#[derive(Debug)]
pub(crate) struct Rotating {
    path: PathBuf,
    file: File,
    written: u64,
    limit: u64,
}

impl Rotating {
    /// Opens or goes on with the file at `path`. Together with the file before it, it takes at most `limit`
    /// bytes on disk.
    ///
    /// # Errors
    /// When the file cannot be opened or its mode cannot be set.
    pub(crate) fn open(path: &Path, limit: u64) -> Result<Self, LogError> {
        let name = |source| LogError::Open { path: path.to_owned(), source };
        let file = open_file(path).map_err(name)?;
        let written = file.metadata().map_err(name)?.len();
        Ok(Self { path: path.to_owned(), file, written, limit: limit / 2 })
    }

    /// Returns where the current file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one line, which brings its own newline.
    ///
    /// # Errors
    /// When it cannot be written, or a full file cannot be moved aside.
    pub(crate) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if self.written > 0 && self.written + length > self.limit {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.written += length;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        std::fs::rename(&self.path, before(&self.path))?;
        self.file = open_file(&self.path)?;
        self.written = 0;
        Ok(())
    }
}

/// Writes the lines of a server's log as text: time, incarnation, stream, the escaped and redacted line.
#[derive(Debug)]
pub struct FileLog {
    file: Rotating,
    redactor: Redactor,
}

impl FileLog {
    /// Opens or goes on with the file at `path`, readable by its owner alone. Together with the file
    /// before it (`path` with `.1` added) it takes at most `limit` bytes on disk.
    ///
    /// # Errors
    /// When the file cannot be opened or its mode cannot be set.
    pub fn open(path: &Path, limit: u64, redactor: Redactor) -> Result<Self, LogError> {
        Ok(Self { file: Rotating::open(path, limit)?, redactor })
    }

    fn write(&mut self, incarnation: u64, stream: LogStream, line: &[u8]) -> io::Result<()> {
        let clean = self.redactor.redact(line);
        let shown = escape(clean.as_deref().unwrap_or(line));
        let time = rfc3339(SystemTime::now());
        let text = format!("{time} {incarnation} {} {shown}\n", stream.as_str());
        self.file.append(text.as_bytes())
    }
}

impl LogSink for FileLog {
    fn line(&mut self, incarnation: u64, stream: LogStream, line: &[u8]) {
        if let Err(error) = self.write(incarnation, stream, line) {
            tracing::warn!(path = %self.file.path().display(), %error, "server log line lost");
        }
    }

    fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }
}

/// Returns the path of the file before the current one.
fn before(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    PathBuf::from(name)
}

fn open_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_readable_by_its_owner_alone_escaped_and_redacted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tracker.log");
        let mut log = FileLog::open(&path, 1 << 20, Redactor::new(["hunter22"])).unwrap();
        log.line(3, LogStream::Stderr, b"\x1b[31mtoken hunter22\xff");
        let text = std::fs::read_to_string(&path).unwrap();
        let (time, rest) = text.split_once(' ').unwrap();
        assert_eq!((time.len(), time.ends_with('Z')), (24, true));
        assert_eq!(rest, "3 stderr \\x1b[31mtoken [redacted]\\xff\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(log.redactor().count(), 1);
    }

    #[test]
    fn a_log_is_bounded_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tracker.log");
        let mut log = FileLog::open(&path, 8_192, Redactor::default()).unwrap();
        for _ in 0..1_000 {
            log.line(1, LogStream::Noise, &[b'x'; 100]);
        }
        let sizes = [&path, &before(&path)].map(|file| std::fs::metadata(file).unwrap().len());
        assert!(sizes.iter().all(|&size| size > 0 && size <= 4_096), "{sizes:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
