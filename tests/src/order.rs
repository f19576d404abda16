//! A command line of sandboxd in the making.
//!
//! Runs in: the test's own process.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::host::TestHost;
use crate::running::{Finished, Running};
use crate::screen::Screen;

/// Where a box sees the probe.
pub const PROBE: &str = "/mnt/probe";

/// A command line of sandboxd, with the caller's surroundings.
#[derive(Debug, Clone)]
pub struct Order<'a> {
    host: &'a TestHost,
    before: Vec<OsString>,
    words: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    directory: PathBuf,
    input: Option<Vec<u8>>,
}

impl<'a> Order<'a> {
    pub(crate) fn new(host: &'a TestHost, directory: &Path) -> Self {
        Self {
            host,
            before: Vec::new(),
            words: Vec::new(),
            environment: host.environment(),
            directory: directory.to_owned(),
            input: None,
        }
    }

    /// Adds words to the command line.
    #[must_use]
    pub fn with<W: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.words.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// Shows a path of the host in the box: `SRC[:DST][:ro|rw]`.
    #[must_use]
    pub fn mount(self, what: impl AsRef<OsStr>) -> Self {
        self.with([OsStr::new("--mount"), what.as_ref()])
    }

    /// Shows the probe.
    #[must_use]
    pub fn with_probe(self) -> Self {
        let source = self.host.probe().display();
        self.mount(format!("{source}:{PROBE}"))
    }

    /// Sets a variable of the caller's, which is nobody's in the box.
    #[must_use]
    pub fn caller_variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.insert(name.into(), value.as_ref().into());
        self
    }

    /// Sets the caller's directory.
    #[must_use]
    pub fn from_directory(mut self, directory: impl AsRef<Path>) -> Self {
        directory.as_ref().clone_into(&mut self.directory);
        self
    }

    /// Sets what the caller's standard input says. Unsaid, it is /dev/null.
    #[must_use]
    pub fn input(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.input = Some(bytes.as_ref().to_vec());
        self
    }

    /// Lets a command of the host's start sandboxd: its words come first.
    #[must_use]
    pub fn started_by<W: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.before.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// Runs it to its end. The words after `--`, if any, are the box's command.
    #[track_caller]
    pub fn command<W: AsRef<OsStr>>(self, command: impl IntoIterator<Item = W>) -> Finished {
        self.start(command).wait()
    }

    /// Runs a shell's text in the box to its end.
    #[track_caller]
    pub fn shell(self, text: &str) -> Finished {
        self.command(["sh", "-c", text])
    }

    /// Starts it.
    #[must_use]
    pub fn start<W: AsRef<OsStr>>(self, command: impl IntoIterator<Item = W>) -> Running {
        let words = self.line(command);
        Running::start(&words, &self.directory, &self.environment, self.input)
    }

    /// Starts it on a terminal.
    #[must_use]
    pub fn on_screen<W: AsRef<OsStr>>(self, command: impl IntoIterator<Item = W>) -> Screen {
        let words = self.line(command);
        Screen::start(self.host.probe(), &words, &self.directory, &self.environment)
    }

    /// Runs the probe in the box and returns what it answered.
    #[track_caller]
    #[must_use]
    pub fn probe<W: AsRef<OsStr>>(self, words: impl IntoIterator<Item = W>) -> Value {
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        let command: Vec<OsString> = [PROBE.into()].into_iter().chain(words).collect();
        self.with_probe().command(command).expect(0).json()
    }

    fn line<W: AsRef<OsStr>>(&self, command: impl IntoIterator<Item = W>) -> Vec<OsString> {
        let mut line = self.host.entrance(&self.directory);
        line.extend(self.before.iter().cloned());
        line.push(self.host.program().into());
        line.extend(self.words.iter().cloned());
        let command: Vec<OsString> =
            command.into_iter().map(|word| word.as_ref().to_owned()).collect();
        if !command.is_empty() {
            line.push("--".into());
            line.extend(command);
        }
        line
    }
}
