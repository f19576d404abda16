//! The caller's terminal: raw while a box has one of its own, and as it was afterwards.
//!
//! Runs in: client.

use std::os::fd::{AsFd, OwnedFd};

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use sandbox_sys::{Failing, Failure};

/// The caller's terminal in raw mode. Dropping it gives the old settings back.
#[derive(Debug)]
pub(super) struct Raw {
    terminal: OwnedFd,
    before: Termios,
}

impl Raw {
    /// Makes the terminal on standard input raw: every key goes to the box, Ctrl-C too.
    pub(super) fn begin() -> Result<Self, Failure> {
        let terminal =
            std::io::stdin().as_fd().try_clone_to_owned().failing("hold the terminal")?;
        let before = tcgetattr(&terminal).failing("read the terminal's settings")?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(&terminal, SetArg::TCSADRAIN, &raw).failing("make the terminal raw")?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Ignored: a terminal that is gone needs no settings.
        let _ = tcsetattr(&self.terminal, SetArg::TCSADRAIN, &self.before);
    }
}
