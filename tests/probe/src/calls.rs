//! Every system call that a box refuses, with arguments that would otherwise lead further, and allowed twins.
//!
//! Runs in: probe.

use std::fs::{self, File};
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use serde_json::{Map, Value};

use crate::kernel::{Argument, address, call, fork, in_child, kill, leave, outcome, text};

type Answers = Map<String, Value>;

pub(crate) fn all() -> Value {
    let mut answers = Answers::new();
    plain(&mut answers);
    namespaces(&mut answers);
    modes(&mut answers);
    terminals(&mut answers);
    processes(&mut answers);
    foreign(&mut answers);
    twins(&mut answers);
    Value::Object(answers)
}

fn note(answers: &mut Answers, name: &str, outcome: String) {
    answers.insert(name.to_owned(), outcome.into());
}

/// Calls that are refused whatever their arguments.
fn plain(answers: &mut Answers) {
    macro_rules! refused {
        ($($name:ident)*) => {
            [$((stringify!($name).trim_start_matches("SYS_"), libc::$name)),*]
        };
    }
    let by_name = refused! {
        SYS_umount2 SYS_pivot_root SYS_chroot SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick
        SYS_open_tree SYS_move_mount SYS_mount_setattr SYS_setns SYS_sethostname SYS_setdomainname
        SYS_name_to_handle_at SYS_open_by_handle_at SYS_bpf SYS_perf_event_open SYS_keyctl
        SYS_add_key SYS_request_key SYS_init_module SYS_finit_module SYS_delete_module
        SYS_kexec_load SYS_kexec_file_load SYS_swapon SYS_swapoff SYS_acct SYS_vhangup
        SYS_settimeofday SYS_clock_settime SYS_pidfd_getfd SYS_kcmp SYS_quotactl
        SYS_fanotify_init SYS_fanotify_mark
        SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register SYS_userfaultfd SYS_mbind
        SYS_set_mempolicy SYS_get_mempolicy SYS_migrate_pages SYS_move_pages SYS_openat2
        SYS_vmsplice SYS_memfd_secret SYS_process_mrelease
    };
    for (name, number) in by_name {
        note(answers, name, outcome(call(number, &[])));
    }
    #[cfg(target_arch = "x86_64")]
    for (name, number) in refused! { SYS_iopl SYS_ioperm SYS_modify_ldt } {
        note(answers, name, outcome(call(number, &[])));
    }
    // Not all of these have a name in libc; from 424 on, all architectures share the numbers.
    for (name, number) in [("statmount", 457), ("listmount", 458), ("open_tree_attr", 467)] {
        note(answers, name, outcome(call(number, &[])));
    }
    let (source, target, kind) = (text("none"), text("/tmp"), text("tmpfs"));
    let mount = [address(source.as_c_str()), address(target.as_c_str()), address(kind.as_c_str())];
    note(answers, "mount", outcome(call(libc::SYS_mount, &mount)));
    // LINUX_REBOOT_CMD_CAD_OFF: harmless where it works.
    let reboot = [0xfee1_dead, 672_274_793, 0];
    note(answers, "reboot", outcome(call(libc::SYS_reboot, &reboot)));
    // SYSLOG_ACTION_SIZE_BUFFER.
    note(answers, "syslog", outcome(call(libc::SYS_syslog, &[10])));
    note(answers, "unknown number", outcome(call(4000, &[])));
}

const KINDS: [(&str, usize); 8] = [
    ("mount", 0x0002_0000),
    ("cgroup", 0x0200_0000),
    ("uts", 0x0400_0000),
    ("ipc", 0x0800_0000),
    ("user", 0x1000_0000),
    ("pid", 0x2000_0000),
    ("net", 0x4000_0000),
    ("time", 0x80),
];

/// Each kind of namespace, by each of the calls that make one.
fn namespaces(answers: &mut Answers) {
    for (name, flag) in KINDS {
        let attempt = || call(libc::SYS_unshare, &[flag]);
        note(answers, &format!("unshare {name}"), in_child(attempt));
        // In clone the bit of a time namespace is a part of the signal.
        if name != "time" {
            note(answers, &format!("clone {name}"), clone(flag));
        }
    }
    // struct clone_args: flags, six fields, exit signal; the rest is nothing.
    let arguments: [u64; 11] = [0, 0, 0, 0, libc::SIGCHLD.unsigned_abs().into(), 0, 0, 0, 0, 0, 0];
    let clone3 = call(libc::SYS_clone3, &[address(&arguments), 88]);
    if let Ok(0) = clone3 {
        leave(0);
    }
    note(answers, "clone3", outcome(clone3));
    let own = File::open("/proc/self/ns/net")
        .map(|file| call(libc::SYS_setns, &[file.as_raw_fd().unsigned_abs() as usize, 0]));
    note(answers, "setns to the own network", own.map_or_else(|error| error.to_string(), outcome));
}

