//! When a session has ended, however it ended, nothing of it is left.
//!
//! The tests of this file count, so they run one at a time; they adopt what a session might orphan.
//!
//! Runs in: the test's own process.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandboxd_tests::{Daemon, Missing, Process, Recipe, TestHost, descendants, needs, within};
use serde_json::json;

/// How long the kernel and the daemon may take to clear away what has ended.
const SOON: Duration = Duration::from_secs(20);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// For tests that count: what a session orphans becomes this process's own.
fn alone() -> MutexGuard<'static, ()> {
    assert_eq!(nix::sys::prctl::set_child_subreaper(true), Ok(()), "a process may adopt");
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the sessions of one daemon could leave.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    processes: Vec<String>,
    namespaces: BTreeSet<(String, u64)>,
    mounts: String,
    files: BTreeSet<PathBuf>,
    sockets: usize,
    descriptors: usize,
    zygote_descriptors: usize,
}

impl Traces {
    fn take(daemon: &Daemon<'_>) -> Self {
        let kinds = ["mnt", "net", "pid", "user", "ipc", "uts", "cgroup"];
        let process = daemon.process();
        let zygote = daemon.named("zygote").into_iter().next().expect("a daemon has a zygote");
        let own = std::process::id().cast_signed();
        let family = descendants(own).into_iter().filter(|process| process.state != 'Z');
        let family: Vec<Process> = family.collect();
        let namespaces = family.iter().flat_map(|process| {
            kinds.iter().filter_map(|kind| Some(((*kind).to_owned(), process.namespace(kind)?)))
        });
        let links = descriptors(&process);
        Self {
            namespaces: namespaces.collect(),
            processes: family.iter().map(|process| process.name.clone()).collect(),
            mounts: String::from_utf8_lossy(&process.file("mountinfo")).into_owned(),
            files: files(daemon),
            sockets: links.iter().filter(|link| link.starts_with("socket:")).count(),
            descriptors: links.len(),
            zygote_descriptors: descriptors(&zygote).len(),
        }
    }

    fn line(&self) -> String {
        format!(
            "processes {}, namespaces {}, mounts {}, files {}, sockets {}, descriptors {} + {}",
            self.processes.len(),
            self.namespaces.len(),
            self.mounts.lines().count(),
            self.files.len(),
            self.sockets,
            self.descriptors,
            self.zygote_descriptors
        )
    }
}

fn descriptors(process: &Process) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.map(|link| link.display().to_string()).collect()
}

/// All files of the daemon's, and this user's where temporary ones go.
fn files(daemon: &Daemon<'_>) -> BTreeSet<PathBuf> {
    let uid = nix::unistd::Uid::current().as_raw();
    let places = ["/tmp", "/var/tmp", "/dev/shm"].iter();
    let mut found: BTreeSet<PathBuf> = places
        .flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten())
        .filter(|entry| entry.metadata().is_ok_and(|data| data.uid() == uid))
        .map(|entry| entry.path())
        .collect();
    let mut next = vec![daemon.directory().to_owned()];
    while let Some(directory) = next.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                next.push(entry.path());
            }
            found.insert(entry.path());
        }
    }
    found
}

/// Waits until the traces are what they were.
#[track_caller]
fn the_same(daemon: &Daemon<'_>, before: &Traces) {
    let mut now = Traces::take(daemon);
    let same = within(SOON, || {
        now = Traces::take(daemon);
        now == *before
    });
    assert!(same, "before: {before:#?}\nnow: {now:#?}");
}

#[test]
fn rm_leaves_nothing() {
    let _alone = alone();
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = Daemon::of(&host);
    let tree = host.project("work");
    tree.write(".git/config", "").directory(".git/hooks");
    let servers = daemon.servers();
    let recipe = Recipe::on(&tree).mount(servers.path()).server("tracker", &servers, "deaf", "");
    let round = || {
        let _view = daemon.up("gone", &recipe.text());
        let text = "trap '' HUP TERM; mktemp; (setsid sleep 100000 &) ; echo > /dev/shm/file";
        daemon.exec("gone").shell(text).done();
        let job = daemon.order(&["exec", "--detach", "gone"]).command(["sleep", "100000"]);
        job.done();
        assert_eq!(daemon.ask("gone", "tracker", "linger", &json!({ "count": 2 })), "OK");
        // Asked while it stands, or the test would see nothing in any case.
        let traces = Traces::take(&daemon);
        assert!(traces.processes.iter().filter(|name| *name == "sleep").count() == 2, "{traces:?}");
        daemon.remove("gone");
    };
    let _first = daemon.up("other", &Recipe::bare().text());
    round();
    let listing = tree.listing();
    let before = Traces::take(&daemon);
    round();
    // What `rm` said is true when it says it.
    let after = Traces::take(&daemon);
    assert_eq!((&after.processes, &after.files), (&before.processes, &before.files));
    assert_eq!((&after.namespaces, &after.mounts), (&before.namespaces, &before.mounts));
    the_same(&daemon, &before);
    assert_eq!(tree.listing(), listing);
    assert_eq!(daemon.exec("other").shell("echo lives").expect(0).text(), "lives\n");
}

