//! What the log holds, and how much.
//!
//! Runs in: host (tests).

use std::os::unix::fs::PermissionsExt;

use super::super::harness::records;
use super::super::record::Traffic;
use super::*;

fn refusal(name: &str) -> Event {
    Event {
        name: Some(name.to_owned()),
        port: Some(443),
        reason: Some(Reason::NoRuleForName),
        fix: Some(format!("--allow {name}:443")),
        ..Event::new(Kind::Deny, Outcome::Deny, Proto::Tcp)
    }
}

fn audit(folder: &tempfile::TempDir) -> Audit {
    Audit::open("7f3a".to_owned(), &folder.path().join("egress.jsonl")).unwrap()
}

#[test]
fn a_record_is_in_the_file_when_the_call_returns_and_says_what_would_allow_it() {
    let folder = tempfile::tempdir().unwrap();
    let audit = audit(&folder);
    audit.note(refusal("api.example.com"));
    let found = records(audit.path());
    let [record] = found.as_slice() else { panic!("one record") };
    let expected = serde_json::json!({
        "v": 1, "seq": 1, "ts": record["ts"], "session": "7f3a", "id": 1, "ev": "deny",
        "name": "api.example.com", "port": 443, "proto": "tcp", "verdict": "deny",
        "reason": "no_rule_for_name", "fix": "--allow api.example.com:443",
    });
    assert_eq!(*record, expected);
    assert_eq!(record["ts"].as_str().unwrap().len(), 24);
    let mode = std::fs::metadata(audit.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn refusals_are_counted_and_told_in_the_order_of_their_first_time() {
    let folder = tempfile::tempdir().unwrap();
    let audit = audit(&folder);
    for name in ["b.example", "a.example", "b.example", "b.example"] {
        audit.note(refusal(name));
    }
    let allowed =
        Event { outcome: Outcome::Allow, reason: Some(Reason::Eof), ..refusal("c.example") };
    audit.note(Event { kind: Kind::Close, ..allowed });
    let told: Vec<_> =
        audit.refused().into_iter().map(|one| (one.host, one.count, one.id)).collect();
    assert_eq!(told, [("b.example".to_owned(), 3, 1), ("a.example".to_owned(), 1, 2)]);
}

#[test]
fn without_a_file_refusals_are_remembered_all_the_same() {
    let audit = Audit::unwritten("7f3a".to_owned());
    for _ in 0..3_000 {
        audit.note(refusal("a.example"));
    }
    audit.flush();
    assert_eq!(audit.refused().iter().map(|one| one.count).collect::<Vec<_>>(), [3_000]);
}

#[test]
fn beyond_the_rate_the_same_things_are_counted_and_written_once() {
    let folder = tempfile::tempdir().unwrap();
    let audit = audit(&folder);
    for number in 0..5_000 {
        audit.note(refusal(if number % 2 == 0 { "even.example" } else { "odd.example" }));
    }
    assert_eq!(records(audit.path()).len(), 1_000);
    audit.flush();
    let found = records(audit.path());
    let counts: Vec<_> = found.iter().filter_map(|record| record["count"].as_u64()).collect();
    assert_eq!(counts, [2_000, 2_000]);
    let order: Vec<_> = found.iter().map(|record| record["seq"].as_u64().unwrap()).collect();
    assert!(order.iter().copied().eq(1..=1_002), "never out of order");
    assert_eq!(audit.refused().iter().map(|one| one.count).sum::<u64>(), 5_000);
}

#[test]
fn a_flood_of_different_things_is_bounded_in_memory_and_still_counted() {
    let folder = tempfile::tempdir().unwrap();
    let audit = audit(&folder);
    for number in 0..10_000 {
        audit.note(refusal(&format!("{number}.example")));
    }
    assert_eq!(audit.refused().len(), MAX_REFUSALS);
    drop(audit);
    let found = records(&folder.path().join("egress.jsonl"));
    assert_eq!(found.len(), 1_000 + MAX_HELD + 1);
    let last = found.last().unwrap();
    assert_eq!(
        (&last["ev"], last["count"].as_u64()),
        (&"dropped".into(), Some(10_000 - 1_000 - 256))
    );
}

#[test]
fn a_text_is_cut_and_the_file_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let audit = audit(&folder);
    audit.note(refusal(&"ä".repeat(400)));
    let name = records(audit.path())[0]["name"].as_str().unwrap().to_owned();
    assert!(name.len() <= 256 && name.ends_with("ä…"), "{}", name.len());
    // Each window may write its records; a file of some days is what the size bounds.
    for _ in 0..60 {
        for _ in 0..1_000 {
            audit.note(refusal(&"x".repeat(250)));
        }
        audit.lock().written = 0;
    }
    let sizes: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .collect();
    assert!(sizes.len() == 2 && sizes.iter().sum::<u64>() <= SIZE, "{sizes:?}");
}

#[test]
fn traffic_is_summed_where_closes_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let audit = audit(&folder);
    let traffic = Some(Traffic { up: 1, down: 10, milliseconds: 100 });
    for _ in 0..1_003 {
        let close = Event { outcome: Outcome::Allow, traffic, ..refusal("a.example") };
        audit.note(Event { kind: Kind::Close, ..close });
    }
    audit.flush();
    let last = records(audit.path()).pop().unwrap();
    assert_eq!([&last["count"], &last["up"], &last["down"], &last["dur_ms"]], [3, 3, 30, 300]);
}
