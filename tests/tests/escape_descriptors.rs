//! Descriptors of the caller's are no way out: a directory, a socket, a file that could be opened again.
//!
//! References: CVE-2024-21626 (a leaked directory), bubblewrap's inherited descriptors, reopening by
//! /proc/self/fd.
//!
//! Runs in: the test's own process.

use sandboxd_tests::{Order, PROBE, TestHost, needs};
use serde_json::{Value, json};

/// Starts sandboxd with a hostile descriptor at a number.
fn with<'a>(host: &'a TestHost, kind: &str, number: &str) -> Order<'a> {
    let probe = host.probe().display().to_string();
    host.run().started_by([probe.as_str(), "with", kind, number])
}

/// The same descriptor without a box around it.
fn on_host(host: &TestHost, kind: &str) -> Value {
    let probe = host.probe().display().to_string();
    host.on_host(host.home(), [&probe, "with", kind, "0", &probe, "through", "0"]).expect(0).json()
}

#[test]
fn descriptors_beside_the_three_stay_outside() {
    let host = needs!(TestHost::start());
    for kind in ["directory", "tcp", "listener", "datagram", "/etc/passwd"] {
        for number in ["3", "7", "250"] {
            let fds = with(&host, kind, number).probe(["fds"]);
            let numbers: Vec<_> = fds.as_object().unwrap().keys().collect();
            assert_eq!(numbers, ["0", "1", "2"], "{kind} at {number}: {fds}");
        }
    }
    // The twin: without a box they are there.
    let probe = host.probe().display().to_string();
    let fds = host
        .on_host(host.home(), [&probe, "with", "directory", "7", &probe, "fds"])
        .expect(0)
        .json();
    assert_eq!(fds["7"], "/");
}

#[test]
fn a_directory_as_input_is_no_way_to_the_host_s_files() {
    let host = needs!(TestHost::start());
    assert_eq!(on_host(&host, "directory")["openat above"], "OK");
    let answers = with(&host, "directory", "0").probe(["through", "0"]);
    assert_ne!(answers["kind"], "directory", "{answers}");
    for way in ["openat above", "openat shadow", "fchdir"] {
        assert_eq!(answers[way], "ENOTDIR", "{answers}");
    }
}

#[test]
fn a_socket_as_input_is_no_way_to_the_host_s_network() {
    let host = needs!(TestHost::start());
    for kind in ["tcp", "listener", "datagram", "stream"] {
        let outside = on_host(&host, kind);
        assert_eq!(
            (&outside["kind"], &outside["getsockname"]),
            (&json!("socket"), &json!("OK")),
            "{kind}"
        );
        let answers = with(&host, kind, "0").probe(["through", "0"]);
        assert_ne!(answers["kind"], "socket", "{kind}: {answers}");
        for way in ["connect", "getsockname", "send", "listen"] {
            assert_eq!(answers[way], "ENOTSOCK", "{kind}: {answers}");
        }
    }
}

#[test]
fn what_a_socket_says_arrives_all_the_same() {
    let host = needs!(TestHost::start());
    let done = with(&host, "stream", "0").command(["cat"]).expect(0);
    assert_eq!(done.text(), "said over a socket\n");
}

#[test]
fn a_file_as_input_cannot_be_opened_again_for_writing() {
    let host = needs!(TestHost::start());
    let tree = host.project("input");
    tree.write("file", "content");
    let path = tree.at("file").display().to_string();
    let outside = on_host(&host, &path);
    assert_eq!(
        (&outside["kind"], &outside["open again for writing"]),
        (&json!("file"), &json!("OK"))
    );
    let answers = with(&host, &path, "0").probe(["through", "0"]);
    assert_eq!(answers["kind"], "pipe", "{answers}");
    let done = with(&host, &path, "0").command([
        "sh",
        "-c",
        "cat; echo overwritten > /proc/self/fd/0; readlink /proc/self/fd/0",
    ]);
    assert!(done.text().starts_with("content") && !done.text().contains("input/file"), "{done:?}");
    assert_eq!(tree.read("file"), "content");
}

#[test]
fn a_pipe_of_the_caller_s_is_not_the_command_s() {
    let host = needs!(TestHost::start());
    // A named pipe of the host's, which would still lead there: /proc/self/fd shows its path.
    let tree = host.project("pipes");
    host.on_host(tree.path(), ["mkfifo", "named"]).done();
    let shell = "exec 5<>named; exec \"$@\" <&5";
    let order = host.run().started_by(["sh", "-c", shell, "caller"]).from_directory(tree.path());
    let fds = order.with_probe().command([PROBE, "fds"]).expect(0).json();
    assert!(!fds["0"].as_str().unwrap().contains("named"), "{fds}");
}
