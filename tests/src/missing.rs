//! What this host lacks for a test: a skip with a name, or a failure where everything must run.
//!
//! Runs in: the test's own process.

use std::fmt;

/// Something that a test needs and this host has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    what: String,
}

impl Missing {
    /// Names what is missing.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into() }
    }

    /// Says that the test is skipped, and why.
    ///
    /// # Panics
    /// Where SANDBOXD_TESTS_MUST_RUN is set.
    #[track_caller]
    #[expect(clippy::print_stderr, reason = "a skip has to be seen")]
    #[expect(clippy::panic, reason = "how a test fails")]
    pub fn skip(self) {
        if std::env::var_os("SANDBOXD_TESTS_MUST_RUN").is_some() {
            panic!("must run here, but this host has no {self}");
        }
        eprintln!("skipped: this host has no {self}");
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Unwraps what a test needs, or ends the test as skipped, by name.
#[macro_export]
macro_rules! needs {
    ($what:expr) => {
        match $what {
            Ok(found) => found,
            Err(missing) => return $crate::Missing::skip(missing),
        }
    };
}
