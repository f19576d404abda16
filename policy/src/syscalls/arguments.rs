//! Calls whose arguments decide.
//!
//! Runs in: any (pure data).
//!
//! The first number in a test is the argument's position in the manual's signature, from 0.

// The rows below are libc's constants.
use libc::*;

use super::model::Verdict;
use super::table::{Answer, Clause, Group, Rules, Test, calls};

/// The groups.
pub(super) const GROUPS: &[Group] = &[
    CLONE,
    UNSHARE,
    SOCKET,
    SOCKETPAIR,
    IOCTL,
    PERSONALITY,
    PRCTL,
    SECCOMP,
    FCHMOD,
    FCHMODAT,
    OPENAT,
    MKNODAT,
    BY_PID,
    PRIORITY,
    IO_PRIORITY,
    #[cfg(target_arch = "x86_64")]
    CHMOD,
    #[cfg(target_arch = "x86_64")]
    OPEN,
    #[cfg(target_arch = "x86_64")]
    MKNOD,
];

const REFUSED: Verdict = Verdict::Errno(EPERM);

const fn allow(when: &'static [Test]) -> Clause {
    Clause { when, then: Verdict::Allow }
}

const fn refuse(when: &'static [Test], errno: i32) -> Clause {
    Clause { when, then: Verdict::Errno(errno) }
}

/// `CLONE_NEW*`: mount, cgroup, uts, ipc, user, pid and network namespaces.
const NAMESPACES: u32 = 0x7E02_0000;
/// `CLONE_NEWTIME`, which only `unshare` takes: in `clone` the bit belongs to the exit signal.
const NEWTIME: u32 = 0x80;

const CLONE: Group = Group {
    name: "clone",
    reason: "processes and threads, but no namespace: a nested one gives capabilities to attack the kernel with",
    answer: Answer::Rules(&Rules {
        clauses: &[allow(&[Test::bits(0, NAMESPACES, 0)])],
        otherwise: REFUSED,
    }),
    rows: calls! { SYS_clone },
};

const UNSHARE: Group = Group {
    name: "unshare",
    reason: "a thread may stop sharing its descriptors or directory, but makes no namespace",
    answer: Answer::Rules(&Rules {
        clauses: &[allow(&[Test::bits(0, NAMESPACES | NEWTIME, 0)])],
        otherwise: REFUSED,
    }),
    rows: calls! { SYS_unshare },
};

const UNIX: Test = Test::is(0, AF_UNIX.cast_unsigned());
/// `AF_INET` and `AF_INET6`, 2 and 10, differ in one bit. Each clause spared makes the filter
/// shorter and cheaper to install.
const IP: Test = Test::bits(0, !(AF_INET ^ AF_INET6).cast_unsigned(), AF_INET.cast_unsigned());
const NETLINK: Test = Test::is(0, AF_NETLINK.cast_unsigned());
const STREAM: Test = kind(SOCK_STREAM);
const DGRAM: Test = kind(SOCK_DGRAM);
const SEQPACKET: Test = kind(SOCK_SEQPACKET);
/// `SOCK_DGRAM` and `SOCK_RAW`, 2 and 3, which are the same to netlink.
const DGRAM_OR_RAW: Test = Test::bits(1, 0xE, SOCK_DGRAM.cast_unsigned());
const DEFAULT: Test = Test::is(2, 0);
const TCP: Test = Test::is(2, IPPROTO_TCP.cast_unsigned());
const UDP: Test = Test::is(2, IPPROTO_UDP.cast_unsigned());
/// `NETLINK_ROUTE` is 0: interfaces and addresses. Netfilter, audit, transformations are others.
const ROUTE: Test = Test::is(2, NETLINK_ROUTE.cast_unsigned());

/// The kernel keeps the type in the low four bits, `SOCK_CLOEXEC` and `SOCK_NONBLOCK` above.
const fn kind(kind: i32) -> Test {
    Test::bits(1, 0xF, kind.cast_unsigned())
}

const SOCKET: Group = Group {
    name: "socket",
    reason: "local sockets, TCP, UDP and the list of interfaces; other families are surface and ways around the gateway",
    answer: Answer::Rules(&Rules {
        clauses: &[
            allow(&[UNIX, STREAM, DEFAULT]),
            allow(&[UNIX, DGRAM, DEFAULT]),
            allow(&[UNIX, SEQPACKET, DEFAULT]),
            allow(&[IP, STREAM, DEFAULT]),
            allow(&[IP, STREAM, TCP]),
            allow(&[IP, DGRAM, DEFAULT]),
            allow(&[IP, DGRAM, UDP]),
            allow(&[NETLINK, DGRAM_OR_RAW, ROUTE]),
            // MPTCP, SCTP, ping: what the kernel says too when it was built without them.
            refuse(&[IP, STREAM], EPROTONOSUPPORT),
            refuse(&[IP, DGRAM], EPROTONOSUPPORT),
        ],
        otherwise: Verdict::Errno(EAFNOSUPPORT),
    }),
    rows: calls! { SYS_socket },
};

