//! Making, watching and signalling processes; what a process says of itself.
//!
//! Runs in: any. The two calls that make a process are for single-threaded ones alone.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, sigprocmask};

use crate::{check, own};

/// A process that was just made: its number as its maker sees it, and a descriptor of it.
#[derive(Debug)]
pub struct Born {
    /// The number in the maker's pid namespace.
    pub pid: i32,
    /// Becomes readable when the process has ended (pidfd_open(2)).
    pub pidfd: OwnedFd,
}

/// Flags of a set of new namespaces, as clone3(2) takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespaces(u64);

impl Namespaces {
    /// All seven of a session, in one call, so that no process in between has to live on.
    pub const SESSION: Self = Self(
        (libc::CLONE_NEWUSER
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNET
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWCGROUP) as u64,
    );
    /// Those of one compartment inside a session.
    pub const COMPARTMENT: Self =
        Self((libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC) as u64);
}

/// Makes a child in new namespaces that runs `child` and ends with its answer as status.
///
/// Must: the caller has one thread, for the child is a copy of it alone. A panic of the child ends it with
/// status 101 and never returns into the caller's frames.
///
/// # Errors
/// What clone3(2) says: EPERM or ENOSPC where the host forbids user namespaces.
pub fn spawn_in(namespaces: Namespaces, child: impl FnOnce() -> i32) -> Result<Born, Errno> {
    let mut pidfd: libc::c_int = -1;
    // SAFETY: clone_args is plain integers, for which all zeroes is a value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = namespaces.0 | libc::CLONE_PIDFD as u64;
    args.pidfd = (&raw mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: no CLONE_VM and no stack: the child is a copy on its own memory, as after fork(2), of a caller
    // that has one thread.
    let pid = check(unsafe {
        libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>())
    })?;
    if pid == 0 {
        run_child(child);
    }
    born(pid, pidfd)
}

/// Makes an ordinary child that runs `child` and ends with its answer as status.
///
/// This is clone(2) rather than clone3, which the filter of a box answers with ENOSYS.
///
/// Must: as [`spawn_in`].
///
/// # Errors
/// What clone(2) says: EAGAIN where a process limit is reached.
pub fn fork(child: impl FnOnce() -> i32) -> Result<Born, Errno> {
    let mut pidfd: libc::c_int = -1;
    let flags = (libc::CLONE_PIDFD | libc::SIGCHLD) as libc::c_ulong;
    let null = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: no CLONE_VM and no stack: the child is a copy on its own memory, as after fork(2), of a caller
    // that has one thread. The third argument is where CLONE_PIDFD stores the descriptor.
    let pid =
        check(unsafe { libc::syscall(libc::SYS_clone, flags, null, &raw mut pidfd, null, null) })?;
    if pid == 0 {
        run_child(child);
    }
    born(pid, pidfd)
}

fn born(pid: libc::c_long, pidfd: libc::c_int) -> Result<Born, Errno> {
    let pid = i32::try_from(pid).map_err(|_| Errno::ERANGE)?;
    // SAFETY: the clone succeeded with CLONE_PIDFD, so pidfd is open and ours.
    Ok(Born { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } })
}

fn run_child(child: impl FnOnce() -> i32) -> ! {
    let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(101);
    // SAFETY: _exit takes an integer and runs nothing of this process that the parent still needs.
    unsafe { libc::_exit(status) }
}

/// Ends this process at once, running no exit handler.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit takes an integer and does not return.
    unsafe { libc::_exit(status) }
}

/// Sets the kernel's name of this process, which `ps` shows (PR_SET_NAME, 15 bytes).
pub fn set_name(name: &CStr) {
    // SAFETY: name is a C string; the kernel copies at most 16 bytes of it.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

/// Asks for SIGKILL when the parent *thread* ends (PR_SET_PDEATHSIG). A change of uid clears it.
///
/// # Errors
/// What prctl(2) says.
pub fn die_with_parent() -> Result<(), Errno> {
    // SAFETY: takes only integers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) }.into()).map(drop)
}

/// Says whether others of this user may look into this process: its memory, descriptors, environment
/// (PR_SET_DUMPABLE). The next exec of an ordinary program sets it to true again.
///
/// # Errors
/// What prctl(2) says.
pub fn set_dumpable(dumpable: bool) -> Result<(), Errno> {
    let value: libc::c_ulong = dumpable.into();
    // SAFETY: takes only integers.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, value, 0, 0, 0) }.into()).map(drop)
}

/// Gives up gaining privileges by exec, for this process and all its children (PR_SET_NO_NEW_PRIVS).
///
/// # Errors
/// What prctl(2) says.
pub fn set_no_new_privs() -> Result<(), Errno> {
    // SAFETY: takes only integers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into()).map(drop)
}

/// Joins a new, empty, anonymous session keyring, so that the caller's keys stay behind (keyrings(7)).
///
/// # Errors
/// EDQUOT when the user's key quota is used up; ENOSYS where the kernel has no keyrings.
pub fn join_anonymous_keyring() -> Result<(), Errno> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: a null name asks for an anonymous keyring; nothing is read or written.
    check(unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, none) }).map(drop)
}

