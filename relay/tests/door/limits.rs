//! Nothing hung: limits of time, of what waits, of what is kept for those who do not read.
//!
//! Runs in: tests (tokio).

use std::time::{Duration, Instant};

use relay::code;
use relay::host::{LogStream, ServeError, ServerSettings};

use crate::harness::{Host, call, initialize, refusal, settings, soon};

#[tokio::test]
async fn a_call_without_an_answer_gets_an_error_and_the_next_one_works() {
    let limits = ServerSettings { call: Duration::from_millis(300), ..settings() };
    let mut host = Host::played(limits);
    let (mut client, mut child) = host.pair().await;
    client.send(&call("1", "t")).await;
    let (own, _) = child.request().await;
    child.complain("rate limited").await;
    child.say_raw(b"{\"half").await;
    let (number, text) = refusal(&client.json().await);
    assert_eq!(number, code::DEADLINE);
    assert_eq!(
        text,
        "relay: \"tracker\" gave no answer to tools/call within 300 ms (limit of this hop: \
         timeouts.call); it wrote 6 bytes without a newline after them; its last error output: \
         \"rate limited\""
    );
    let line = child.take().await;
    assert!(line.contains("notifications/cancelled") && line.contains(&own), "{line}");
    child.say_raw(b"\n").await;
    client.send(&call("2", "t")).await;
    let (next, _) = child.request().await;
    child.answer(&own, "\"late\"").await;
    child.answer(&next, "{}").await;
    client.expect(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
}

#[tokio::test]
async fn progress_keeps_a_call_alive_up_to_the_absolute_limit() {
    let limits = ServerSettings {
        call: Duration::from_millis(1_500),
        idle: Duration::from_millis(500),
        ..settings()
    };
    let mut host = Host::played(limits);
    let (mut client, mut child) = host.pair().await;
    client.send(&call("1", "t")).await;
    let (own, _) = child.request().await;
    let begun = Instant::now();
    let progress = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"{own}","progress":1}}}}"#
    );
    let mut beat = tokio::time::interval(Duration::from_millis(100));
    let answer = loop {
        tokio::select! {
            _ = beat.tick() => child.say(&progress).await,
            answer = client.json() => break answer,
        }
    };
    assert!(refusal(&answer).1.contains("timeouts.call"), "{answer}");
    assert!(begun.elapsed() >= Duration::from_millis(1_400), "{:?}", begun.elapsed());

    client.send(&call("2", "t")).await;
    let (_, text) = refusal(&client.json().await);
    assert!(
        text.contains("within 500 ms without progress (limit of this hop: timeouts.idle)"),
        "{text}"
    );
}

#[tokio::test]
async fn a_call_that_waits_for_a_person_is_not_idle() {
    let limits = ServerSettings { idle: Duration::from_millis(200), ..settings() };
    let mut host = Host::played(limits);
    let mut client = host.connect();
    client.send(&initialize("0", r#"{"elicitation":{}}"#)).await;
    let mut child = host.child().await;
    child.greet("{}").await;
    client.take().await;
    client.send(&call("1", "t")).await;
    child.take().await;
    let (own, _) = child.request().await;
    child.say(r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}"#).await;
    let id = client.json().await["id"].as_str().unwrap().to_owned();
    let quiet = tokio::time::timeout(Duration::from_millis(700), client.take()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    client.send(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{}}}}"#)).await;
    child.take().await;
    child.answer(&own, "{}").await;
    client.expect(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
}

#[tokio::test]
async fn more_than_may_wait_is_refused() {
    let mut host = Host::played(settings());
    let (mut client, mut child) = host.pair().await;
    for id in 0..1_026 {
        client.send(&call(&id.to_string(), "t")).await;
    }
    let answer = client.json().await;
    assert_eq!((refusal(&answer).0, &answer["id"]), (code::FULL, &1_025.into()));
    for _ in 0..1_025 {
        let (own, _) = child.request().await;
        child.answer(&own, "{}").await;
        assert!(client.json().await["result"].is_object());
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_let_go_and_holds_up_nobody() {
    let mut host = Host::played(settings());
    let (mut client, mut child) = host.pair().await;
    let mut deaf = host.connect();
    deaf.send(&initialize("0", "{}")).await;
    deaf.take().await;
    let filler = "x".repeat(1 << 20);
    let note =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":"{filler}"}}"#);
    for _ in 0..12 {
        let (_, line) = tokio::join!(child.say(&note), client.take());
        assert_eq!(line.len(), note.len());
    }
    assert!(matches!(soon(deaf.served).await.unwrap(), Err(ServeError::Slow)));
    host.book.wait(LogStream::Relay, "disconnected a client").await;
}

#[tokio::test]
async fn a_child_that_does_not_read_makes_requests_fail_not_hang() {
    let limits = ServerSettings { max_frame: 1 << 20, ..settings() };
    let mut host = Host::played(limits);
    let (mut client, child) = host.pair().await;
    let filler = "x".repeat(1_000_000);
    let big = |id| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/read","params":"{filler}"}}"#)
    };
    for id in 0..5 {
        client.send(&big(id)).await;
    }
    let answer = client.json().await;
    assert_eq!(refusal(&answer).0, code::FULL, "{answer}");
    drop(child);
}

#[tokio::test]
async fn a_call_that_waits_long_is_named_in_the_log() {
    let mut host = Host::played(settings());
    let (mut client, mut child) = host.pair().await;
    client.send(&call("1", "t")).await;
    let (own, _) = child.request().await;
    client.send(&call("\"second\"", "t")).await;
    let number = own.split_once('-').unwrap().1;
    let text = format!("waits over 5 s, behind call number {number}");
    host.book.wait(LogStream::Relay, &text).await;
    host.book.wait(LogStream::Relay, "second").await;
}

#[tokio::test]
async fn a_flood_of_questions_from_a_child_that_reads_nothing_is_bounded() {
    let mut host = Host::played(ServerSettings { max_frame: 10_000, ..settings() });
    let (mut client, mut child) = host.pair().await;
    for id in 0..5_000 {
        child.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#)).await;
    }
    host.book.wait(LogStream::Relay, "it does not read its input").await;
    // Once it reads again, all goes on.
    client.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
    let answer = async {
        loop {
            let line = child.take().await;
            if line.contains("\"ping\"") {
                return line;
            }
        }
    };
    let refused = client.json();
    tokio::select! {
        line = answer => assert!(line.contains("ping"), "{line}"),
        refused = refused => assert_eq!(refusal(&refused).0, code::FULL),
    }
}