const SOCKETPAIR: Group = Group {
    name: "socketpair",
    reason: "pairs of local sockets: processes talk to their children through them",
    answer: Answer::Rules(&Rules {
        clauses: &[
            allow(&[UNIX, STREAM, DEFAULT]),
            allow(&[UNIX, DGRAM, DEFAULT]),
            allow(&[UNIX, SEQPACKET, DEFAULT]),
        ],
        otherwise: Verdict::Errno(EAFNOSUPPORT),
    }),
    rows: calls! { SYS_socketpair },
};

const IOCTL: Group = Group {
    name: "ioctl",
    reason: "devices take their own commands, but none that types into a terminal or changes what it is (CVE-2017-5226, CVE-2023-28100)",
    answer: Answer::Rules(&Rules {
        clauses: &[
            // TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD.
            refuse(&[Test::is(1, 0x5412)], EPERM),
            refuse(&[Test::is(1, 0x541C)], EPERM),
            refuse(&[Test::is(1, 0x541D)], EPERM),
            refuse(&[Test::is(1, 0x5423)], EPERM),
        ],
        otherwise: Verdict::Allow,
    }),
    rows: calls! { SYS_ioctl },
};

const PERSONALITY: Group = Group {
    name: "personality",
    reason: "reading it, plain Linux, and fixed addresses as debuggers want them; nothing that makes memory executable",
    answer: Answer::Rules(&Rules {
        clauses: &[
            // PER_LINUX, ADDR_NO_RANDOMIZE, the question, PER_LINUX32, UNAME26 with each.
            allow(&[Test::is(0, 0)]),
            allow(&[Test::is(0, 0x4_0000)]),
            allow(&[Test::is(0, 0xFFFF_FFFF)]),
            allow(&[Test::is(0, 0x8)]),
            allow(&[Test::is(0, 0x2_0000)]),
            allow(&[Test::is(0, 0x2_0008)]),
        ],
        otherwise: REFUSED,
    }),
    rows: calls! { SYS_personality },
};

const PRCTL: Group = Group {
    name: "prctl",
    reason: "a process sets itself up, but does not rewrite where the kernel says its memory and arguments lie",
    answer: Answer::Rules(&Rules {
        clauses: &[refuse(&[Test::is(0, PR_SET_MM.cast_unsigned())], EPERM)],
        otherwise: Verdict::Allow,
    }),
    rows: calls! { SYS_prctl },
};

const SECCOMP: Group = Group {
    name: "seccomp",
    reason: "programs narrow themselves further, but do not answer calls in place of the kernel",
    answer: Answer::Rules(&Rules {
        // SECCOMP_SET_MODE_FILTER with SECCOMP_FILTER_FLAG_NEW_LISTENER.
        clauses: &[refuse(&[Test::is(0, 1), Test::bits(1, 8, 8)], EPERM)],
        otherwise: Verdict::Allow,
    }),
    rows: calls! { SYS_seccomp },
};

/// The set-user-id and set-group-id bits: on a file in the workspace they would count on the host.
const SET_ID: u32 = 0o6000;

/// A mode in argument 1, without set-id bits.
const MODE_1: Rules = Rules { clauses: &[allow(&[Test::bits(1, SET_ID, 0)])], otherwise: REFUSED };

const FCHMOD: Group = Group {
    name: "fchmod",
    reason: "modes of one's own files, without set-id bits",
    answer: Answer::Rules(&MODE_1),
    rows: calls! { SYS_fchmod },
};

const FCHMODAT: Group = Group {
    name: "fchmodat",
    reason: "modes of one's own files, without set-id bits",
    answer: Answer::Rules(&Rules {
        clauses: &[allow(&[Test::bits(2, SET_ID, 0)])],
        otherwise: REFUSED,
    }),
    rows: calls! { SYS_fchmodat SYS_fchmodat2 },
};

/// `SYS_fchmodat2`, which libc does not name on every architecture; they share its number.
#[expect(non_upper_case_globals, reason = "named as libc names its own")]
const SYS_fchmodat2: c_long = 452;

