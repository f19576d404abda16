//! The door out of a session in the daemon: what is logged and explained is what happens, each server has its own
//! network or the session's, and nothing outlives the daemon.
//!
//! Runs in: the test's own process.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::fs::File;

use sandboxd_tests::{
    Daemon, HELLO, Process, Recipe, TestHost, answers, eventually, needs, visit, visitor,
};
use serde_json::{Value, json};

/// A session that may reach two names.
fn shop(host: &TestHost) -> Daemon<'_> {
    let daemon = Daemon::of(host);
    let rules = "[egress]\nallow = [\"open.example.com:5432\", \"*.wild.example.com:5432\"]";
    let _view = daemon.up("shop", &Recipe::bare().with(rules).text());
    daemon
}

fn records(daemon: &Daemon<'_>) -> Vec<Value> {
    let text = daemon.does(&["egress", "log", "shop", "--json"]).expect(0).text();
    text.lines().map(|line| serde_json::from_str(line).expect("a record is JSON")).collect()
}

/// Says whether a record has all of these members.
fn has(record: &Value, members: &Value) -> bool {
    let members = members.as_object().expect("members of a record");
    members.iter().all(|(name, value)| record[name] == *value)
}

#[track_caller]
fn eventually_records(daemon: &Daemon<'_>, members: &Value) {
    eventually(&format!("the log has {members}"), || {
        records(daemon).iter().any(|record| has(record, members))
    });
}

#[test]
fn the_log_tells_each_connection_and_each_refusal() {
    let host = needs!(TestHost::online());
    let daemon = shop(&host);
    let mut following = daemon.order(&["egress", "log", "shop", "--follow"]).start([""; 0]);
    let visits = [
        "greet open.example.com 5432",
        "greet denied.example.com 5432",
        "greet open.example.com 22",
        "greet 93.184.216.34 5432",
        "udp 8.8.8.8 123",
    ];
    let (answers, _) = visit(daemon.exec("shop"), &visits);
    let expected = [HELLO, "EAI_NONAME", "ECONNREFUSED", "ECONNRESET", "ECONNREFUSED"];
    assert_eq!(answers, expected);
    for members in [
        json!({"ev": "open", "verdict": "allow", "name": "open.example.com", "port": 5432,
               "address": "93.184.216.34", "rule": "open.example.com:5432"}),
        json!({"ev": "close", "name": "open.example.com", "port": 5432, "down": 17}),
        json!({"ev": "dns", "verdict": "deny", "name": "denied.example.com", "reason": "no_rule_for_name",
               "fix": "--allow denied.example.com:443"}),
        json!({"ev": "deny", "verdict": "deny", "name": "open.example.com", "port": 22,
               "reason": "port_not_listed", "fix": "--allow open.example.com:22"}),
        json!({"ev": "deny", "verdict": "deny", "address": "93.184.216.34", "port": 5432,
               "reason": "literal_not_listed", "fix": "--allow 93.184.216.34:5432"}),
        json!({"ev": "nontcp", "verdict": "deny", "proto": "udp", "address": "8.8.8.8", "port": 123,
               "reason": "not_tcp"}),
    ] {
        eventually_records(&daemon, &members);
    }
    let records = records(&daemon);
    let order: Vec<u64> = records.iter().filter_map(|record| record["seq"].as_u64()).collect();
    assert_eq!(order.len(), records.len(), "every record has a place: {records:#?}");
    assert!(order.is_sorted_by(|one, next| one < next), "{order:?}");
    // What people read has the same reasons, and who follows has seen them by now.
    let text = daemon.does(&["egress", "log", "shop"]).expect(0).text();
    for word in ["no_rule_for_name", "port_not_listed", "literal_not_listed", "not_tcp"] {
        assert!(text.contains(word), "{text}");
        following.answers(word);
    }
    daemon.remove("shop");
    following.wait().done();
}

