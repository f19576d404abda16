//! `sandboxd exec`: commands beside each other in one session; their streams, ends, terminals and jobs.
//!
//! Runs in: the test's own process.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sandboxd_tests::{Daemon, Order, PROBE, Process, Recipe, TestHost, eventually, needs, within};

fn session(host: &TestHost) -> Daemon<'_> {
    let daemon = Daemon::of(host);
    let _view = daemon.up("shop", &Recipe::bare().text());
    daemon
}

fn exec<'a>(daemon: &Daemon<'a>, flags: &[&str]) -> Order<'a> {
    exec_in(daemon, "shop", flags)
}

fn exec_in<'a>(daemon: &Daemon<'a>, session: &str, flags: &[&str]) -> Order<'a> {
    let words: Vec<&str> = ["exec"].iter().chain(flags).chain(&[session]).copied().collect();
    daemon.order(&words)
}

#[test]
fn a_command_s_end_is_the_exec_s() {
    let host = needs!(TestHost::start());
    let daemon = session(&host);
    for status in [0, 1, 124, 125, 126, 127, 255] {
        let done = daemon.exec("shop").shell(&format!("exit {status}")).expect(status);
        assert_eq!((done.text(), done.complaint()), (String::new(), String::new()));
    }
    for (name, number) in [("TERM", 15), ("KILL", 9), ("INT", 2), ("SEGV", 11)] {
        daemon.exec("shop").shell(&format!("kill -{name} $$")).expect(128 + number);
    }
    let missing = daemon.exec("shop").command(["no-such-program"]).expect(127);
    assert!(missing.complaint().contains("cannot execute no-such-program"), "{missing:?}");
    daemon.exec("shop").command(["/etc/passwd"]).expect(126);
    daemon.exec("shop").command(["/usr"]).expect(126);
    daemon.exec("shop").command(["/no/such/program"]).expect(127);
    let unknown = daemon.exec("nowhere").command(["true"]).expect(125).complaint();
    assert!(unknown.contains("nowhere"), "{unknown}");
    for words in [&["exec"][..], &["exec", "shop"], &["exec", "--no-such-flag", "shop", "true"]] {
        daemon.does(words).expect(125);
    }
    daemon.exec("shop").command(["true"]).done();
}

#[test]
fn output_and_errors_stay_apart_and_whole() {
    let host = needs!(TestHost::start());
    let daemon = session(&host);
    let done = daemon.exec("shop").shell("echo out; echo err >&2; echo more").expect(0);
    assert_eq!((done.text().as_str(), done.complaint().as_str()), ("out\nmore\n", "err\n"));
    let done = daemon.exec("shop").shell("head -c 3000000 /dev/zero | tee /dev/stderr").expect(0);
    assert_eq!((done.stdout.len(), done.stderr.len()), (3_000_000, 3_000_000));
    // What somebody reads while the command still runs.
    let mut talk = daemon.exec("shop").input("").start(["cat"]);
    for word in ["one\n", "two\n"] {
        talk.says(word);
        talk.answers(word);
    }
    talk.ends_input();
    assert_eq!(talk.wait().expect(0).text(), "one\ntwo\n");
}

#[test]
fn ten_megabytes_go_in_and_come_out() {
    let host = needs!(TestHost::start());
    let daemon = session(&host);
    let bytes: Vec<u8> = (0..=250_u8).cycle().take(10_000_000).collect();
    let done = daemon.exec("shop").input(&bytes).command(["cat"]).expect(0);
    assert!(done.stdout == bytes, "{} bytes of {}", done.stdout.len(), bytes.len());
    // A command that does not read them ends all the same.
    let done = daemon.exec("shop").input(&bytes).command(["echo", "done"]).expect(0);
    assert_eq!(done.text(), "done\n");
    assert_eq!(daemon.exec("shop").command(["cat"]).expect(0).text(), "");
}

