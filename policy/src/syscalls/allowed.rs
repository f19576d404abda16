//! Calls that are allowed whatever their arguments, a group for each purpose.
//!
//! Runs in: any (pure data).

// The rows below are libc's constants, some three hundred of them.
use libc::*;

use super::table::{Answer, Group, calls};

/// Numbers that libc does not name on every architecture. From 424 on, all architectures share them.
#[expect(non_upper_case_globals, reason = "named as libc names its own")]
mod shared {
    use libc::c_long;

    pub(super) const SYS_map_shadow_stack: c_long = 453;
    pub(super) const SYS_futex_wake: c_long = 454;
    pub(super) const SYS_futex_wait: c_long = 455;
    pub(super) const SYS_futex_requeue: c_long = 456;
    pub(super) const SYS_setxattrat: c_long = 463;
    pub(super) const SYS_getxattrat: c_long = 464;
    pub(super) const SYS_listxattrat: c_long = 465;
    pub(super) const SYS_removexattrat: c_long = 466;
}
use shared::{
    SYS_futex_requeue, SYS_futex_wait, SYS_futex_wake, SYS_getxattrat, SYS_listxattrat,
    SYS_map_shadow_stack, SYS_removexattrat, SYS_setxattrat,
};

/// The groups.
pub(super) const GROUPS: &[Group] = &[
    MEMORY,
    PROCESSES,
    THREADS,
    SIGNALS,
    IDENTITY,
    SCHEDULING,
    TIME,
    SYSTEM,
    DESCRIPTORS,
    CONTENT,
    NAMES,
    ATTRIBUTES,
    WAITING,
    SOCKETS,
    SYSV,
    QUEUES,
    BATCHES,
    RESTRICTION,
    TRACING,
];

const MEMORY: Group = Group {
    name: "memory",
    reason: "a process arranges its own memory; the session's limits bound how much",
    answer: Answer::Allow,
    rows: calls! {
        SYS_brk SYS_mmap SYS_munmap SYS_mremap SYS_mprotect SYS_madvise SYS_msync SYS_mincore
        SYS_mlock SYS_mlock2 SYS_mlockall SYS_munlock SYS_munlockall SYS_mseal
        SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect SYS_map_shadow_stack SYS_memfd_create
    },
};

const PROCESSES: Group = Group {
    name: "processes",
    reason: "programs start, name, group and await programs; the process namespace bounds whom they see",
    answer: Answer::Allow,
    rows: calls! {
        SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_wait4 SYS_waitid
        SYS_getpid SYS_getppid SYS_getpgid SYS_setpgid SYS_getsid SYS_setsid SYS_pidfd_open
    },
};

const THREADS: Group = Group {
    name: "threads",
    reason: "every runtime's threads are built of these, and they reach only the process itself",
    answer: Answer::Allow,
    rows: calls! {
        SYS_gettid SYS_set_tid_address SYS_set_robust_list SYS_get_robust_list SYS_rseq
        SYS_membarrier SYS_futex SYS_futex_waitv SYS_futex_wake SYS_futex_wait SYS_futex_requeue
    },
};

const SIGNALS: Group = Group {
    name: "signals",
    reason: "a process may signal whom it sees: its own compartment, whose first process no signal ends",
    answer: Answer::Allow,
    rows: calls! {
        SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending SYS_rt_sigsuspend
        SYS_rt_sigtimedwait SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_sigaltstack
        SYS_signalfd4 SYS_kill SYS_tkill SYS_tgkill SYS_pidfd_send_signal SYS_restart_syscall
    },
};

const IDENTITY: Group = Group {
    name: "identity",
    reason: "one user is mapped inside and no capability is left, so there is nothing to change to",
    answer: Answer::Allow,
    rows: calls! {
        SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getresuid SYS_getresgid SYS_getgroups
        SYS_setuid SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid
        SYS_setfsuid SYS_setfsgid SYS_setgroups SYS_capget SYS_capset
    },
};

const SCHEDULING: Group = Group {
    name: "scheduling",
    reason: "reading is harmless, and limits set here are the caller's own and only ever lower",
    answer: Answer::Allow,
    rows: calls! {
        SYS_sched_yield SYS_sched_getaffinity SYS_sched_getattr SYS_sched_getparam
        SYS_sched_getscheduler SYS_sched_get_priority_max SYS_sched_get_priority_min
        SYS_sched_rr_get_interval SYS_getpriority SYS_ioprio_get SYS_getcpu
        SYS_getrlimit SYS_setrlimit SYS_getrusage SYS_times
    },
};

const TIME: Group = Group {
    name: "time",
    reason: "clocks are read and timers run; adjtimex and clock_adjtime only read without a capability",
    answer: Answer::Allow,
    rows: calls! {
        SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_nanosleep SYS_gettimeofday
        SYS_getitimer SYS_setitimer SYS_timer_create SYS_timer_delete SYS_timer_getoverrun
        SYS_timer_gettime SYS_timer_settime SYS_timerfd_create SYS_timerfd_gettime
        SYS_timerfd_settime SYS_adjtimex SYS_clock_adjtime
    },
};

