//! One host for one test: a directory of its own for state, settings and projects.
//!
//! Runs in: the test's own process.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::unistd::Uid;
use tempfile::TempDir;

use crate::internet::Internet;
use crate::missing::Missing;
use crate::order::Order;
use crate::running::{Finished, Running};
use crate::tree::Tree;

/// Where commands are looked for, on every test's host alike.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A host for one test. What it holds goes with it.
#[derive(Debug)]
pub struct TestHost {
    internet: Option<Internet>,
    directory: TempDir,
    home: PathBuf,
    user: String,
    shell: String,
    program: PathBuf,
    probe: PathBuf,
}

impl TestHost {
    /// Makes one.
    ///
    /// # Errors
    /// Names what this host lacks for any test at all.
    ///
    /// # Panics
    /// When the programs under test were not built.
    pub fn start() -> Result<Self, Missing> {
        let uid = Uid::current();
        if uid.is_root() {
            return Err(Missing::new(
                "user without privileges here: scripts/test runs the tests as one",
            ));
        }
        if !has_user_namespaces() {
            return Err(Missing::new("user namespaces for users without privileges"));
        }
        let [user, home, shell] =
            account(uid).ok_or_else(|| Missing::new("entry for this user in /etc/passwd"))?;
        let home = PathBuf::from(home);
        let directory = tempfile::Builder::new().prefix("sandboxd-test.").tempdir_in(&home);
        let directory = directory.expect("cannot make a directory in the home of the test's user");
        let host = Self {
            internet: None,
            home: home.canonicalize().unwrap_or(home),
            shell,
            user,
            program: built("SANDBOXD_TEST_PROGRAM", "sandboxd"),
            probe: built("SANDBOXD_TEST_PROBE", "probe"),
            directory,
        };
        host.furnish();
        Ok(host)
    }

    /// Makes one on an internet of its own.
    ///
    /// # Errors
    /// Names what this host lacks for that.
    ///
    /// # Panics
    /// When the programs under test were not built.
    pub fn online() -> Result<Self, Missing> {
        let mut host = Self::start()?;
        for name in ["unshare", "nsenter", "ip", "python3", "openssl"] {
            let _path = host.command(name)?;
        }
        host.internet = Some(Internet::start(host.path("internet"), &host.environment()));
        Ok(host)
    }

    /// Returns its internet.
    ///
    /// # Panics
    /// When it has none: `online` makes hosts that have one.
    #[must_use]
    pub fn internet(&self) -> &Internet {
        self.internet.as_ref().expect("the host is online")
    }

    /// Runs a command to its end in a network of a box, held by the file of its namespace.
    #[track_caller]
    pub fn in_network<W: AsRef<OsStr>>(
        &self,
        network: &File,
        words: impl IntoIterator<Item = W>,
    ) -> Finished {
        let path = format!("/proc/{}/fd/{}", std::process::id(), network.as_raw_fd());
        let mut line = self.internet().entrance_to(Path::new(&path));
        line.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        Running::start(&line, self.directory.path(), &self.environment(), None).wait()
    }

    /// Returns the words that start a command where this host is, in a directory.
    pub(crate) fn entrance(&self, directory: &Path) -> Vec<OsString> {
        self.internet.as_ref().map(|internet| internet.entrance(directory)).unwrap_or_default()
    }

    fn furnish(&self) {
        std::fs::create_dir_all(self.path("config/git")).expect("cannot make a directory");
        let identity = "[user]\n\tname = Ann Example\n\temail = ann@example.org\n";
        std::fs::write(self.path("config/git/config"), identity)
            .expect("cannot write git's settings");
    }

    /// Returns a path in the directory of this host.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the user's home, which is not the test's own.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the user's name.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Returns the user's shell.
    #[must_use]
    pub fn shell(&self) -> &str {
        &self.shell
    }

    /// Returns the probe's path on the host.
    #[must_use]
    pub fn probe(&self) -> &Path {
        &self.probe
    }

    /// Returns the program under test.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Makes a directory to work on, below the home as most are.
    #[must_use]
    pub fn project(&self, name: &str) -> Tree {
        Tree::make(self.path(name))
    }

    /// Makes a directory to work on below /tmp, which a box has for itself.
    #[must_use]
    pub fn project_in_tmp(&self) -> Tree {
        Tree::lasting_as_long_as(tempfile::tempdir_in("/tmp").expect("cannot make a directory"))
    }

    /// Says whether the host has a command.
    ///
    /// # Errors
    /// Names it when it has not.
    pub fn command(&self, name: &str) -> Result<PathBuf, Missing> {
        let found = PATH.split(':').map(|directory| Path::new(directory).join(name));
        found.into_iter().find(|path| path.is_file()).ok_or_else(|| Missing::new(name))
    }

    /// Returns the variables that every client and every command on the host gets.
    pub(crate) fn environment(&self) -> BTreeMap<OsString, OsString> {
        let (config, state) = (self.path("config"), self.path("state"));
        let pairs: [(&str, &OsStr); 8] = [
            ("PATH", PATH.as_ref()),
            ("HOME", self.home.as_ref()),
            ("USER", self.user.as_ref()),
            ("LANG", "C.UTF-8".as_ref()),
            ("TERM", "xterm".as_ref()),
            ("GIT_CONFIG_NOSYSTEM", "1".as_ref()),
            ("XDG_CONFIG_HOME", config.as_ref()),
            ("SANDBOXD_DIR", state.as_ref()),
        ];
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    /// Begins `sandboxd run` without a workspace.
    #[must_use]
    pub fn run(&self) -> Order<'_> {
        Order::new(self, self.directory.path()).with(["run", "--workspace", "none"])
    }

    /// Begins `sandboxd run` in a directory, as a user in that directory would.
    #[must_use]
    pub fn run_in(&self, tree: &Tree) -> Order<'_> {
        Order::new(self, tree.path()).with(["run"])
    }

    /// Begins any other command of sandboxd.
    #[must_use]
    pub fn sandboxd(&self) -> Order<'_> {
        Order::new(self, self.directory.path())
    }

    /// Runs a command on the host, in a directory, to its end.
    #[track_caller]
    pub fn on_host<W: AsRef<OsStr>>(
        &self,
        directory: &Path,
        words: impl IntoIterator<Item = W>,
    ) -> Finished {
        let mut line = self.entrance(directory);
        line.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        Running::start(&line, directory, &self.environment(), None).wait()
    }
}

/// The user's name, home and shell. From the file itself: a static program loads no plug-ins of the C library.
fn account(uid: Uid) -> Option<[String; 3]> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, number, _, _, home, shell] = fields.as_slice() else { return None };
        (number.parse() == Ok(uid.as_raw()))
            .then(|| [name, home, shell].map(|field| (*field).to_owned()))
    })
}

fn built(variable: &str, name: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let own = std::env::current_exe().expect("cannot find this program");
    // target/TRIPLE/PROFILE/deps/test, and the programs one directory up.
    let path = own.ancestors().nth(2).unwrap_or(Path::new("/")).join(name);
    assert!(path.is_file(), "{} is not built; scripts/test builds it", path.display());
    path
}

fn has_user_namespaces() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let words =
            ["unshare", "--user", "--map-current-user", "--mount", "--pid", "--fork", "true"];
        let environment = BTreeMap::from([("PATH".into(), PATH.into())]);
        Running::start(&words.map(OsString::from), Path::new("/"), &environment, None).wait().status
            == 0
    })
}