#[test]
fn a_command_on_a_terminal_has_one_of_its_own_with_the_caller_s_size() {
    let host = needs!(TestHost::start());
    let daemon = session(&host);
    let text = "tty; stty size; sleep 7010 & echo ready; while :; do stty size; sleep 0.1; done";
    let mut screen = daemon.exec("shop").on_screen(["bash", "-c", text]);
    screen.shows("ready");
    // Rows and columns come one after the other, and each is told.
    screen.resizes(41, 121);
    screen.shows("41 121");
    screen.types("\x03");
    assert_eq!(screen.ends(), 130);
    let (before, after) = screen.settings();
    assert_eq!(before, after);
    let text = screen.close();
    assert!(text.contains("/dev/pts/") && text.contains("30 100\r\n"), "{text}");
    // The twins: without a terminal there is none, and -t makes one.
    let done = daemon.exec("shop").command(["tty"]).expect(1);
    assert_eq!(done.text(), "not a tty\n");
    let made = exec(&daemon, &["-t"]).input("").command(["tty"]).expect(0);
    assert!(made.text().starts_with("/dev/pts/"), "{made:?}");
}

#[test]
fn control_c_ends_a_command_on_a_terminal_and_the_caller_s_is_as_it_was() {
    let host = needs!(TestHost::start());
    let daemon = session(&host);
    let mut screen = daemon.exec("shop").on_screen(["sh", "-c", "echo ready; exec sleep 100000"]);
    screen.shows("ready");
    let (before, during) = screen.settings();
    assert_ne!(before, during, "the caller's keys are not the caller's terminal's to interpret");
    screen.types("\x03");
    assert_eq!(screen.ends(), 130);
    let (before, after) = screen.settings();
    assert_eq!(before, after);
    // Keys arrive as they were typed.
    let mut screen =
        daemon.exec("shop").on_screen(["sh", "-c", "echo ready; read x; echo got $x."]);
    screen.shows("ready");
    screen.types("word\r");
    screen.shows("got word.");
    assert_eq!(screen.ends(), 0);
}

/// The processes of the session that have this in their command line, as the host sees them.
fn with_word(daemon: &Daemon<'_>, word: &str) -> Vec<Process> {
    let has = |process: &Process| {
        process.file("cmdline").split(|byte| *byte == 0).any(|part| part == word.as_bytes())
    };
    daemon.family().into_iter().filter(has).collect()
}

#[test]
fn a_deadline_ends_the_command_and_its_thousand_children_and_nobody_else() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host);
    daemon.exec("shop").shell("sleep 7001 > /dev/null 2>&1 &").done();
    let other = exec(&daemon, &["--detach"]).command(["sleep", "7002"]).expect(0);
    assert!(other.text().trim().parse::<u32>().is_ok(), "{other:?}");
    let crowd = "import os, signal, sys
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
for _ in range(1000):
    if os.fork() == 0:
        while True: signal.pause()
print('made', flush=True)
signal.pause()";
    let order = exec(&daemon, &["--timeout", "6s"]);
    let done = order.command(["python3", "-S", "-c", crowd, "crowd"]).expect(124);
    assert_eq!(done.text(), "made\n");
    assert!(done.complaint().contains("longer than --timeout"), "{done:?}");
    let mut left = Vec::new();
    let gone = within(Duration::from_secs(20), || {
        left = with_word(&daemon, "crowd");
        left.is_empty()
    });
    assert!(gone, "{} left", left.len());
    for word in ["7001", "7002"] {
        assert_eq!(with_word(&daemon, word).len(), 1, "{word}");
    }
    // The twins: who ends in time keeps the status, and the words are checked.
    exec(&daemon, &["--timeout", "1h"]).shell("exit 3").expect(3);
    for wrong in ["0s", "5", "1d", "-1s", ""] {
        exec(&daemon, &["--timeout", wrong]).command(["true"]).expect(125);
    }
}

