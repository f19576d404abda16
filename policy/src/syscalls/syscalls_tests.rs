//! What the table promises, call by call.
//!
//! Runs in: any (tests).

use std::collections::BTreeSet;

use libc::*;

use super::Verdict::{Allow, Errno, Kill};
use super::{Answer, Arch, Call, Profile, Verdict, decide, groups, rows};

const BOTH: [Profile; 2] = [Profile::Agent, Profile::Server];

fn call(number: c_long, args: &[u64]) -> Call {
    let mut all = [0x5555_5555_5555_5555; 6];
    all[..args.len()].copy_from_slice(args);
    Call { arch: Arch::Native, number: u32::try_from(number).unwrap(), args: all }
}

/// Returns what both profiles say, which has to be the same.
pub(super) fn both(number: c_long, args: &[u64]) -> Verdict {
    let [agent, server] = BOTH.map(|profile| decide(&call(number, args), profile));
    assert_eq!(agent, server, "{number} {args:x?}");
    agent
}

pub(super) fn bits(value: c_int) -> u64 {
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
        SYS_mount,
        SYS_umount2,
        SYS_pivot_root,
        SYS_chroot,
        SYS_setns,
        SYS_fsopen,
        SYS_fsmount,
        SYS_fsconfig,
        SYS_fspick,
        SYS_open_tree,
        SYS_move_mount,
        SYS_mount_setattr,
        467,
        SYS_bpf,
        SYS_perf_event_open,
        SYS_keyctl,
        SYS_add_key,
        SYS_request_key,
        SYS_kexec_load,
        SYS_kexec_file_load,
        SYS_init_module,
        SYS_finit_module,
        SYS_delete_module,
        SYS_reboot,
        SYS_swapon,
        SYS_swapoff,
        SYS_acct,
        SYS_quotactl,
        SYS_quotactl_fd,
        SYS_settimeofday,
        SYS_clock_settime,
        SYS_sethostname,
        SYS_setdomainname,
        SYS_open_by_handle_at,
        SYS_name_to_handle_at,
        SYS_syslog,
        SYS_vhangup,
        SYS_pidfd_getfd,
        SYS_kcmp,
        SYS_fanotify_init,
        SYS_fanotify_mark,
        SYS_process_madvise,
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
        SYS_io_uring_setup,
        SYS_io_uring_enter,
        SYS_io_uring_register,
        SYS_userfaultfd,
        SYS_clone3,
        SYS_mbind,
        SYS_set_mempolicy,
        SYS_get_mempolicy,
        SYS_migrate_pages,
        SYS_move_pages,
        SYS_set_mempolicy_home_node,
        SYS_vmsplice,
        457,
        458,
        SYS_openat2,
        SYS_memfd_secret,
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
        SYS_wait4,
        SYS_waitid,
        SYS_ppoll,
        SYS_recvmsg,
        SYS_sendmsg,
        SYS_read,
        SYS_signalfd4,
        SYS_setsid,
        SYS_dup3,
        SYS_close_range,
        SYS_execve,
        SYS_execveat,
        SYS_exit_group,
        SYS_rt_sigprocmask,
        SYS_rt_sigaction,
        SYS_pidfd_open,
        SYS_pidfd_send_signal,
        SYS_memfd_create,
        SYS_fchdir,
        SYS_chdir,
        SYS_madvise,
        SYS_mmap,
        SYS_munmap,
        SYS_fcntl,
    ] {
        assert_eq!(both(number, &[]), Allow, "{number}");
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
