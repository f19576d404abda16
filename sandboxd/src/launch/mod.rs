//! The last steps before a command: its terminal, descriptors, limits, directory, environment. Then exec.
//!
//! The walls were taken by init and are inherited; nothing is left to narrow. The specification, which may
//! hold secrets, is read last, from a sealed memory file that nobody else inside has ever had.
//!
//! Runs in: launch (init's fork, one thread; a payload's privileges).

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::{Mode, umask};
use sandbox_sys::{Errno, Failing, Failure, memory, process, terminal};

use crate::wire::{self, LaunchSpec, SPEC_LIMIT};

/// What the command gets as 0, 1 and 2.
#[derive(Debug)]
pub(crate) enum Stdio {
    /// Pipes, or /dev/null.
    Pipes([OwnedFd; 3]),
    /// The box's own terminal, for all three unless errors are kept apart.
    Terminal {
        /// The terminal.
        peer: OwnedFd,
        /// Where errors go instead.
        error: Option<OwnedFd>,
    },
}

/// Becomes the command; when that fails, reports it and returns the exit status.
pub(crate) fn run(specification: &OwnedFd, mut report: File, stdio: &Stdio) -> i32 {
    process::set_name(c"launch");
    let failure = match prepare(specification, stdio) {
        Ok(spec) => match become_command(&spec) {
            Ok(never) => match never {},
            Err(failure) => failure,
        },
        Err(failure) => failure,
    };
    let status = status(&failure);
    if let Ok(bytes) = wire::encode(&failure) {
        // Ignored: a host that is gone needs no report.
        let _ = report.write_all(&bytes);
    }
    status
}

/// The step whose errno decides between 126 and 127.
const EXECUTE: &str = "execute";

/// What a shell would say (POSIX sh, 2.8.2): 127 not found, 126 found and not executable, 125 ours.
pub(crate) fn status(failure: &Failure) -> i32 {
    let missing = [Errno::ENOENT as i32, Errno::ENOTDIR as i32];
    match (failure.step == EXECUTE, missing.contains(&failure.errno)) {
        (true, true) => 127,
        (true, false) => 126,
        (false, _) => 125,
    }
}

fn prepare(specification: &OwnedFd, stdio: &Stdio) -> Result<LaunchSpec, Failure> {
    // Init has reset what signals do, and handles none; it keeps one blocked.
    process::unblock_signals();
    nix::unistd::setsid().failing("lead a session")?;
    let sources = match stdio {
        Stdio::Pipes([input, output, error]) => [input, output, error],
        Stdio::Terminal { peer, error } => {
            terminal::control(peer.as_fd()).failing("control the terminal")?;
            [peer, peer, error.as_ref().unwrap_or(peer)]
        }
    };
    for (number, source) in (0..).zip(sources) {
        process::place(source.as_fd(), number, true).failing("place a descriptor")?;
    }
    process::close_on_exec_from(3).failing("close what is not the command's")?;
    let mut bytes = memory::read(specification.as_fd(), SPEC_LIMIT).failing("read the command")?;
    let spec: LaunchSpec = wire::decode(&bytes).failing("understand the command")?;
    zeroize::Zeroize::zeroize(&mut bytes);
    limit(&spec)?;
    Ok(spec)
}

fn limit(spec: &LaunchSpec) -> Result<(), Failure> {
    umask(Mode::from_bits_truncate(spec.umask));
    // A core file would hold what the memory held, secrets too.
    setrlimit(Resource::RLIMIT_CORE, 0, 0).failing("forbid core files")?;
    let (soft, hard) = spec.descriptors;
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).failing("limit the descriptors")?;
    if let Some(processes) = spec.processes {
        // Counted for the user within this session's user namespace: so for the session.
        setrlimit(Resource::RLIMIT_NPROC, processes, processes).failing("limit the processes")?;
    }
    let directory = CString::new(spec.directory.clone()).unwrap_or_default();
    let shown = directory.to_string_lossy().into_owned();
    nix::unistd::chdir(directory.as_c_str()).failing_on("enter the directory", &shown)
}

fn become_command(spec: &LaunchSpec) -> Result<std::convert::Infallible, Failure> {
    let strings = |list: &[Vec<u8>]| -> Vec<CString> {
        list.iter().filter_map(|item| CString::new(item.as_slice()).ok()).collect()
    };
    let (argv, environment) = (strings(&spec.argv), strings(&spec.environment));
    let Some(program) = argv.first() else {
        return Err(Failure::new(EXECUTE, "an empty command", Errno::EINVAL));
    };
    let shown = program.to_string_lossy().into_owned();
    if program.is_empty() {
        return Err(Failure::new(EXECUTE, "\"\"", Errno::ENOENT));
    }
    if program.to_bytes().contains(&b'/') {
        return Err(Failure::new(EXECUTE, shown, execute(program, &argv, &environment)));
    }
    let path = environment.iter().find_map(|item| item.to_bytes().strip_prefix(b"PATH="));
    let mut found = Errno::ENOENT;
    for directory in path.unwrap_or(b"/usr/bin:/bin").split(|byte| *byte == b':') {
        let directory = if directory.is_empty() { b"." } else { directory };
        let candidate = [directory, b"/", program.to_bytes()].concat();
        let Ok(candidate) = CString::new(candidate) else { continue };
        let error = execute(&candidate, &argv, &environment);
        if error == Errno::EACCES {
            found = error;
        } else if error != Errno::ENOENT && error != Errno::ENOTDIR {
            return Err(Failure::new(EXECUTE, shown, error));
        }
    }
    Err(Failure::new(EXECUTE, shown, found))
}

/// Executes a file; one without a known format is a shell's, as execvp(3) has it.
fn execute(path: &CStr, argv: &[CString], environment: &[CString]) -> Errno {
    let error = process::execute(path, argv, environment);
    if error != Errno::ENOEXEC {
        return error;
    }
    let shell = [c"/bin/sh".to_owned(), path.to_owned()];
    let argv: Vec<CString> = shell.into_iter().chain(argv.iter().skip(1).cloned()).collect();
    process::execute(c"/bin/sh", &argv, environment)
}
