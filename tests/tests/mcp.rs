//! MCP servers of a session through the stub: each message byte for byte, each call answered once, by the server
//! that was asked.
//!
//! Runs in: the test's own process.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandboxd_tests::{Brain, Daemon, Process, Recipe, TestHost, eventually, needs, text};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A session with one server in a mode.
fn session<'a>(host: &'a TestHost, mode: &str, more: &str) -> Daemon<'a> {
    let daemon = Daemon::of(host);
    let servers = daemon.servers();
    let recipe = Recipe::bare().mount(servers.path()).server("tracker", &servers, mode, more);
    let _view = daemon.up("shop", &recipe.text());
    daemon
}

fn greeted(daemon: &Daemon<'_>) -> Brain {
    let mut brain = daemon.brain("shop", "tracker");
    let answer = brain.greet();
    assert_eq!(answer["result"]["serverInfo"]["name"], "tests", "{answer}");
    brain
}

/// The server's process on the host: what its launch became.
fn server(daemon: &Daemon<'_>) -> Process {
    let inits: Vec<i32> = daemon.named("init").iter().map(|process| process.pid).collect();
    let found = daemon.named("python3").into_iter().find(|process| inits.contains(&process.parent));
    found.expect("the server runs")
}

fn error(answer: &Value) -> (i64, &str) {
    let error = &answer["error"];
    assert_eq!(error["data"]["origin"], "relay", "{answer}");
    (error["code"].as_i64().expect("a number"), error["message"].as_str().expect("a text"))
}

/// What JSON libraries change: the order of keys, great and precise numbers, a lone surrogate, escapes, white space.
const ODD: &str = r#"{ "z" : 1, "a":9007199254740993,"n":1.10,"e":1E5,"s":"\ud800","u":"\u00e9é\/","d":-0.0, "z":2 }"#;

#[test]
fn params_and_results_pass_byte_for_byte() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, "good", "");
    let mut brain = greeted(&daemon);
    let params = format!(r#"{{"arguments":{ODD},"name":"hash"}}"#);
    let sha256: String = Sha256::digest(&params).iter().map(|byte| format!("{byte:02x}")).collect();
    let result = brain.raw("tools/call", &params);
    assert_eq!(text(&serde_json::from_str(&result).unwrap()), sha256);
    let arguments = format!(r#"{{"result":{ODD}}}"#);
    let params = format!(r#"{{"name":"raw","arguments":{arguments}}}"#);
    assert_eq!(brain.raw("tools/call", &params), ODD);
    // `mcp call` prints the result as it came, too.
    let done = daemon.does(&["mcp", "call", "shop", "tracker", "raw", &arguments]).expect(0);
    assert_eq!(done.text(), format!("{ODD}\n"));
}

#[test]
fn a_server_is_started_on_the_first_call_and_keeps_its_state() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, "good", "");
    assert_eq!(daemon.named("python3"), []);
    let mut brain = greeted(&daemon);
    let mut answers = vec![brain.text("count", "{}")];
    answers.push(greeted(&daemon).text("count", "{}"));
    answers.push(daemon.ask("shop", "tracker", "count", &json!({})));
    let pid = answers[0].split_once(' ').unwrap().1.to_owned();
    assert_eq!(answers, [1, 2, 3].map(|count| format!("{count} {pid}")));
    // It stays when the brains have gone.
    brain.leaves().done();
    assert_eq!(daemon.ask("shop", "tracker", "count", &json!({})), format!("4 {pid}"));
    let list = daemon.does(&["mcp", "ls", "shop", "--json"]).expect(0).json();
    let status = &list["tracker"]["status"];
    assert_eq!((&status["incarnation"], &status["calls"]), (&json!(1), &json!(4)), "{list}");
    let list = daemon.does(&["mcp", "ls", "shop"]).expect(0).text();
    assert!(list.starts_with("NAME") && list.contains("tracker"), "{list}");
}

