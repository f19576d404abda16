//! A session's life in the daemon: it is made, named, listed, removed, and lost; nothing of it stays.
//!
//! Runs in: the test's own process.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandboxd_tests::{Daemon, Missing, Process, Recipe, TestHost, needs, within};
use serde_json::json;

/// How long the kernel and the daemon may take to clear away what has ended.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn the_first_up_starts_the_daemon_and_the_second_finds_it() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    assert_eq!(daemon.find(), None);
    assert_eq!(daemon.list(), Vec::<serde_json::Value>::new());
    // Looking starts nothing.
    let refused = daemon.does(&["inspect", "one"]).expect(125);
    assert!(refused.complaint().contains("no daemon listens at"), "{refused:?}");
    assert!(refused.complaint().contains("hint: `sandboxd up`"), "{refused:?}");
    assert_eq!(daemon.find(), None);
    let up = daemon.order_up("one", &Recipe::bare().text()).command([""; 0]).expect(0);
    assert_eq!((up.text().as_str(), up.complaint().as_str()), ("one\n", ""));
    let first = daemon.process();
    assert_eq!(daemon.up("two", &Recipe::bare().text())["name"], "two");
    assert_eq!(daemon.process(), first);
    assert_eq!(daemon.exec("two").shell("echo works").expect(0).text(), "works\n");
}

#[test]
fn a_daemon_in_the_background_has_nothing_of_its_starter_s() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let order = daemon.order_up("one", &Recipe::bare().text());
    order.caller_variable("CALLERS_SECRET", "canary-5d1f").command([""; 0]).done();
    let process = daemon.process();
    assert_eq!(process.places_of("canary-5d1f"), Vec::<String>::new());
    let link = |name: &str| fs::read_link(format!("/proc/{}/{name}", process.pid)).unwrap();
    assert_eq!(link("cwd"), PathBuf::from("/"));
    assert_eq!(link("fd/2"), daemon.directory().join("daemon.log"));
    // A kernel session of its own: no terminal of the starter's can end it.
    let stat = String::from_utf8(process.file("stat")).unwrap();
    let session = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, process.pid.to_string());
    // The same search finds what is there: its own directory.
    assert!(!process.places_of(&daemon.directory().display().to_string()).is_empty());
}

