//! Which processes are in sight, and every way into one of them.
//!
//! Runs in: probe.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use serde_json::{Map, Value, json};

use crate::kernel::{address, call, io_outcome, outcome};

/// Process numbers that are tried though nobody lists them.
const BLIND: i32 = 300;

/// Everything listed, and everything that answers without being listed.
pub(crate) fn all() -> Value {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let listed = listed();
    let mut found = Map::new();
    for pid in (1..=BLIND).chain(listed.iter().copied()) {
        let answers = reach(pid);
        let is_there = listed.contains(&pid) || answers.get("kill 0") != Some(&"ESRCH".into());
        if pid != own && is_there {
            found.insert(pid.to_string(), answers);
        }
    }
    json!({ "own": own, "listed": listed, "found": found })
}

/// The numbers in /proc.
pub(crate) fn listed() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut pids: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

/// Tries every way into one process.
pub(crate) fn reach(pid: i32) -> Value {
    let mut answers = Map::new();
    let mut note = |name: &str, outcome: String| answers.insert(name.to_owned(), outcome.into());
    for file in ["environ", "cmdline", "maps", "stat", "status", "auxv", "stack"] {
        note(file, read(&format!("/proc/{pid}/{file}")));
    }
    note("mem", memory(pid));
    for directory in ["fd", "fdinfo", "task", "map_files"] {
        note(directory, io_outcome(fs::read_dir(format!("/proc/{pid}/{directory}"))));
    }
    for directory in ["root", "cwd"] {
        note(directory, io_outcome(fs::read_dir(format!("/proc/{pid}/{directory}/"))));
    }
    note("exe", io_outcome(File::open(format!("/proc/{pid}/exe"))));
    note(
        "exe for writing",
        io_outcome(File::options().write(true).open(format!("/proc/{pid}/exe"))),
    );
    for kind in ["user", "mnt", "pid", "net"] {
        note(&format!("ns {kind}"), io_outcome(File::open(format!("/proc/{pid}/ns/{kind}"))));
    }
    let number = pid.unsigned_abs() as usize;
    note("ptrace", trace(number));
    let mut byte = 0_u8;
    let local: [usize; 2] = [std::ptr::from_mut(&mut byte) as usize, 1];
    let remote: [usize; 2] = [address(&byte), 1];
    let arguments = [number, address(&local), 1, address(&remote), 1, 0];
    note("process_vm_readv", outcome(call(libc::SYS_process_vm_readv, &arguments)));
    note("process_vm_writev", outcome(call(libc::SYS_process_vm_writev, &arguments)));
    let pidfd = call(libc::SYS_pidfd_open, &[number, 0]);
    let taken = pidfd.and_then(|fd| call(libc::SYS_pidfd_getfd, &[fd, 0, 0]));
    note("pidfd_getfd", outcome(taken));
    note("kill 0", outcome(call(libc::SYS_kill, &[number, 0])));
    Value::Object(answers)
}

fn read(path: &str) -> String {
    match fs::read(path) {
        Ok(bytes) if bytes.is_empty() => "empty".to_owned(),
        other => io_outcome(other),
    }
}

/// Reads one byte of the stack through /proc/PID/mem.
fn memory(pid: i32) -> String {
    let file = match File::open(format!("/proc/{pid}/mem")) {
        Ok(file) => file,
        Err(error) => return io_outcome::<()>(Err(error)),
    };
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let begin = maps.lines().find(|line| line.ends_with("[stack]"));
    let begin = begin.and_then(|line| u64::from_str_radix(line.split('-').next()?, 16).ok());
    match begin {
        Some(begin) => io_outcome(file.read_exact_at(&mut [0], begin)),
        None => "no maps".to_owned(),
    }
}

/// PTRACE_SEIZE, and PTRACE_DETACH at once where it works.
fn trace(pid: usize) -> String {
    let seized: Result<usize, Errno> = call(libc::SYS_ptrace, &[0x4206, pid, 0, 0]);
    if seized.is_ok() {
        // Ignored: a process that runs cannot be let go before it stops; it is let go when the probe ends.
        let _ = call(libc::SYS_ptrace, &[17, pid, 0, 0]);
    }
    outcome(seized)
}
