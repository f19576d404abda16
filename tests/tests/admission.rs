//! Who may speak to the daemon: this user's processes on the host. A box that finds the socket gets nothing.
//!
//! Runs in: the test's own process.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;

use sandboxd_tests::{Daemon, Recipe, TestHost, needs, within};
use serde_json::{Value, json};

/// Says what came back over the socket that is named.
const CONNECT: &str = "import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
try:
    s.connect(sys.argv[1])
    s.sendall(b'GET /v1/version HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n')
    heard = b''
    while piece := s.recv(65536): heard += piece
    print('heard', heard[:12])
except ConnectionError: print('heard', b'')
except OSError as error: print('refused', error.errno)";

#[track_caller]
fn serves(daemon: &Daemon<'_>) -> Value {
    let (status, body) = daemon.request("GET", "/v1/version", b"");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("the version is JSON")
}

#[test]
fn a_box_that_can_reach_the_socket_gets_no_answer_and_the_host_does() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    // The daemon's directory lies two levels below one that the box sees, read-only.
    let shown = host.project("shown");
    shown.directory("a");
    let daemon = Daemon::at(&host, shown.at("a/daemon"));
    let servers = daemon.servers();
    let recipe = Recipe::bare()
        .mount(shown.path())
        .mount(servers.path())
        .mount(host.program())
        .server("tracker", &servers, "good", "");
    let _view = daemon.up("shop", &recipe.text());
    let socket = daemon.socket().display().to_string();
    // It is there, and it is the very socket.
    let seen = daemon.exec("shop").command(["stat", "-c", "%F %i", &socket]).expect(0);
    let inode = std::fs::metadata(daemon.socket()).unwrap().ino();
    assert_eq!(seen.text(), format!("socket {inode}\n"));
    let inside = daemon.exec("shop").command(["python3", "-c", CONNECT, &socket]).expect(0).text();
    assert!(inside == "heard b''\n" || inside.starts_with("refused "), "{inside}");
    let command = json!({ "command": ["python3", "-c", CONNECT, socket] });
    let server = daemon.ask("shop", "tracker", "run", &command);
    assert!(server == "heard b''\n" || server.starts_with("refused "), "{server}");
    // Nor does our own client, from inside.
    let program = host.program().display().to_string();
    let directory = daemon.directory().display().to_string();
    let client = daemon.exec("shop").command([&program, "inspect", "--dir", &directory, "shop"]);
    assert_eq!((client.status, client.text().as_str()), (125, ""), "{client:?}");
    // The twin, by the same words.
    let outside = host.on_host(shown.path(), ["python3", "-c", CONNECT, &socket]).expect(0);
    assert_eq!(outside.text(), "heard b'HTTP/1.1 200'\n");
    let log = || std::fs::read_to_string(daemon.directory().join("daemon.log")).unwrap();
    assert!(inside.starts_with("refused ") || log().contains("lives in another user namespace"));
}

#[test]
fn a_process_of_this_user_in_another_user_namespace_gets_no_answer() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = Daemon::of(&host);
    let _view = daemon.up("shop", &Recipe::bare().text());
    let socket = daemon.socket().display().to_string();
    for enter in [&["unshare", "--user", "--map-current-user"][..], &["unshare", "-r"]] {
        let words = enter.iter().copied().chain(["python3", "-c", CONNECT, &socket]);
        assert_eq!(host.on_host(host.home(), words).expect(0).text(), "heard b''\n");
    }
    let listed =
        daemon.order(&["inspect", "shop"]).started_by(["unshare", "--user", "--map-current-user"]);
    let listed = listed.command([""; 0]).expect(125);
    assert!(listed.complaint().contains("lost the daemon"), "{listed:?}");
    // Other namespaces of their own do no harm: the same user, the same rights.
    let words = ["unshare", "--user", "--map-current-user", "true"];
    host.on_host(host.home(), words).done();
    daemon.does(&["inspect", "shop"]).done();
    serves(&daemon);
}

#[test]
fn the_socket_s_directory_keeps_other_users_out() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let _view = daemon.up("shop", &Recipe::bare().text());
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(daemon.directory()), 0o700);
    // A daemon whose directory was opened to others is not spoken to any more, and not by mistake either.
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(daemon.directory(), open).unwrap();
    let refused = daemon.does(&["ls"]).expect(125).complaint();
    assert!(refused.contains("expected one of this user with mode 0700"), "{refused}");
    std::fs::set_permissions(daemon.directory(), std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(daemon.list().len(), 1);
}

