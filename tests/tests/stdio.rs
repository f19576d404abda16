//! What goes in and out of `sandboxd run`: streams, exit statuses, signals.
//!
//! Runs in: the test's own process.

use nix::sys::signal::Signal;
use sandboxd_tests::{PROBE, TestHost, needs};
use serde_json::json;

#[test]
fn a_command_s_exit_status_is_the_run_s() {
    let host = needs!(TestHost::start());
    for status in [0, 1, 7, 124, 125, 126, 127, 255] {
        let done = host.run().shell(&format!("exit {status}")).expect(status);
        assert_eq!((done.text(), done.complaint()), (String::new(), String::new()));
    }
}

#[test]
fn a_command_ended_by_a_signal_gives_128_and_its_number() {
    let host = needs!(TestHost::start());
    for (name, number) in [("TERM", 15), ("KILL", 9), ("INT", 2), ("SEGV", 11)] {
        host.run().shell(&format!("kill -{name} $$")).expect(128 + number);
    }
}

#[test]
fn a_missing_program_gives_127_and_one_that_cannot_be_executed_126() {
    let host = needs!(TestHost::start());
    let missing = host.run().command(["no-such-program"]).expect(127);
    assert!(missing.complaint().contains("cannot execute no-such-program"), "{missing:?}");
    assert_eq!(missing.text(), "");
    host.run().command(["/etc/passwd"]).expect(126);
    host.run().command(["/usr"]).expect(126);
    host.run().command(["/no/such/program"]).expect(127);
    // The twin.
    host.run().command(["true"]).done();
}

#[test]
fn a_program_that_only_the_host_has_is_named_with_the_flag_that_shows_it() {
    let host = needs!(TestHost::start());
    let tools = host.project("tools");
    tools.write("only-here", "#!/bin/sh\necho found\n");
    host.on_host(tools.path(), ["chmod", "755", "only-here"]).done();
    let path = format!("{}:/usr/bin:/bin", tools.path().display());
    let order = || host.run().caller_variable("PATH", &path);
    let missing = order().command(["only-here"]).expect(127).complaint();
    let flag = format!("--mount {}", tools.path().display());
    assert!(missing.contains(&flag), "{missing}");
    // What it says is true.
    let program = tools.at("only-here");
    let done = order().mount(tools.path()).command([program]).expect(0);
    assert_eq!(done.text(), "found\n");
}

#[test]
fn wrong_usage_gives_125_and_starts_nothing() {
    let host = needs!(TestHost::start());
    for words in [&["run"][..], &["run", "--no-such-flag", "--", "true"], &["run", "--"]] {
        let done = host.sandboxd().with(words).command([""; 0]).expect(125);
        assert_eq!(done.text(), "");
        assert!(!done.stderr.is_empty());
    }
    let other = host.sandboxd().with(["no-such-command"]).command([""; 0]).expect(2);
    assert_eq!(other.text(), "");
    // The twin: help is an answer.
    let help = host.sandboxd().with(["run", "--help"]).command([""; 0]).expect(0);
    assert!(help.text().contains("--workspace"));
}

#[test]
fn output_and_errors_stay_apart_and_whole() {
    let host = needs!(TestHost::start());
    let done = host.run().shell("echo out; echo err >&2; echo more").expect(0);
    assert_eq!((done.text().as_str(), done.complaint().as_str()), ("out\nmore\n", "err\n"));
    let large = host.run().shell("head -c 3000000 /dev/zero | tr '\\0' x").expect(0);
    assert_eq!(large.stdout.len(), 3_000_000);
}

#[test]
fn input_arrives_whole_and_its_end_too() {
    let host = needs!(TestHost::start());
    let text: Vec<u8> = (0_u8..=255).cycle().take(1_000_000).collect();
    let done = host.run().input(&text).command(["cat"]).expect(0);
    assert!(done.stdout == text, "{} bytes of {}", done.stdout.len(), text.len());
    assert_eq!(host.run().command(["cat"]).expect(0).text(), "");
    let mut talk = host.run().input("").start(["cat"]);
    for word in ["one\n", "two\n"] {
        talk.says(word);
        talk.answers(word);
    }
    talk.ends_input();
    assert_eq!(talk.wait().expect(0).text(), "one\ntwo\n");
}

