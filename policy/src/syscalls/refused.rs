//! Calls that are never made, whatever their arguments.
//!
//! Runs in: any (pure data).
//!
//! `EPERM` where a user should look for a policy, `ENOSYS` where programs have another way that
//! they take when the call does not exist. A call that no group names answers `ENOSYS` too; those
//! below are named because people ask why.

// The rows below are libc's constants.
use libc::*;

use super::table::{Answer, Group, calls};

/// Numbers that libc does not name on every architecture. From 424 on, all architectures share them.
#[expect(non_upper_case_globals, reason = "named as libc names its own")]
mod shared {
    use libc::c_long;

    pub(super) const SYS_statmount: c_long = 457;
    pub(super) const SYS_listmount: c_long = 458;
    pub(super) const SYS_open_tree_attr: c_long = 467;
}
use shared::{SYS_listmount, SYS_open_tree_attr, SYS_statmount};

/// The groups.
pub(super) const GROUPS: &[Group] = &[
    MOUNTS, NAMESPACES, HANDLES, PROGRAMS, KEYS, KERNEL, MACHINE, CLOCKS, STRANGERS, QUOTAS,
    WATCHERS, PORTS, RINGS, FAULTS, PLACEMENT, POINTERS, PAGES, LISTINGS, TABLES,
];

const MOUNTS: Group = Group {
    name: "mounts",
    reason: "the view of files is made once, before the payload starts",
    answer: Answer::Refuse(EPERM),
    rows: calls! {
        SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_fsopen SYS_fsconfig SYS_fsmount
        SYS_fspick SYS_open_tree SYS_open_tree_attr SYS_move_mount SYS_mount_setattr
    },
};

const NAMESPACES: Group = Group {
    name: "namespaces",
    reason: "a payload stays in the namespaces it was started in",
    answer: Answer::Refuse(EPERM),
    rows: calls! { SYS_setns SYS_sethostname SYS_setdomainname },
};

const HANDLES: Group = Group {
    name: "file handles",
    reason: "a handle opens a file without walking to it, past every mount that hides it",
    answer: Answer::Refuse(EPERM),
    rows: calls! { SYS_name_to_handle_at SYS_open_by_handle_at },
};

const PROGRAMS: Group = Group {
    name: "kernel programs",
    reason: "code and counters inside the kernel: large surface, and they see other processes",
    answer: Answer::Refuse(EPERM),
    rows: calls! { SYS_bpf SYS_perf_event_open },
};

const KEYS: Group = Group {
    name: "keyrings",
    reason: "keyrings belong to the user, not to a namespace: the host's keys could be reached",
    answer: Answer::Refuse(EPERM),
    rows: calls! { SYS_keyctl SYS_add_key SYS_request_key },
};

const KERNEL: Group = Group {
    name: "kernel images",
    reason: "no payload loads kernel code",
    answer: Answer::Refuse(EPERM),
    rows: calls! {
        SYS_init_module SYS_finit_module SYS_delete_module SYS_kexec_load SYS_kexec_file_load
    },
};

const MACHINE: Group = Group {
    name: "machine",
    reason: "the machine, its log, its swap and its accounts are the host's",
    answer: Answer::Refuse(EPERM),
    rows: calls! { SYS_reboot SYS_swapon SYS_swapoff SYS_acct SYS_syslog SYS_vhangup },
};

const CLOCKS: Group = Group {
    name: "setting clocks",
    reason: "the clock is the host's",
    answer: Answer::Refuse(EPERM),
    rows: calls! { SYS_settimeofday SYS_clock_settime },
};

const STRANGERS: Group = Group {
    name: "other processes",
    reason: "they take or compare what another process holds, without stopping it as a debugger does",
    answer: Answer::Refuse(EPERM),
    rows: calls! { SYS_pidfd_getfd SYS_kcmp SYS_process_madvise },
};

const QUOTAS: Group = Group {
    name: "quotas",
    reason: "quotas of a file system are the host's",
    answer: Answer::Refuse(EPERM),
    rows: calls! { SYS_quotactl SYS_quotactl_fd },
};

const WATCHERS: Group = Group {
    name: "file system watches",
    reason: "they report by file handle; inotify serves programs that watch files",
    answer: Answer::Refuse(EPERM),
    rows: calls! { SYS_fanotify_init SYS_fanotify_mark },
};

#[cfg(target_arch = "x86_64")]
const PORTS: Group = Group {
    name: "ports",
    reason: "direct access to devices",
    answer: Answer::Refuse(EPERM),
    rows: calls! { SYS_iopl SYS_ioperm },
};

#[cfg(not(target_arch = "x86_64"))]
const PORTS: Group = Group {
    name: "ports",
    reason: "direct access to devices: this architecture has no such call",
    answer: Answer::Refuse(EPERM),
    rows: &[],
};

const RINGS: Group = Group {
    name: "submission rings",
    reason: "calls made through a ring pass by every filter; programs fall back to plain calls",
    answer: Answer::Refuse(ENOSYS),
    rows: calls! { SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register },
};

const FAULTS: Group = Group {
    name: "page faults in user space",
    reason: "a process that stops the kernel at a page fault wins races inside it",
    answer: Answer::Refuse(ENOSYS),
    rows: calls! { SYS_userfaultfd },
};

const PLACEMENT: Group = Group {
    name: "memory placement",
    reason: "which node memory lies on is the host's; libraries take the machine for one node",
    answer: Answer::Refuse(ENOSYS),
    rows: calls! {
        SYS_mbind SYS_set_mempolicy SYS_get_mempolicy SYS_set_mempolicy_home_node
        SYS_migrate_pages SYS_move_pages
    },
};

const POINTERS: Group = Group {
    name: "arguments in memory",
    reason: "flags and modes lie behind a pointer, where no filter can read them; callers fall back",
    answer: Answer::Refuse(ENOSYS),
    rows: calls! { SYS_clone3 SYS_openat2 },
};

const PAGES: Group = Group {
    name: "pages by reference",
    reason: "gifts of pages to a pipe and memory hidden from the kernel: surface that no program needs",
    answer: Answer::Refuse(ENOSYS),
    rows: calls! { SYS_vmsplice SYS_memfd_secret SYS_process_mrelease },
};

const LISTINGS: Group = Group {
    name: "mount listings",
    reason: "/proc/self/mountinfo says the same, and is under the box's own masks",
    answer: Answer::Refuse(ENOSYS),
    rows: calls! { SYS_statmount SYS_listmount },
};

#[cfg(target_arch = "x86_64")]
const TABLES: Group = Group {
    name: "descriptor tables",
    reason: "16-bit segments: surface of the processor that only emulators of old systems need",
    answer: Answer::Refuse(ENOSYS),
    rows: calls! { SYS_modify_ldt },
};

#[cfg(not(target_arch = "x86_64"))]
const TABLES: Group = Group {
    name: "descriptor tables",
    reason: "16-bit segments: this architecture has no such call",
    answer: Answer::Refuse(ENOSYS),
    rows: &[],
};
