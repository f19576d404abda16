//! A directory of the user's, and exactly what is in it.
//!
//! Runs in: the test's own process.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// A directory to work on. It goes with its host.
#[derive(Debug)]
pub struct Tree {
    path: PathBuf,
    /// Holds the directory where no host does.
    _own: Option<TempDir>,
}

/// Everything in a tree: for each name its kind, mode, inode, and content.
pub type Listing = BTreeMap<PathBuf, String>;

impl Tree {
    pub(crate) fn make(path: PathBuf) -> Self {
        fs::create_dir_all(&path).expect("cannot make a directory");
        let path = path.canonicalize().expect("it was just made");
        Self { path, _own: None }
    }

    pub(crate) fn lasting_as_long_as(own: TempDir) -> Self {
        Self { path: own.path().canonicalize().expect("it was just made"), _own: Some(own) }
    }

    /// Returns where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path in it.
    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file, and the directories to it.
    ///
    /// # Panics
    /// When that fails.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.at(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("cannot make a directory");
        }
        fs::write(path, content).expect("cannot write a file");
        self
    }

    /// Makes a directory, and those to it.
    ///
    /// # Panics
    /// When that fails.
    pub fn directory(&self, name: &str) -> &Self {
        fs::create_dir_all(self.at(name)).expect("cannot make a directory");
        self
    }

    /// Reads a file.
    ///
    /// # Panics
    /// When it is not there.
    #[track_caller]
    #[must_use]
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).expect(name)
    }

    /// Says whether a name is there.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.at(name).symlink_metadata().is_ok()
    }

    /// Lists everything in it.
    #[must_use]
    pub fn listing(&self) -> Listing {
        let mut listing = Listing::new();
        list(&self.path, &mut listing);
        listing
    }
}

fn list(directory: &Path, listing: &mut Listing) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(data) = path.symlink_metadata() else { continue };
        let content = if data.is_file() {
            fs::read(&path).map_or_else(|error| error.to_string(), |bytes| digest(&bytes))
        } else if data.is_symlink() {
            fs::read_link(&path)
                .map_or_else(|error| error.to_string(), |to| to.display().to_string())
        } else {
            String::new()
        };
        listing.insert(path.clone(), format!("{:o} {} {content}", data.mode(), data.ino()));
        if data.is_dir() {
            list(&path, listing);
        }
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
