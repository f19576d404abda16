//! The surface of the kernel: every refused call with its exact errno, every allowed twin.
//!
//! Runs in: the test's own process.

use std::collections::BTreeMap;

use sandboxd_tests::{TestHost, needs};
use serde_json::Value;

/// Calls that a user should take for a policy.
const NOT_PERMITTED: &[&str] = &[
    "acct",
    "add_key",
    "bpf",
    "chroot",
    "clock_settime",
    "delete_module",
    "fanotify_init",
    "fanotify_mark",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "mount",
    "mount_setattr",
    "move_mount",
    "name_to_handle_at",
    "open_by_handle_at",
    "open_tree",
    "open_tree_attr",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "quotactl",
    "reboot",
    "request_key",
    "setdomainname",
    "sethostname",
    "setns",
    "setns to the own network",
    "settimeofday",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "vhangup",
];

/// Calls for which programs have another way when there is none.
const NOT_THERE: &[&str] = &[
    "clone3",
    "get_mempolicy",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "listmount",
    "mbind",
    "memfd_secret",
    "migrate_pages",
    "move_pages",
    "openat2",
    "process_mrelease",
    "set_mempolicy",
    "statmount",
    "unknown number",
    "userfaultfd",
    "vmsplice",
];

/// Arguments that decide: refused.
const REFUSED_BY_ARGUMENT: &[&str] = &[
    "clone cgroup",
    "clone ipc",
    "clone mount",
    "clone net",
    "clone pid",
    "clone user",
    "clone uts",
    "unshare cgroup",
    "unshare ipc",
    "unshare mount",
    "unshare net",
    "unshare pid",
    "unshare time",
    "unshare user",
    "unshare uts",
    "ioctl TIOCCONS",
    "ioctl TIOCLINUX",
    "ioctl TIOCLINUX with high bits",
    "ioctl TIOCSETD",
    "ioctl TIOCSTI",
    "ioctl TIOCSTI with high bits",
    "mknod block device",
    "mknod character device",
    "mknod whiteout",
    "personality executable data",
    "prctl PR_SET_MM",
    "prlimit of pid 1",
    "seccomp with a listener",
    "setpriority of pid 1",
    "setpriority of the user",
    "fchmod setgid",
    "fchmod setuid",
    "fchmodat setgid",
    "fchmodat setuid",
    "fchmodat2 setgid",
    "fchmodat2 setuid",
    "mknodat setgid",
    "mknodat setuid",
    "openat setgid",
    "openat setuid",
];

/// The same calls where they are allowed.
const ALLOWED: &[&str] = &[
    "clone",
    "fchmod plain",
    "fchmodat plain",
    "fchmodat2 plain",
    "inotify_init1",
    "ioctl TIOCGPTN",
    "memfd_create",
    "mknod fifo",
    "mknod socket",
    "mknodat plain",
    "openat plain",
    "personality fixed addresses",
    "personality plain",
    "personality question",
    "pidfd_open of a child",
    "prlimit of itself",
    "process_vm_readv of a child",
    "ptrace of a child",
    "seccomp",
    "setpriority of itself",
    "unshare of descriptors",
];

/// What only x86_64 has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[(&str, &str)] = &[
    ("chmod plain", "OK"),
    ("chmod setgid", "EPERM"),
    ("chmod setuid", "EPERM"),
    ("creat plain", "OK"),
    ("creat setgid", "EPERM"),
    ("creat setuid", "EPERM"),
    ("open plain", "OK"),
    ("open setgid", "EPERM"),
    ("open setuid", "EPERM"),
    ("iopl", "EPERM"),
    ("ioperm", "EPERM"),
    ("modify_ldt", "ENOSYS"),
    ("x32 getpid", "ENOSYS"),
    ("x32 ioctl", "ENOSYS"),
    ("x32 socket", "ENOSYS"),
    ("int 0x80", "SIGSYS"),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[(&str, &str)] = &[];

