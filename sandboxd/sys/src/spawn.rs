//! Starting a program from a threaded process: posix_spawn, never fork.
//!
//! Runs in: client, host (any number of threads).

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;

/// What a program gets from its starter; nothing else is inherited.
#[derive(Debug)]
pub struct Program<'a> {
    /// The file to execute.
    pub path: &'a CStr,
    /// Its arguments, the name first.
    pub argv: &'a [CString],
    /// Its whole environment, as `K=V`.
    pub environment: &'a [CString],
    /// Its directory.
    pub directory: &'a CStr,
    /// The descriptors that it gets at 0, 1, 2, ...
    pub descriptors: &'a [BorrowedFd<'a>],
}

/// Starts a program in a session of its own and returns its process number.
///
/// # Errors
/// What posix_spawn(3) says: the errno of the exec that was refused, too.
pub fn spawn(program: &Program<'_>) -> Result<i32, Errno> {
    let mut actions = Actions::new()?;
    // First out of the way of the final numbers, then into place: an order that no set of numbers can upset.
    let base = 64;
    for (index, descriptor) in (0..).zip(program.descriptors) {
        actions.copy(descriptor.as_raw_fd(), base + index)?;
    }
    let count = i32::try_from(program.descriptors.len()).map_err(|_| Errno::EINVAL)?;
    for index in 0..count {
        actions.copy(base + index, index)?;
    }
    actions.close_from(count)?;
    actions.change_directory(program.directory)?;
    let attributes = Attributes::new()?;
    let pointers = |list: &[CString]| -> Vec<*mut libc::c_char> {
        list.iter().map(|item| item.as_ptr().cast_mut()).chain([std::ptr::null_mut()]).collect()
    };
    let (argv, environment) = (pointers(program.argv), pointers(program.environment));
    let mut pid = 0;
    // SAFETY: every pointer is to a live value of this frame; both arrays end with null.
    let result = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            program.path.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            argv.as_ptr(),
            environment.as_ptr(),
        )
    };
    told(result).map(|()| pid)
}

fn told(result: libc::c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(Errno::from_raw(result)) }
}

struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new() -> Result<Self, Errno> {
        // SAFETY: the type is plain data that init below fills in.
        let mut actions = Self(unsafe { std::mem::zeroed() });
        // SAFETY: the pointer is to a live value of this frame.
        told(unsafe { libc::posix_spawn_file_actions_init(&raw mut actions.0) })?;
        Ok(actions)
    }

    fn copy(&mut self, from: i32, to: i32) -> Result<(), Errno> {
        // SAFETY: init has run; the call stores two integers.
        told(unsafe { libc::posix_spawn_file_actions_adddup2(&raw mut self.0, from, to) })
    }

    fn close_from(&mut self, first: i32) -> Result<(), Errno> {
        // SAFETY: init has run; the call stores an integer.
        told(unsafe { posix_spawn_file_actions_addclosefrom_np(&raw mut self.0, first) })
    }

    fn change_directory(&mut self, path: &CStr) -> Result<(), Errno> {
        // SAFETY: init has run; the call copies the string.
        told(unsafe { libc::posix_spawn_file_actions_addchdir_np(&raw mut self.0, path.as_ptr()) })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: init has run and nobody uses the value afterwards.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

// glibc 2.34; the libc crate does not name it.
unsafe extern "C" {
    fn posix_spawn_file_actions_addclosefrom_np(
        actions: *mut libc::posix_spawn_file_actions_t,
        first: libc::c_int,
    ) -> libc::c_int;
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    /// A session of its own, no signal blocked, every signal at its default.
    fn new() -> Result<Self, Errno> {
        const POSIX_SPAWN_SETSID: libc::c_int = 0x80;
        let flags = POSIX_SPAWN_SETSID | libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
        // SAFETY: the type is plain data that init below fills in.
        let mut attributes = Self(unsafe { std::mem::zeroed() });
        // SAFETY: the pointer is to a live value of this frame.
        told(unsafe { libc::posix_spawnattr_init(&raw mut attributes.0) })?;
        let flags = libc::c_short::try_from(flags).map_err(|_| Errno::EINVAL)?;
        // SAFETY: init has run; the call stores an integer.
        told(unsafe { libc::posix_spawnattr_setflags(&raw mut attributes.0, flags) })?;
        let (none, all) = (nix::sys::signal::SigSet::empty(), nix::sys::signal::SigSet::all());
        // SAFETY: init has run; the call copies the set.
        told(unsafe { libc::posix_spawnattr_setsigmask(&raw mut attributes.0, none.as_ref()) })?;
        // SAFETY: init has run; the call copies the set.
        told(unsafe { libc::posix_spawnattr_setsigdefault(&raw mut attributes.0, all.as_ref()) })?;
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: init has run and nobody uses the value afterwards.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;

    #[test]
    fn a_program_gets_the_named_descriptors_directory_and_environment_and_nothing_else() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let script = c"cd /proc/self/fd; echo $(ls) $OLDPWD $(env | grep -c LEAK) $K";
        let argv = [c"sh".to_owned(), c"-c".to_owned(), script.to_owned()];
        let environment = [c"K=v".to_owned()];
        let program = Program {
            path: c"/bin/sh",
            argv: &argv,
            environment: &environment,
            directory: c"/usr",
            descriptors: &[null.as_fd(), writer.as_fd(), null.as_fd()],
        };
        let pid = spawn(&program).unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None).unwrap();
        // 3 is the directory that ls itself reads.
        assert_eq!(text.trim(), "0 1 2 3 /usr 0 v");
    }
}