/// A child in a new namespace, in case that it is made.
fn clone(flag: usize) -> String {
    let made = call(libc::SYS_clone, &[flag | libc::SIGCHLD as usize]);
    match made {
        Ok(0) => leave(0),
        Ok(child) => {
            kill(i32::try_from(child).unwrap_or(-1));
            "OK".to_owned()
        }
        Err(errno) => format!("{errno:?}"),
    }
}

/// Set-id bits, by each of the calls that could give them, and kinds of nodes.
fn modes(answers: &mut Answers) {
    let path = format!("/tmp/probe.{}", std::process::id());
    let made = format!("{path}.made");
    let Ok(file) = File::create(&path) else {
        return note(answers, "a file in /tmp", "missing".to_owned());
    };
    let (name, new) = (text(&path), text(&made));
    let fd = file.as_raw_fd().unsigned_abs() as usize;
    let here = (libc::AT_FDCWD as isize).cast_unsigned();
    let (at, new) = (address(name.as_c_str()), address(new.as_c_str()));
    let create = (libc::O_CREAT | libc::O_WRONLY) as usize;
    for (name, set) in [("plain", 0), ("setuid", 0o4000), ("setgid", 0o2000)] {
        let mode = 0o755 | set;
        let mut attempt = |what: &str, number, arguments: &[Argument]| {
            note(answers, &format!("{what} {name}"), outcome(call(number, arguments)));
            // Ignored: only what was made must go.
            let _ = fs::remove_file(&made);
        };
        attempt("fchmod", libc::SYS_fchmod, &[fd, mode]);
        attempt("fchmodat", libc::SYS_fchmodat, &[here, at, mode]);
        attempt("fchmodat2", 452, &[here, at, mode, 0]);
        attempt("openat", libc::SYS_openat, &[here, new, create, mode]);
        attempt("mknodat", libc::SYS_mknodat, &[here, new, libc::S_IFREG as usize | mode, 0]);
        #[cfg(target_arch = "x86_64")]
        {
            attempt("chmod", libc::SYS_chmod, &[at, mode]);
            attempt("creat", libc::SYS_creat, &[new, mode]);
            attempt("open", libc::SYS_open, &[new, create, mode]);
        }
    }
    let nodes = [
        ("fifo", libc::S_IFIFO, 0),
        ("socket", libc::S_IFSOCK, 0),
        ("block device", libc::S_IFBLK, 0x801),
        ("character device", libc::S_IFCHR, 0x103),
        // What an overlay takes for "removed".
        ("whiteout", libc::S_IFCHR, 0),
    ];
    for (name, kind, device) in nodes {
        let node = [here, new, kind as usize | 0o600, device];
        note(answers, &format!("mknod {name}"), outcome(call(libc::SYS_mknodat, &node)));
        // Ignored: only what was made must go.
        let _ = fs::remove_file(&made);
    }
    // Ignored: /tmp goes with the box.
    let _ = fs::remove_file(&path);
}

/// Typing into a terminal, changing what it is; the number has 32 bits, whatever stands above them.
fn terminals(answers: &mut Answers) {
    let Ok(master) = File::options().read(true).write(true).open("/dev/ptmx") else {
        return note(answers, "a terminal", "missing".to_owned());
    };
    let fd = master.as_raw_fd().unsigned_abs() as usize;
    let value = 0_i32;
    let high = 1_usize << 32;
    let numbers = [
        ("TIOCSTI", 0x5412),
        ("TIOCLINUX", 0x541C),
        ("TIOCCONS", 0x541D),
        ("TIOCSETD", 0x5423),
        ("TIOCSTI with high bits", 0x5412 | high),
        ("TIOCLINUX with high bits", 0x541C | high),
        // The twin: asks for the number of the terminal.
        ("TIOCGPTN", 0x8004_5430),
    ];
    for (name, number) in numbers {
        let result = call(libc::SYS_ioctl, &[fd, number, address(&value)]);
        note(answers, &format!("ioctl {name}"), outcome(result));
    }
}

