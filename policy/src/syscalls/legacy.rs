//! Calls that only `x86_64` has, most of them older forms of calls that all architectures have.
//!
//! Runs in: any (pure data).
//!
//! They are allowed where their newer forms are: programs are still linked against libraries that
//! make them, and they reach nothing else.

use super::table::Group;

/// The groups.
#[cfg(target_arch = "x86_64")]
pub(super) const GROUPS: &[Group] = &[x86_64::OLDER, x86_64::SEGMENTS, x86_64::PROBES];

/// The groups: none, this architecture never had the older forms.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const GROUPS: &[Group] = &[];

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    // The rows below are libc's constants.
    use libc::*;

    use super::super::table::{Answer, Group, calls};

    /// libc does not name these two.
    #[expect(non_upper_case_globals, reason = "named as libc names its own")]
    mod unnamed {
        use libc::c_long;

        pub(super) const SYS_uretprobe: c_long = 335;
        pub(super) const SYS_uprobe: c_long = 336;
    }
    use unnamed::{SYS_uprobe, SYS_uretprobe};

    pub(super) const OLDER: Group = Group {
        name: "older forms",
        reason: "the older forms of allowed calls, which libraries still make",
        answer: Answer::Allow,
        rows: calls! {
            SYS_stat SYS_lstat SYS_access SYS_poll SYS_select SYS_pipe SYS_dup2 SYS_pause SYS_alarm
            SYS_fork SYS_vfork SYS_getdents SYS_rename SYS_mkdir SYS_rmdir SYS_link SYS_unlink
            SYS_symlink SYS_readlink SYS_chown SYS_lchown SYS_utime SYS_utimes SYS_futimesat
            SYS_time SYS_getpgrp SYS_inotify_init SYS_eventfd SYS_signalfd SYS_epoll_create
            SYS_epoll_wait
        },
    };

    pub(super) const SEGMENTS: Group = Group {
        name: "segment bases",
        reason: "every program sets the base of its thread-local storage at its start",
        answer: Answer::Allow,
        rows: calls! { SYS_arch_prctl },
    };

    pub(super) const PROBES: Group = Group {
        name: "probe trampolines",
        reason: "placed by the kernel when the host traces a program: refused, the traced program dies",
        answer: Answer::Allow,
        rows: calls! { SYS_uretprobe SYS_uprobe },
    };
}
