//! The system call filter: the policy's table as one program for the kernel.
//!
//! Runs in: init (one thread; the last wall of a compartment, which every payload inherits).
//!
//! ```text
//!   architecture is the native one?  -- no --> the process ends
//!   a balanced tree over the number  --------> allowed, EPERM, ENOSYS    (program.rs, tree.rs)
//!     a call whose arguments decide  --------> its own piece of program  (arguments.rs)
//! ```
//!
//! At installation the kernel runs the program once for every number, to learn which calls are
//! allowed whatever their arguments; those then cost next to nothing. So a short way to each number
//! is what keeps installing cheap, and a tree is a tenth of a chain. The pieces that look at
//! arguments are `seccompiler`'s. They hang below the tree instead of standing as further filters:
//! each call meets its own piece only, and one program is installed, not one for each errno.
//!
//! Numbers above the table's last are one range of the tree, which answers `ENOSYS`: the x32 calls
//! of an `x86_64` kernel are among them, since they carry bit 30 and pass for native otherwise.

mod arguments;
mod program;
mod prune;
mod tree;

use std::io;
use std::sync::OnceLock;

use policy::syscalls::Profile;
use seccompiler::BpfProgram;
use thiserror::Error;

/// Says why there is no filter.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(crate) enum FilterError {
    /// A rule does not compile.
    #[error("cannot compile the filter's rules over arguments")]
    Rule(#[source] seccompiler::BackendError),
    /// A compiled rule does not begin with the checks that are known.
    #[error("cannot take the compiler's own checks off a rule: they are not the known ones")]
    Shape,
    /// The program has more instructions than the kernel takes, or than a jump can span.
    #[error("cannot keep the filter within {limit} instructions")]
    Length {
        /// The most that is possible.
        limit: usize,
    },
    /// The process cannot give up gaining privileges by exec, which filters need.
    #[error("cannot set no_new_privs for the filter")]
    NoNewPrivileges(#[source] io::Error),
    /// The kernel did not take the filter.
    #[error("cannot install the filter")]
    Install(#[source] io::Error),
    /// The compiler's own words for what it did not do.
    #[error("cannot hand the filter to the kernel")]
    HandOver(#[source] seccompiler::Error),
}

/// A compiled filter. Nothing is filtered before [`Filter::install`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a filter that is not installed refuses nothing"]
pub(crate) struct Filter {
    program: BpfProgram,
}

/// Compiles the table for one kind of compartment.
///
/// # Errors
///
/// Only when the table says what no program can; a test compiles every profile.
pub(crate) fn compile(profile: Profile) -> Result<Filter, FilterError> {
    program::assemble(profile).map(|program| Filter { program })
}

/// Returns the filter of a profile, compiled the first time that somebody asks.
///
/// The zygote asks before it forks: what it has compiled, every init inherits.
///
/// # Errors
///
/// As [`compile`].
pub(crate) fn compiled(profile: Profile) -> Result<&'static Filter, &'static FilterError> {
    static AGENT: OnceLock<Result<Filter, FilterError>> = OnceLock::new();
    static SERVER: OnceLock<Result<Filter, FilterError>> = OnceLock::new();
    let filter = match profile {
        Profile::Agent => &AGENT,
        Profile::Server => &SERVER,
    };
    filter.get_or_init(|| compile(profile)).as_ref()
}

impl Filter {
    /// Returns how many instructions the kernel is given.
    pub(crate) fn instructions(&self) -> usize {
        self.program.len()
    }

    /// Puts the calling thread under the filter, with all that it starts from now on.
    ///
    /// Must: mounts, namespaces and identity are settled, since their calls are refused afterwards;
    /// a process of several threads would leave the others unfiltered.
    /// Must not: be followed by anything that needs a call which the table refuses. `clone3` is one
    /// of them; `clone` is not.
    ///
    /// # Errors
    ///
    /// When the kernel refuses. Then nothing is filtered, and the compartment must not start.
    pub(crate) fn install(&self) -> Result<(), FilterError> {
        seccompiler::apply_filter(&self.program).map_err(|error| match error {
            seccompiler::Error::Prctl(source) => FilterError::NoNewPrivileges(source),
            seccompiler::Error::Seccomp(source) => FilterError::Install(source),
            other @ (seccompiler::Error::Backend(_)
            | seccompiler::Error::EmptyFilter
            | seccompiler::Error::ThreadSync(_)) => FilterError::HandOver(other),
        })
    }
}

#[cfg(test)]
mod filter_tests;
