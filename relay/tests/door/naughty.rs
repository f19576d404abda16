//! Real children that misbehave: the call is answered, or gets a clear error, and the next one works.
//!
//! Runs in: tests (tokio).

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use relay::code;
use relay::host::{LogStream, ServerSettings};

use crate::harness::{Client, Host, call, settings, soon};

/// The next call of the same client works, whatever was before.
async fn still_works(client: &mut Client) {
    let answer = client.call("next", "echo").await;
    assert_eq!(answer["result"]["content"][0]["text"], "{}", "{answer}");
}

#[tokio::test]
async fn noise_and_odd_framing_cost_no_answer() {
    for (mode, text) in [
        ("good", "OK"),
        ("noise_start", "OK"),
        ("noise_mid", "OK"),
        ("bom", "OK"),
        ("crlf", "OK"),
        ("prefix", "OK"),
        ("suffix", "OK"),
        ("two_in_a_line", "OK"),
        ("note_before_initialize", "OK"),
        ("stderr_flood_start", "OK"),
        ("stderr_flood", "OK"),
        ("split", "OK\u{e9}\u{4e16}\u{1F600}"),
        ("glued", "OK"),
        ("separators", "OK\u{2028}x\u{2029}y\u{85}z"),
        ("nul", "OK\0end"),
        ("unknown_id_first", "OK"),
        ("duplicate", "OK"),
        ("null_id", "OK"),
        ("batch", "OK"),
        ("answers_notes", "OK"),
        ("ignore_eof", "OK"),
        ("ignore_term", "OK"),
        ("slow_start", "OK"),
    ] {
        let host = Host::naughty(mode);
        let mut client = host.greeted().await;
        assert_eq!(client.text("a", "go").await, text, "{mode}");
        still_works(&mut client).await;
        assert_eq!(host.pids().len(), 1, "{mode}");
        soon(host.server.end()).await;
    }
}

#[tokio::test]
async fn noise_goes_to_the_log() {
    let host = Host::naughty("noise_start");
    host.greeted().await;
    for line in ["Starting v1.0 ...", "INFO", "{", "{\"not\":\"jsonrpc\"}", "null"] {
        host.book.wait(LogStream::Noise, line).await;
    }
    let host = Host::naughty("prefix");
    host.greeted().await.text("a", "go").await;
    host.book.wait(LogStream::Noise, "progress 50%").await;
    let limits = ServerSettings { start: Duration::from_secs(3), ..settings() };
    let host = Host::naughty_with("content_length", limits);
    let mut client = host.connect();
    client.send(&crate::harness::initialize("0", "{}")).await;
    host.book.wait(LogStream::Relay, "by Content-Length").await;
    assert_eq!(crate::harness::refusal(&client.json().await).0, code::DEADLINE);
}

#[tokio::test]
async fn a_lone_surrogate_passes() {
    let host = Host::naughty("surrogate");
    let mut client = host.greeted().await;
    client.send(&call("1", "go")).await;
    client
        .expect(
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"OK\ud800"}]}}"#,
        )
        .await;
    still_works(&mut client).await;
}