/// `O_CREAT` and the bit of `O_TMPFILE` that is not `O_DIRECTORY`: with neither, the kernel ignores
/// the mode and the register holds whatever it held before.
const CREATES: u32 = (O_CREAT | (O_TMPFILE & !O_DIRECTORY)).cast_unsigned();

const OPENAT: Group = Group {
    name: "openat",
    reason: "files open and come into being as the mounts and Landlock let them, without set-id bits",
    answer: Answer::Rules(&Rules {
        clauses: &[allow(&[Test::bits(3, SET_ID, 0)]), allow(&[Test::bits(2, CREATES, 0)])],
        otherwise: REFUSED,
    }),
    rows: calls! { SYS_openat },
};

/// The type and the set-id bits of a mode.
const KIND_AND_SET_ID: u32 = S_IFMT | SET_ID;

const MKNODAT: Group = Group {
    name: "mknodat",
    reason: "plain files, pipes and sockets; devices are mounted, never made",
    answer: Answer::Rules(&Rules {
        clauses: &[
            // No type at all means a plain file.
            allow(&[Test::bits(2, KIND_AND_SET_ID, 0)]),
            allow(&[Test::bits(2, KIND_AND_SET_ID, S_IFREG)]),
            allow(&[Test::bits(2, KIND_AND_SET_ID, S_IFIFO)]),
            allow(&[Test::bits(2, KIND_AND_SET_ID, S_IFSOCK)]),
        ],
        otherwise: REFUSED,
    }),
    rows: calls! { SYS_mknodat },
};

/// The compartment's first process. It runs as the payload's user, so the kernel itself would let
/// a payload take its descriptors or its processor time away, and lose the compartment by it.
const FIRST_PROCESS: u32 = 1;

const BY_PID: Group = Group {
    name: "limits by pid",
    reason: "of oneself, one's threads and one's children as runtimes do, but not of the compartment's first process",
    answer: Answer::Rules(&Rules {
        clauses: &[refuse(&[Test::is(0, FIRST_PROCESS)], EPERM)],
        otherwise: Verdict::Allow,
    }),
    rows: calls! {
        SYS_prlimit64 SYS_sched_setaffinity SYS_sched_setscheduler SYS_sched_setparam
        SYS_sched_setattr
    },
};

const PRIORITY: Group = Group {
    name: "priorities",
    reason: "as limits by pid; and not of all processes of the user, the first among them",
    answer: Answer::Rules(&Rules {
        clauses: &[
            refuse(&[Test::is(0, PRIO_USER)], EPERM),
            refuse(&[Test::is(1, FIRST_PROCESS)], EPERM),
        ],
        otherwise: Verdict::Allow,
    }),
    rows: calls! { SYS_setpriority },
};

const IO_PRIORITY: Group = Group {
    name: "disk priorities",
    reason: "as limits by pid; and not of all processes of the user, the first among them",
    answer: Answer::Rules(&Rules {
        clauses: &[
            // IOPRIO_WHO_USER.
            refuse(&[Test::is(0, 3)], EPERM),
            refuse(&[Test::is(1, FIRST_PROCESS)], EPERM),
        ],
        otherwise: Verdict::Allow,
    }),
    rows: calls! { SYS_ioprio_set },
};

#[cfg(target_arch = "x86_64")]
const CHMOD: Group = Group {
    name: "chmod",
    reason: "the older forms of fchmodat and of creating by openat, without set-id bits",
    answer: Answer::Rules(&MODE_1),
    rows: calls! { SYS_chmod SYS_creat },
};

#[cfg(target_arch = "x86_64")]
const OPEN: Group = Group {
    name: "open",
    reason: "the older form of openat",
    answer: Answer::Rules(&Rules {
        clauses: &[allow(&[Test::bits(2, SET_ID, 0)]), allow(&[Test::bits(1, CREATES, 0)])],
        otherwise: REFUSED,
    }),
    rows: calls! { SYS_open },
};

#[cfg(target_arch = "x86_64")]
const MKNOD: Group = Group {
    name: "mknod",
    reason: "the older form of mknodat",
    answer: Answer::Rules(&Rules {
        clauses: &[
            allow(&[Test::bits(1, KIND_AND_SET_ID, 0)]),
            allow(&[Test::bits(1, KIND_AND_SET_ID, S_IFREG)]),
            allow(&[Test::bits(1, KIND_AND_SET_ID, S_IFIFO)]),
            allow(&[Test::bits(1, KIND_AND_SET_ID, S_IFSOCK)]),
        ],
        otherwise: REFUSED,
    }),
    rows: calls! { SYS_mknod },
};