#[test]
fn fifty_brains_at_once_start_one_server() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, "good", "");
    let mut brains: Vec<Brain> = (0..50).map(|_| daemon.brain("shop", "tracker")).collect();
    let greeting = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"many","version":"1"}}"#;
    let ids: Vec<u64> = brains.iter_mut().map(|brain| brain.asks("initialize", greeting)).collect();
    for (brain, id) in brains.iter_mut().zip(&ids) {
        assert_eq!(brain.answer(*id)["result"]["serverInfo"]["name"], "tests");
        brain.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }
    let ids: Vec<u64> = brains.iter_mut().map(|brain| brain.begins("count", "{}")).collect();
    let answers = brains.iter_mut().zip(ids).map(|(brain, id)| brain.answer(id));
    let texts: Vec<String> = answers.map(|answer| text(&answer["result"]).to_owned()).collect();
    let counts: BTreeSet<u32> =
        texts.iter().map(|text| text.split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(counts, (1..=50).collect());
    let pids: BTreeSet<&str> = texts.iter().map(|text| text.split(' ').nth(1).unwrap()).collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
    assert_eq!(daemon.named("python3").len(), 1);
    let shown = daemon.inspect("shop");
    assert_eq!(shown["servers"]["tracker"]["status"]["incarnation"], 1, "{shown}");
}

#[test]
fn answers_go_to_the_brain_that_asked_whatever_its_ids_are() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, "good", "concurrency = 8\n");
    let (mut one, mut two) = (greeted(&daemon), greeted(&daemon));
    for id in ["1", "\"1\"", "1.0", "-7", "\"\\u0031\"", "9007199254740993", "\"gi-1\""] {
        let call = |tool: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}"}}}}"#
            )
        };
        one.send(&call("for-one"));
        two.send(&call("for-two"));
        for (brain, expected) in [(&mut one, "for-one"), (&mut two, "for-two")] {
            let line = brain.line();
            assert!(line.contains(&format!("\"id\":{id},")), "{id}: {line}");
            assert!(line.contains(expected), "{id}: {line}");
        }
    }
}

#[test]
fn an_answer_of_a_dead_server_reaches_nobody() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, "good", "");
    let (mut one, mut two) = (greeted(&daemon), greeted(&daemon));
    assert!(one.text("count", "{}").starts_with("1 "));
    let asked = one.begins("stale", "{}");
    eventually("half an answer was said", || {
        daemon.does(&["logs", "shop", "tracker"]).text().contains("half said")
    });
    // The other half comes from a child of the server's that nobody knows of, as often as it can.
    kill(Pid::from_raw(server(&daemon).pid), Signal::SIGKILL).unwrap();
    let answer = one.answer(asked);
    let (code, message) = error(&answer);
    // The half may have been joined by what the child wrote, before the end was seen: then it is no answer.
    match code {
        53_003 => assert!(message.contains("ended with signal 9 before it answered"), "{message}"),
        _ => assert!(message.contains("no JSON-RPC message"), "{message}"),
    }
    eventually("its death is known", || {
        daemon.does(&["logs", "shop", "tracker"]).text().contains("ended with signal 9")
    });
    // Whoever asks next, with the same ids, is answered by the next server alone.
    for count in 1..=20 {
        let brain = if count % 2 == 0 { &mut one } else { &mut two };
        let text = brain.text("count", "{}");
        assert!(text.starts_with(&format!("{count} ")), "{text}");
    }
    for brain in [&one, &two] {
        assert!(!brain.stub().output().contains("STALE"), "{}", brain.stub().output());
    }
    let shown = daemon.inspect("shop");
    assert_eq!(shown["servers"]["tracker"]["status"]["incarnation"], 2, "{shown}");
}

#[test]
fn a_server_that_dies_is_named_with_its_status_and_last_words_and_started_again() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, "good", "");
    let mut brain = greeted(&daemon);
    assert_eq!(brain.text("greeted", "{}"), "1 brain");
    let first = server(&daemon);
    let answer = brain.calls("die", r#"{"status":41}"#);
    let (code, message) = error(&answer);
    assert_eq!(code, 53_003);
    assert_eq!(
        message,
        "relay: \"tracker\" ended with status 41 before it answered tools/call; its last error \
         output: \"about to fail\""
    );
    assert_eq!(answer["error"]["data"]["stderr"], "about to fail");
    // The handshake was repeated without the brain, once.
    assert_eq!(brain.text("greeted", "{}"), "1 brain");
    assert_ne!(server(&daemon).pid, first.pid);
    assert_eq!(brain.text("count", "{}").split(' ').next(), Some("1"));
    assert!(daemon.does(&["logs", "shop", "tracker"]).text().contains("about to fail"));
}