#[test]
fn a_command_gets_pipes_in_place_of_the_caller_s_files() {
    let host = needs!(TestHost::start());
    let tree = host.project("files");
    tree.write("in", "content of the caller's\n");
    // A shell of the caller's puts files in the three places.
    let files = format!("exec \"$@\" < '{0}/in' > '{0}/out' 2> '{0}/err'", tree.path().display());
    let order = host.run().started_by(["sh", "-c", &files, "caller"]).with_probe();
    order.command([PROBE, "fds"]).done();
    let fds: serde_json::Value = serde_json::from_str(&tree.read("out")).unwrap();
    for number in ["0", "1", "2"] {
        let target = fds[number].as_str().unwrap();
        assert!(target.starts_with("pipe:["), "{fds}");
    }
    assert_eq!(fds.as_object().unwrap().len(), 3, "{fds}");
    // The twin: the content comes and goes all the same, also by the names of the streams.
    let order = host.run().started_by(["sh", "-c", &files, "caller"]);
    order.shell("cat; echo named > /dev/stdout; echo wrong | tee /dev/stderr").done();
    assert_eq!(tree.read("out"), "content of the caller's\nnamed\nwrong\n");
    assert_eq!(tree.read("err"), "wrong\n");
}

#[test]
fn a_command_starts_with_every_signal_at_its_default() {
    let host = needs!(TestHost::start());
    let done = host.run().shell("grep -E '^Sig(Blk|Ign)' /proc/self/status").expect(0);
    assert_eq!(done.text(), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    // By its effect: who writes to nobody is ended, and not told of an error.
    let ended = host.run().command(["bash", "-c", "yes | head -n 1; exit ${PIPESTATUS[0]}"]);
    assert_eq!((ended.status, ended.complaint()), (141, String::new()));
}

#[test]
fn a_signal_to_the_client_reaches_the_command() {
    let host = needs!(TestHost::start());
    let signals = [
        (Signal::SIGINT, "INT"),
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGQUIT, "QUIT"),
    ];
    for (signal, name) in signals {
        let text =
            format!("trap 'echo got {name}; exit 9' {name}; echo ready; while :; do read x; done");
        let mut running = host.run().input("").start(["bash", "-c", &text]);
        running.answers("ready");
        running.signal(signal);
        assert_eq!(running.wait().expect(9).text(), format!("ready\ngot {name}\n"));
    }
}

#[test]
fn interrupt_and_terminate_end_a_sleeping_command() {
    let host = needs!(TestHost::start());
    for (signal, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let mut running = host.run().start(["sh", "-c", "echo ready; exec sleep 100000"]);
        running.answers("ready");
        running.signal(signal);
        running.wait().expect(status);
    }
}

#[test]
fn a_command_that_ignores_the_first_signal_ends_by_the_second() {
    let host = needs!(TestHost::start());
    let text = "trap 'echo heard' TERM; echo ready; while :; do read x; done";
    let mut running = host.run().input("").start(["bash", "-c", text]);
    running.answers("ready");
    running.signal(Signal::SIGTERM);
    running.answers("heard");
    running.signal(Signal::SIGTERM);
    running.wait().expect(143);
}

#[test]
fn children_left_behind_end_with_the_command() {
    let host = needs!(TestHost::start());
    // The child holds the output open and ignores what may be ignored; the run ends all the same.
    let text = "trap '' HUP TERM INT; sleep 100000 & echo done";
    assert_eq!(host.run().shell(text).expect(0).text(), "done\n");
}

#[test]
fn the_caller_s_limits_and_mask_are_the_command_s() {
    let host = needs!(TestHost::start());
    let settings = "umask 027; ulimit -Sn 300; ulimit -Hn 400; exec \"$@\"";
    let order = host.run().started_by(["sh", "-c", settings, "caller"]);
    let done = order.command(["sh", "-c", "umask; ulimit -Sn; ulimit -Hn; ulimit -c"]).expect(0);
    assert_eq!(done.text(), "0027\n300\n400\n0\n");
}

#[test]
fn the_descriptors_of_a_command_are_0_to_2() {
    let host = needs!(TestHost::start());
    let fds = host.run().probe(["fds"]);
    assert_eq!(fds.as_object().unwrap().keys().collect::<Vec<_>>(), ["0", "1", "2"], "{fds}");
    assert_eq!(fds["0"], json!("/dev/null"));
}