/// What changes other processes or makes a process other than it is.
fn processes(answers: &mut Answers) {
    let personalities = [
        ("plain", 0),
        ("question", 0xFFFF_FFFF),
        ("fixed addresses", 0x4_0000),
        ("executable data", 0x40_0000),
    ];
    for (name, value) in personalities {
        let attempt = || call(libc::SYS_personality, &[value]);
        note(answers, &format!("personality {name}"), in_child(attempt));
    }
    // PR_SET_MM with PR_SET_MM_ARG_START.
    note(answers, "prctl PR_SET_MM", outcome(call(libc::SYS_prctl, &[35, 8, 0x1000])));
    let limit: [u64; 2] = [0, 0];
    let none = 0;
    // RLIMIT_NOFILE is 7.
    let (own, first) = ([0, 7, none, address(&limit)], [1, 7, none, address(&limit)]);
    note(answers, "prlimit of itself", outcome(call(libc::SYS_prlimit64, &own)));
    note(answers, "prlimit of pid 1", outcome(call(libc::SYS_prlimit64, &first)));
    let priorities = [("itself", [0, 0, 5]), ("pid 1", [0, 1, 5]), ("the user", [2, 0, 5])];
    for (name, arguments) in priorities {
        let attempt = || call(libc::SYS_setpriority, &arguments);
        note(answers, &format!("setpriority of {name}"), in_child(attempt));
    }
    // A filter of one instruction that allows everything: struct sock_filter, struct sock_fprog.
    let allow: [u64; 1] = [0x7fff_0000_0000_0006];
    let program: [usize; 2] = [1, address(&allow)];
    let listen = || call(libc::SYS_seccomp, &[1, 8, address(&program)]);
    note(answers, "seccomp with a listener", in_child(listen));
    let narrow = || call(libc::SYS_seccomp, &[1, 0, address(&program)]);
    note(answers, "seccomp", in_child(narrow));
}

/// Doors beside the native one.
#[cfg(target_arch = "x86_64")]
fn foreign(answers: &mut Answers) {
    // getpid, with the bit of x32; socket likewise; and the number that only x32 has for ioctl.
    for (name, number) in [("getpid", 39), ("socket", 41), ("ioctl", 514)] {
        let attempt = || call(0x4000_0000 | number, &[2, 1, 0]);
        note(answers, &format!("x32 {name}"), in_child(attempt));
    }
    note(answers, "int 0x80", in_child(old_door));
}

/// This architecture has one door only.
#[cfg(not(target_arch = "x86_64"))]
fn foreign(_answers: &mut Answers) {}

/// getpid by the interrupt of 32-bit programs.
#[cfg(target_arch = "x86_64")]
fn old_door() -> Result<usize, Errno> {
    let result: usize;
    // SAFETY: getpid takes no argument and touches no memory; the kernel may change r8 to r11.
    unsafe {
        std::arch::asm!(
            "int 0x80",
            inlateout("rax") 20_usize => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    Ok(result)
}

/// The same kinds of calls where they are allowed: a box that refuses everything is broken.
fn twins(answers: &mut Answers) {
    let child = fork();
    if let Ok(0) = child {
        // Waits to be traced and killed.
        loop {
            nix::unistd::pause();
        }
    }
    let pid = child.unwrap_or(-1);
    note(answers, "clone", outcome(child));
    let target = pid.unsigned_abs() as usize;
    // PTRACE_SEIZE and PTRACE_INTERRUPT of one's own child.
    note(answers, "ptrace of a child", outcome(call(libc::SYS_ptrace, &[0x4206, target, 0, 0])));
    let (mut buffer, value) = ([0_u8; 8], *b"in sight");
    let local: [usize; 2] = [std::ptr::from_mut(&mut buffer) as usize, 8];
    let remote: [usize; 2] = [address(&value), 8];
    let read = [target, address(&local), 1, address(&remote), 1, 0];
    note(answers, "process_vm_readv of a child", outcome(call(libc::SYS_process_vm_readv, &read)));
    note(answers, "pidfd_open of a child", outcome(call(libc::SYS_pidfd_open, &[target])));
    kill(pid);
    let name = text("probe");
    let memory = [address(name.as_c_str()), 0];
    note(answers, "memfd_create", outcome(call(libc::SYS_memfd_create, &memory)));
    // CLONE_FILES and CLONE_FS.
    let apart = || call(libc::SYS_unshare, &[0x600]);
    note(answers, "unshare of descriptors", in_child(apart));
    note(answers, "inotify_init1", outcome(call(libc::SYS_inotify_init1, &[])));
}