#[test]
fn explain_says_what_then_happens() {
    let host = needs!(TestHost::online());
    let daemon = shop(&host);
    for (target, status, reason) in [
        ("open.example.com 5432", 0, Value::Null),
        ("OPEN.example.com. 5432", 0, Value::Null),
        ("a.wild.example.com 5432", 0, Value::Null),
        ("wild.example.com 5432", 1, json!("no_rule_for_name")),
        ("a.b.c.d.e.wild.example.com 5432", 1, json!("wildcard_limit")),
        ("open.example.com 22", 1, json!("port_not_listed")),
        ("denied.example.com 5432", 1, json!("no_rule_for_name")),
        ("93.184.216.34 5432", 1, json!("literal_not_listed")),
        ("10.0.0.1 5432", 1, json!("address_denied")),
        ("169.254.169.254 80", 1, json!("address_denied")),
    ] {
        let (name, port) = target.split_once(' ').expect("two words");
        let place = format!("{name}:{port}");
        let told = daemon.does(&["egress", "explain", "shop", &place, "--json"]).expect(status);
        let verdict = if status == 0 { "allow" } else { "deny" };
        assert_eq!(told.json()["verdict"], verdict, "{told:?}");
        assert_eq!(told.json()["reason"], reason, "{told:?}");
        let (answers, _) = visit(daemon.exec("shop"), &[&format!("greet {target}")]);
        assert_eq!(answers[0] == HELLO, status == 0, "{target}: {answers:?}");
        if status == 1 {
            eventually("the record has the same reason", || {
                records(&daemon).iter().any(|record| {
                    let is_it = record["name"] == name || record["address"] == name;
                    is_it && record["reason"] == reason
                })
            });
        }
    }
    // Asking leaves no record, and a port need not be said.
    let before = records(&daemon).len();
    let told = daemon.does(&["egress", "explain", "shop", "never.example.com"]).expect(1);
    assert!(told.text().contains("--allow never.example.com:443"), "{told:?}");
    assert_eq!(records(&daemon).len(), before);
}

/// A session with a list, a server with a list of its own, one without any, and one that says nothing.
fn tracked(host: &TestHost) -> Daemon<'_> {
    let daemon = Daemon::of(host);
    let servers = daemon.servers();
    let recipe = Recipe::bare()
        .mount(servers.path())
        .with("[egress]\nallow = [\"open.example.com:5432\"]")
        .server("tracker", &servers, "good", "egress = [\"other.example.com:5432\"]\n")
        .server("alone", &servers, "good", "network = \"own\"\n")
        .server("plain", &servers, "good", "");
    let _view = daemon.up("shop", &recipe.text());
    daemon
}

/// Runs a command beside a server.
#[track_caller]
fn run(daemon: &Daemon<'_>, server: &str, command: &[&str]) -> String {
    daemon.ask("shop", server, "run", &json!({ "command": command }))
}

/// Goes to places from a server.
#[track_caller]
fn visit_from(daemon: &Daemon<'_>, server: &str, visits: &[&str]) -> Vec<String> {
    answers(&serde_json::from_str(&run(daemon, server, &visitor(visits))).expect("JSON"))
}

#[test]
fn a_server_with_its_own_list_has_a_network_of_its_own() {
    let host = needs!(TestHost::online());
    let daemon = tracked(&host);
    // Each has its own names and not the other's.
    let visits = ["greet open.example.com 5432", "greet other.example.com 5432"];
    assert_eq!(visit(daemon.exec("shop"), &visits).0, [HELLO, "EAI_NONAME"]);
    assert_eq!(visit_from(&daemon, "plain", &visits), [HELLO, "EAI_NONAME"]);
    assert_eq!(visit_from(&daemon, "tracker", &visits), ["EAI_NONAME", HELLO]);
    assert_eq!(
        visit_from(&daemon, "alone", &["interfaces", "greet 93.184.216.34 5432"]),
        ["lo", "ENETUNREACH"]
    );
    eventually_records(
        &daemon,
        &json!({"ev": "dns", "verdict": "deny", "network": "tracker",
        "name": "open.example.com", "fix": "mcp.tracker.egress = [\"open.example.com:443\"]"}),
    );
    eventually_records(
        &daemon,
        &json!({"ev": "open", "network": "tracker", "name": "other.example.com"}),
    );
    // What is explained is the network that was asked for.
    for (name, session, server) in [("open", 0, 1), ("other", 1, 0)] {
        let place = format!("{name}.example.com:5432");
        daemon.does(&["egress", "explain", "shop", &place]).expect(session);
        let told = daemon.does(&["egress", "explain", "shop", &place, "--server", "tracker"]);
        let told = told.expect(server);
        assert!(told.text().contains("tracker"), "{told:?}");
    }
}

