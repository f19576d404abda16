//! A terminal with a program on it, and somebody who types.
//!
//! Runs in: the test's own process; the program starts through the probe, which takes the terminal for its own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use nix::pty::{Winsize, openpty};
use nix::sys::signal::Signal;
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, ttyname};

use crate::deadline::{DEADLINE, within};
use crate::running::{Collector, Running, number, program};

/// A program on a terminal. Dropping it kills the program.
#[derive(Debug)]
pub struct Screen {
    child: Child,
    keyboard: File,
    /// The program's side, kept so that its settings can be read when the program is gone.
    terminal: Option<OwnedFd>,
    path: PathBuf,
    shown: Collector,
    environment: BTreeMap<OsString, OsString>,
    before: Termios,
}

impl Screen {
    pub(crate) fn start(
        probe: &Path,
        words: &[OsString],
        directory: &Path,
        environment: &BTreeMap<OsString, OsString>,
    ) -> Self {
        let size = Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(&size, None).expect("this host has terminals");
        let path = ttyname(&pair.slave).expect("a terminal has a name");
        let before = tcgetattr(&pair.slave).expect("a terminal has settings");
        let mut line: Vec<OsString> = vec![probe.into(), "terminal".into(), path.clone().into()];
        line.extend(words.iter().cloned());
        let mut command = program(&line, directory, environment);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("the probe starts");
        let keyboard = pair.master.try_clone().expect("a descriptor can be copied");
        Self {
            child,
            keyboard: keyboard.into(),
            terminal: Some(pair.slave),
            path,
            shown: Collector::of(File::from(pair.master)),
            environment: environment.clone(),
            before,
        }
    }

    /// Returns the process number of the program.
    ///
    /// # Panics
    /// Never: process numbers fit.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process numbers fit")
    }

    /// Presses keys: `\r` is Enter, `\x03` is Ctrl-C.
    ///
    /// # Panics
    /// When the terminal takes none.
    pub fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Waits until a text has been shown.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn shows(&mut self, text: &str) {
        let child = &mut self.child;
        let shown = &self.shown;
        let seen = within(DEADLINE, || {
            shown.text().contains(text) || child.try_wait().is_ok_and(|status| status.is_some())
        });
        // What was written last may come after the end was seen.
        let seen =
            seen && within(std::time::Duration::from_secs(10), || shown.text().contains(text));
        assert!(seen, "never showed {text:?}:\n{}", self.shown.text());
    }

    /// Returns everything shown so far.
    #[must_use]
    pub fn text(&self) -> String {
        self.shown.text()
    }

    /// Gives the terminal another size; the kernel tells who is in front.
    pub fn resizes(&self, rows: u16, columns: u16) {
        let (rows, columns) = (rows.to_string(), columns.to_string());
        let path = self.path.display().to_string();
        let words = ["stty", "-F", &path, "rows", &rows, "cols", &columns];
        Running::start(&words.map(OsString::from), Path::new("/"), &self.environment, None)
            .wait()
            .done();
    }

    /// Sends the program itself a signal.
    ///
    /// # Panics
    /// When it has been waited for.
    pub fn signal(&self, signal: Signal) {
        nix::sys::signal::kill(Pid::from_raw(self.pid()), signal).expect("it is our child");
    }

    /// Returns the settings that the terminal had at first, and those that it has now.
    ///
    /// # Panics
    /// When the terminal is gone.
    #[must_use]
    pub fn settings(&self) -> (Termios, Termios) {
        let terminal = self.terminal.as_ref().expect("the terminal is still held");
        (self.before.clone(), tcgetattr(terminal).expect("a terminal has settings"))
    }

    /// Waits for the program's end, and returns its status.
    ///
    /// # Panics
    /// When the end does not come.
    #[track_caller]
    pub fn ends(&mut self) -> i32 {
        let mut status = None;
        within(DEADLINE, || {
            status = self.child.try_wait().expect("it is our child");
            status.is_some()
        });
        let Some(status) = status else {
            let text = self.shown.text();
            return never(&text);
        };
        number(status)
    }

    /// Lets the terminal go and returns everything that it has shown.
    #[must_use]
    pub fn close(mut self) -> String {
        self.terminal = None;
        within(DEADLINE, || self.shown.is_done());
        self.shown.text()
    }
}

#[track_caller]
#[expect(clippy::panic, reason = "how a test fails")]
fn never(text: &str) -> i32 {
    panic!("did not end within {DEADLINE:?}:\n{text}")
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Ignored: a program that has ended is as it should be.
        let _ = self.child.kill();
        // Ignored: likewise.
        let _ = self.child.wait();
    }
}
