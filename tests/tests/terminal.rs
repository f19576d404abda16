//! A command on a terminal: one of the box's own, and the caller's as it was afterwards.
//!
//! Runs in: the test's own process.

use nix::sys::signal::Signal;
use sandboxd_tests::{TestHost, needs};

#[test]
fn a_command_on_a_terminal_has_one_of_its_own() {
    let host = needs!(TestHost::start());
    let mut screen = host.run().on_screen([
        "sh",
        "-c",
        "tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo three",
    ]);
    screen.shows("three");
    assert_eq!(screen.ends(), 0);
    let text = screen.close();
    assert!(text.contains("/dev/pts/0\r\n") && text.contains("30 100\r\n"), "{text}");
    // The twin: without a terminal there is none.
    let done = host.run().command(["sh", "-c", "tty; test -c /dev/tty && echo x > /dev/tty"]);
    assert!(done.text().contains("not a tty") && done.status != 0, "{done:?}");
}

#[test]
fn the_terminal_s_kind_is_passed_on_and_its_name_alone() {
    let host = needs!(TestHost::start());
    let mut screen = host.run().caller_variable("TERM", "screen-256color").on_screen([
        "sh",
        "-c",
        "echo kind=$TERM.",
    ]);
    screen.shows("kind=screen-256color.");
    assert_eq!(screen.ends(), 0);
}

#[test]
fn control_c_ends_a_sleeping_command() {
    let host = needs!(TestHost::start());
    let mut screen = host.run().on_screen(["sh", "-c", "echo ready; exec sleep 100000"]);
    screen.shows("ready");
    screen.types("\x03");
    assert_eq!(screen.ends(), 130);
}

#[test]
fn a_signal_to_the_client_ends_a_command_on_a_terminal() {
    let host = needs!(TestHost::start());
    let mut screen = host.run().on_screen(["sh", "-c", "echo ready; exec sleep 100000"]);
    screen.shows("ready");
    screen.signal(Signal::SIGTERM);
    assert_eq!(screen.ends(), 143);
    let (before, after) = screen.settings();
    assert_eq!(before, after);
}

#[test]
fn jobs_are_stopped_and_go_on() {
    let host = needs!(TestHost::start());
    let mut screen = host.run().with(["--env", "PS1=<\\#>"]).on_screen(["bash", "--norc", "-i"]);
    // Typed like this, "reading" stands on the screen only when cat is about to read.
    screen.types("echo read''ing; cat\r");
    screen.shows("reading");
    screen.types("echoed\r");
    // Once as typed, once as cat wrote it.
    screen.shows("echoed\r\nechoed");
    screen.types("\x1a");
    screen.shows("Stopped");
    screen.types("echo going''on; fg\r");
    screen.shows("goingon");
    screen.types("again\r");
    screen.shows("again\r\nagain");
    screen.types("\x03");
    // The shell drops what was typed before its next prompt, the third.
    screen.shows("<3>");
    screen.types("exit 5\r");
    assert_eq!(screen.ends(), 5);
}

#[test]
fn a_new_size_of_the_window_reaches_the_command() {
    let host = needs!(TestHost::start());
    let text = "trap 'stty size' WINCH; echo ready; while :; do read -t 1 line && exit 0; done";
    let mut screen = host.run().on_screen(["bash", "-c", text]);
    screen.shows("ready");
    screen.resizes(41, 137);
    screen.shows("41 137");
    screen.types("\r");
    assert_eq!(screen.ends(), 0);
}

#[test]
fn the_caller_s_terminal_is_as_it_was_whatever_ended_the_command() {
    let host = needs!(TestHost::start());
    for (command, status) in
        [("stty raw -echo; exit 0", 0), ("stty -icanon; kill -9 $$", 137), ("exit 3", 3)]
    {
        let mut screen = host.run().on_screen(["sh", "-c", command]);
        assert_eq!(screen.ends(), status);
        let (before, after) = screen.settings();
        assert_eq!(before, after, "{command}");
    }
    // Also where nothing could be started.
    let mut screen = host.run().on_screen(["no-such-program"]);
    assert_eq!(screen.ends(), 127);
    let (before, after) = screen.settings();
    assert_eq!(before, after);
}

#[test]
fn what_a_command_shows_last_is_shown_whole() {
    let host = needs!(TestHost::start());
    let mut screen = host.run().on_screen(["sh", "-c", "seq 1 20000; echo the end"]);
    assert_eq!(screen.ends(), 0);
    screen.shows("the end");
    let text = screen.close();
    assert!(text.contains("\r\n20000\r\nthe end"), "{} bytes", text.len());
}

#[test]
fn vim_edits_a_file_in_the_workspace() {
    let host = needs!(TestHost::start());
    needs!(host.command("vim"));
    let tree = host.project("notes");
    tree.write("note.txt", "first line\n");
    let mut screen = host.run_in(&tree).on_screen(["vim", "-u", "NONE", "-n", "note.txt"]);
    screen.shows("first line");
    screen.types("osecond line\x1b");
    screen.types(":wq\r");
    assert_eq!(screen.ends(), 0);
    assert_eq!(tree.read("note.txt"), "first line\nsecond line\n");
}

#[test]
fn a_command_cannot_type_into_the_caller_s_terminal() {
    let host = needs!(TestHost::start());
    // TIOCSTI of one letter, on every stream and on /dev/tty.
    let text = "import fcntl,termios\nfor p in ['/dev/stdin','/dev/stdout','/dev/tty']:\n  try:\n    fcntl.ioctl(open(p), termios.TIOCSTI, b'x'); print('typed')\n  except OSError as e: print('refused', e.errno)\n";
    needs!(host.command("python3"));
    let mut screen = host.run().on_screen(["python3", "-c", text]);
    assert_eq!(screen.ends(), 0);
    let text = screen.close();
    assert_eq!(text.matches("refused 1").count(), 3, "{text}");
    assert!(!text.contains("typed"), "{text}");
}