#[test]
fn ups_at_the_same_moment_share_one_daemon() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let names = ["a", "b", "c", "d"];
    let running: Vec<_> = names
        .iter()
        .map(|name| daemon.order_up(name, &Recipe::bare().text()).start([""; 0]))
        .collect();
    for (running, name) in running.into_iter().zip(names) {
        assert_eq!(running.wait().expect(0).text(), format!("{name}\n"));
    }
    let listed: BTreeSet<String> =
        daemon.list().iter().map(|view| view["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed, names.map(str::to_owned).into());
    let ours = |process: &Process| process.file("cmdline").starts_with(b"sandboxd\0serve\0");
    let directory = daemon.directory().display().to_string();
    let daemons = sandboxd_tests::own_user()
        .into_iter()
        .filter(ours)
        .filter(|process| String::from_utf8_lossy(&process.file("environ")).contains(&directory));
    assert_eq!(daemons.count(), 1);
}

#[test]
fn inspect_says_what_stands_around_a_session() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let tree = host.project("work");
    // A trusted file with a second name cannot be protected: a note says so.
    tree.write(".envrc", "x");
    fs::hard_link(tree.at(".envrc"), tree.at("other")).unwrap();
    let servers = daemon.servers();
    let recipe = Recipe::on(&tree).mount(servers.path()).server("tracker", &servers, "good", "");
    let up = daemon.up("shown", &recipe.text());
    let shown = daemon.inspect("shown");
    assert_eq!(shown["id"], up["id"]);
    assert_eq!(daemon.inspect(up["id"].as_str().unwrap())["name"], "shown");
    assert_eq!(up["id"].as_str().map(str::len), Some(32));
    assert_eq!((&shown["state"], &shown["tenancy"]), (&json!("running"), &json!(1)));
    assert_eq!((&shown["workspace"], &shown["mode"]), (&json!(tree.path()), &json!("rw")));
    let walls = &shown["walls"];
    let namespaces = json!(["user", "mount", "pid", "net", "ipc", "uts", "cgroup"]);
    assert_eq!((&walls["namespaces"], &walls["network"]), (&namespaces, &json!("none")));
    assert!(walls["landlock"].is_u64() && walls["seccomp"].as_u64() > Some(50), "{walls}");
    let notes = shown["notes"].to_string();
    assert!(notes.contains(".envrc cannot be protected"), "{notes}");
    let server = &shown["servers"]["tracker"];
    assert_eq!((&server["holds_secret"], &server["cwd"]), (&json!(false), &json!("workspace")));
    assert_eq!(server["trust_workspace_code"], json!(false));
    assert!(server["status"]["state"].is_string(), "{server}");
    // The same for people.
    let text = daemon.does(&["inspect", "shown"]).expect(0).text();
    for part in ["shown", "running", "landlock", "seccomp", "tracker", "holds no secret", ".envrc"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let list = daemon.does(&["ls"]).expect(0).text();
    assert!(list.starts_with("NAME") && list.contains("shown  running"), "{list}");
}

#[test]
fn a_name_is_one_session_s_and_is_made_up_from_the_directory_when_it_is_not_said() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let tree = host.project("My Shop!");
    let up = || daemon.order(&["up"]).from_directory(tree.path());
    assert_eq!(up().command([""; 0]).expect(0).text(), "my-shop\n");
    assert_eq!(up().command([""; 0]).expect(0).text(), "my-shop-2\n");
    let taken = up().with(["--name", "my-shop"]).command([""; 0]).expect(125).complaint();
    assert!(taken.contains("the name my-shop is taken by a live session"), "{taken}");
    assert!(taken.contains("hint: `sandboxd rm my-shop`"), "{taken}");
    for wrong in ["", "Shop", "-a", "a_b", "a b", "../a", "a/b", &"a".repeat(64)] {
        let refused = up().with(["--name", wrong]).command([""; 0]);
        assert!([2, 125].contains(&refused.status), "{wrong:?}: {refused:?}");
        assert!(!refused.stderr.is_empty());
    }
    up().with(["--name", &"a".repeat(63)]).command([""; 0]).done();
    // A name that has become free can be taken again, for a session with another id.
    let before = daemon.inspect("my-shop")["id"].clone();
    daemon.remove("my-shop");
    up().with(["--name", "my-shop"]).command([""; 0]).done();
    assert_ne!(daemon.inspect("my-shop")["id"], before);
}

#[test]
fn rm_of_several_removes_what_is_there_and_names_what_is_not() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    for name in ["one", "two"] {
        let _view = daemon.up(name, &Recipe::bare().text());
    }
    let done = daemon.does(&["rm", "one", "none", "two"]).expect(125);
    assert!(done.complaint().contains("none"), "{done:?}");
    assert_eq!(daemon.list(), Vec::<serde_json::Value>::new());
}

#[test]
fn a_daemon_that_is_asked_to_end_ends_its_sessions_and_is_not_missed() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let _view = daemon.up("one", &Recipe::bare().text());
    daemon.exec("one").shell("setsid sleep 100000 > /dev/null 2>&1 &").done();
    let family = daemon.family();
    kill(Pid::from_raw(daemon.process().pid), Signal::SIGTERM).unwrap();
    assert!(within(SOON, || daemon.find().is_none()));
    let lives = || family.iter().filter(|old| Process::of(old.pid).as_ref() == Some(*old)).count();
    assert!(within(SOON, || lives() == 0));
    assert!(!daemon.socket().exists());
    let _view = daemon.up("one", &Recipe::bare().text());
    assert_eq!(daemon.list().len(), 1);
    assert_eq!(daemon.exec("one").shell("echo again").expect(0).text(), "again\n");
}

#[test]
fn a_killed_zygote_loses_the_sessions_and_the_next_up_works() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let _view = daemon.up("one", &Recipe::bare().text());
    let before = daemon.process();
    let zygote = daemon.named("zygote")[0].pid;
    kill(Pid::from_raw(zygote), Signal::SIGKILL).unwrap();
    let lost = within(SOON, || daemon.list()[0]["state"] == "lost");
    assert!(lost, "{:?}", daemon.list());
    let refused = daemon.exec("one").command(["true"]).expect(125).complaint();
    assert!(refused.contains("the session one was lost"), "{refused}");
    let _view = daemon.up("two", &Recipe::bare().text());
    assert_eq!(daemon.exec("two").shell("echo works").expect(0).text(), "works\n");
    assert_eq!(daemon.process(), before);
    // A lost session makes room for one of its name.
    let _view = daemon.up("one", &Recipe::bare().text());
    assert_eq!(daemon.list().len(), 2);
}

