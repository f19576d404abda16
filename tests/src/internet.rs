//! A small internet of a test's own, so that a promise about the network is proven against one whose every packet
//! is seen, and which is there without a network.
//!
//! An unprivileged user makes it: user, network and mount namespaces that are the "host" of the test, and another
//! network namespace that is the world. What is started on such a host has no capability and does not know.
//!
//! Runs in: the test's own process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::deadline::eventually;
use crate::order::Order;
use crate::running::{Finished, Running};

/// What a server of the world says first.
pub const HELLO: &str = "hello from world";

/// Sends the client to places in a box, and returns what came of each.
#[track_caller]
pub fn visit(order: Order<'_>, visits: &[&str]) -> (Vec<String>, Finished) {
    let done = order.command(visitor(visits)).expect(0);
    (answers(&done.json()), done)
}

/// Takes the client's answers apart, a text for each place.
///
/// # Panics
/// When they are none.
#[track_caller]
#[must_use]
pub fn answers(answers: &Value) -> Vec<String> {
    let list = answers.as_array().expect("the client answers with an array").iter();
    list.map(|answer| answer.as_str().map_or_else(|| answer.to_string(), str::to_owned)).collect()
}

/// Returns the command of a client that goes to places, in a box or on the host; `client.py` says in which words.
#[must_use]
pub fn visitor<'a>(visits: &[&'a str]) -> Vec<&'a str> {
    let client = ["python3", "-S", "-E", "-c", include_str!("client.py")];
    client.iter().chain(visits).copied().collect()
}

/// An internet: its servers, its name servers, and what they saw. Dropping it ends it.
#[derive(Debug)]
pub struct Internet {
    world: Running,
    directory: PathBuf,
}

impl Internet {
    pub(crate) fn start(directory: PathBuf, environment: &BTreeMap<OsString, OsString>) -> Self {
        std::fs::create_dir_all(&directory).expect("cannot make a directory");
        let script = directory.join("internet.py");
        std::fs::write(&script, include_str!("internet.py")).expect("cannot write a file");
        let words = ["unshare", "--map-current-user", "--net", "--mount", "--keep-caps", "python3"];
        let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
        words.extend(["-S", "-E"].map(OsString::from));
        words.extend([script.into(), directory.clone().into()]);
        let mut world = Running::start(&words, &directory, environment, Some(Vec::new()));
        world.answers("ready\n");
        Self { world, directory }
    }

    /// Returns the words that start a command on the internet's host, in a directory. The first of them ends up
    /// as that command: no process stays in between. Whoever is not root has no capability after it.
    pub(crate) fn entrance(&self, directory: &Path) -> Vec<OsString> {
        let target = self.world.pid().to_string();
        let enter = ["nsenter", "--target", &target, "--user", "--net", "--mount"];
        let mut words: Vec<OsString> = enter.iter().map(OsString::from).collect();
        words.extend(["--preserve-credentials", "--", "env", "-C"].map(OsString::from));
        words.push(directory.into());
        words
    }

    /// Returns the words that start a command in the network of a box, which a process of the test holds.
    pub(crate) fn entrance_to(&self, network: &Path) -> Vec<OsString> {
        let target = self.world.pid().to_string();
        let enter = ["nsenter", "--target", &target, "--user", "--preserve-credentials"];
        let mut words: Vec<OsString> = enter.iter().map(OsString::from).collect();
        words.push(format!("--net={}", network.display()).into());
        words
    }

    /// Returns the certificate of its web servers.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// Returns the directory of what its web servers serve.
    #[must_use]
    pub fn www(&self) -> PathBuf {
        self.directory.join("www")
    }

    /// Returns all that it has seen so far; `internet.py` says in which words.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        let text = self.world.output();
        // The last line may be half said.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().filter(|line| *line != "ready").map(str::to_owned).collect()
    }

    /// Says how often it has seen something so far.
    #[must_use]
    pub fn count(&self, line: &str) -> usize {
        self.log().iter().filter(|seen| *seen == line).count()
    }

    /// Waits until it has seen something.
    ///
    /// # Panics
    /// When it does not see it.
    #[track_caller]
    pub fn sees(&self, line: &str) {
        eventually(&format!("the internet sees {line:?}"), || self.count(line) > 0);
    }
}
