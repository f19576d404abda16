//! What the kernel says of this process.
//!
//! Runs in: probe.

use std::fs;

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{getgid, getgroups, getpgrp, getpid, getppid, getsid, getuid};
use serde_json::{Map, Value, json};

pub(crate) fn identity() -> Value {
    let groups: Vec<u32> =
        getgroups().unwrap_or_default().iter().map(|group| group.as_raw()).collect();
    let limit =
        |resource| getrlimit(resource).map_or(Value::Null, |(soft, hard)| json!([soft, hard]));
    json!({
        "uid": getuid().as_raw(),
        "gid": getgid().as_raw(),
        "groups": groups,
        "pid": getpid().as_raw(),
        "ppid": getppid().as_raw(),
        "group": getpgrp().as_raw(),
        "session": getsid(None).map_or(-1, nix::unistd::Pid::as_raw),
        "status": status(),
        "namespaces": namespaces(),
        "limits": {
            "core": limit(Resource::RLIMIT_CORE),
            "descriptors": limit(Resource::RLIMIT_NOFILE),
            "processes": limit(Resource::RLIMIT_NPROC),
        },
        "maps": {
            "uid": fs::read_to_string("/proc/self/uid_map").unwrap_or_default(),
            "gid": fs::read_to_string("/proc/self/gid_map").unwrap_or_default(),
            "setgroups": fs::read_to_string("/proc/self/setgroups").unwrap_or_default(),
        },
        "cgroup": fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
        "host": nix::unistd::gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned()),
        "interfaces": interfaces(),
    })
}

/// The lines of /proc/self/status, by their names.
fn status() -> Value {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    Value::Object(pairs.map(|(name, value)| (name.to_owned(), value.trim().into())).collect())
}

fn namespaces() -> Value {
    let mut all = Map::new();
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let link = fs::read_link(format!("/proc/self/ns/{kind}"));
        let link = link.map_or_else(|error| error.to_string(), |link| link.display().to_string());
        all.insert(kind.to_owned(), link.into());
    }
    Value::Object(all)
}

/// Says whether this process is in a user namespace other than the machine's, and not as its root.
pub(crate) fn is_boxed() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let words: Vec<&str> = map.split_whitespace().collect();
    let is_machine = words.is_empty() || words == ["0", "0", "4294967295"];
    !is_machine && !getuid().is_root()
}

fn interfaces() -> Vec<String> {
    let text = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim().to_owned())
        .collect()
}

/// The variables as the kernel keeps them: the process has not touched them.
pub(crate) fn environment() -> Value {
    let bytes = fs::read("/proc/self/environ").unwrap_or_default();
    let variables = bytes.split(|byte| *byte == 0).filter(|text| !text.is_empty());
    let mut all = Map::new();
    for variable in variables {
        let text = String::from_utf8_lossy(variable);
        let (name, value) = text.split_once('=').unwrap_or((&text, ""));
        all.insert(name.to_owned(), value.into());
    }
    Value::Object(all)
}