#[test]
fn a_killed_supervisor_or_init_loses_its_session_alone() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let _view = daemon.up("lives", &Recipe::bare().text());
    for name in ["supervisor", "init"] {
        let old: BTreeSet<Process> = daemon.named(name).into_iter().collect();
        let _view = daemon.up("dies", &Recipe::bare().text());
        let new = daemon.named(name).into_iter().find(|process| !old.contains(process)).unwrap();
        kill(Pid::from_raw(new.pid), Signal::SIGKILL).unwrap();
        let lost = within(SOON, || daemon.inspect("dies")["state"] == "lost");
        assert!(lost, "{name}: {:?}", daemon.list());
        assert_eq!(daemon.exec("lives").shell("echo yes").expect(0).text(), "yes\n", "{name}");
        daemon.remove("dies");
    }
}

#[test]
fn a_directory_that_others_may_enter_is_refused() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let mode = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode));
    fs::create_dir(daemon.directory()).unwrap();
    for wrong in [0o755, 0o710, 0o701, 0o777] {
        mode(daemon.directory(), wrong).unwrap();
        let refused = daemon.order_up("one", &Recipe::bare().text()).command([""; 0]).expect(125);
        let expected = "expected one of this user with mode 0700";
        assert!(refused.complaint().contains(expected), "{wrong:o}: {refused:?}");
        assert!(refused.complaint().contains("hint: name another directory"), "{refused:?}");
    }
    // Another's directory, and a link to one that is open.
    let refused = daemon.does(&["up", "--dir", "/usr", "--workspace", "none"]).expect(125);
    assert!(refused.complaint().contains("/usr"), "{refused:?}");
    let link = host.path("link").display().to_string();
    std::os::unix::fs::symlink(daemon.directory(), &link).unwrap();
    daemon.does(&["up", "--dir", &link, "--workspace", "none"]).expect(125);
    assert_eq!(fs::read_dir(daemon.directory()).unwrap().count(), 0);
    assert_eq!(daemon.find(), None);
    mode(daemon.directory(), 0o700).unwrap();
    let _view = daemon.up("one", &Recipe::bare().text());
    // What is one directory is one daemon, by whichever name.
    let listed = daemon.does(&["ls", "--json", "--dir", &link]).expect(0).json();
    assert_eq!(listed[0]["name"], "one");
}

/// A /tmp of its own for one command, and no runtime directory of a login session.
const BED: &str = "mount -t tmpfs none /tmp && chmod 1777 /tmp && mount --bind /usr/lib /run || exit 99
    at=/tmp/sandboxd-$(id -u); eval \"$0\" || exit 98; unset SANDBOXD_DIR XDG_RUNTIME_DIR; exec \"$@\"";

#[test]
fn what_was_planted_in_the_shared_tmp_is_refused() {
    let host = needs!(TestHost::start());
    let state = host.path("state");
    let ls = |plant: &str| {
        let enter = ["unshare", "--user", "--map-current-user", "--mount", "--keep-caps"];
        let order = host.sandboxd().started_by(enter).started_by(["sh", "-c", BED, plant]);
        order.caller_variable("XDG_STATE_HOME", &state).with(["ls"]).command([""; 0])
    };
    if ls("true").status == 99 {
        return Missing::new("mounts for users without privileges").skip();
    }
    let target = host.project("target");
    let link = format!("chmod 700 '{0}' && ln -s '{0}' $at", target.path().display());
    for plant in ["mkdir -m 755 $at", "mkdir -m 730 $at", ": > $at", "ln -s /usr $at", &link] {
        let refused = ls(plant).expect(125);
        assert!(refused.complaint().contains("/tmp/sandboxd-"), "{plant}: {refused:?}");
    }
    assert!(target.listing().is_empty());
    // The twins: nothing is there, or a directory that is right.
    ls("true").done();
    ls("mkdir -m 700 $at").done();
}

