//! What the table promises, call by call.
//!
//! Runs in: any (tests).

use std::collections::BTreeSet;

use libc::*;

use super::Verdict::{Allow, Errno, Kill};
use super::{Answer, Arch, Call, Profile, Verdict, decide, groups, rows};

const BOTH: [Profile; 2] = [Profile::Agent, Profile::Server];

/// Bits that the kernel drops from a 32-bit argument.
const DIRTY: u64 = 0xDEAD_BEEF_0000_0000;

fn call(number: c_long, args: &[u64]) -> Call {
    let mut all = [0x5555_5555_5555_5555; 6];
    all[..args.len()].copy_from_slice(args);
    Call { arch: Arch::Native, number: u32::try_from(number).unwrap(), args: all }
}

/// What both profiles say, which has to be the same.
fn both(number: c_long, args: &[u64]) -> Verdict {
    let [agent, server] = BOTH.map(|profile| decide(&call(number, args), profile));
    assert_eq!(agent, server, "{number} {args:x?}");
    agent
}

fn bits(value: c_int) -> u64 {
    u64::from(value.cast_unsigned())
}

#[test]
fn every_call_has_one_row() {
    let numbers: BTreeSet<u32> = rows().map(|(row, _)| row.number).collect();
    let names: BTreeSet<&str> = rows().map(|(row, _)| row.name).collect();
    assert_eq!((numbers.len(), names.len()), (rows().count(), rows().count()));
}

#[test]
fn every_group_says_why() {
    for group in groups() {
        assert!(group.reason.len() > 20 && !group.reason.ends_with('.'), "{}", group.name);
    }
    let names: BTreeSet<&str> = groups().map(|group| group.name).collect();
    assert_eq!(names.len(), groups().count());
}

#[test]
fn every_clause_can_hold_and_says_something_new() {
    for group in groups() {
        let Answer::Rules(rules) = group.answer else { continue };
        assert!(!rules.clauses.is_empty(), "{}", group.name);
        assert_ne!(rules.clauses.last().unwrap().then, rules.otherwise, "{}", group.name);
        for test in rules.clauses.iter().flat_map(|clause| clause.when) {
            assert!(test.argument < 6 && test.value & !test.mask == 0, "{}", group.name);
        }
    }
}

#[test]
fn a_call_that_is_not_listed_does_not_exist() {
    for number in [SYS_lookup_dcookie, SYS_nfsservctl, 470, 0x3FFF_FFFF, 0xFFFF_FFFF] {
        assert_eq!(both(number, &[]), Errno(ENOSYS), "{number}");
    }
    assert_eq!(both(SYS_read, &[]), Allow);
}

#[test]
fn foreign_architectures_are_killed_and_x32_does_not_exist() {
    for profile in BOTH {
        for number in [0, 1, 11, 102, 0x4000_0000] {
            let native = call(number, &[0; 6]);
            let foreign = Call { arch: Arch::Foreign, ..native };
            let x32 = Call { arch: Arch::X32, number: native.number | 0x4000_0000, ..native };
            assert_eq!(decide(&foreign, profile), Kill);
            assert_eq!(decide(&x32, profile), Errno(ENOSYS));
            assert_eq!(decide(&Call { arch: Arch::Native, ..x32 }, profile), Errno(ENOSYS));
        }
    }
}

#[test]
fn what_is_policy_answers_eperm() {
    let refused = [
        SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_setns, SYS_fsopen, SYS_fsmount,
        SYS_fsconfig, SYS_fspick, SYS_open_tree, SYS_move_mount, SYS_mount_setattr, 467, SYS_bpf,
        SYS_perf_event_open, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_kexec_load,
        SYS_kexec_file_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_reboot,
        SYS_swapon, SYS_swapoff, SYS_acct, SYS_quotactl, SYS_quotactl_fd, SYS_settimeofday,
        SYS_clock_settime, SYS_sethostname, SYS_setdomainname, SYS_open_by_handle_at,
        SYS_name_to_handle_at, SYS_syslog, SYS_vhangup, SYS_pidfd_getfd, SYS_kcmp,
        SYS_fanotify_init, SYS_fanotify_mark, SYS_process_madvise,
        #[cfg(target_arch = "x86_64")]
        SYS_iopl,
        #[cfg(target_arch = "x86_64")]
        SYS_ioperm,
    ];
    for number in refused {
        assert_eq!(both(number, &[0; 6]), Errno(EPERM), "{number}");
    }
}