/// The kernel counts too: in a user namespace that may have few others, a leak soon ends all starting.
const BED: &str = "for k in user=12 mnt=150 pid=12 net=12 ipc=12 uts=12 cgroup=12; do
    echo ${k#*=} > /proc/sys/user/max_${k%=*}_namespaces || exit 99; done; echo limited
    exec setpriv --ambient-caps=-all --inh-caps=-all --bounding-set=-all \"$@\"";

#[test]
fn a_hundred_sessions_one_after_another_leave_nothing() {
    let _alone = alone();
    let host = needs!(TestHost::start());
    needs!(host.command("setpriv"));
    let daemon = Daemon::of(&host);
    let tree = host.project("work");
    tree.write(".git/config", "");
    let file = daemon.file("hundred", &Recipe::on(&tree).text());
    // A shell in that user namespace, which does what it is told.
    let enter = ["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", BED, "bed"];
    let bed = host.sandboxd().started_by(enter).started_by(["sh", "-c", "exec sh"]);
    let mut bed = bed.input("").start([""; 0]);
    if !within(SOON, || bed.output().contains("limited") || bed.has_ended()) || bed.has_ended() {
        return Missing::new("limits of namespaces for users without privileges").skip();
    }
    let program = host.program().display();
    // The kernel gives network namespaces back a little later than it ends processes: so `up` may try again.
    bed.says(&format!(
        "round() {{ tries=0
            until '{program}' up -f '{file}' --name again >/dev/null 2>&1; do
                tries=$((tries+1)); [ $tries -lt 400 ] || exit 98; done
            '{program}' exec again -- true && '{program}' rm again; }}
         round && echo first\n"
    ));
    bed.answers("first");
    let before = Traces::take(&daemon);
    bed.says("n=0; while [ $n -lt 100 ] && round; do n=$((n+1)); done; echo rounds $n end\n");
    bed.answers("end");
    assert!(bed.output().contains("rounds 100 end"), "{} {}", bed.output(), bed.errors());
    the_same(&daemon, &before);
    let after = Traces::take(&daemon);
    eprintln!("before: {}\nafter:  {}", before.line(), after.line());
    assert_eq!(after, before);
}

#[test]
fn a_killed_daemon_takes_its_sessions_with_it_and_the_next_lists_them_as_lost() {
    let _alone = alone();
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = Daemon::of(&host);
    let tree = host.project("work");
    let servers = daemon.servers();
    let recipe = Recipe::on(&tree).mount(servers.path()).server("tracker", &servers, "deaf", "");
    let id = daemon.up("one", &recipe.text())["id"].clone();
    let _second = daemon.up("two", &Recipe::bare().text());
    daemon.exec("one").shell("trap '' HUP TERM; setsid sleep 100000 &").done();
    let job = daemon.order(&["exec", "--detach", "one"]);
    job.command(["sh", "-c", "echo kept; sleep 100000"]).done();
    assert_eq!(daemon.ask("one", "tracker", "linger", &json!({ "count": 2 })), "OK");
    sandboxd_tests::eventually("the job's word is in the log", || {
        daemon.does(&["logs", "one"]).text().contains("kept")
    });
    let family = daemon.family();
    assert!(family.iter().filter(|process| process.name == "sleep").count() == 2, "{family:?}");
    let inside: BTreeSet<u64> = family
        .iter()
        .filter(|process| process.name == "sleep")
        .filter_map(|process| process.namespace("mnt"))
        .collect();
    assert!(!inside.is_empty());
    daemon.kill();
    let lives = || family.iter().filter(|old| Process::of(old.pid).as_ref() == Some(*old)).count();
    assert!(within(SOON, || lives() == 0), "{:?}", daemon.family());
    let namespaces = || {
        let all = sandboxd_tests::own_user();
        all.iter().any(|process| process.namespace("mnt").is_some_and(|it| inside.contains(&it)))
    };
    assert!(!namespaces());
    // The dead daemon's socket and records stay until the next one comes.
    assert_eq!(daemon.list(), Vec::<serde_json::Value>::new());
    let _third = daemon.up("three", &Recipe::bare().text());
    let mut states: Vec<(String, String)> = daemon
        .list()
        .iter()
        .map(|view| (view["name"].to_string(), view["state"].to_string()))
        .collect();
    states.sort();
    let expected = [("one", "lost"), ("three", "running"), ("two", "lost")];
    let quoted = |text: &str| format!("{text:?}");
    assert_eq!(states, expected.map(|(name, state)| (quoted(name), quoted(state))));
    let refused = daemon.exec("one").command(["true"]).expect(125).complaint();
    assert!(refused.contains("the session one was lost"), "{refused}");
    assert_eq!(daemon.inspect("one")["walls"], json!(null));
    // What it said is still there to be read.
    assert!(daemon.does(&["logs", "one"]).expect(0).text().contains("kept"));
    daemon.does(&["rm", "one", "two"]).done();
    assert_eq!(daemon.list().len(), 1);
    let records = daemon.directory().join("sessions").join(id.as_str().unwrap());
    assert!(!records.exists());
    let gone = daemon.exec("one").command(["true"]).expect(125).complaint();
    assert!(gone.contains("one") && !gone.contains("was lost"), "{gone}");
}