/// Listens on two ports, says so, and says who it is to everybody who comes.
fn listener(who: &str) -> String {
    format!(
        "import os, socket, threading
def serve(listener):
    while True:
        client, _ = listener.accept()
        client.sendall(b'hello from {who}\\n')
        client.close()
listeners = [socket.create_server(('0.0.0.0', port)) for port in (5432, 9999)]
probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
probe.connect(('8.8.8.8', 9))
print(probe.getsockname()[0], flush=True)
if os.fork() == 0:
    for number in (0, 1, 2): os.close(number)
    for listener in listeners: threading.Thread(target=serve, args=(listener,)).start()
"
    )
}

#[test]
fn a_server_s_own_network_and_the_session_s_do_not_reach_each_other() {
    let host = needs!(TestHost::online());
    let daemon = tracked(&host);
    let listening = listener("the server");
    let server = run(&daemon, "tracker", &["python3", "-S", "-E", "-c", &listening]);
    let listening = listener("the session");
    let holder = format!("{listening}\nif os.getppid() != 1: os.wait()\n");
    let mut held = daemon.exec("shop").start(["python3", "-S", "-E", "-c", &holder]);
    held.answers("\n");
    let (server, session) = (server.trim().to_owned(), held.output().trim().to_owned());
    assert_ne!(server, session);
    let places = [5432, 9999]
        .map(|port| (format!("greet {server} {port}"), format!("greet {session} {port}")));
    for (server, session) in &places {
        let visits = [server.as_str(), session.as_str()];
        let (from_session, _) = visit(daemon.exec("shop"), &visits);
        let from_server = visit_from(&daemon, "tracker", &visits);
        assert_eq!(
            (&*from_session[1], &*from_server[0]),
            ("hello from the session", "hello from the server")
        );
        for refused in [&from_session[0], &from_server[1]] {
            assert!(["ECONNREFUSED", "ECONNRESET"].contains(&refused.as_str()), "{refused}");
        }
    }
}

#[test]
fn a_list_of_one_server_leaves_the_others_without_a_door() {
    let host = needs!(TestHost::online());
    let daemon = Daemon::of(&host);
    let servers = daemon.servers();
    let recipe = Recipe::bare()
        .mount(servers.path())
        .server("tracker", &servers, "good", "egress = [\"other.example.com:5432\"]\n")
        .server("plain", &servers, "good", "");
    let _view = daemon.up("shop", &recipe.text());
    let visits = ["interfaces", "greet other.example.com 5432"];
    assert_eq!(visit_from(&daemon, "tracker", &visits), ["eth0 lo", HELLO]);
    let count = host.internet().log().len();
    for answers in [visit_from(&daemon, "plain", &visits), visit(daemon.exec("shop"), &visits).0] {
        assert_eq!(answers[0], "lo");
        assert!(answers[1].starts_with("EAI_"), "{answers:?}");
    }
    let since = host.internet().log().split_off(count);
    assert!(since.iter().all(|line| line.starts_with("close ")), "{since:?}");
}

/// Greets a server and stays connected without a word.
const STAY: &str = "import socket
stream = socket.create_connection(('open.example.com', 5432))
print(stream.makefile().readline(), flush=True)
print('ended', stream.recv(1), flush=True)
";

#[test]
fn a_killed_daemon_leaves_no_way_out_and_no_connection() {
    let host = needs!(TestHost::online());
    let daemon = shop(&host);
    let daemon_process = daemon.process();
    let status = String::from_utf8_lossy(&daemon_process.file("status")).into_owned();
    for set in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
        assert!(status.contains(&format!("{set}:\t0000000000000000")), "{status}");
    }
    let mut client = daemon.exec("shop").start(["python3", "-S", "-E", "-c", STAY]);
    client.answers(HELLO);
    let inside = daemon.named("python3").pop().expect("the client runs in the box");
    let network = File::open(format!("/proc/{}/ns/net", inside.pid)).expect("the box's network");
    let interfaces =
        || answers(&host.in_network(&network, visitor(&["interfaces"])).expect(0).json());
    assert_eq!(interfaces(), ["eth0 lo"]);
    assert_eq!(host.internet().count("close world 5432"), 0);
    daemon.kill();
    host.internet().sees("close world 5432");
    eventually("the interface is gone", || interfaces() == ["lo"]);
    eventually("the client's end is gone", || {
        Process::of(inside.pid).is_none_or(|process| process.begun != inside.begun)
    });
    let unreachable = host.in_network(&network, visitor(&["greet 93.184.216.34 5432"]));
    assert_eq!(answers(&unreachable.expect(0).json()), ["ENETUNREACH"]);
    assert_ne!(client.wait().status, 0);
}
