//! The life of the child: started once, replayed, given up, ended.
//!
//! Runs in: tests (tokio).

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use relay::code;
use relay::host::{Ending, LogStream, ServeError, ServerSettings, State};

use crate::harness::{Host, INITIALIZED, call, greeting, initialize, refusal, settings, soon};

#[tokio::test]
async fn fifty_first_clients_make_one_child() {
    let mut host = Host::played(settings());
    assert_eq!(host.server.status().state, State::Absent);
    let mut clients = Vec::new();
    for number in 0..50 {
        let mut client = host.connect();
        client.send(&initialize(&number.to_string(), "{}")).await;
        clients.push(client);
    }
    let mut child = host.child().await;
    child.greet("{}").await;
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.json().await["id"], number);
    }
    // A later one is answered without the child, and one word finishes the handshake for all.
    let mut late = host.connect();
    late.send(&initialize("\"late\"", "{}")).await;
    late.expect(&format!(r#"{{"jsonrpc":"2.0","id":"late","result":{}}}"#, greeting("{}"))).await;
    for client in &mut clients {
        client.send(INITIALIZED).await;
    }
    late.send(INITIALIZED).await;
    late.send(&call("1", "t")).await;
    assert_eq!(child.take().await, INITIALIZED);
    assert!(child.take().await.contains("tools/call"));
    assert!(!host.has_child());
    assert_eq!(host.server.status().incarnation, 1);
}

#[tokio::test]
async fn a_server_keeps_its_state_between_calls_and_clients() {
    let host = Host::naughty("good");
    let (mut one, mut two) = (host.greeted().await, host.greeted().await);
    assert_eq!(one.text("a", "count").await, "1");
    assert_eq!(two.text("a", "count").await, "2");
    drop(one);
    drop(two);
    assert_eq!(host.greeted().await.text("a", "count").await, "3");
    assert_eq!(host.pids().len(), 1);
    assert_eq!(host.server.status().pid, Some(host.pids()[0]));
}

#[tokio::test]
async fn a_request_without_a_child_starts_it_again_with_the_same_greeting() {
    let mut host = Host::played(settings());
    let (mut client, mut child) = host.pair().await;
    client.send(&call("1", "t")).await;
    child.request().await;
    child.complain("disk full").await;
    host.book.wait(LogStream::Stderr, "disk full").await;
    child.exit(Ending::Code(9));
    let answer = client.json().await;
    let (number, text) = refusal(&answer);
    assert_eq!((number, &answer["id"]), (code::ENDED, &1.into()));
    assert_eq!(
        text,
        "relay: \"tracker\" ended with status 9 before it answered tools/call; \
         its last error output: \"disk full\""
    );
    child.ordered("kill").await;
    assert!(!host.has_child(), "nobody needs a child yet");

    client.send(&call("2", "t")).await;
    let mut child = host.child().await;
    let line = child.greet("{}").await;
    let (id, _) = line.split_once("\"method\"").unwrap();
    assert!(line.contains(r#""clientInfo":{"name":"test","version":"1"}"#) && id.contains("g2-"));
    assert_eq!(child.take().await, INITIALIZED);
    let (own, line) = child.request().await;
    assert!(line.contains("tools/call") && own.starts_with("g2-"), "{line}");
    child.answer(&own, "{}").await;
    client.expect(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
}

#[tokio::test]
async fn an_answer_of_a_dead_incarnation_reaches_nobody() {
    let mut host = Host::played(settings());
    let (mut client, mut child) = host.pair().await;
    client.send(&call("1", "t")).await;
    let (old, _) = child.request().await;
    child.exit(Ending::Signal(9));
    assert_eq!(refusal(&client.json().await).0, code::ENDED);
    client.send(&call("1", "t")).await;
    let mut child = host.child().await;
    child.greet("{}").await;
    child.take().await;
    let (own, _) = child.request().await;
    child.answer(&old, "\"STALE\"").await;
    host.book.wait(LogStream::Relay, "it belongs to incarnation 1").await;
    child.answer(&own, "\"fresh\"").await;
    child.answer(&own, "\"twice\"").await;
    client.expect(r#"{"jsonrpc":"2.0","id":1,"result":"fresh"}"#).await;
    host.book.wait(LogStream::Relay, "late, cancelled or given twice").await;
    client.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).await;
    let (own, _) = child.request().await;
    child.answer(&own, "{}").await;
    client.expect(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).await;
}

#[tokio::test]
async fn calls_that_were_not_sent_wait_for_the_next_child() {
    let mut host = Host::played(settings());
    let (mut client, mut child) = host.pair().await;
    for id in 1..=3 {
        client.send(&call(&id.to_string(), "t")).await;
    }
    child.request().await;
    child.exit(Ending::Code(0));
    let mut child = host.child().await;
    assert_eq!(refusal(&client.json().await).0, code::ENDED);
    child.greet("{}").await;
    child.take().await;
    for id in 2..=3 {
        let (own, _) = child.request().await;
        child.answer(&own, "{}").await;
        client.expect(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)).await;
    }
}

#[tokio::test]
async fn clients_are_told_when_a_restarted_server_says_something_else() {
    let host = Host::naughty("changes");
    let mut client = host.greeted().await;
    client.text("a", "echo").await;
    kill(Pid::from_raw(i32::try_from(host.pids()[0]).unwrap()), Signal::SIGKILL).unwrap();
    host.book.wait(LogStream::Relay, "ended with signal 9").await;
    client.send(&call("\"b\"", "echo")).await;
    let told = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let lines = [client.take().await, client.take().await];
    assert!(lines.iter().any(|line| line == told), "{lines:?}");
    assert_eq!(host.pids().len(), 2);
    let hello = host.greeted();
    assert!(hello.await.call("c", "echo").await["result"].is_object());
}

#[tokio::test]
async fn a_server_that_ends_again_and_again_is_left_alone() {
    let host = Host::naughty("crash_at_start");
    let mut client = host.connect();
    let mut codes = Vec::new();
    for id in 0..3 {
        client.send(&initialize(&id.to_string(), "{}")).await;
        let answer = client.json().await;
        let (number, text) = refusal(&answer);
        assert!(text.contains("its last error output: \"no configuration found\""), "{text}");
        codes.push(number);
    }
    assert_eq!(codes, [code::START, code::START, code::LOOP]);
    assert_eq!(host.pids().len(), 5);
    assert_eq!(host.server.status().state, State::Broken);
    let begun = Instant::now();
    client.send(&initialize("9", "{}")).await;
    let (number, text) = refusal(&client.json().await);
    assert_eq!(number, code::LOOP);
    assert!(text.contains("was started 5 times within 60 s"), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn a_server_that_comes_up_at_the_third_try_is_waited_for() {
    let host = Host::naughty("crash_at_start_twice");
    let mut client = host.greeted().await;
    assert_eq!(client.text("a", "go").await, "OK");
    assert_eq!(host.pids().len(), 3);
}

#[tokio::test]
async fn a_server_that_cannot_be_started_says_why() {
    let host = Host::naughty("no_program");
    let mut client = host.connect();
    client.send(&initialize("0", "{}")).await;
    let (number, text) = refusal(&client.json().await);
    let expected = "relay: \"tracker\" could not be started: init: cannot execute nothing: ENOENT";
    assert_eq!((number, text.as_str()), (code::START, expected));
    assert_eq!(host.server.status().state, State::Absent);
}

#[tokio::test]
async fn the_childs_own_refusal_of_initialize_is_passed_on() {
    let host = Host::naughty("refuses_initialize");
    let mut client = host.connect();
    for id in 0..2 {
        client.send(&initialize(&id.to_string(), "{}")).await;
        let expected = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"not you"}}}}"#
        );
        client.expect(&expected).await;
    }
    assert_eq!(host.pids().len(), 2);
}

