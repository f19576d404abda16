//! What the table promises about arguments: what is refused, and its harmless twin.
//!
//! Runs in: any (tests).

use libc::*;

use super::Verdict::{Allow, Errno};
use super::syscalls_tests::{bits, both};

/// Bits that the kernel drops from a 32-bit argument.
const DIRTY: u64 = 0xDEAD_BEEF_0000_0000;

#[test]
fn no_namespace_is_made() {
    let namespaces = [
        CLONE_NEWNS,
        CLONE_NEWCGROUP,
        CLONE_NEWUTS,
        CLONE_NEWIPC,
        CLONE_NEWUSER,
        CLONE_NEWPID,
        CLONE_NEWNET,
    ];
    for flag in namespaces.map(bits) {
        assert_eq!(both(SYS_clone, &[flag | bits(SIGCHLD)]), Errno(EPERM), "{flag:x}");
        assert_eq!(both(SYS_unshare, &[flag | bits(CLONE_FS)]), Errno(EPERM), "{flag:x}");
    }
    assert_eq!(both(SYS_unshare, &[0x80]), Errno(EPERM));
    let thread = CLONE_VM
        | CLONE_FS
        | CLONE_FILES
        | CLONE_SIGHAND
        | CLONE_THREAD
        | CLONE_SYSVSEM
        | CLONE_SETTLS
        | CLONE_PARENT_SETTID
        | CLONE_CHILD_CLEARTID;
    assert_eq!(both(SYS_clone, &[bits(thread)]), Allow);
    assert_eq!(both(SYS_clone, &[bits(SIGCHLD) | DIRTY]), Allow);
    assert_eq!(both(SYS_unshare, &[bits(CLONE_FILES | CLONE_FS)]), Allow);
}

#[test]
fn sockets_are_local_tcp_udp_or_the_list_of_interfaces() {
    let cloexec = bits(SOCK_CLOEXEC | SOCK_NONBLOCK);
    for (family, kind, protocol) in [
        (AF_UNIX, SOCK_STREAM, 0),
        (AF_UNIX, SOCK_DGRAM, 0),
        (AF_UNIX, SOCK_SEQPACKET, 0),
        (AF_INET, SOCK_STREAM, 0),
        (AF_INET, SOCK_STREAM, IPPROTO_TCP),
        (AF_INET, SOCK_DGRAM, 0),
        (AF_INET, SOCK_DGRAM, IPPROTO_UDP),
        (AF_INET6, SOCK_STREAM, 0),
        (AF_INET6, SOCK_STREAM, IPPROTO_TCP),
        (AF_INET6, SOCK_DGRAM, 0),
        (AF_INET6, SOCK_DGRAM, IPPROTO_UDP),
        (AF_NETLINK, SOCK_RAW, NETLINK_ROUTE),
        (AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE),
    ] {
        let args = [bits(family), bits(kind), bits(protocol)];
        assert_eq!(both(SYS_socket, &args), Allow, "{args:x?}");
        let noisy = [args[0] | DIRTY, args[1] | cloexec | DIRTY, args[2] | DIRTY];
        assert_eq!(both(SYS_socket, &noisy), Allow, "{args:x?}");
    }
}

#[test]
fn other_socket_families_are_not_supported() {
    let known = [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK];
    for family in (-1..64).filter(|family| !known.contains(family)) {
        for kind in 0..16 {
            let args = [bits(family), kind, 0];
            assert_eq!(both(SYS_socket, &args), Errno(EAFNOSUPPORT), "{args:x?}");
        }
    }
    for protocol in 1..32 {
        let netlink = [bits(AF_NETLINK), bits(SOCK_RAW), protocol];
        assert_eq!(both(SYS_socket, &netlink), Errno(EAFNOSUPPORT), "{protocol}");
    }
    for (family, kind, protocol) in [
        (AF_INET, SOCK_RAW, IPPROTO_ICMP),
        (AF_INET6, SOCK_RAW, IPPROTO_RAW),
        (AF_INET, 10, 3),
        (AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP),
        (AF_INET, SOCK_DCCP, 0),
        (AF_UNIX, SOCK_RAW, 0),
        (AF_UNIX, SOCK_STREAM, 1),
        (AF_NETLINK, SOCK_SEQPACKET, 0),
        (AF_INET, 0, 0),
    ] {
        let args = [bits(family), bits(kind), bits(protocol)];
        assert_eq!(both(SYS_socket, &args), Errno(EAFNOSUPPORT), "{args:x?}");
    }
}

