//! Processes as the host's /proc shows them.
//!
//! Runs in: the test's own process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};

use nix::unistd::Uid;

/// One process at one moment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its name (PR_SET_NAME).
    pub name: String,
    /// The number of its parent.
    pub parent: i32,
    /// `R`, `S`, `Z` and so on.
    pub state: char,
    /// When it began, in the kernel's ticks: with the number it is unique.
    pub begun: u64,
}

impl Process {
    /// Looks at one by its number.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (front, back) = stat.rsplit_once(") ")?;
        let name = front.split_once(" (")?.1.to_owned();
        let words: Vec<&str> = back.split_whitespace().collect();
        Some(Self {
            pid,
            name,
            parent: words.get(1)?.parse().ok()?,
            state: words.first()?.chars().next()?,
            begun: words.get(19)?.parse().ok()?,
        })
    }

    /// Reads one of its files in /proc; nothing where that is refused.
    #[must_use]
    pub fn file(&self, name: &str) -> Vec<u8> {
        fs::read(format!("/proc/{}/{name}", self.pid)).unwrap_or_default()
    }

    /// Returns the inode of one of its namespaces, where that may be read.
    #[must_use]
    pub fn namespace(&self, kind: &str) -> Option<u64> {
        fs::metadata(format!("/proc/{}/ns/{kind}", self.pid)).ok().map(|data| data.ino())
    }

    /// Lists where a text stands in it: its environment, command line, and memory, as far as they may be read.
    #[must_use]
    pub fn places_of(&self, text: &str) -> Vec<String> {
        let mut places = Vec::new();
        for name in ["environ", "cmdline"] {
            if contains(&self.file(name), text) {
                places.push(name.to_owned());
            }
        }
        let Ok(memory) = File::open(format!("/proc/{}/mem", self.pid)) else { return places };
        let maps = String::from_utf8_lossy(&self.file("maps")).into_owned();
        for line in maps.lines().filter(|line| line.contains(" r")) {
            let Some((begin, end)) = range(line) else { continue };
            let Ok(length) = usize::try_from(end - begin) else { continue };
            let mut bytes = vec![0; length.min(64 << 20)];
            let count = memory.read_at(&mut bytes, begin).unwrap_or(0);
            if contains(&bytes[..count], text) {
                places.push(line.to_owned());
            }
        }
        places
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn range(line: &str) -> Option<(u64, u64)> {
    if line.ends_with("[vvar]") || line.ends_with("[vsyscall]") {
        return None;
    }
    let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
    Some((u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::of).collect()
}

/// Returns all that a process started, directly or not.
#[must_use]
pub fn descendants(pid: i32) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process);
    }
    let (mut found, mut next) = (Vec::new(), vec![pid]);
    while let Some(pid) = next.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            next.push(child.pid);
            found.push(child);
        }
    }
    found
}

/// Returns all processes of this user: those that a box leaves behind would be among them.
#[must_use]
pub fn own_user() -> BTreeSet<Process> {
    let uid = Uid::current().as_raw();
    let is_own = |process: &Process| {
        // The owner of the directory is root where a process is not dumpable; the status tells the truth.
        let status = String::from_utf8_lossy(&process.file("status")).into_owned();
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:").map(str::to_owned));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()) == Some(uid)
    };
    all().into_iter().filter(is_own).collect()
}
