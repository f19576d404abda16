//! System calls as the kernel knows them, and attempts in a child that may not survive them.
//!
//! Runs in: probe.

use std::ffi::CString;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// An argument of a call: a number, or the address of something that outlives the call.
pub(crate) type Argument = usize;

/// Makes a system call.
///
/// Nothing here is safe in the language's sense; the attempts pass numbers, null, and pointers to live values.
pub(crate) fn call(number: libc::c_long, arguments: &[Argument]) -> Result<usize, Errno> {
    let at = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: see above; callers hand in addresses of values that live through the call, or no address at all.
    let result = unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) };
    if result < 0 { Err(Errno::last()) } else { usize::try_from(result).map_err(|_| Errno::ERANGE) }
}

/// Returns the address of a value for [`call`].
pub(crate) fn address<T: ?Sized>(value: &T) -> Argument {
    std::ptr::from_ref(value).cast::<u8>() as usize
}

/// Returns a text as the kernel takes it.
pub(crate) fn text(value: &str) -> CString {
    CString::new(value).unwrap_or_default()
}

/// Names what came of a call.
pub(crate) fn outcome<T>(result: Result<T, Errno>) -> String {
    match result {
        Ok(_) => "OK".to_owned(),
        Err(errno) => format!("{errno:?}"),
    }
}

/// Names what came of an operation of the standard library.
pub(crate) fn io_outcome<T>(result: std::io::Result<T>) -> String {
    outcome(result.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0))))
}

/// Makes a child; 0 in the child. The probe has one thread, so both sides are whole.
pub(crate) fn fork() -> Result<i32, Errno> {
    call(libc::SYS_clone, &[libc::SIGCHLD as usize]).map(|pid| i32::try_from(pid).unwrap_or(-1))
}

/// Ends this process, without a word to anybody.
pub(crate) fn leave(status: i32) -> ! {
    // SAFETY: takes an integer and does not come back.
    unsafe { libc::_exit(status) }
}

/// Runs an attempt in a child and names what came of it, or the signal that ended it.
pub(crate) fn in_child(attempt: impl FnOnce() -> Result<usize, Errno>) -> String {
    match fork() {
        Err(errno) => format!("cannot fork: {errno:?}"),
        Ok(0) => leave(match attempt() {
            Ok(_) => 0,
            Err(errno) => errno as i32,
        }),
        Ok(child) => ending(child),
    }
}

/// Waits for a child and names how it ended: its status is an errno.
pub(crate) fn ending(child: i32) -> String {
    match waitpid(Pid::from_raw(child), None) {
        Ok(WaitStatus::Exited(_, 0)) => "OK".to_owned(),
        Ok(WaitStatus::Exited(_, errno)) => format!("{:?}", Errno::from_raw(errno)),
        Ok(WaitStatus::Signaled(_, signal, _)) => signal.as_str().to_owned(),
        other => format!("{other:?}"),
    }
}

/// Kills and reaps a child of ours.
pub(crate) fn kill(child: i32) {
    let child = Pid::from_raw(child);
    // Ignored: a child that has ended already is as it should be.
    let _ = nix::sys::signal::kill(child, Signal::SIGKILL);
    // Ignored: likewise.
    let _ = waitpid(child, None);
}