#[test]
fn a_server_that_cannot_start_says_why_and_is_left_alone_after_five_times() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, "crash", "");
    let mut messages = Vec::new();
    for _ in 0..12 {
        let answer = daemon.brain("shop", "tracker").greet();
        messages.push(error(&answer).1.to_owned());
        if messages.last().unwrap().contains("left alone") {
            break;
        }
    }
    assert!(
        messages[0].contains("ended with status 3 before it answered initialize"),
        "{messages:?}"
    );
    assert!(messages[0].contains("no configuration found"), "{messages:?}");
    let last = messages.last().unwrap();
    assert!(last.contains("was started 5 times within 60 s and is left alone"), "{messages:?}");
    // A program that is not there.
    let text = "[workspace]\nmode = \"none\"\n[mcp.gone]\ncommand = [\"no-such-server\"]\n";
    let _view = daemon.up("other", text);
    let answer = daemon.brain("other", "gone").greet();
    let (code, message) = error(&answer);
    assert_eq!(code, 53_001);
    assert!(message.contains("cannot execute no-such-server"), "{message}");
}

#[test]
fn a_deadline_names_its_hop_its_length_and_the_last_words() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = Daemon::of(&host);
    let servers = daemon.servers();
    let recipe = Recipe::bare()
        .mount(servers.path())
        .server("start", &servers, "never", "timeouts = { start = \"1s\" }\n")
        .server("call", &servers, "good", "timeouts = { call = \"1s\" }\n")
        .server("idle", &servers, "good", "timeouts = { idle = \"1s\", call = \"60s\" }\n");
    let _view = daemon.up("shop", &recipe.text());
    let mut brains = ["start", "call", "idle"].map(|name| daemon.brain("shop", name));
    let started = brains[0].greet();
    for brain in &mut brains[1..] {
        brain.greet();
    }
    let [_, called, idle] = &mut brains;
    let (call, wait) = (called.begins("hang", "{}"), idle.begins("hang", "{}"));
    let answers = [started, called.answer(call), idle.answer(wait)];
    let expected = [
        ("initialize within 1 s (limit of this hop: timeouts.start)", "waiting for a database"),
        ("tools/call within 1 s (limit of this hop: timeouts.call)", "rate limited"),
        (
            "tools/call within 1 s without progress (limit of this hop: timeouts.idle)",
            "rate limited",
        ),
    ];
    for (answer, (limit, words)) in answers.iter().zip(expected) {
        let (code, message) = error(answer);
        assert_eq!(code, 53_002);
        assert!(message.contains(limit) && message.contains(words), "{message}");
        assert_eq!(answer["error"]["data"]["limit_ms"], 1000);
    }
    // The twin: the server lives, and answers in time when it can.
    assert_eq!(brains[1].text("go", "{}"), "OK");
}

#[test]
fn mcp_call_tells_a_tool_s_failure_from_its_own() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, "good", "");
    let done = daemon.call("shop", "tracker", "go", &json!({})).expect(0);
    assert_eq!((text(&done.json()), done.complaint().as_str()), ("OK", ""));
    let failed = daemon.call("shop", "tracker", "fails", &json!({})).expect(1);
    assert_eq!(text(&failed.json()), "it did not work");
    let died = daemon.call("shop", "tracker", "die", &json!({})).expect(125);
    assert!(died.complaint().contains("ended with status 9"), "{died:?}");
    assert_eq!(died.text(), "");
    let tools = daemon.does(&["mcp", "call", "shop", "tracker"]).expect(0).text();
    assert_eq!(tools, "{\"name\":\"go\",\"inputSchema\":{\"type\":\"object\"}}\n");
    for wrong in ["[]", "{", "nonsense", "{} {}"] {
        let refused = daemon.does(&["mcp", "call", "shop", "tracker", "go", wrong]).expect(125);
        assert!(refused.complaint().contains("expected the tool's arguments as a JSON object"));
    }
    let unknown = daemon.call("shop", "nobody", "go", &json!({})).expect(125).complaint();
    assert!(
        unknown.contains("no MCP server") && unknown.contains("its servers: tracker"),
        "{unknown}"
    );
    let unknown = daemon.call("nowhere", "tracker", "go", &json!({})).expect(125).complaint();
    assert!(unknown.contains("nowhere"), "{unknown}");
}

#[test]
fn a_stub_without_a_server_answers_every_request_with_the_reason() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let nothing = Daemon::at(&host, host.path("other"));
    let daemon = session(&host, "good", "");
    for (daemon, session, server, part) in [
        (&nothing, "shop", "tracker", "no daemon listens at"),
        (&daemon, "nowhere", "tracker", "nowhere"),
        (&daemon, "shop", "nobody", "has no MCP server"),
    ] {
        let mut brain = daemon.brain(session, server);
        let answer = brain.greet();
        assert!(error(&answer).1.contains(part), "{answer}");
        let id = brain.asks("tools/list", "{}");
        assert!(error(&brain.answer(id)).1.contains(part));
        let done = brain.leaves();
        assert!(done.complaint().contains(part), "{done:?}");
    }
    assert_eq!(nothing.find(), None);
}