/// The body of an `up`, as our own client would send it but for what is put in its place.
fn request(host: &TestHost, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut body = json!({
        "name": "raw",
        "file": {
            "tools": [], "workspace": "none", "mounts": [], "env": {}, "secrets": {}, "servers": {},
            "limits": { "pids": null }, "walls": { "landlock": "available" },
        },
        "caller": {
            "directory": host.home(), "time_zone": null, "terminal": null, "author": [null, null],
            "umask": 18, "path": "/usr/bin", "home": host.home(), "descriptors": [256, 256],
        },
        "secrets": {},
        "source": null,
    });
    change(&mut body);
    body.to_string().into_bytes()
}

#[track_caller]
fn refused(answer: (u16, String)) -> Value {
    let (status, body) = answer;
    assert_eq!(status, 400, "{body}");
    let fault: Value = serde_json::from_str(&body).unwrap_or_default();
    assert_eq!((&fault["kind"], &fault["status"]), (&json!("user"), &json!(125)), "{body}");
    assert!(fault["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    assert_eq!(fault["id"].as_str().map(str::len), Some(8), "{body}");
    fault
}

#[test]
fn a_request_that_is_no_session_is_refused_and_the_next_is_served() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let _view = daemon.up("shop", &Recipe::bare().text());
    let pid = serves(&daemon)["pid"].clone();
    let up = |body: &[u8]| daemon.request("POST", "/v1/sessions", body);
    for body in [&b""[..], b"{", b"[]", b"null", b"{}", b"\xff\xfe", b"{\"name\":\"a\"} x"] {
        let fault = refused(up(body));
        assert!(fault["message"].as_str().unwrap().contains("cannot understand the request"));
    }
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    refused(up(&deep));
    let unknown =
        |change: fn(&mut Value)| refused(up(&request(&host, change)))["message"].to_string();
    let message = unknown(|body| body["priviledged"] = json!(true));
    assert!(message.contains("priviledged"), "{message}");
    let message = unknown(|body| body["file"]["devices"] = json!([]));
    assert!(message.contains("devices"), "{message}");
    for name in ["../x", "a/b", "", "A", "a\0b", "-a", "..", "."] {
        let fault = refused(up(&request(&host, |body| body["name"] = json!(name))));
        assert!(fault["message"].as_str().unwrap().len() < 400, "{fault}");
    }
    // The twin: the same body, as it is.
    let (status, body) = up(&request(&host, |_| {}));
    assert_eq!(status, 200, "{body}");
    assert_eq!(daemon.exec("raw").shell("echo works").expect(0).text(), "works\n");
    assert_eq!(serves(&daemon)["pid"], pid);
}

#[test]
fn a_forged_session_is_checked_as_the_file_would_be() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let tree = host.project("work");
    let _view = daemon.up("shop", &Recipe::bare().text());
    let up = |change: &dyn Fn(&mut Value)| {
        let (status, body) =
            daemon.request("POST", "/v1/sessions", &request(&host, |body| change(body)));
        assert!((400..=503).contains(&status), "{status}: {body}");
        body
    };
    let mount = |source: &str, target: &str, mode: &str| json!([{ "source": source, "target": target, "mode": mode }]);
    let words = [
        up(&|body| body["file"]["mounts"] = mount("relative", "/x", "ro")),
        up(&|body| body["file"]["mounts"] = mount("/usr", "/x/../../etc", "ro")),
        up(&|body| body["file"]["mounts"] = mount("/usr", "/", "ro")),
        up(&|body| {
            let above = daemon.directory().parent().unwrap().display().to_string();
            body["file"]["mounts"] = mount(&above, "/x", "rw");
        }),
        up(&|body| body["file"]["workspace"] = json!({ "at": { "path": "/", "mode": "rw" } })),
        up(&|body| {
            body["file"]["workspace"] = json!({ "at": { "path": host.home(), "mode": "rw" } });
        }),
        up(&|body| body["file"]["env"] = json!({ "A=B": "x" })),
        up(&|body| body["file"]["env"] = json!({ "A": "x\0y" })),
        up(&|body| body["file"]["limits"]["pids"] = json!(0)),
    ];
    for body in &words {
        let fault: Value = serde_json::from_str(body).unwrap_or_default();
        let text = fault["message"].as_str().unwrap_or_default();
        assert!(!text.is_empty() && !text.contains("cannot understand"), "{body}");
    }
    assert_eq!(daemon.list().len(), 1);
    // The twin: what the flags would say too.
    let good = request(&host, |body| {
        body["file"]["workspace"] = json!({ "at": { "path": tree.path(), "mode": "rw" } });
        body["file"]["mounts"] = mount("/usr/share", "/mnt/x", "ro");
    });
    let (status, body) = daemon.request("POST", "/v1/sessions", &good);
    assert_eq!(status, 200, "{body}");
    daemon.exec("raw").command(["ls", "/mnt/x"]).done();
}