#[tokio::test]
async fn a_server_that_never_answers_initialize_is_given_up() {
    let limits = ServerSettings { start: Duration::from_millis(1_500), ..settings() };
    let host = Host::naughty_with("never_initializes", limits);
    let mut client = host.connect();
    client.send(&initialize("0", "{}")).await;
    let (number, text) = refusal(&client.json().await);
    assert_eq!(number, code::DEADLINE);
    assert_eq!(
        text,
        "relay: \"tracker\" gave no answer to initialize within 1.5 s (limit of this hop: \
         timeouts.start); its last error output: \"waiting for a database\""
    );
    host.book.wait(LogStream::Relay, "was ended").await;
    assert_eq!(host.server.status().state, State::Absent);
}

#[tokio::test]
async fn an_end_asks_first_and_then_insists() {
    let mut host = Host::played(settings());
    let (mut client, mut child) = host.pair().await;
    client.send(&call("1", "t")).await;
    client.send(&call("2", "t")).await;
    let (own, _) = child.request().await;
    let server = host.server.clone();
    let ending = tokio::spawn(async move { server.end().await });
    // What waits is answered at once, what runs may still be answered.
    let answer = client.json().await;
    assert_eq!((refusal(&answer).0, &answer["id"]), (code::CLOSED, &2.into()));
    assert_eq!(soon(child.lines.next_line()).await.unwrap(), None);
    child.answer(&own, "\"in time\"").await;
    client.expect(r#"{"jsonrpc":"2.0","id":1,"result":"in time"}"#).await;
    child.ordered("term").await;
    child.ordered("kill").await;
    drop(child);
    soon(ending).await.unwrap();
    assert_eq!(host.server.status().state, State::Ended);
    assert_eq!(client.rest().await, [""; 0]);
    assert!(matches!(soon(client.served).await.unwrap(), Err(ServeError::Ended)));
    let late = host.connect();
    assert!(matches!(soon(late.served).await.unwrap(), Err(ServeError::Ended)));
}

#[tokio::test]
async fn an_end_ends_a_server_that_ignores_everything() {
    let host = Host::naughty("ignore_everything");
    let mut client = host.greeted().await;
    client.text("a", "echo").await;
    let pid = Pid::from_raw(i32::try_from(host.pids()[0]).unwrap());
    soon(host.server.end()).await;
    assert!(kill(pid, None).is_err());
    assert_eq!(client.rest().await, [""; 0]);
}

#[tokio::test]
async fn what_runs_at_the_end_gets_an_error() {
    let host = Host::naughty("hang");
    let mut client = host.greeted().await;
    client.send(&call("1", "go")).await;
    host.book.wait(LogStream::Stderr, "rate limited").await;
    soon(host.server.end()).await;
    let (number, text) = refusal(&client.json().await);
    assert_eq!(number, code::ENDED);
    assert!(
        text.starts_with("relay: \"tracker\" was ended before it answered tools/call"),
        "{text}"
    );
}

#[tokio::test]
async fn an_end_during_the_start_leaves_no_child() {
    let host = Host::naughty("never_initializes");
    let mut client = host.connect();
    client.send(&initialize("0", "{}")).await;
    host.book.wait(LogStream::Stderr, "waiting").await;
    soon(host.server.end()).await;
    assert_eq!(refusal(&client.json().await).0, code::CLOSED);
    let pid = Pid::from_raw(i32::try_from(host.pids()[0]).unwrap());
    assert!(kill(pid, None).is_err());
}

#[tokio::test]
async fn a_server_that_nobody_holds_any_more_ends() {
    let host = Host::naughty("good");
    let mut client = host.greeted().await;
    client.text("a", "echo").await;
    let book = host.book.clone();
    drop(client);
    drop(host);
    book.wait(LogStream::Relay, "was ended").await;
}

#[tokio::test]
async fn a_greeting_given_with_the_last_breath_counts() {
    let mut host = Host::played(settings());
    let mut client = host.connect();
    client.send(&initialize("0", "{}")).await;
    client.send(&call("1", "t")).await;
    let mut child = host.child().await;
    child.greet("{}").await;
    child.exit(Ending::Code(0));
    client.expect(&format!(r#"{{"jsonrpc":"2.0","id":0,"result":{}}}"#, greeting("{}"))).await;
    // Whether or not the call met the first child, it was not read by it.
    let mut next = host.child().await;
    drop(child);
    next.greet("{}").await;
    next.take().await;
    let (own, line) = next.request().await;
    assert!(line.contains("tools/call"), "{line}");
    next.answer(&own, "{}").await;
    client.expect(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
}

#[tokio::test]
async fn what_a_dead_child_never_read_is_sent_to_the_next_one_and_nothing_else_is() {
    let mut host = Host::played(ServerSettings { concurrency: 9, ..settings() });
    let (mut client, mut child) = host.pair().await;
    client.send(&call("1", "read")).await;
    child.request().await;
    let filler = "x".repeat(200_000);
    let line = |id: &str| {
        format!(
            r#"{{"params":{{"name":"t","_meta":{{"progressToken":0}},"a":"{filler}","n":1.10}}, "id":{id},"method":"tools/call","jsonrpc":"2.0"}}"#
        )
    };
    for id in ["2", "\"3\""] {
        client.send(&line(id)).await;
    }
    client.send(r#"{"jsonrpc":"2.0","id":4,"method":"resources/list"}"#).await;
    client.send(r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"t"}}"#).await;
    let sent = async {
        while host.server.status().running < 4 {
            tokio::task::yield_now().await;
        }
    };
    soon(sent).await;
    child.exit(Ending::Code(0));
    // The first child's end of the pipe is still open in the test: the relay has to have looked already.
    let mut next = host.child().await;
    drop(child);
    let answer = client.json().await;
    assert_eq!((refusal(&answer).0, &answer["id"]), (code::ENDED, &1.into()));
    next.greet("{}").await;
    next.take().await;
    let (own, seen) = next.request().await;
    assert_eq!(seen, format!(r#"{{"jsonrpc":"2.0","id":"{own}","method":"resources/list"}}"#));
    for id in ["2", "\"3\""] {
        let (own, seen) = next.request().await;
        let expected =
            line(&format!("\"{own}\"")).replace(r#"Token":0"#, &format!(r#"Token":"{own}""#));
        assert!(seen == expected, "{id}");
        next.answer(&own, "{}").await;
        client.expect(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)).await;
    }
}

#[tokio::test]
async fn a_spawner_that_panics_leaves_nobody_waiting() {
    let host = Host::naughty("panics");
    let mut client = host.connect();
    client.send(&initialize("0", "{}")).await;
    assert_eq!(refusal(&client.json().await).0, code::CLOSED);
    assert_eq!(client.rest().await, [""; 0]);
    soon(host.server.end()).await;
}

#[tokio::test]
async fn a_client_that_sends_all_at_once_has_its_requests_wait_for_the_greeting() {
    let mut host = Host::played(settings());
    let mut client = host.connect();
    let all = [initialize("0", "{}"), INITIALIZED.to_owned(), call("1", "t"), String::new()];
    client.send_raw(all.join("\n").as_bytes()).await;
    let mut child = host.child().await;
    child.greet("{}").await;
    assert_eq!(child.take().await, INITIALIZED);
    let (own, _) = child.request().await;
    child.answer(&own, "{}").await;
    assert_eq!(client.json().await["id"], 0);
    assert_eq!(client.json().await["id"], 1);
}
