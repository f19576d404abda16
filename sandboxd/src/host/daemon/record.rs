//! A session on disk: enough to name it when the daemon that held it is gone. No secret is ever in it.
//!
//! Runs in: host.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use policy::SessionName;
use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Kind};

/// The form of the records that this version writes.
const VERSION: u32 = 1;

/// What is kept of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The form of this record.
    pub(crate) version: u32,
    /// 128 random bits, never reused.
    pub(crate) id: String,
    /// The name, unique among the live sessions.
    pub(crate) name: SessionName,
    /// Counts the hand-overs, from 1.
    pub(crate) tenancy: u32,
    /// When it was made, in seconds since 1970.
    pub(crate) created: u64,
    /// Its workspace.
    pub(crate) workspace: Option<PathBuf>,
}

impl Record {
    /// Makes the record of a new session.
    pub(crate) fn new(name: SessionName, workspace: Option<PathBuf>) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let created = now.map_or(0, |now| now.as_secs());
        let id = crate::identity::random_hex(16);
        Self { version: VERSION, id, name, tenancy: 1, created, workspace }
    }

    /// Returns the session's directory.
    pub(crate) fn directory(&self, sessions: &Path) -> PathBuf {
        sessions.join(&self.id)
    }

    /// Writes the record, whole or not at all.
    pub(crate) fn write(&self, sessions: &Path) -> Result<(), Fault> {
        let directory = self.directory(sessions);
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory.join("logs"));
        made.and_then(|()| write_whole(&directory.join("record.json"), &text)).map_err(|error| {
            let mut fault = Fault::chain(Kind::Host, &error);
            let path = directory.display();
            fault.message =
                format!("host: cannot write the session's record {path}: {}", fault.message);
            fault
        })
    }

    /// Removes the session's directory with its logs.
    pub(crate) fn remove(&self, sessions: &Path) -> std::io::Result<()> {
        match fs::remove_dir_all(self.directory(sessions)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Reads the records that a daemon before us left; each is a session that died with it.
    ///
    /// # Errors
    /// When one has a form that this version does not know: nothing is touched then.
    pub(crate) fn read_all(sessions: &Path) -> Result<Vec<Self>, Fault> {
        let mut records = Vec::new();
        for entry in fs::read_dir(sessions).into_iter().flatten().flatten() {
            let path = entry.path().join("record.json");
            let Ok(text) = fs::read(&path) else { continue };
            let record: Self = serde_json::from_slice(&text)
                .map_err(|error| unknown(&path, &error.to_string()))?;
            if record.version != VERSION {
                return Err(unknown(&path, &format!("version {}", record.version)));
            }
            records.push(record);
        }
        records.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        Ok(records)
    }
}

fn unknown(path: &Path, what: &str) -> Fault {
    let message = format!(
        "host: cannot read the record {}: expected version {VERSION}, found {what}",
        path.display()
    );
    Fault::new(Kind::Host, message)
        .hint("another version of sandboxd wrote it; use that version, or move the directory away")
}

/// Writes a file that only the user can read, by rename.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let fresh = path.with_extension(format!("new-{}", crate::identity::random_hex(4)));
    let mut file: File =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}