/// Returns the Landlock ABI that this kernel offers (landlock_create_ruleset(2)).
///
/// # Errors
/// ENOSYS or EOPNOTSUPP where there is none.
pub fn landlock_abi() -> Result<u32, Errno> {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the kernel wants a null pointer and a size of 0, and only answers a number.
    let version = check(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, LANDLOCK_CREATE_RULESET_VERSION)
    })?;
    u32::try_from(version).map_err(|_| Errno::ERANGE)
}

/// Closes every descriptor from `first` on (close_range(2)).
///
/// Must not: be called where an `OwnedFd` from `first` on is still used afterwards.
///
/// # Errors
/// What close_range(2) says.
pub fn close_from(first: u32) -> Result<(), Errno> {
    // SAFETY: takes only integers; the contract above keeps owners from using what is closed.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }).map(drop)
}

/// Marks every descriptor from `first` on close-on-exec.
///
/// # Errors
/// What close_range(2) says.
pub fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: takes only integers and closes nothing now.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, CLOSE_RANGE_CLOEXEC) })
        .map(drop)
}

/// Puts a copy of `source` at a fixed number, without close-on-exec when `inherit`.
///
/// Must not: be used where another owner holds `number`; what stood there is closed.
///
/// # Errors
/// What dup3(2) or fcntl(2) says.
pub fn place(source: BorrowedFd<'_>, number: i32, inherit: bool) -> Result<(), Errno> {
    if source.as_raw_fd() == number {
        let flags = if inherit { 0 } else { libc::FD_CLOEXEC };
        // SAFETY: F_SETFD takes an integer.
        return check(unsafe { libc::fcntl(number, libc::F_SETFD, flags) }.into()).map(drop);
    }
    let flags = if inherit { 0 } else { libc::O_CLOEXEC };
    // SAFETY: dup3 takes only integers; the contract above keeps another owner from losing its file.
    check(unsafe { libc::dup3(source.as_raw_fd(), number, flags) }.into()).map(drop)
}

/// Takes the descriptor that a parent left at a fixed number.
///
/// Returns `None` when nothing is open there.
#[must_use]
pub fn take_inherited(number: i32) -> Option<OwnedFd> {
    // SAFETY: F_GETFD takes no pointer.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: it is open, and by the contract with the parent it is there for us alone.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Resets every signal to its default and unblocks all, as a program expects them at its start.
///
/// By the system call itself: the C library keeps two signals for itself, ignores them in what it spawns, and
/// refuses to set them.
pub fn reset_signals() {
    /// As the kernel has it (rt_sigaction(2)); all zeroes is the default action.
    #[repr(C)]
    struct Action {
        handler: usize,
        flags: libc::c_ulong,
        restorer: usize,
        mask: u64,
    }
    let default = Action { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 };
    let none = std::ptr::null_mut::<Action>();
    for number in 1..=64 {
        let call = libc::SYS_rt_sigaction;
        // SAFETY: the action lives through the call and runs no code. KILL and STOP refuse, and stay.
        unsafe { libc::syscall(call, number, &raw const default, none, size_of::<u64>()) };
    }
    unblock_signals();
}

/// Unblocks every signal.
pub fn unblock_signals() {
    // Ignored: setting a mask from a valid set cannot fail.
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
}

/// Lets the kernel reap children by itself (SIGCHLD ignored, wait(2)).
///
/// # Errors
/// What sigaction(2) says.
pub fn reap_automatically() -> Result<(), Errno> {
    // SAFETY: SIG_IGN runs no code of ours.
    unsafe { nix::sys::signal::signal(Signal::SIGCHLD, SigHandler::SigIgn) }.map(drop)
}

/// Sends a signal to the process behind a descriptor.
///
/// # Errors
/// ESRCH when it has ended.
pub fn signal(pidfd: BorrowedFd<'_>, signal: i32) -> Result<(), Errno> {
    send_signal(pidfd, signal, 0)
}

/// Sends a signal to the whole process group that the process leads, or to it alone where the kernel cannot
/// (PIDFD_SIGNAL_PROCESS_GROUP, 6.9).
///
/// # Errors
/// ESRCH when it has ended.
pub fn signal_group(pidfd: BorrowedFd<'_>, signal: i32) -> Result<(), Errno> {
    const PIDFD_SIGNAL_PROCESS_GROUP: libc::c_uint = 4;
    match send_signal(pidfd, signal, PIDFD_SIGNAL_PROCESS_GROUP) {
        Err(Errno::EINVAL) => send_signal(pidfd, signal, 0),
        other => other,
    }
}

fn send_signal(pidfd: BorrowedFd<'_>, signal: i32, flags: libc::c_uint) -> Result<(), Errno> {
    let none = std::ptr::null::<libc::siginfo_t>();
    let fd = pidfd.as_raw_fd();
    // SAFETY: a null siginfo asks the kernel to fill in the usual one.
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, none, flags) }).map(drop)
}