#[test]
fn other_internet_protocols_are_not_supported() {
    for (kind, protocol) in [
        (SOCK_STREAM, IPPROTO_MPTCP),
        (SOCK_STREAM, IPPROTO_SCTP),
        (SOCK_DGRAM, IPPROTO_ICMP),
        (SOCK_DGRAM, IPPROTO_UDPLITE),
        (SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_MPTCP),
        (SOCK_STREAM, IPPROTO_UDP),
        (SOCK_STREAM, 256 + IPPROTO_TCP),
    ] {
        for family in [AF_INET, AF_INET6].map(bits) {
            let args = [family, bits(kind), bits(protocol)];
            assert_eq!(both(SYS_socket, &args), Errno(EPROTONOSUPPORT), "{args:x?}");
        }
    }
}

#[test]
fn pairs_of_sockets_are_local() {
    for kind in [SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET].map(bits) {
        let args = [bits(AF_UNIX), kind | bits(SOCK_CLOEXEC), 0];
        assert_eq!(both(SYS_socketpair, &args), Allow);
    }
    for (family, kind, protocol) in [
        (AF_UNIX, SOCK_RAW, 0),
        (AF_UNIX, SOCK_STREAM, 1),
        (AF_INET, SOCK_STREAM, 0),
        (30, SOCK_STREAM, 0),
        (AF_NETLINK, SOCK_RAW, 0),
    ] {
        let args = [bits(family), bits(kind), bits(protocol)];
        assert_eq!(both(SYS_socketpair, &args), Errno(EAFNOSUPPORT), "{args:x?}");
    }
}

#[test]
fn nothing_types_into_a_terminal_even_with_bits_that_the_kernel_drops() {
    for command in [0x5412, 0x541C, 0x5423, 0x541D] {
        for high in [0, DIRTY, 1 << 32, 0xFFFF_FFFF_0000_0000] {
            assert_eq!(both(SYS_ioctl, &[0, command | high]), Errno(EPERM), "{command:x}");
        }
    }
    for command in [TCGETS, TIOCGWINSZ, TIOCSWINSZ, TIOCGPGRP, TIOCSPGRP, FIONREAD, FIOCLEX] {
        assert_eq!(both(SYS_ioctl, &[0, command]), Allow, "{command:x}");
    }
}

#[test]
fn memory_does_not_become_executable_by_personality() {
    for value in [0, 8, 0x2_0000, 0x2_0008, 0x4_0000, 0xFFFF_FFFF, u64::MAX] {
        assert_eq!(both(SYS_personality, &[value]), Allow, "{value:x}");
    }
    for value in [0x40_0000, 0x44_0000, 0x10_0000, 1, 0x4_0008, 0xFFFF_FFFE] {
        assert_eq!(both(SYS_personality, &[value]), Errno(EPERM), "{value:x}");
        assert_eq!(both(SYS_personality, &[value | DIRTY]), Errno(EPERM), "{value:x}");
    }
}

#[test]
fn no_file_becomes_set_id() {
    let creates = [O_CREAT | O_WRONLY, O_TMPFILE | O_RDWR].map(bits);
    for (mode, verdict) in [
        (0o644, Allow),
        (0o1777, Allow),
        (0o7, Allow),
        (0o644 | DIRTY, Allow),
        (0o644 | 0x1_0000, Allow),
        (0o4755, Errno(EPERM)),
        (0o2755, Errno(EPERM)),
        (0o6000, Errno(EPERM)),
        (0o4755 | DIRTY, Errno(EPERM)),
        (0o2755 | 0x1_0000, Errno(EPERM)),
    ] {
        assert_eq!(both(SYS_fchmod, &[3, mode]), verdict, "{mode:o}");
        assert_eq!(both(SYS_fchmodat, &[3, 0, mode]), verdict, "{mode:o}");
        assert_eq!(both(452, &[3, 0, mode, 0]), verdict, "{mode:o}");
        for flags in creates {
            assert_eq!(both(SYS_openat, &[3, 0, flags, mode]), verdict, "{mode:o}");
            assert_eq!(both(SYS_openat, &[3, 0, flags | DIRTY, mode]), verdict, "{mode:o}");
        }
        // Without creation the mode is whatever the register held.
        assert_eq!(both(SYS_openat, &[3, 0, bits(O_RDWR | O_DIRECTORY), mode]), Allow, "{mode:o}");
    }
}