const SYSTEM: Group = Group {
    name: "system",
    reason: "names of the kernel, load figures and random bytes, which every program asks for",
    answer: Answer::Allow,
    rows: calls! { SYS_uname SYS_sysinfo SYS_getrandom },
};

const DESCRIPTORS: Group = Group {
    name: "descriptors",
    reason: "a process handles descriptors that it holds already",
    answer: Answer::Allow,
    rows: calls! {
        SYS_close SYS_close_range SYS_dup SYS_dup3 SYS_fcntl SYS_pipe2 SYS_flock SYS_lseek
    },
};

const CONTENT: Group = Group {
    name: "content",
    reason: "bytes move through descriptors whose opening was checked",
    answer: Answer::Allow,
    rows: calls! {
        SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev
        SYS_preadv2 SYS_pwritev2 SYS_sendfile SYS_copy_file_range SYS_splice SYS_tee
        SYS_truncate SYS_ftruncate SYS_fallocate SYS_fadvise64 SYS_readahead
        SYS_fsync SYS_fdatasync SYS_sync SYS_syncfs SYS_sync_file_range
    },
};

const NAMES: Group = Group {
    name: "names",
    reason: "files are found, listed, linked and renamed as far as the mounts of the box and Landlock let them",
    answer: Answer::Allow,
    rows: calls! {
        SYS_newfstatat SYS_fstat SYS_statx SYS_statfs SYS_fstatfs SYS_faccessat SYS_faccessat2
        SYS_getdents64 SYS_getcwd SYS_chdir SYS_fchdir SYS_readlinkat SYS_linkat SYS_symlinkat
        SYS_unlinkat SYS_renameat SYS_renameat2 SYS_mkdirat SYS_umask
    },
};

const ATTRIBUTES: Group = Group {
    name: "attributes",
    reason: "owner, times and extended attributes of one's own files; changing an owner clears set-id bits",
    answer: Answer::Allow,
    rows: calls! {
        SYS_fchown SYS_fchownat SYS_utimensat SYS_getxattr SYS_lgetxattr SYS_fgetxattr
        SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr
        SYS_removexattr SYS_lremovexattr SYS_fremovexattr
        SYS_setxattrat SYS_getxattrat SYS_listxattrat SYS_removexattrat
    },
};

const WAITING: Group = Group {
    name: "waiting",
    reason: "event loops wait for descriptors, timers and changes of files",
    answer: Answer::Allow,
    rows: calls! {
        SYS_ppoll SYS_pselect6 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2
        SYS_eventfd2 SYS_inotify_init1 SYS_inotify_add_watch SYS_inotify_rm_watch
    },
};

const SOCKETS: Group = Group {
    name: "sockets",
    reason: "what kind of socket exists is decided when it is made; where it leads, by the gateway",
    answer: Answer::Allow,
    rows: calls! {
        SYS_bind SYS_connect SYS_listen SYS_accept SYS_accept4 SYS_getsockname SYS_getpeername
        SYS_getsockopt SYS_setsockopt SYS_sendto SYS_recvfrom SYS_sendmsg SYS_recvmsg
        SYS_sendmmsg SYS_recvmmsg SYS_shutdown
    },
};

const SYSV: Group = Group {
    name: "System V",
    reason: "databases share memory and semaphores; the IPC namespace is the compartment's own",
    answer: Answer::Allow,
    rows: calls! {
        SYS_shmget SYS_shmat SYS_shmdt SYS_shmctl SYS_semget SYS_semop SYS_semtimedop SYS_semctl
        SYS_msgget SYS_msgsnd SYS_msgrcv SYS_msgctl
    },
};

const QUEUES: Group = Group {
    name: "message queues",
    reason: "POSIX queues live in the compartment's own IPC namespace",
    answer: Answer::Allow,
    rows: calls! {
        SYS_mq_open SYS_mq_unlink SYS_mq_timedsend SYS_mq_timedreceive SYS_mq_notify
        SYS_mq_getsetattr
    },
};

const BATCHES: Group = Group {
    name: "asynchronous files",
    reason: "databases batch reads and writes by the older interface, each checked like a plain one",
    answer: Answer::Allow,
    rows: calls! { SYS_io_setup SYS_io_destroy SYS_io_submit SYS_io_cancel SYS_io_getevents },
};

const RESTRICTION: Group = Group {
    name: "restriction",
    reason: "programs narrow themselves further (browsers, language sandboxes); nothing loosens",
    answer: Answer::Allow,
    rows: calls! {
        SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self
    },
};

const TRACING: Group = Group {
    name: "tracing",
    reason: "debuggers see their own compartment only; a server has nothing to debug",
    answer: Answer::AgentOnly,
    rows: calls! { SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev },
};