#[test]
fn what_programs_do_without_answers_enosys() {
    let absent = [
        SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_userfaultfd, SYS_clone3,
        SYS_mbind, SYS_set_mempolicy, SYS_get_mempolicy, SYS_migrate_pages, SYS_move_pages,
        SYS_set_mempolicy_home_node, SYS_vmsplice, 457, 458, SYS_openat2, SYS_memfd_secret,
        SYS_process_mrelease,
        #[cfg(target_arch = "x86_64")]
        SYS_modify_ldt,
    ];
    for number in absent {
        assert_eq!(both(number, &[0; 6]), Errno(ENOSYS), "{number}");
    }
}

#[test]
fn the_first_process_can_do_its_work_under_the_filter() {
    let needed: [(c_long, &[u64]); 12] = [
        (SYS_clone, &[bits(CLONE_PIDFD | SIGCHLD)]),
        (SYS_clone, &[bits(CLONE_PIDFD | CLONE_VM | CLONE_VFORK | SIGCHLD)]),
        (SYS_openat, &[bits(AT_FDCWD), 0, bits(O_RDWR | O_NOCTTY | O_CLOEXEC)]),
        (SYS_ioctl, &[3, 0x5441, bits(O_RDWR | O_NOCTTY)]),
        (SYS_ioctl, &[3, TIOCSWINSZ]),
        (SYS_ioctl, &[3, TIOCSCTTY]),
        (SYS_prlimit64, &[0, 7]),
        (SYS_prctl, &[bits(PR_SET_PDEATHSIG), 9]),
        (SYS_prctl, &[bits(PR_SET_NAME)]),
        (SYS_prctl, &[bits(PR_SET_DUMPABLE), 0]),
        (SYS_seccomp, &[1, 0]),
        (SYS_fchmod, &[3, 0o600]),
    ];
    for (number, args) in needed {
        assert_eq!(both(number, args), Allow, "{number} {args:x?}");
    }
    for number in [
        SYS_wait4, SYS_waitid, SYS_ppoll, SYS_recvmsg, SYS_sendmsg, SYS_read, SYS_signalfd4,
        SYS_setsid, SYS_dup3, SYS_close_range, SYS_execve, SYS_execveat, SYS_exit_group,
        SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_pidfd_open, SYS_pidfd_send_signal,
        SYS_memfd_create, SYS_fchdir, SYS_chdir, SYS_madvise, SYS_mmap, SYS_munmap, SYS_fcntl,
    ] {
        assert_eq!(both(number, &[]), Allow, "{number}");
    }
}

#[test]
fn no_namespace_is_made() {
    let namespaces = [
        CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID,
        CLONE_NEWNET,
    ];
    for flag in namespaces.map(bits) {
        assert_eq!(both(SYS_clone, &[flag | bits(SIGCHLD)]), Errno(EPERM), "{flag:x}");
        assert_eq!(both(SYS_unshare, &[flag | bits(CLONE_FS)]), Errno(EPERM), "{flag:x}");
    }
    assert_eq!(both(SYS_unshare, &[0x80]), Errno(EPERM));
    let thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM
        | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
    assert_eq!(both(SYS_clone, &[bits(thread)]), Allow);
    assert_eq!(both(SYS_clone, &[bits(SIGCHLD) | DIRTY]), Allow);
    assert_eq!(both(SYS_unshare, &[bits(CLONE_FILES | CLONE_FS)]), Allow);
}