#[test]
fn no_device_is_made() {
    for (mode, verdict) in [
        (S_IFREG | 0o644, Allow),
        (0o644, Allow),
        (S_IFIFO | 0o600, Allow),
        (S_IFSOCK, Allow),
        (S_IFCHR | 0o666, Errno(EPERM)),
        (S_IFBLK | 0o666, Errno(EPERM)),
        (S_IFDIR, Errno(EPERM)),
        (S_IFLNK, Errno(EPERM)),
        (S_IFREG | 0o4755, Errno(EPERM)),
        (0o2755, Errno(EPERM)),
        (S_IFIFO | 0o2600, Errno(EPERM)),
    ] {
        for dirt in [0, DIRTY, 0x1_0000] {
            let mode = u64::from(mode) | dirt;
            assert_eq!(both(SYS_mknodat, &[3, 0, mode, 0]), verdict, "{mode:o}");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_older_forms_follow_the_same_rules() {
    let creates = bits(O_CREAT | O_WRONLY);
    assert_eq!(both(SYS_chmod, &[0, 0o644]), Allow);
    assert_eq!(both(SYS_chmod, &[0, 0o4755]), Errno(EPERM));
    assert_eq!(both(SYS_creat, &[0, 0o644]), Allow);
    assert_eq!(both(SYS_creat, &[0, 0o2755]), Errno(EPERM));
    assert_eq!(both(SYS_open, &[0, creates, 0o644]), Allow);
    assert_eq!(both(SYS_open, &[0, creates, 0o4755]), Errno(EPERM));
    assert_eq!(both(SYS_open, &[0, 0, 0o4755]), Allow);
    assert_eq!(both(SYS_mknod, &[0, u64::from(S_IFIFO), 0]), Allow);
    assert_eq!(both(SYS_mknod, &[0, u64::from(S_IFCHR), 0]), Errno(EPERM));
}

#[test]
fn a_process_sets_itself_up_but_not_its_memory_map() {
    assert_eq!(both(SYS_prctl, &[35, 14]), Errno(EPERM));
    assert_eq!(both(SYS_prctl, &[35 | DIRTY, 14]), Errno(EPERM));
    for option in [PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_PTRACER] {
        assert_eq!(both(SYS_prctl, &[bits(option), 1]), Allow);
    }
}

#[test]
fn filters_stack_but_nobody_answers_in_place_of_the_kernel() {
    assert_eq!(both(SYS_seccomp, &[1, 8]), Errno(EPERM));
    assert_eq!(both(SYS_seccomp, &[1 | DIRTY, 8 | 1 | DIRTY]), Errno(EPERM));
    // Thread sync, logging; the strict mode; the questions.
    for (operation, flags) in [(1, 0), (1, 1), (1, 2), (1, 4), (0, 0), (2, 0), (3, 8)] {
        assert_eq!(both(SYS_seccomp, &[operation, flags]), Allow, "{operation} {flags}");
    }
}

#[test]
fn the_first_process_keeps_its_limits_and_priority() {
    let by_pid = [
        SYS_prlimit64,
        SYS_sched_setaffinity,
        SYS_sched_setscheduler,
        SYS_sched_setparam,
        SYS_sched_setattr,
    ];
    for number in by_pid {
        assert_eq!(both(number, &[1]), Errno(EPERM), "{number}");
        assert_eq!(both(number, &[1 | DIRTY]), Errno(EPERM), "{number}");
        // Oneself, and a thread or a child.
        assert_eq!(both(number, &[0]), Allow, "{number}");
        assert_eq!(both(number, &[4711]), Allow, "{number}");
    }
    for (number, process, group, user) in [(SYS_setpriority, 0, 1, 2), (SYS_ioprio_set, 1, 2, 3)] {
        assert_eq!(both(number, &[process, 1, 19]), Errno(EPERM));
        assert_eq!(both(number, &[group, 1, 19]), Errno(EPERM));
        assert_eq!(both(number, &[user, 0, 19]), Errno(EPERM));
        assert_eq!(both(number, &[user, 1000, 19]), Errno(EPERM));
        assert_eq!(both(number, &[process, 0, 19]), Allow);
        assert_eq!(both(number, &[process, 4711, 19]), Allow);
        assert_eq!(both(number, &[group, 0, 19]), Allow);
    }
}