#[test]
fn noise_odd_framing_and_size_cost_no_answer() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = Daemon::of(&host);
    let servers = daemon.servers();
    let modes = ["noise", "bom", "crlf", "big", "split", "stderr_flood", "deaf"];
    let mut recipe = Recipe::bare().mount(servers.path());
    for mode in modes {
        recipe = recipe.server(&mode.replace('_', "-"), &servers, mode, "");
    }
    let _view = daemon.up("shop", &recipe.text());
    for mode in modes {
        let name = mode.replace('_', "-");
        let mut brain = daemon.brain("shop", &name);
        brain.greet();
        let text = brain.text("go", "{}");
        let right = if mode == "big" { text == "B".repeat(1 << 20) } else { text == "OK" };
        assert!(right, "{mode}: {} bytes", text.len());
        assert!(brain.text("count", "{}").starts_with("1 "), "{mode}");
    }
    let log = daemon.does(&["logs", "shop", "noise"]).expect(0).text();
    for line in ["Starting v1.0 ...", "[hooks] router initialized", "\\x1b[32mINFO\\x1b[0m"] {
        assert!(log.contains(line), "{line}: {log}");
    }
    // A flood is kept within bounds, and within lines.
    let flood = daemon.does(&["logs", "shop", "stderr-flood"]).expect(0);
    assert!(flood.stdout.len() < 9 << 20, "{}", flood.stdout.len());
    // Large arguments pass too; what is longer than any message may be is an error for its own call.
    let mut brain = daemon.brain("shop", "noise");
    brain.greet();
    let filler = "x".repeat(3 << 20);
    assert_eq!(brain.text("go", &format!("{{\"filler\":\"{filler}\"}}")), "OK");
    let answer = brain.calls("go", &format!("{{\"filler\":\"{}\"}}", "x".repeat(17 << 20)));
    assert!(error(&answer).1.contains("16777216"), "{answer}");
    assert_eq!(brain.text("go", "{}"), "OK");
}

#[test]
fn what_is_no_message_is_answered_and_harms_nobody() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, "good", "");
    let mut brain = greeted(&daemon);
    for (line, code) in [
        ("{", -32_700),
        ("nonsense", -32_700),
        ("[]", -32_600),
        ("{\"jsonrpc\":\"2.0\"}", -32_600),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32_600),
    ] {
        brain.send(line);
        let answer: Value = serde_json::from_str(&brain.line()).unwrap();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&Value::Null, &json!(code)),
            "{line}"
        );
    }
    assert_eq!(brain.text("go", "{}"), "OK");
}

#[test]
fn rm_ends_a_deaf_server_with_all_it_started_and_tells_who_waits() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, "deaf", "");
    let mut brain = greeted(&daemon);
    assert_eq!(brain.text("linger", r#"{"count":3}"#), "OK");
    assert_eq!(daemon.named("python3").len(), 4);
    let id = brain.begins("hang", "{}");
    eventually("the server works on it", || {
        daemon.does(&["logs", "shop", "tracker"]).text().contains("rate limited")
    });
    let begun = Instant::now();
    daemon.remove("shop");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(daemon.named("python3"), []);
    assert_eq!(daemon.named("supervisor"), []);
    let answer = brain.answer(id);
    assert!(error(&answer).1.contains("tracker"), "{answer}");
    // And who asks later.
    let id = brain.begins("go", "{}");
    assert!(brain.answer(id)["error"]["message"].is_string());
}

#[test]
fn a_server_that_closes_with_its_last_brain_is_not_ended_in_a_call_of_another() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = session(&host, "good", "concurrency = 4\n");
    let (mut one, mut two) = (greeted(&daemon), greeted(&daemon));
    let before = two.text("count", "{}");
    one.begins("hang", "{}");
    // A brain that is killed in its call, and one that leaves.
    one.stub().signal(Signal::SIGKILL);
    drop(one);
    let third = greeted(&daemon);
    third.leaves().done();
    let after = two.text("count", "{}");
    assert_eq!(after.split(' ').nth(1), before.split(' ').nth(1));
}
