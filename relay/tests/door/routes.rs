//! Who gets what: cancels, progress, turns, notifications.
//!
//! Runs in: tests (tokio).

use relay::code;
use relay::host::{LogStream, ServerSettings};

use crate::harness::{Host, INITIALIZED, call, initialize, refusal, settings};

#[tokio::test]
async fn a_probe_of_the_new_era_is_refused_without_the_child_and_initialize_works_after_it() {
    let mut host = Host::played(settings());
    let mut client = host.connect();
    client.send(r#"{"jsonrpc":"2.0","id":"server-discover-probe-1","method":"server/discover","params":{"_meta":{}}}"#).await;
    let answer = client.json().await;
    assert_eq!((refusal(&answer).0, &answer["id"]), (-32_601, &"server-discover-probe-1".into()));
    client.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
    client.expect(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    client.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#).await;
    assert_eq!(refusal(&client.json().await).0, code::UNGREETED);
    assert!(!host.has_child());
    client.send(&initialize("0", "{}")).await;
    let mut child = host.child().await;
    child.greet("{}").await;
    assert!(client.json().await["result"].is_object());
}

#[tokio::test]
async fn a_cancel_names_the_request_as_the_child_knows_it() {
    let mut host = Host::played(settings());
    let (mut client, mut child) = host.pair().await;
    client.send(&call("7", "t")).await;
    let (own, _) = child.request().await;
    let cancel = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"reason":"é","requestId":{id}}}}}"#
        )
    };
    // Of another type, of nobody, of somebody else: not passed on.
    client.send(&cancel("\"7\"")).await;
    client.send(&cancel("8")).await;
    let mut other = host.connect();
    other.send(&initialize("7", "{}")).await;
    other.take().await;
    other.send(&cancel("7")).await;
    other.send(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#).await;
    let (ping, line) = child.request().await;
    assert!(line.contains("ping"), "{line}");
    child.answer(&ping, "{}").await;
    other.take().await;
    client.send(&cancel("7")).await;
    assert_eq!(child.take().await, cancel(&format!("\"{own}\"")));
    // The turn is free, and the late answer reaches nobody.
    client.send(&call("9", "t")).await;
    let (next, _) = child.request().await;
    child.answer(&own, "\"late\"").await;
    child.answer(&next, "\"next\"").await;
    client.expect(r#"{"jsonrpc":"2.0","id":9,"result":"next"}"#).await;
}

#[tokio::test]
async fn progress_goes_to_the_owner_of_the_token_under_its_own_token() {
    let mut host = Host::played(ServerSettings { concurrency: 9, ..settings() });
    let (mut one, mut child) = host.pair().await;
    let mut two = host.connect();
    two.send(&initialize("0", "{}")).await;
    two.take().await;
    let with = |token: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"_meta":{{"a":1.0,"progressToken":{token}}},"name":"t"}}}}"#
        )
    };
    one.send(&with("0")).await;
    two.send(&with("0")).await;
    one.send(&with("\"0\"")).await;
    for _ in 0..3 {
        let (own, line) = child.request().await;
        assert!(
            line.contains(&format!(r#""_meta":{{"a":1.0,"progressToken":"{own}"}}"#)),
            "{line}"
        );
        child.say(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progress":1.50,"progressToken":"{own}"}}}}"#)).await;
    }
    let told = |token: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progress":1.50,"progressToken":{token}}}}}"#
        )
    };
    let mut seen = [one.take().await, one.take().await];
    seen.sort();
    assert_eq!(seen, [told("\"0\""), told("0")]);
    two.expect(&told("0")).await;
    for stray in ["0", "\"g9-1\"", "\"g1-999\""] {
        child.say(&told(stray)).await;
    }
    host.book.wait(LogStream::Relay, "dropped progress of the child").await;
}