/// Opens a descriptor of a process by its number.
///
/// # Errors
/// ESRCH when there is none.
pub fn open(pid: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: takes only integers.
    own(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// Opens a descriptor of the process that connected a unix socket (unix(7), SO_PEERPIDFD, 6.5).
///
/// # Errors
/// ENOPROTOOPT on an older kernel; ESRCH when the process has been reaped.
pub fn peer(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    const SO_PEERPIDFD: libc::c_int = 77;
    let mut pidfd: libc::c_int = -1;
    let mut length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    let fd = socket.as_raw_fd();
    let value = (&raw mut pidfd).cast::<libc::c_void>();
    // SAFETY: the kernel writes one integer, which lives through the call, and its length.
    let result =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, SO_PEERPIDFD, value, &raw mut length) };
    check(result.into())?;
    // SAFETY: getsockopt succeeded, so pidfd is open and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
}

/// Replaces this process by a program. Returns only when that cannot be done.
#[must_use]
pub fn execute(path: &CStr, argv: &[CString], environment: &[CString]) -> Errno {
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter().map(|item| item.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, environment) = (pointers(argv), pointers(environment));
    // SAFETY: both arrays end with null and their strings outlive the call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
    Errno::last()
}

/// Brings up the loopback interface of this process's network namespace (netdevice(7), SIOCSIFFLAGS).
///
/// # Errors
/// EPERM without CAP_NET_ADMIN over the namespace.
pub fn raise_loopback() -> Result<(), Errno> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: ifreq is plain bytes, for which all zeroes is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l'.cast_signed();
    request.ifr_name[1] = b'o'.cast_signed();
    let flags = libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING);
    request.ifr_ifru.ifru_flags = flags.map_err(|_| Errno::EINVAL)?;
    // SAFETY: SIOCSIFFLAGS reads one ifreq, which lives through the call.
    check(
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) }
            .into(),
    )
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
    use std::os::fd::AsFd;

    fn status(born: &Born) -> WaitStatus {
        waitid(Id::PIDFd(born.pidfd.as_fd()), WaitPidFlag::WEXITED).unwrap()
    }

    #[test]
    fn a_child_runs_its_own_code_and_ends_with_its_answer() {
        let born = fork(|| 7).unwrap();
        assert!(matches!(status(&born), WaitStatus::Exited(_, 7)));
    }

    #[test]
    fn a_panic_in_a_child_stays_there() {
        let born = fork(|| panic!("on purpose")).unwrap();
        assert!(matches!(status(&born), WaitStatus::Exited(_, 101)));
    }

    #[test]
    fn a_signal_reaches_the_process_behind_the_descriptor() {
        let born = fork(|| {
            loop {
                std::thread::park()
            }
        })
        .unwrap();
        signal(born.pidfd.as_fd(), libc::SIGTERM).unwrap();
        assert!(matches!(status(&born), WaitStatus::Signaled(_, Signal::SIGTERM, _)));
    }
}