#[test]
fn sockets_are_local_tcp_udp_or_the_list_of_interfaces() {
    let cloexec = bits(SOCK_CLOEXEC | SOCK_NONBLOCK);
    for (family, kind, protocol) in [
        (AF_UNIX, SOCK_STREAM, 0), (AF_UNIX, SOCK_DGRAM, 0), (AF_UNIX, SOCK_SEQPACKET, 0),
        (AF_INET, SOCK_STREAM, 0), (AF_INET, SOCK_STREAM, IPPROTO_TCP), (AF_INET, SOCK_DGRAM, 0),
        (AF_INET, SOCK_DGRAM, IPPROTO_UDP), (AF_INET6, SOCK_STREAM, 0),
        (AF_INET6, SOCK_STREAM, IPPROTO_TCP), (AF_INET6, SOCK_DGRAM, 0),
        (AF_INET6, SOCK_DGRAM, IPPROTO_UDP), (AF_NETLINK, SOCK_RAW, NETLINK_ROUTE),
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
        (AF_INET, SOCK_RAW, IPPROTO_ICMP), (AF_INET6, SOCK_RAW, IPPROTO_RAW), (AF_INET, 10, 3),
        (AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP), (AF_INET, SOCK_DCCP, 0), (AF_UNIX, SOCK_RAW, 0),
        (AF_UNIX, SOCK_STREAM, 1), (AF_NETLINK, SOCK_SEQPACKET, 0), (AF_INET, 0, 0),
    ] {
        let args = [bits(family), bits(kind), bits(protocol)];
        assert_eq!(both(SYS_socket, &args), Errno(EAFNOSUPPORT), "{args:x?}");
    }
}

#[test]
fn other_internet_protocols_are_not_supported() {
    for (kind, protocol) in [
        (SOCK_STREAM, IPPROTO_MPTCP), (SOCK_STREAM, IPPROTO_SCTP), (SOCK_DGRAM, IPPROTO_ICMP),
        (SOCK_DGRAM, IPPROTO_UDPLITE), (SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_MPTCP),
        (SOCK_STREAM, IPPROTO_UDP), (SOCK_STREAM, 256 + IPPROTO_TCP),
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
        (AF_UNIX, SOCK_RAW, 0), (AF_UNIX, SOCK_STREAM, 1), (AF_INET, SOCK_STREAM, 0),
        (30, SOCK_STREAM, 0), (AF_NETLINK, SOCK_RAW, 0),
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
        (0o644, Allow), (0o1777, Allow), (0o7, Allow), (0o644 | DIRTY, Allow),
        (0o644 | 0x1_0000, Allow), (0o4755, Errno(EPERM)), (0o2755, Errno(EPERM)),
        (0o6000, Errno(EPERM)), (0o4755 | DIRTY, Errno(EPERM)), (0o2755 | 0x1_0000, Errno(EPERM)),
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
        (S_IFREG | 0o644, Allow), (0o644, Allow), (S_IFIFO | 0o600, Allow), (S_IFSOCK, Allow),
        (S_IFCHR | 0o666, Errno(EPERM)), (S_IFBLK | 0o666, Errno(EPERM)), (S_IFDIR, Errno(EPERM)),
        (S_IFLNK, Errno(EPERM)), (S_IFREG | 0o4755, Errno(EPERM)), (0o2755, Errno(EPERM)),
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
        SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam,
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

#[test]
fn only_the_agent_traces() {
    for number in [SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev] {
        assert_eq!(decide(&call(number, &[]), Profile::Agent), Allow, "{number}");
        assert_eq!(decide(&call(number, &[]), Profile::Server), Errno(EPERM), "{number}");
    }
    for number in [SYS_kill, SYS_tgkill, SYS_tkill, SYS_pidfd_send_signal] {
        assert_eq!(both(number, &[1, 9]), Allow, "{number}");
    }
}
