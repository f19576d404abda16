//! Nothing lost, nothing changed: bytes, ids, lengths.
//!
//! Runs in: tests (tokio).

use relay::host::{LogStream, ServerSettings};

use crate::harness::{Host, call, initialize, refusal, settings};

/// What a parser that builds values would change.
const ODD: &str = r#"{"z":1,"a":9007199254740993,"f":1.10,"e":1E400,"z":2,"s":"\ud800 \/ é \u00e9", "w" : [ 1 ,2 ] }"#;

#[tokio::test]
async fn params_and_results_pass_byte_for_byte() {
    let mut host = Host::played(settings());
    let (mut client, mut child) = host.pair().await;
    let head = r#"{"params":"#;
    client
        .send(&format!(
            r#"  {head}{ODD}, "x-own":1.0, "id" : 7,"method":"tools\/call","jsonrpc":"2.0"}}"#
        ))
        .await;
    let (id, line) = child.request().await;
    let expected = format!(
        r#"{head}{ODD}, "x-own":1.0, "id" : "{id}","method":"tools\/call","jsonrpc":"2.0"}}"#
    );
    assert_eq!(line, expected);
    child.say(&format!(r#"{{"result":{ODD},"jsonrpc":"2.0","x":{ODD},"id":"{id}"}}"#)).await;
    client.expect(&format!(r#"{{"result":{ODD},"jsonrpc":"2.0","x":{ODD},"id":7}}"#)).await;

    client.send(r#"{"jsonrpc":"2.0","id":8,"method":"x"}"#).await;
    let (id, _) = child.request().await;
    let error = format!(r#"{{"code":-1,"message":"m","data":{ODD}}}"#);
    child.say(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","error":{error}}}"#)).await;
    client.expect(&format!(r#"{{"jsonrpc":"2.0","id":8,"error":{error}}}"#)).await;
}

#[tokio::test]
async fn the_recorded_greeting_is_given_byte_for_byte() {
    let mut host = Host::played(settings());
    let mut first = host.connect();
    first.send(&initialize("0", "{}")).await;
    let mut child = host.child().await;
    let (id, line) = child.request().await;
    assert_eq!(line, initialize(&format!("\"{id}\""), "{}"));
    child.answer(&id, ODD).await;
    first.expect(&format!(r#"{{"jsonrpc":"2.0","id":0,"result":{ODD}}}"#)).await;
    let mut second = host.connect();
    second.send(&initialize("\"\"", "{}")).await;
    second.expect(&format!(r#"{{"jsonrpc":"2.0","id":"","result":{ODD}}}"#)).await;
}

#[tokio::test]
async fn each_client_gets_its_own_ids_back_with_their_type() {
    let mut host = Host::played(ServerSettings { concurrency: 100, ..settings() });
    let (mut one, mut child) = host.pair().await;
    let mut two = host.connect();
    two.send(&initialize("\"0\"", "{}")).await;
    two.take().await;
    let ids = ["0", "\"\"", "-1", "1", "\"1\"", "1.0", "9007199254740993", r#""a\"\u0062""#];
    let mut asked = Vec::new();
    for id in ids {
        for (number, client) in [&mut one, &mut two].into_iter().enumerate() {
            client.send(&call(id, &format!("t{number}"))).await;
            asked.push((number, id, child.request().await));
        }
    }
    // Answered backwards, so that order proves nothing.
    for (number, id, (own, line)) in asked.into_iter().rev() {
        assert!(line.contains(&format!("\"t{number}\"")), "{line}");
        child.answer(&own, &format!("[{number},{id}]")).await;
        let client = if number == 0 { &mut one } else { &mut two };
        client.expect(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":[{number},{id}]}}"#)).await;
    }
}

#[tokio::test]
async fn lines_up_to_the_bound_pass_whole_both_ways() {
    let mut host = Host::played(settings());
    let (mut client, mut child) = host.pair().await;
    for length in [65_535, 65_536, 1 << 20, 15 << 20] {
        let text = "x".repeat(length);
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"t":"{text}"}}}}"#);
        let (_, (id, seen)) = tokio::join!(client.send(&line), child.request());
        assert!(
            seen.ends_with(&format!(r#""method":"m","params":{{"t":"{text}"}}}}"#)),
            "{length}"
        );
        let result = format!("\"{text}\"");
        let (_, answer) = tokio::join!(child.answer(&id, &result), client.take());
        assert!(answer == format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{text}"}}"#), "{length}");
    }
}

#[tokio::test]
async fn what_is_no_message_is_refused_and_the_next_one_works() {
    let mut host = Host::played(settings());
    let (mut client, mut child) = host.pair().await;
    for (line, code, id) in [
        (&b"{\"jsonrpc\""[..], -32_700, "null"),
        (b"hello", -32_700, "null"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32_700, "1"),
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":\"a\",\"params\":{", -32_700, "\"a\""),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"tools/call"}]"#, -32_600, "null"),
        (b"[]", -32_600, "null"),
        (br#"{"id":5,"method":"tools/call"}"#, -32_600, "5"),
        (br#"{"jsonrpc":"2.0","id":null,"method":"tools/call"}"#, -32_600, "null"),
        (br#"{"jsonrpc":"2.0","id":{},"method":"tools/call"}"#, -32_600, "null"),
    ] {
        client.send_raw(&[line, b"\r\n\n"].concat()).await;
        let answer = client.json().await;
        assert_eq!(refusal(&answer).0, code, "{answer}");
        assert_eq!(answer["id"].to_string(), id);
        assert_eq!(answer["error"]["data"]["origin"], "relay");
    }
    client.send_raw(format!("\u{feff}{}\r\n", call("2", "t")).as_bytes()).await;
    let (id, line) = child.request().await;
    assert_eq!(line, call(&format!("\"{id}\""), "t"));
    child
        .say_raw(format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"result\":1}}\r\n").as_bytes())
        .await;
    client.expect(r#"{"jsonrpc":"2.0","id":2,"result":1}"#).await;
}

#[tokio::test]
async fn a_line_over_the_bound_costs_only_its_own_request() {
    let mut host = Host::played(ServerSettings { max_frame: 100_000, ..settings() });
    let (mut client, mut child) = host.pair().await;
    let long = "x".repeat(300_000);

    // From a client, with the id at the head and at the end.
    client.send(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":"{long}"}}"#)).await;
    let answer = client.json().await;
    assert_eq!((refusal(&answer).0, &answer["id"]), (relay::code::FRAME, &1.into()));
    client.send(&format!(r#"{{"params":"{long}","method":"m","jsonrpc":"2.0","id":"z"}}"#)).await;
    let answer = client.json().await;
    assert_eq!((refusal(&answer).0, &answer["id"]), (relay::code::FRAME, &"z".into()));

    // From the child, the same.
    for (id, tail) in [(2, false), (3, true)] {
        client.send(&call(&id.to_string(), "t")).await;
        let (own, _) = child.request().await;
        child
            .say(&if tail {
                format!(r#"{{"jsonrpc":"2.0","result":"{long}","id":"{own}"}}"#)
            } else {
                format!(r#"{{"jsonrpc":"2.0","id":"{own}","result":"{long}"}}"#)
            })
            .await;
        let answer = client.json().await;
        assert_eq!((refusal(&answer).0, &answer["id"]), (relay::code::FRAME, &id.into()));
    }
    host.book.wait(LogStream::Relay, "more than 100000 bytes").await;

    client.send(&call("4", "t")).await;
    let (own, _) = child.request().await;
    child.answer(&own, "{}").await;
    client.expect(r#"{"jsonrpc":"2.0","id":4,"result":{}}"#).await;
}