#[test]
fn the_daemon_s_files_are_the_user_s_alone() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    // Even with a mask that takes nothing away.
    let order = daemon.order_up("one", &Recipe::bare().text());
    order.started_by(["sh", "-c", "umask 0; exec \"$@\"", "caller"]).command([""; 0]).done();
    let mut open = Vec::new();
    let mut next = vec![daemon.directory().to_owned()];
    while let Some(path) = next.pop() {
        next.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        let data = path.symlink_metadata().unwrap();
        // A socket in a directory of mode 0700 is reached by nobody else, whatever its own mode is.
        if data.mode() & 0o077 != 0 && path != daemon.socket() {
            open.push((path, format!("{:o}", data.mode())));
        }
    }
    assert_eq!(open, Vec::new());
    assert_eq!(fs::metadata(daemon.directory()).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_lock_that_is_held_or_no_file_is_refused() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let _view = daemon.up("one", &Recipe::bare().text());
    let second = daemon.does(&["serve"]).expect(125).complaint();
    assert!(second.contains("a daemon already runs in"), "{second}");
    assert!(second.contains("hint: `sandboxd ls`"), "{second}");
    assert_eq!(daemon.list().len(), 1);
    daemon.kill();
    // A planted directory in its place.
    let lock = daemon.directory().join("lock");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    daemon.order_up("two", &Recipe::bare().text()).command([""; 0]).expect(125);
    fs::remove_dir(&lock).unwrap();
    let _view = daemon.up("two", &Recipe::bare().text());
}

#[test]
fn a_record_of_another_version_is_refused_by_name_and_left_as_it_is() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let id = daemon.up("one", &Recipe::bare().text())["id"].as_str().unwrap().to_owned();
    daemon.kill();
    let path = daemon.directory().join("sessions").join(&id).join("record.json");
    let text = fs::read_to_string(&path).unwrap();
    let other = text.replace("\"version\": 1", "\"version\": 77");
    assert_ne!(text, other, "{text}");
    fs::write(&path, &other).unwrap();
    let refused = daemon.order_up("two", &Recipe::bare().text()).command([""; 0]).expect(125);
    let complaint = refused.complaint();
    for part in [&path.display().to_string(), "expected version 1, found version 77", "hint: "] {
        assert!(complaint.contains(part), "{part}: {complaint}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), other);
    fs::write(&path, &text).unwrap();
    let _view = daemon.up("two", &Recipe::bare().text());
    assert_eq!(daemon.inspect("one")["state"], "lost");
    // The same for what was trusted.
    daemon.kill();
    let tree = host.project("work");
    tree.write("sandbox.toml", "[workspace]\npath = \".\"\n");
    let trusted = daemon.directory().join("trusted.json");
    fs::write(&trusted, "{\"version\": 9, \"files\": {}}").unwrap();
    let up = || daemon.does(&["up", "-f", &tree.at("sandbox.toml").display().to_string()]);
    let refused = up().expect(125).complaint();
    assert!(refused.contains("trusted.json: expected version 1"), "{refused}");
    fs::remove_file(&trusted).unwrap();
    up().done();
}

#[test]
fn without_a_directory_of_its_own_the_daemon_s_files_lie_where_the_user_s_do() {
    let host = needs!(TestHost::start());
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    let user = host.project("user");
    user.directory("run").directory("state");
    let daemon = Daemon::at(&host, user.at("run/sandboxd"));
    let order = |words: &[&str]| {
        let order = daemon.order(words).started_by(["env", "-u", "SANDBOXD_DIR"]);
        order
            .caller_variable("XDG_RUNTIME_DIR", user.at("run"))
            .caller_variable("XDG_STATE_HOME", user.at("state"))
    };
    let up = order(&["up", "--name", "one", "--workspace", "none"]).command([""; 0]);
    let list = order(&["ls", "--json"]).command([""; 0]);
    // The daemon is another test's to miss: it ends before anything is asserted.
    let (status, version) = daemon.request("GET", "/v1/version", b"");
    let version: serde_json::Value = serde_json::from_str(&version).unwrap_or_default();
    let pid = version["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    assert!(within(SOON, || Process::of(pid).is_none()));
    up.done();
    assert_eq!((status, list.json().as_array().map(Vec::len)), (200, Some(1)));
    assert!(user.has("run/sandboxd/lock") && user.has("state/sandboxd/daemon.log"));
    assert!(user.has("state/sandboxd/sessions") && !user.has("run/sandboxd/sessions"));
    assert_eq!((mode(&user.at("run/sandboxd")), mode(&user.at("state/sandboxd"))), (0o700, 0o700));
}
