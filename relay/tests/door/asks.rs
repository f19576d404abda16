//! What the child asks its clients.
//!
//! Runs in: tests (tokio).

use relay::host::{Ending, LogStream};

use crate::harness::{Host, INITIALIZED, Played, call, initialize, settings};

async fn refused(child: &mut Played, method: &str) {
    child.say(&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}"}}"#)).await;
    let line = child.take().await;
    assert!(line.starts_with(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"#), "{line}");
}

#[tokio::test]
async fn what_nobody_can_answer_is_refused_at_once() {
    let mut host = Host::played(settings());
    let (_client, mut child) = host.pair().await;
    for method in ["roots/list", "sampling/createMessage", "elicitation/create", "own/thing"] {
        refused(&mut child, method).await;
    }
    child.say(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#).await;
    assert_eq!(child.take().await, r#"{"jsonrpc":"2.0","id":"p","result":{}}"#);
}

#[tokio::test]
async fn a_question_goes_to_the_client_that_can_answer_and_the_answer_comes_back() {
    let mut host = Host::played(settings());
    let mut able = host.connect();
    able.send(&initialize("7", r#"{"roots":{"listChanged":true},"sampling":{}}"#)).await;
    let mut child = host.child().await;
    child.greet("{}").await;
    able.take().await;
    able.send(INITIALIZED).await;
    child.take().await;
    let mut plain = host.connect();
    plain.send(&initialize("7", "{}")).await;
    plain.take().await;
    able.send(&call("7", "t")).await;
    child.request().await;

    // The child's id is the client's too: each side keeps its own.
    child.say(r#"{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"_meta":{"progressToken":3},"x":1.10}}"#).await;
    let line = able.take().await;
    let id = line.split('"').nth(7).unwrap().to_owned();
    assert_eq!(
        line,
        format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"roots/list","params":{{"_meta":{{"progressToken":"{id}"}},"x":1.10}}}}"#
        )
    );
    able.send(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"{id}","progress":1}}}}"#)).await;
    assert_eq!(
        child.take().await,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":1}}"#
    );
    // Somebody else's answer is none.
    plain.send(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":"forged"}}"#)).await;
    host.book.wait(LogStream::Relay, "dropped an answer of a client").await;
    able.send(&format!(r#"{{"jsonrpc":"2.0","result":{{"roots":[1.10]}},"id":"{id}"}}"#)).await;
    assert_eq!(child.take().await, r#"{"jsonrpc":"2.0","result":{"roots":[1.10]},"id":7}"#);
    refused(&mut child, "elicitation/create").await;
}

#[tokio::test]
async fn a_question_is_withdrawn_with_the_one_who_asked_or_was_asked() {
    let mut host = Host::played(settings());
    let mut client = host.connect();
    client.send(&initialize("0", r#"{"roots":{}}"#)).await;
    let mut child = host.child().await;
    child.greet("{}").await;
    client.take().await;
    client.send(INITIALIZED).await;
    child.take().await;
    let ask = r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#;

    // By the child itself.
    child.say(ask).await;
    let first = client.json().await["id"].as_str().unwrap().to_owned();
    child
        .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}"#)
        .await;
    client.expect(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"{first}"}}}}"#)).await;

    // By the client's leaving.
    child.say(ask).await;
    client.take().await;
    drop(client);
    let line = child.take().await;
    assert!(line.starts_with(r#"{"jsonrpc":"2.0","id":"q","error":{"code":53010"#), "{line}");

    // By the child's death.
    let mut client = host.connect();
    client.send(&initialize("0", r#"{"roots":{}}"#)).await;
    client.take().await;
    child.say(ask).await;
    let id = client.json().await["id"].as_str().unwrap().to_owned();
    child.exit(Ending::Code(1));
    let line = client.take().await;
    assert!(line.contains("notifications/cancelled") && line.contains(&id), "{line}");
}