#[tokio::test]
async fn calls_are_sent_one_at_a_time_in_turns_and_nothing_else_waits_behind_them() {
    let mut host = Host::played(settings());
    let (mut busy, mut child) = host.pair().await;
    let mut quiet = host.connect();
    quiet.send(&initialize("0", "{}")).await;
    quiet.take().await;
    for id in 1..=4 {
        busy.send(&call(&id.to_string(), &format!("busy{id}"))).await;
    }
    let (mut own, line) = child.request().await;
    assert!(line.contains("busy1"));
    quiet.send(&call("1", "quiet1")).await;
    // Overtaking: ping, a list, a cancel of a waiting call.
    for method in ["ping", "tools/list", "logging/setLevel"] {
        quiet.send(&format!(r#"{{"jsonrpc":"2.0","id":2,"method":"{method}"}}"#)).await;
        let (id, line) = child.request().await;
        assert!(line.contains(method), "{line}");
        child.answer(&id, "{}").await;
        quiet.expect(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
    }
    busy.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#)
        .await;
    busy.send(r#"{"jsonrpc":"2.0","id":"sync","method":"ping"}"#).await;
    let (id, _) = child.request().await;
    child.answer(&id, "{}").await;
    busy.take().await;
    assert_eq!((host.server.status().waiting, host.server.status().running), (3, 1));
    for expected in ["busy2", "quiet1", "busy4"] {
        child.answer(&own, "{}").await;
        let (next, line) = child.request().await;
        assert!(line.contains(expected), "{expected}: {line}");
        own = next;
    }
    child.answer(&own, "{}").await;
    for id in [1, 2, 4] {
        assert_eq!(busy.json().await["id"], id);
    }
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_requests_along() {
    let mut host = Host::played(settings());
    let (mut stays, mut child) = host.pair().await;
    let mut leaves = host.connect();
    leaves.send(&initialize("0", "{}")).await;
    leaves.take().await;
    leaves.send(&call("1", "first")).await;
    let (own, _) = child.request().await;
    leaves.send(&call("2", "second")).await;
    stays.send(&call("1", "third")).await;
    drop(leaves);
    let line = child.take().await;
    assert!(line.contains("notifications/cancelled") && line.contains(&own), "{line}");
    let (own, line) = child.request().await;
    assert!(line.contains("third"), "{line}");
    child.answer(&own, "{}").await;
    stays.expect(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
}

#[tokio::test]
async fn a_client_that_closed_its_side_still_gets_its_answers() {
    let mut host = Host::played(settings());
    let (mut client, mut child) = host.pair().await;
    for id in 1..=2 {
        client.send(&call(&id.to_string(), "t")).await;
    }
    client.send_raw(call("3", "unended").as_bytes()).await;
    client.half_close().await;
    for _ in 1..=3 {
        let (own, _) = child.request().await;
        child.answer(&own, "{}").await;
    }
    assert_eq!(client.rest().await.len(), 3);
    assert!(client.served.await.unwrap().is_ok());
}

#[tokio::test]
async fn notifications_reach_every_greeted_client_and_no_other() {
    let mut host = Host::played(settings());
    let (mut one, mut child) = host.pair().await;
    let mut two = host.connect();
    two.send(&initialize("0", "{}")).await;
    two.take().await;
    let mut stranger = host.connect();
    child.say(r#"{"jsonrpc":"2.0","method":"notifications/own/thing"}"#).await;
    for method in [
        "message",
        "tools/list_changed",
        "prompts/list_changed",
        "resources/list_changed",
        "resources/updated",
    ] {
        let note = format!(
            r#"{{ "jsonrpc":"2.0","params":{{"n":1.10}},"method":"notifications/{method}"}}"#
        );
        child.say(&note).await;
        one.expect(&note).await;
        two.expect(&note).await;
    }
    host.book.wait(LogStream::Relay, "dropped notifications/own/thing").await;
    stranger.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
    stranger.expect(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;

    let changed = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    stranger.send(changed).await;
    two.send(changed).await;
    two.send(INITIALIZED).await;
    assert_eq!(child.take().await, changed);
    two.send(&call("1", "t")).await;
    assert!(child.take().await.contains("tools/call"));
}

#[tokio::test]
async fn a_request_before_the_word_initialized_is_preceded_by_it() {
    let mut host = Host::played(settings());
    let mut client = host.connect();
    client.send(&initialize("0", "{}")).await;
    let mut child = host.child().await;
    child.greet("{}").await;
    client.take().await;
    client.send(&call("1", "t")).await;
    assert_eq!(child.take().await, INITIALIZED);
    assert!(child.take().await.contains("tools/call"));
}