#[tokio::test]
async fn answers_of_any_length_up_to_the_bound_arrive() {
    for length in [65_536, 70_000, 1_100_000, 12_000_000] {
        let host = Host::naughty(&format!("big:{length}"));
        let mut client = host.greeted().await;
        assert_eq!(client.text("a", "go").await.len(), length);
        still_works(&mut client).await;
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_passed_on_is_an_error_for_its_call_alone() {
    for (mode, part) in [
        ("big:17000000", "more than 16777216 bytes"),
        ("bad_utf8", "invalid UTF-8"),
        ("bad_json", "no JSON-RPC message"),
        ("empty_answer", "no JSON-RPC message"),
    ] {
        let host = Host::naughty(mode);
        let mut client = host.greeted().await;
        let (number, text) = client.refusal("a", "go").await;
        assert_eq!(number, code::FRAME, "{mode}");
        assert!(text.contains(part), "{mode}: {text}");
        still_works(&mut client).await;
        assert_eq!(host.pids().len(), 1, "{mode}");
    }
}

#[tokio::test]
async fn a_child_that_ends_in_a_call_is_named_and_the_next_call_has_a_new_one() {
    for (mode, part) in [
        (
            "die_mid",
            "ended with status 9 before it answered tools/call; its last error output: \"about to fail | fatal: token is [redacted]\"",
        ),
        ("die_half_line", "ended with status 9 before it answered tools/call"),
        ("killed", "ended with signal 9 before it answered tools/call"),
        ("close_stdout", "closed its output before it answered tools/call"),
        ("grandchild", "ended with status 0 before it answered tools/call"),
    ] {
        let host = Host::naughty(mode);
        let mut client = host.greeted().await;
        let (number, text) = client.refusal("a", "go").await;
        assert_eq!(number, code::ENDED, "{mode}");
        assert!(text.contains(part), "{mode}: {text}");
        still_works(&mut client).await;
        assert_eq!(host.pids().len(), 2, "{mode}");
    }
}

#[tokio::test]
async fn an_answer_given_with_the_last_breath_counts() {
    for mode in ["reply_then_die", "reply_unended_then_die"] {
        let host = Host::naughty(mode);
        let mut client = host.greeted().await;
        for round in 1..4 {
            assert_eq!(client.text("a", "go").await, "OK", "{mode}");
            host.book.wait_for(LogStream::Relay, "ended with status 0", round).await;
            still_works(&mut client).await;
            assert_eq!(host.pids().len(), round + 1, "{mode}");
        }
    }
}

#[tokio::test]
async fn a_call_that_meets_an_ending_child_is_carried_out_once_or_gets_an_error() {
    let host = Host::naughty("reply_then_die");
    let mut client = host.greeted().await;
    assert_eq!(client.text("a", "go").await, "OK");
    // The child ends at this moment: it may have read the call, or not, or be gone already.
    let answer = client.call("b", "echo").await;
    if answer["error"].is_object() {
        assert_eq!(crate::harness::refusal(&answer).0, code::ENDED, "{answer}");
    }
    still_works(&mut client).await;
    assert_eq!(host.pids().len(), 2);
}

#[tokio::test]
async fn a_call_that_hangs_gets_an_error_with_the_last_words() {
    let limits = ServerSettings { call: Duration::from_millis(500), ..settings() };
    for mode in ["hang", "unended"] {
        let host = Host::naughty_with(mode, limits.clone());
        let mut client = host.greeted().await;
        let (number, text) = client.refusal("a", "go").await;
        assert_eq!(number, code::DEADLINE);
        let part = if mode == "hang" { "\"rate limited\"" } else { "bytes without a newline" };
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn a_child_that_dies_of_a_cancel_takes_nobody_along() {
    let host = Host::naughty("dies_of_cancel");
    let mut client = host.greeted().await;
    client.send(&call("1", "slow")).await;
    client.take().await;
    client.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hang"}}"#).await;
    client.take().await;
    let pid = host.pids()[0];
    let host_hang = Host::naughty("hang");
    let mut other = host_hang.greeted().await;
    other.send(&call("1", "go")).await;
    host_hang.book.wait(LogStream::Stderr, "rate limited").await;
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
    host.book.wait(LogStream::Relay, "ended with signal 9").await;
    still_works(&mut client).await;
    other
        .send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .await;
    still_works(&mut other).await;
}

#[tokio::test]
async fn a_question_of_the_child_with_the_clients_id_is_refused_at_once() {
    let host = Host::naughty("asks");
    let mut client = host.greeted().await;
    let begun = Instant::now();
    let text = client.text("7", "go").await;
    assert!(text.contains("-32601"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_great_argument_meets_a_flood_and_neither_waits_for_the_other() {
    let host = Host::naughty("floods_first");
    let mut client = host.greeted().await;
    let filler = "x".repeat(5_000_000);
    client.send(&call("\"flood\"", "go")).await;
    let big = format!(
        r#"{{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{{"name":"echo","arguments":"{filler}"}}}}"#
    );
    client.send(&big).await;
    assert_eq!(client.answer("flood").await["result"]["content"][0]["text"], "OK");
    let answer = client.answer("big").await;
    assert_eq!(answer["result"]["content"][0]["text"].as_str().unwrap().len(), filler.len() + 2);
}
