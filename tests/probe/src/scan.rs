//! Looks for a text in everything that this process can reach: processes, files, sockets, shared memory, keys.
//!
//! The text comes in two halves, so that no command line of the search contains it; the probe's own memory does,
//! and is left out.
//!
//! Runs in: probe.

use std::fs::{self, File};
use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::kernel::{call, outcome};
use crate::processes::listed;

/// Where a box keeps what it did not take from the host's programs.
const PLACES: [&str; 9] =
    ["/tmp", "/dev/shm", "/home", "/root", "/run", "/var", "/etc", "/workspace", "/mnt"];

/// No secret is longer than the overlap of two pieces.
const PIECE: usize = 1 << 20;
const OVERLAP: usize = 4096;

/// How long a socket has to say something unasked.
const PATIENCE: Duration = Duration::from_millis(100);

struct Search {
    text: Vec<u8>,
    found: Vec<String>,
    looked: usize,
}

pub(crate) fn scan(text: &str) -> Value {
    let mut search = Search { text: text.as_bytes().to_vec(), found: Vec::new(), looked: 0 };
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    // The numbers that nobody lists, too.
    let mut pids = listed();
    pids.extend(1..300);
    pids.sort_unstable();
    pids.dedup();
    for pid in pids.into_iter().filter(|pid| *pid != own) {
        search.process(pid);
    }
    for file in ["environ", "cmdline", "auxv", "mountinfo", "cgroup"] {
        search.file(Path::new(&format!("/proc/self/{file}")));
    }
    for place in PLACES {
        search.tree(Path::new(place), 12);
    }
    search.sockets();
    search.shared_memory();
    json!({ "found": search.found, "looked": search.looked, "keys": keys() })
}

impl Search {
    fn bytes(&mut self, place: &str, bytes: &[u8]) {
        self.looked += 1;
        if !self.text.is_empty() && bytes.windows(self.text.len()).any(|window| window == self.text)
        {
            self.found.push(place.to_owned());
        }
    }

    fn process(&mut self, pid: i32) {
        for file in ["environ", "cmdline", "comm", "mountinfo"] {
            self.file(Path::new(&format!("/proc/{pid}/{file}")));
        }
        for link in ["root", "cwd", "exe"] {
            let path = format!("/proc/{pid}/{link}");
            if let Ok(target) = fs::read_link(&path) {
                self.bytes(&path, target.as_os_str().as_encoded_bytes());
            }
        }
        self.memory(pid);
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return };
        for path in descriptors.flatten().map(|entry| entry.path()) {
            let Ok(target) = fs::read_link(&path) else { continue };
            self.bytes(&path.display().to_string(), target.as_os_str().as_encoded_bytes());
            // Reading a pipe or a terminal would take what belongs to another; files can be read again.
            if fs::metadata(&path).is_ok_and(|data| data.is_file()) {
                self.file(&path);
            }
        }
        for place in PLACES {
            self.tree(&PathBuf::from(format!("/proc/{pid}/root{place}")), 4);
        }
    }

    fn memory(&mut self, pid: i32) {
        let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else { return };
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        for line in maps.lines() {
            let Some((begin, end)) = range(line) else { continue };
            let mut at = begin;
            while at < end {
                let length = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE + OVERLAP);
                let mut buffer = vec![0; length];
                if let Ok(count) = memory.read_at(&mut buffer, at) {
                    self.bytes(&format!("memory of {pid}: {line}"), &buffer[..count]);
                }
                at += PIECE as u64;
            }
        }
    }

    fn file(&mut self, path: &Path) {
        let Ok(file) = File::open(path) else { return };
        let mut bytes = Vec::new();
        // Ignored: what was read until then counts.
        let _ = file.take(16 << 20).read_to_end(&mut bytes);
        self.bytes(&path.display().to_string(), &bytes);
    }

    fn tree(&mut self, path: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(path) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            self.bytes(&path.display().to_string(), path.as_os_str().as_encoded_bytes());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth > 0 => self.tree(&path, depth - 1),
                Ok(kind) if kind.is_file() => self.file(&path),
                _ => {}
            }
        }
    }

    /// Every socket by name, and every port of the loopback: what do they say unasked, and to a line?
    fn sockets(&mut self) {
        let names = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        self.bytes("/proc/net/unix", names.as_bytes());
        for name in names.lines().filter_map(|line| line.split_whitespace().nth(7)) {
            let address = match name.strip_prefix('@') {
                Some(name) => SocketAddr::from_abstract_name(name),
                None => SocketAddr::from_pathname(name),
            };
            let Ok(stream) = address.and_then(|address| UnixStream::connect_addr(&address)) else {
                continue;
            };
            // Ignored: a socket that knows no deadline ends with the test's.
            let _ = stream.set_read_timeout(Some(PATIENCE));
            self.talk(name, stream);
        }
        for port in listening() {
            let Ok(stream) = connect(port) else { continue };
            // Ignored: likewise.
            let _ = stream.set_read_timeout(Some(PATIENCE));
            self.talk(&format!("port {port}"), stream);
        }
    }

    fn talk(&mut self, name: &str, mut stream: impl Read + std::io::Write) {
        let mut heard = vec![0; 65536];
        for line in ["", "GET / HTTP/1.0\r\n\r\n"] {
            if stream.write_all(line.as_bytes()).is_err() {
                return;
            }
            let Ok(count) = stream.read(&mut heard) else { continue };
            self.bytes(name, &heard[..count]);
        }
    }

    /// System V segments: /proc lists them.
    fn shared_memory(&mut self) {
        let text = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        for id in
            text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)?.parse().ok())
        {
            const READ_ONLY: usize = 0o10000;
            let Ok(begin) = call(libc::SYS_shmat, &[id, 0, READ_ONLY]) else { continue };
            let name = format!("segment {id}");
            // The segment is a mapping of our own now; read as the kernel shows it, not by its address.
            let Ok(memory) = File::open("/proc/self/mem") else { continue };
            let mut buffer = vec![0; PIECE];
            if let Ok(count) = memory.read_at(&mut buffer, begin as u64) {
                self.bytes(&name, &buffer[..count]);
            }
        }
    }
}

fn range(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    // Not readable, or devices.
    if !rest.starts_with('r') || line.ends_with("[vvar]") || line.ends_with("[vsyscall]") {
        return None;
    }
    let (begin, end) = range.split_once('-')?;
    Some((u64::from_str_radix(begin, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

/// The ports that somebody in this network listens on (state 0A).
fn listening() -> Vec<u16> {
    let text = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let ports = text.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace();
        let (local, state) = (words.nth(1)?, words.nth(1)?);
        let port = u16::from_str_radix(local.split_once(':')?.1, 16).ok()?;
        (state == "0A").then_some(port)
    });
    ports.collect()
}

#[expect(clippy::disallowed_methods, reason = "this is the attacker, not the product")]
fn connect(port: u16) -> std::io::Result<TcpStream> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port))
}

/// KEYCTL_DESCRIBE of the thread's, process's, session's and user's keyrings; none may answer.
fn keys() -> Vec<String> {
    let buffer = [0_u8; 512];
    let at = crate::kernel::address(&buffer);
    let describe =
        |ring: isize| outcome(call(libc::SYS_keyctl, &[6, ring.cast_unsigned(), at, 512]));
    [-1, -2, -3, -4, -5].map(describe).to_vec()
}
