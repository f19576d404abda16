//! Signals and crowds from inside harm nobody but the box's own processes.
//!
//! Runs in: the test's own process.

use nix::sys::signal::Signal;
use sandboxd_tests::{PROBE, TestHost, descendants, eventually, needs};

#[test]
fn killing_everyone_inside_leaves_the_box_working() {
    let host = needs!(TestHost::start());
    let text =
        "sleep 100000 & kill -9 -1; wait $!; echo status $?; kill -TERM -1; /bin/echo still here";
    let done = host.run().command(["bash", "-c", text]).expect(0);
    assert_eq!(done.text(), "status 137\nstill here\n");
}

#[test]
fn no_signal_ends_or_stops_the_first_process() {
    let host = needs!(TestHost::start());
    // All that there are: 32 and 33 belong to the C library, and kill refuses no number.
    let text = "for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; /bin/echo alive; (sleep 0 &); /bin/echo reaped";
    let done = host.run().command(["bash", "-c", text]).expect(0);
    assert_eq!(done.text(), "alive\nreaped\n");
    // And the run is told of the end all the same.
    let done = host.run().command(["bash", "-c", "kill -STOP 1; kill -KILL 1; exit 9"]);
    assert_eq!(done.status, 9);
}

#[test]
fn a_thousand_orphans_leave_no_zombie() {
    let host = needs!(TestHost::start());
    let answers = host.run().probe(["orphans", "1000"]);
    assert_eq!(answers, serde_json::json!({ "made": 1000, "left": [] }));
}

/// A bomb that stops at its own limit, so that the machine stays usable while the test looks at it.
fn bomb(before: &str) -> [String; 3] {
    ["bash".to_owned(), "-c".to_owned(), format!("ulimit -u 150; {before} exec {PROBE} bomb")]
}

#[test]
fn control_c_ends_a_fork_bomb() {
    let host = needs!(TestHost::start());
    let mut screen = host.run().with_probe().on_screen(bomb(""));
    let pid = screen.pid();
    eventually("the bomb has gone off", || descendants(pid).len() > 100);
    // Another box is not disturbed.
    host.run().command(["true"]).done();
    screen.types("\x03");
    assert_eq!(screen.ends(), 130);
    eventually("nothing is left of it", || descendants(pid).is_empty());
}

#[test]
fn an_interrupt_of_the_client_ends_a_fork_bomb() {
    let host = needs!(TestHost::start());
    let running = host.run().with_probe().start(bomb(""));
    let pid = running.pid();
    eventually("the bomb has gone off", || descendants(pid).len() > 100);
    running.signal(Signal::SIGINT);
    running.wait().expect(130);
}

#[test]
fn a_bomb_that_hears_no_signal_ends_by_the_second_one_to_the_client() {
    let host = needs!(TestHost::start());
    let running = host.run().with_probe().start(bomb("trap '' INT TERM HUP QUIT;"));
    let pid = running.pid();
    eventually("the bomb has gone off", || descendants(pid).len() > 100);
    running.signal(Signal::SIGTERM);
    // The first signal was passed on and ignored; two that come at once would count as one.
    eventually("the bomb is still there", || descendants(pid).len() > 100);
    let mut asked = 0;
    eventually("the second ends it", || {
        asked += 1;
        running.has_ended() || {
            running.signal(Signal::SIGTERM);
            running.has_ended()
        }
    });
    assert!(asked > 0);
    running.wait().expect(143);
}

#[test]
fn a_limit_of_processes_is_kept() {
    let host = needs!(TestHost::start());
    let tree = host.project("limited");
    tree.write("sandbox.toml", "[workspace]\nmode = \"none\"\n[limits]\npids = 40\n");
    let file = tree.at("sandbox.toml").display().to_string();
    let text =
        "n=0; while [ $n -lt 100 ]; do sleep 100000 & n=$((n+1)); done 2>/dev/null; echo all";
    let order = || host.sandboxd().with(["run", "-f", &file]);
    let done = order().command(["dash", "-c", text]);
    assert!(!done.text().contains("all"), "{done:?}");
    let few = text.replace("100 ]", "10 ]");
    assert_eq!(order().command(["dash", "-c", &few]).expect(0).text(), "all\n");
}