#[test]
fn every_refused_call_answers_its_errno_and_every_twin_works() {
    let host = needs!(TestHost::start());
    let groups = [
        (NOT_PERMITTED, "EPERM"),
        (NOT_THERE, "ENOSYS"),
        (REFUSED_BY_ARGUMENT, "EPERM"),
        (ALLOWED, "OK"),
    ];
    let mut expected: BTreeMap<String, Value> = BTreeMap::new();
    for (names, answer) in groups {
        expected.extend(names.iter().map(|name| ((*name).to_owned(), answer.into())));
    }
    expected.extend(OLDER.iter().map(|(name, answer)| ((*name).to_owned(), (*answer).into())));
    let answers: BTreeMap<String, Value> =
        serde_json::from_value(host.run().probe(["calls"])).unwrap();
    let names = expected.keys().chain(answers.keys());
    let wrong: Vec<String> = names
        .filter(|name| expected.get(*name) != answers.get(*name))
        .map(|name| format!("{name}: {:?}, expected {:?}", answers.get(name), expected.get(name)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn sockets_are_local_ip_and_the_list_of_interfaces() {
    let host = needs!(TestHost::start());
    let answers: BTreeMap<String, String> =
        serde_json::from_value(host.run().probe(["sockets"])).unwrap();
    let allowed = [
        "netlink route",
        "pair unix",
        "pair unix datagram",
        "tcp",
        "tcp by number",
        "tcp non-blocking close-on-exec",
        "tcp6",
        "udp",
        "udp by number",
        "udp6",
        "unix datagram",
        "unix seqpacket",
        "unix stream",
    ];
    let no_protocol = ["mptcp", "ping", "ping6", "sctp"];
    for (name, answer) in &answers {
        let expected = match name.as_str() {
            name if allowed.contains(&name) => "OK",
            name if no_protocol.contains(&name) => "EPROTONOSUPPORT",
            _ => "EAFNOSUPPORT",
        };
        assert_eq!(answer, expected, "{name}");
    }
    assert_eq!(answers.len(), 41);
}

#[test]
fn a_command_has_no_capability_and_no_way_to_gain_one() {
    let host = needs!(TestHost::start());
    let identity = host.run().probe(["identity"]);
    let status = &identity["status"];
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status[set], "0000000000000000", "{set}");
    }
    assert_eq!((&status["NoNewPrivs"], &status["Seccomp"]), (&"1".into(), &"2".into()));
    let uid = nix::unistd::Uid::current().as_raw();
    let map = identity["maps"]["uid"].as_str().unwrap();
    let map: Vec<&str> = map.split_whitespace().collect();
    assert_eq!(map, [uid.to_string().as_str(), uid.to_string().as_str(), "1"]);
    assert_eq!(identity["maps"]["setgroups"], "deny\n");
    assert_eq!(identity["uid"], uid);
    // A program whose file says set-user-id gains nothing by it.
    let done = host.run().command(["sh", "-c", "su -c id < /dev/null"]);
    assert_ne!(done.status, 0, "{done:?}");
}

#[test]
fn every_namespace_is_the_box_s_own() {
    let host = needs!(TestHost::start());
    let boxed = host.run().probe(["identity"]);
    let own: Value = host
        .on_host(host.path("").as_path(), [host.probe().as_os_str(), "identity".as_ref()])
        .json();
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        assert_ne!(boxed["namespaces"][kind], own["namespaces"][kind], "{kind}");
    }
    assert_eq!(boxed["interfaces"], serde_json::json!(["lo"]));
    assert_eq!(boxed["host"], "box");
    let named = host.run().with(["--name", "named-box"]).probe(["identity"]);
    assert_eq!(named["host"], "named-box");
}

#[test]
fn debuggers_and_compilers_work_under_the_filter() {
    let host = needs!(TestHost::start());
    let (gdb, strace) = (host.command("gdb"), host.command("strace"));
    needs!(host.command("gcc"));
    let tree = host.project("c");
    tree.write("a.c", "#include <stdio.h>\nint main(void) { puts(\"compiled\"); return 0; }\n");
    let built = host.run_in(&tree).shell("gcc -g -o a a.c && ./a").expect(0);
    assert_eq!(built.text(), "compiled\n");
    needs!(strace);
    let traced = host.run_in(&tree).shell("strace -f -o log ./a && grep -c write log").expect(0);
    assert!(traced.text().starts_with("compiled\n"), "{traced:?}");
    needs!(gdb);
    let debugged = host
        .run_in(&tree)
        .shell("gdb -q -batch -ex 'break main' -ex run -ex bt ./a 2>&1")
        .expect(0);
    assert!(debugged.text().contains("#0  main"), "{debugged:?}");
}
