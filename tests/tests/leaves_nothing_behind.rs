//! When a box has ended, however it ended, nothing of it is left.
//!
//! The tests of this file count, so they run one at a time; they adopt what a box might orphan.
//!
//! Runs in: the test's own process.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, Uid};
use sandboxd_tests::{Missing, Process, TestHost, descendants, eventually, needs, within};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let adopts = nix::sys::prctl::set_child_subreaper(true);
    assert_eq!(adopts, Ok(()), "a process may adopt");
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Everything that a box could leave, as far as its user can see it.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    namespaces: BTreeSet<(String, u64)>,
    mounts: String,
    files: BTreeSet<PathBuf>,
    descriptors: usize,
}

impl Traces {
    fn take(host: &TestHost) -> Self {
        let kinds = ["mnt", "net", "pid", "user", "ipc", "uts", "cgroup"];
        let own = sandboxd_tests::own_user();
        let namespaces = own.iter().flat_map(|process| {
            kinds.iter().filter_map(|kind| Some(((*kind).to_owned(), process.namespace(kind)?)))
        });
        Self {
            namespaces: namespaces.collect(),
            mounts: fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(),
            files: files(host),
            descriptors: fs::read_dir("/proc/self/fd").map_or(0, Iterator::count),
        }
    }
}

/// This user's files in every place where temporary ones go, and all of the state directory.
fn files(host: &TestHost) -> BTreeSet<PathBuf> {
    let uid = Uid::current();
    let mut places: Vec<PathBuf> = ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from).to_vec();
    places.push(format!("/run/user/{uid}").into());
    let mut found: BTreeSet<PathBuf> = places
        .iter()
        .flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten())
        .filter(|entry| entry.metadata().is_ok_and(|data| data.uid() == uid.as_raw()))
        .map(|entry| entry.path())
        .collect();
    let mut next = vec![host.path("state")];
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

/// What this process started or adopted and that has not ended; what has ended is reaped.
fn left() -> Vec<Process> {
    let own = std::process::id().cast_signed();
    let (ended, left): (Vec<_>, Vec<_>) = descendants(own)
        .into_iter()
        .partition(|process| process.state == 'Z' && process.parent == own);
    for process in ended {
        // Ignored: somebody else in this process may have reaped it.
        let _ = waitpid(Pid::from_raw(process.pid), Some(WaitPidFlag::WNOHANG));
    }
    left
}

#[track_caller]
fn nothing_is_left() {
    let mut last = Vec::new();
    let gone = within(sandboxd_tests::DEADLINE, || {
        last = left();
        last.is_empty()
    });
    assert!(gone, "left behind: {last:#?}");
}

#[test]
fn runs_that_end_by_themselves_leave_nothing() {
    let _alone = alone();
    let host = needs!(TestHost::start());
    let tree = host.project("work");
    tree.write("file", "x").write(".git/config", "").directory(".git/hooks");
    let run = |round: usize| match round % 5 {
        0 => host.run().command(["true"]).done(),
        1 => drop(host.run().command(["no-such-program"]).expect(127)),
        2 => drop(
            host.run_in(&tree).shell("sleep 100000 & mktemp >/dev/null; kill -9 $$").expect(137),
        ),
        3 => host.run_in(&tree).shell("setsid sleep 100000 > /dev/null 2>&1 & exit 0").done(),
        _ => {
            let mut screen = host.run_in(&tree).on_screen(["sh", "-c", "sleep 100000 & exit 4"]);
            assert_eq!(screen.ends(), 4);
        }
    };
    (0..5).for_each(run);
    nothing_is_left();
    let before = Traces::take(&host);
    (0..50).for_each(run);
    nothing_is_left();
    assert_eq!(Traces::take(&host), before);
}

#[test]
fn a_client_killed_at_any_moment_leaves_nothing() {
    let _alone = alone();
    let host = needs!(TestHost::start());
    let tree = host.project("killed");
    tree.write(".git/config", "");
    let start = || {
        host.run_in(&tree).start(["sh", "-c", "trap '' TERM HUP; sleep 100000 & echo ready; wait"])
    };
    start().answers("ready");
    nothing_is_left();
    let before = Traces::take(&host);
    for round in 0..80_u64 {
        let running = start();
        // From before its first step to after its last; how far it has come then is nobody's promise.
        let never = within(Duration::from_micros(round * 400), || false);
        assert!(!never);
        running.signal(Signal::SIGKILL);
        drop(running);
        nothing_is_left();
    }
    assert_eq!(Traces::take(&host), before);
}

#[test]
fn a_killed_zygote_or_supervisor_takes_everything_with_it_and_the_client_says_so() {
    let _alone = alone();
    let host = needs!(TestHost::start());
    for name in ["zygote", "supervisor", "init"] {
        let mut running = host.run().start(["sh", "-c", "sleep 100000 & echo ready; wait"]);
        running.answers("ready");
        let found = descendants(running.pid()).into_iter().find(|process| process.name == name);
        let pid = found.map(|process| process.pid).expect(name);
        nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is our descendant");
        let done = running.wait();
        assert_ne!(done.status, 0, "{name}: {done:?}");
        nothing_is_left();
    }
}

#[test]
fn a_refused_run_leaves_nothing() {
    let _alone = alone();
    let host = needs!(TestHost::start());
    let tree = host.project("refused");
    let before = (Traces::take(&host), tree.listing());
    for _ in 0..5 {
        host.run_in(&tree).mount("/no/such/path").command(["true"]).expect(125);
        host.run_in(&tree).command(["/etc/passwd"]).expect(126);
        let flag = format!("{}:/missing/../x", tree.path().display());
        host.run_in(&tree).mount(flag).command(["true"]).expect(125);
    }
    nothing_is_left();
    assert_eq!((Traces::take(&host), tree.listing()), before);
}

/// The kernel itself counts: in a user namespace that may have few others, a leak soon ends all starting.
#[test]
fn namespaces_are_given_back_to_the_kernel() {
    let _alone = alone();
    let host = needs!(TestHost::start());
    needs!(host.command("setpriv"));
    // Each mount that is on its way from one place to another counts as a mount namespace.
    let limit = "for k in user=12 mnt=150 pid=12 net=12 ipc=12 uts=12 cgroup=12; do
        echo ${k#*=} > /proc/sys/user/max_${k%=*}_namespaces || exit 99; done
        exec setpriv --ambient-caps=-all --inh-caps=-all --bounding-set=-all \"$@\"";
    let bed = ["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c"];
    if host.on_host(host.home(), bed.iter().copied().chain([limit, "bed", "true"])).status != 0 {
        return Missing::new("limits of namespaces for users without privileges").skip();
    }
    let program = host.program().display().to_string();
    // One bed for all rounds; the kernel gives network namespaces back a little later than it ends processes.
    let rounds = format!(
        "done=0; tried=0; while [ $done -lt 200 ]; do tried=$((tried+1)); [ $tried -lt 4000 ] || exit 98
           '{program}' run --workspace none -- true 2>/dev/null && done=$((done+1)); done; echo rounds $done"
    );
    let words = bed.iter().copied().chain([limit, "bed", "sh", "-c", &rounds]);
    let finished = host.on_host(host.home(), words).expect(0);
    assert_eq!(finished.text(), "rounds 200\n");
    eventually("nothing runs any more", || left().is_empty());
}