#[test]
fn a_detached_command_runs_on_and_what_it_says_is_in_the_log() {
    let host = needs!(TestHost::start());
    let daemon = session(&host);
    let text = "echo first; echo second >&2; exec sleep 7003";
    let begun = Instant::now();
    let done = exec(&daemon, &["--detach"]).shell(text).expect(0);
    assert!(begun.elapsed() < Duration::from_secs(60));
    let pid = done.text().trim().to_owned();
    eventually("its words are in the log", || {
        let log = daemon.does(&["logs", "shop"]).expect(0).text();
        log.contains("first") && log.contains("second")
    });
    // The number that was printed is its number inside.
    let name = daemon.exec("shop").command(["cat", &format!("/proc/{pid}/comm")]).expect(0);
    assert_eq!(name.text(), "sleep\n");
    // Who follows the log sees what is written now, and the end of the session.
    let mut follower = daemon.order(&["logs", "-f", "shop"]).start([""; 0]);
    follower.answers("second");
    exec(&daemon, &["--detach"]).shell("echo third").done();
    follower.answers("third");
    daemon.exec("shop").command(["kill", &pid]).done();
    eventually("it has ended", || with_word(&daemon, "7003").is_empty());
    let missing = exec(&daemon, &["--detach"]).command(["no-such-program"]).expect(127);
    assert!(missing.complaint().contains("no-such-program"), "{missing:?}");
    daemon.remove("shop");
    follower.wait().done();
}

#[test]
fn a_background_job_survives_its_exec_and_is_listed_traced_and_killed_by_later_ones() {
    let host = needs!(TestHost::start());
    needs!(host.command("strace"));
    needs!(host.command("gdb"));
    let daemon = session(&host);
    let job = "sleep 7008 > /dev/null 2>&1 & echo $!";
    let pid = daemon.exec("shop").shell(job).expect(0).text().trim().to_owned();
    let listed = daemon.exec("shop").shell("ls /proc").expect(0).text();
    assert!(listed.lines().any(|line| line == pid), "{listed}");
    let debugger = ["gdb", "-nx", "-batch", "-ex", "print $_inferior", "-p", &pid];
    let debugged = daemon.exec("shop").command(debugger).expect(0);
    assert!(debugged.text().contains("$1 = 1"), "{debugged:?}");
    // The tracer ends with what it traces.
    let trace = "strace -o /tmp/trace -p $0 & tracer=$!
        until grep -q '^TracerPid:.*[1-9]' /proc/$0/status; do :; done
        kill -9 $0; wait $tracer; tail -n 1 /tmp/trace; kill -0 $0 2>/dev/null || echo gone";
    let traced = daemon.exec("shop").command(["sh", "-c", trace, &pid]).expect(0).text();
    assert!(traced.contains("+++ killed by SIGKILL +++\ngone\n"), "{traced}");
    eventually("the host sees its end", || with_word(&daemon, "7008").is_empty());
}

#[test]
fn a_lost_client_hangs_its_command_up_and_a_detached_one_stays() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let tree = host.project("work");
    let _view = daemon.up("shop", &Recipe::on(&tree).text());
    exec(&daemon, &["--detach"]).command(["sleep", "7004"]).done();
    let text = "trap 'echo hung up > word; exit' HUP; echo ready; sleep 7011 & wait";
    let mut client = daemon.exec("shop").start(["bash", "-c", text]);
    client.answers("ready");
    client.signal(Signal::SIGKILL);
    eventually("the command was told", || tree.has("word"));
    eventually("all of it was written", || tree.read("word") == "hung up\n");
    // On a terminal too.
    let mut screen = daemon.exec("shop").on_screen(["sh", "-c", "echo ready; exec sleep 7005"]);
    screen.shows("ready");
    screen.signal(Signal::SIGKILL);
    eventually("the command has ended", || with_word(&daemon, "7005").is_empty());
    assert_eq!(with_word(&daemon, "7004").len(), 1);
}

