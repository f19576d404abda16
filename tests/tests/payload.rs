//! What a payload has of the host's giving: its environment and its descriptors, wherever in a session it runs.
//!
//! Runs in: the test's own process.

use std::collections::BTreeMap;

use sandboxd_tests::{Daemon, PROBE, Recipe, TestHost, eventually, needs};
use serde_json::{Value, json};

type Variables = BTreeMap<String, String>;

/// The documented base, and these besides.
fn base(host: &TestHost, more: &[(&str, &str)]) -> Variables {
    let home = host.home().display().to_string();
    let pairs = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", &home),
        ("USER", host.user()),
        ("LOGNAME", host.user()),
        ("SHELL", host.shell()),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", "/tmp"),
        ("PYTHONUNBUFFERED", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_CONFIG_SYSTEM", "/etc/gitconfig"),
    ];
    let all = pairs.iter().chain(more);
    all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A session with a variable for the agent, and two servers with one of their own; one of those is the probe.
fn session<'a>(host: &'a TestHost, caller: &[(&str, &str)]) -> Daemon<'a> {
    let daemon = Daemon::of(host);
    let servers = daemon.servers();
    let recipe = Recipe::bare()
        .with_probe(host)
        .mount(servers.path())
        .with(
            "[env]\nNODE_ENV = \"test\"\nLANG = \"C\"\n[secrets]\ntracker = \"env:TRACKER_TOKEN\"",
        )
        .server(
            "tracker",
            &servers,
            "good",
            "env = { TOKEN = { secret = \"tracker\" }, LEVEL = \"3\", LANG = \"POSIX\" }\n",
        )
        .with(&format!("[mcp.probe]\ncommand = [\"{PROBE}\", \"fds\"]\n"));
    let mut order = daemon.order_up("payload", &recipe.text());
    for (name, value) in caller {
        order = order.caller_variable(name, value);
    }
    order.caller_variable("TRACKER_TOKEN", "a token").command([""; 0]).done();
    daemon
}

/// The JSON that a detached probe, or a probe in a server's place, left in a log.
fn logged(daemon: &Daemon<'_>, words: &[&str], part: &str) -> Value {
    let mut found = None;
    eventually("the probe's answer is in the log", || {
        let log = daemon.does(words).text();
        let line = log.lines().find(|line| line.contains(part)).map(str::to_owned);
        found = line.and_then(|line| serde_json::from_str(&line[line.find('{')?..]).ok());
        found.is_some()
    });
    found.unwrap_or_default()
}

#[test]
fn the_environment_of_exec_is_exactly_the_base_and_what_was_declared() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, &[("AWS_SECRET_ACCESS_KEY", "canary"), ("LD_PRELOAD", "")]);
    let declared = [("NODE_ENV", "test"), ("LANG", "C")];
    let order = || daemon.exec("payload").caller_variable("OF_EXEC_S_CALLER", "canary");
    let pipes = order().command([PROBE, "environment"]).expect(0).json();
    assert_eq!(serde_json::from_value::<Variables>(pipes).unwrap(), base(&host, &declared));
    // On a terminal, its kind is added.
    let mut screen = order().caller_variable("TERM", "vt220").on_screen([PROBE, "environment"]);
    assert_eq!(screen.ends(), 0);
    let found: Variables = serde_json::from_str(screen.close().trim()).unwrap();
    assert_eq!(found, base(&host, &[&declared[..], &[("TERM", "vt220")]].concat()));
    // Detached.
    let words = ["exec", "--detach", "payload"];
    daemon.order(&words).caller_variable("X", "canary").command([PROBE, "environment"]).done();
    let found = logged(&daemon, &["logs", "payload"], "NODE_ENV");
    assert_eq!(serde_json::from_value::<Variables>(found).unwrap(), base(&host, &declared));
}

#[test]
fn the_environment_of_a_server_is_exactly_the_base_and_its_own() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, &[("TZ", "Europe/Vienna"), ("AWS_SECRET_ACCESS_KEY", "canary")]);
    let found = daemon.ask("payload", "tracker", "environment", &json!({}));
    let own = [("TOKEN", "a token"), ("LEVEL", "3"), ("LANG", "POSIX"), ("TZ", "Europe/Vienna")];
    assert_eq!(serde_json::from_str::<Variables>(&found).unwrap(), base(&host, &own));
    // The variable of the caller's that the token came from is nobody's.
    assert!(!found.contains("TRACKER_TOKEN"));
    // It starts in its own home, for it holds a secret.
    let directory = daemon.ask("payload", "tracker", "where", &json!({}));
    assert_eq!(directory, host.home().display().to_string());
}

#[test]
fn a_payload_has_the_descriptors_0_to_2_and_no_other() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, &[]);
    // The client itself has another, open across its exec.
    let starter = host.probe().display().to_string();
    let careless = daemon.exec("payload").started_by([&starter, "with", "directory", "7"]);
    let pipes = careless.input("x").command([PROBE, "fds"]).expect(0).json();
    for number in ["0", "1", "2"] {
        assert!(pipes[number].as_str().unwrap().starts_with("pipe:["), "{pipes}");
    }
    assert_eq!(pipes.as_object().unwrap().len(), 3, "{pipes}");
    let mut screen = daemon.exec("payload").on_screen([PROBE, "fds"]);
    assert_eq!(screen.ends(), 0);
    let terminal: Value = serde_json::from_str(screen.close().trim()).unwrap();
    assert_eq!(terminal, json!({ "0": "/dev/pts/0", "1": "/dev/pts/0", "2": "/dev/pts/0" }));
    daemon.order(&["exec", "--detach", "payload"]).command([PROBE, "fds"]).done();
    let detached = logged(&daemon, &["logs", "payload"], "\"0\":");
    assert_eq!(detached["0"], "/dev/null");
    assert_eq!(detached.as_object().unwrap().len(), 3, "{detached}");
}

#[test]
fn a_server_has_the_descriptors_0_to_2_and_no_other() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, &[]);
    // The probe is no server, but what it says before it ends is in its log.
    daemon.call("payload", "probe", "go", &json!({})).expect(125);
    let own = logged(&daemon, &["logs", "payload", "probe"], "\"0\":");
    let python = daemon.ask("payload", "tracker", "descriptors", &json!({}));
    for fds in [own, serde_json::from_str(&python).unwrap()] {
        let fds = fds.as_object().unwrap();
        assert_eq!(fds.keys().collect::<Vec<_>>(), ["0", "1", "2"], "{fds:?}");
        assert!(fds.values().all(|target| target.as_str().unwrap().starts_with("pipe:[")));
    }
}

#[test]
fn the_caller_s_own_pipes_are_never_inside() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let _view = daemon.up("pipes", &Recipe::bare().text());
    const STREAMS: &str = "stat -Lc '%d:%i' /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2";
    let outside = format!("{STREAMS}; exec \"$@\"");
    let order = daemon.exec("pipes").input("some input").started_by(["sh", "-c", &outside, "x"]);
    let done = order.shell(&format!("{STREAMS}; cat")).expect(0);
    let output = done.text();
    let streams: Vec<&str> = output.lines().take(6).collect();
    let (callers, inside) = streams.split_at(3);
    assert_eq!(inside.len(), 3, "{done:?}");
    assert!(inside.iter().all(|stream| !callers.contains(stream)), "{done:?}");
    // The twin: what was said through them came through.
    assert!(done.text().ends_with("some input"), "{done:?}");
}