#[test]
fn a_body_that_is_too_long_is_refused() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let _view = daemon.up("shop", &Recipe::bare().text());
    let long = format!("{{\"name\":\"{}\"}}", "a".repeat(5 << 20));
    refused(daemon.request("POST", "/v1/sessions", long.as_bytes()));
    // One that says no length, and never ends: it is given up, not stored.
    let mut stream = daemon.connect();
    let head = "POST /v1/sessions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"10000\r\n".as_slice(), &b"x".repeat(0x10000), b"\r\n"].concat();
    let mut sent = 0;
    while sent < 400 && stream.write_all(&chunk).is_ok() {
        sent += 1;
    }
    let mut heard = String::new();
    // Ignored: what came until the connection broke counts.
    let _ = stream.read_to_string(&mut heard);
    assert!(heard.starts_with("HTTP/1.1 400") || heard.is_empty(), "{heard}");
    serves(&daemon);
    // The twin: a body that is long and fits is read, and found wrong for what it says.
    let fits = format!("{{\"nonsense\":\"{}\"}}", "a".repeat(3 << 20));
    let fault = refused(daemon.request("POST", "/v1/sessions", fits.as_bytes()));
    assert!(fault["message"].as_str().unwrap().contains("nonsense"), "{fault}");
}

#[test]
fn what_is_not_http_or_no_route_harms_nobody() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let _view = daemon.up("shop", &Recipe::bare().text());
    for bytes in
        [&b"\0\0\0\0"[..], b"hello\r\n\r\n", b"GET\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let answer = daemon.raw(bytes);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let long = [b"GET /".as_slice(), &b"a".repeat(1 << 20), b" HTTP/1.1\r\n\r\n"].concat();
    let answer = daemon.raw(&long);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    for (method, path, status) in [
        ("GET", "/", 404),
        ("GET", "/v1/nothing", 404),
        ("PUT", "/v1/sessions", 405),
        ("POST", "/v1/version", 405),
    ] {
        assert_eq!(daemon.request(method, path, b"").0, status, "{method} {path}");
    }
    // Names that are paths, or none at all, find nothing.
    for name in
        ["..", "%2e%2e", "..%2f..%2fetc", "%00", "shop%00", "a%2fb", "%ff", &"a".repeat(9000)]
    {
        for (method, rest) in [("GET", ""), ("DELETE", ""), ("GET", "/logs"), ("POST", "/exec")] {
            let path = format!("/v1/sessions/{name}{rest}");
            let (status, body) = daemon.request(method, &path, b"{}");
            assert!((400..=414).contains(&status), "{method} {path}: {status} {body}");
        }
    }
    for server in ["..%2frecord.json", "%2e%2e%2f%2e%2e%2fdaemon.log", "%00", "session", ""] {
        let path = format!("/v1/sessions/shop/logs?server={server}");
        let (status, body) = daemon.request("GET", &path, b"");
        assert_eq!(status, 400, "{path}: {body}");
    }
    // An upgrade that is none, and a command that is none.
    refused(daemon.request("POST", "/v1/sessions/shop/exec", b"{\"argv\":[\"true\"]}"));
    let upgrade = |body: &str| {
        let head = "POST /v1/sessions/shop/exec HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: sandboxd-exec\r\n";
        daemon.raw(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())
    };
    for body in ["{\"argv\":[]}", "{}", "{\"argv\":[\"true\"],\"root\":true}", "{\"argv\":[1]}"] {
        let answer = upgrade(body);
        assert!(answer.starts_with("HTTP/1.1 400"), "{body}: {answer}");
    }
    let answer = upgrade("{\"argv\":[\"true\"]}");
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    serves(&daemon);
    assert_eq!(daemon.list().len(), 1);
}

#[test]
fn connections_that_say_nothing_keep_nobody_waiting() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let _view = daemon.up("shop", &Recipe::bare().text());
    let mut idle: Vec<_> = (0..200).map(|_| daemon.connect()).collect();
    for stream in idle.iter_mut().take(100) {
        stream.write_all(b"POST /v1/sessions HTTP/1.1\r\ncontent-length: 100\r\n\r\n{").unwrap();
    }
    serves(&daemon);
    assert_eq!(daemon.exec("shop").shell("echo works").expect(0).text(), "works\n");
    let descriptors = || {
        std::fs::read_dir(format!("/proc/{}/fd", daemon.process().pid)).map_or(0, Iterator::count)
    };
    assert!(descriptors() > 200);
    drop(idle);
    assert!(within(sandboxd_tests::DEADLINE, || descriptors() < 100), "{}", descriptors());
}