#[test]
fn a_signal_to_the_client_reaches_the_command() {
    let host = needs!(TestHost::start());
    let daemon = session(&host);
    for (signal, name) in [(Signal::SIGINT, "INT"), (Signal::SIGTERM, "TERM")] {
        let text =
            format!("trap 'echo got {name}; exit 9' {name}; echo ready; while :; do read x; done");
        let mut running = daemon.exec("shop").input("").start(["bash", "-c", &text]);
        running.answers("ready");
        running.signal(signal);
        assert_eq!(running.wait().expect(9).text(), format!("ready\ngot {name}\n"));
    }
    for (signal, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let mut running = daemon.exec("shop").start(["sh", "-c", "echo ready; exec sleep 7006"]);
        running.answers("ready");
        running.signal(signal);
        running.wait().expect(status);
    }
}

#[test]
fn nothing_inside_ends_what_is_around_it() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = Daemon::of(&host);
    let servers = daemon.servers();
    let recipe = Recipe::bare().mount(servers.path()).server("tracker", &servers, "good", "");
    let _view = daemon.up("shop", &recipe.text());
    let _view = daemon.up("other", &Recipe::bare().text());
    let before = daemon.ask("shop", "tracker", "count", &serde_json::json!({}));
    exec(&daemon, &["--detach"]).command(["sleep", "7007"]).done();
    let text =
        "kill -TERM 1; kill -KILL 1; kill -STOP 1; trap '' TERM; kill -9 -1; echo still here";
    assert_eq!(daemon.exec("shop").shell(text).expect(0).text(), "still here\n");
    // Its own compartment's other processes it may end; and no more.
    eventually("its own job has ended", || with_word(&daemon, "7007").is_empty());
    assert_eq!(daemon.exec("other").shell("echo yes").expect(0).text(), "yes\n");
    let after = daemon.ask("shop", "tracker", "count", &serde_json::json!({}));
    assert_eq!(after.replacen('2', "1", 1), before);
    assert_eq!(daemon.exec("shop").shell("echo yes").expect(0).text(), "yes\n");
}

#[test]
fn many_commands_at_once_get_their_own_streams() {
    let host = needs!(TestHost::start());
    let daemon = session(&host);
    let running: Vec<_> = (0..24)
        .map(|number| {
            let order = daemon.exec("shop").input(format!("input {number}"));
            order.start(["sh", "-c", &format!("cat; echo \" of {number}\"; exit {number}")])
        })
        .collect();
    for (number, running) in running.into_iter().enumerate() {
        let done = running.wait();
        assert_eq!(done.status, i32::try_from(number).unwrap());
        assert_eq!(done.text(), format!("input {number} of {number}\n"));
    }
}

#[test]
fn a_fork_bomb_harms_no_other_session_and_ends_with_its_own() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = Daemon::of(&host);
    let servers = daemon.servers();
    let recipe = Recipe::bare().with_probe(&host).mount(servers.path());
    let recipe = recipe.server("tracker", &servers, "good", "").with("[limits]\npids = 300");
    let _view = daemon.up("bombed", &recipe.text());
    let _view = daemon.up("other", &Recipe::bare().text());
    let before = daemon.ask("bombed", "tracker", "count", &serde_json::json!({}));
    exec_in(&daemon, "bombed", &["--detach"]).command([PROBE, "bomb"]).done();
    eventually("there are as many as there may be", || daemon.named("probe").len() > 250);
    // The server of the very session still answers, and the other session has room for commands.
    let after = daemon.ask("bombed", "tracker", "count", &serde_json::json!({}));
    assert_eq!(after.replacen('2', "1", 1), before);
    assert_eq!(daemon.exec("other").shell("(echo yes) | cat").expect(0).text(), "yes\n");
    daemon.remove("bombed");
    assert_eq!(daemon.named("probe"), []);
    assert_eq!(daemon.exec("other").shell("(echo yes) | cat").expect(0).text(), "yes\n");
}
