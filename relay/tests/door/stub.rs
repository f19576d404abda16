//! The client's side: the stub and single calls.
//!
//! Runs in: tests (tokio).

use std::time::Duration;

use relay::code;
use relay::host::{Ending, ServerSettings};
use relay::stub::{StubError, call, list_tools, refuse, run};
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::UnixStream;

use crate::harness::{Host, INITIALIZED, initialize, settings, soon};

/// Connects to a server as a stub would.
fn connect(host: &Host) -> UnixStream {
    let (near, far) = UnixStream::pair().unwrap();
    let server = host.server.clone();
    tokio::spawn(async move { server.serve(far).await });
    near
}

async fn lines(mut stdout: DuplexStream) -> Vec<serde_json::Value> {
    let mut text = String::new();
    soon(stdout.read_to_string(&mut text)).await.unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_default()).collect()
}

#[tokio::test]
async fn a_stub_is_a_server_on_stdio_and_passes_the_last_answers_after_the_end_of_input() {
    let host = Host::naughty("good");
    let (stdout, far) = tokio::io::duplex(1 << 20);
    let input = [
        initialize("0", "{}"),
        INITIALIZED.to_owned(),
        r#"{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"count"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count"}}"#.to_owned(),
    ]
    .join("\n");
    let (ended, answers) =
        tokio::join!(soon(run(input.as_bytes(), stdout, connect(&host))), lines(far));
    ended.unwrap();
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[1]["result"]["content"][0]["text"], "1", "{answers:?}");
    assert_eq!((&answers[1]["id"], &answers[2]["id"]), (&"1".into(), &1.into()));
}

#[tokio::test]
async fn a_stub_that_loses_its_connection_answers_what_is_open_and_what_comes() {
    let (mut input, stdin) = tokio::io::duplex(1 << 20);
    let (stdout, far) = tokio::io::duplex(1 << 20);
    let (near, mut relay) = UnixStream::pair().unwrap();
    let stub = tokio::spawn(run(stdin, stdout, near));
    let sent = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"a\"}\n{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"b\"}\n";
    input.write_all(sent.as_bytes()).await.unwrap();
    let mut seen = vec![0; sent.len()];
    soon(relay.read_exact(&mut seen)).await.unwrap();
    assert_eq!(seen, sent.as_bytes());
    relay
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":1}\n{\"jsonrpc\":\"2.0\",\"id\":\"x")
        .await
        .unwrap();
    drop(relay);
    input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"c\"}\n").await.unwrap();
    drop(input);
    let answers = lines(far).await;
    assert!(matches!(soon(stub).await.unwrap(), Err(StubError::Lost)));
    // The answer, the torn one, and an error for each of the others.
    assert_eq!(answers[0]["result"], 1);
    assert!(answers[1].is_null());
    for (answer, id) in answers[2..].iter().zip([serde_json::json!("x"), serde_json::json!(2)]) {
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &code::CONNECTION.into()));
    }
    assert_eq!(answers.len(), 4);
}

#[tokio::test]
async fn a_stub_without_a_connection_says_why_to_every_request() {
    let (stdout, far) = tokio::io::duplex(1 << 20);
    let input = format!(
        "{}\n{INITIALIZED}\n{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}",
        initialize("0", "{}")
    );
    let reason = "client: no session \"shop\"";
    let (ended, answers) = tokio::join!(refuse(input.as_bytes(), stdout, reason), lines(far));
    ended.unwrap();
    assert_eq!(answers.len(), 2);
    for answer in answers {
        assert_eq!(answer["error"]["message"], reason);
    }
}

#[tokio::test]
async fn a_single_call_returns_the_result_as_it_is() {
    let host = Host::naughty("good");
    let arguments =
        RawValue::from_string("{\"n\": 9007199254740993,\n \"f\":1.10}".to_owned()).unwrap();
    let outcome = call(connect(&host), "echo", arguments, Duration::from_secs(15)).await.unwrap();
    assert!(!outcome.is_error);
    let expected =
        r#"{"content":[{"type":"text","text":"{\"n\": 9007199254740993, \"f\": 1.1}"}]}"#;
    assert_eq!(outcome.result.get(), expected);
    let tools = list_tools(connect(&host), Duration::from_secs(15)).await.unwrap();
    assert_eq!(tools[0].get(), r#"{"name":"go","inputSchema":{"type":"object"}}"#);
}

#[tokio::test]
async fn a_single_call_reports_errors_pages_and_time() {
    let mut host = Host::played(settings());
    let (_client, mut child) = host.pair().await;
    let pages = tokio::spawn(list_tools(connect(&host), Duration::from_secs(15)));
    let (own, line) = child.request().await;
    assert!(line.ends_with(r#""method":"tools/list","params":{}}"#), "{line}");
    child.answer(&own, r#"{"tools":[{"name":"a"}],"nextCursor":"p\/2"}"#).await;
    let (own, line) = child.request().await;
    assert!(line.contains(r#""params":{"cursor":"p\/2"}"#), "{line}");
    child.answer(&own, r#"{"tools":[{"name":"b"}]}"#).await;
    assert_eq!(pages.await.unwrap().unwrap().len(), 2);

    let none = || RawValue::from_string("{}".to_owned()).unwrap();
    let failed = tokio::spawn(call(connect(&host), "t\"x", none(), Duration::from_secs(15)));
    let (own, line) = child.request().await;
    assert!(line.contains(r#"{"name":"t\"x","arguments":{}}"#), "{line}");
    child.answer(&own, r#"{"isError":true,"content":[]}"#).await;
    assert!(failed.await.unwrap().unwrap().is_error);

    let late = call(connect(&host), "t", none(), Duration::from_millis(200)).await;
    assert!(matches!(late, Err(StubError::Late(_))), "{late:?}");
    child.exit(Ending::Code(1));

    let gone = Host::naughty_with("no_program", ServerSettings { ..settings() });
    let refused = call(connect(&gone), "t", none(), Duration::from_secs(15)).await;
    assert!(matches!(&refused, Err(StubError::Refused { code: code::START, .. })), "{refused:?}");
}
