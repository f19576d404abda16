//! The table of what is answered.
//!
//! Runs in: host (tests).

use super::super::harness::{Fake, door, records};
use super::super::wire::{Received, Transport, read};
use super::*;
use hickory_proto::op::{Message, Query};
use std::str::FromStr;

struct Asked {
    folder: tempfile::TempDir,
    world: Fake,
    door: Door,
}

fn asked(own: &[&str], tracker: &[&str]) -> Asked {
    let (folder, world) = (tempfile::tempdir().unwrap(), Fake::default());
    let door = door(folder.path(), world.clone(), own, tracker);
    Asked { folder, world, door }
}

impl Asked {
    fn ask_from(&self, source: &str, name: &str, kind: RecordType) -> Answer {
        let mut message = Message::query();
        message.add_query(Query::query(Name::from_str(name).unwrap(), kind));
        let Received::Question(question) = read(&message.to_vec().unwrap()) else {
            panic!("no question")
        };
        let side = self.door.side_of(source.parse().unwrap()).unwrap();
        let answer = answer(&self.door, side, &question);
        assert!(question.answer(answer.clone(), Transport::Udp).is_some());
        answer
    }

    fn ask(&self, name: &str, kind: RecordType) -> Answer {
        self.ask_from("127.0.0.1", name, kind)
    }

    fn records(&self) -> Vec<serde_json::Value> {
        records(&self.folder.path().join("egress.jsonl"))
    }
}

fn v4(text: &str) -> Answer {
    Answer::V4(text.parse().unwrap())
}

#[test]
fn an_allowed_name_has_one_address_for_ever_and_nothing_is_asked_outside() {
    let asked = asked(&["a.example:22", "b.example"], &[]);
    assert_eq!(asked.ask("a.example.", RecordType::A), v4("198.18.1.0"));
    assert_eq!(asked.ask("b.example.", RecordType::A), v4("198.18.1.1"));
    assert_eq!(asked.ask("A.eXample.", RecordType::A), v4("198.18.1.0"));
    for kind in [
        RecordType::AAAA,
        RecordType::HTTPS,
        RecordType::SVCB,
        RecordType::TXT,
        RecordType::MX,
        RecordType::SRV,
        RecordType::CNAME,
        RecordType::NS,
        RecordType::SOA,
        RecordType::CAA,
        RecordType::NULL,
        RecordType::Unknown(999),
    ] {
        assert_eq!(asked.ask("a.example.", kind), Answer::Empty, "{kind}");
    }
    assert_eq!(asked.ask("a.example.", RecordType::ANY), Answer::Any);
    assert_eq!(asked.ask("a.example.", RecordType::AXFR), Answer::NoTransfer);
    assert!(asked.world.asked().is_empty());
    let told: Vec<_> = asked.records().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(told, ["a.example", "b.example"], "a record at the first time");
}

#[test]
fn any_other_name_does_not_exist_and_is_recorded_with_what_would_allow_it() {
    let asked = asked(&["allowed.example"], &[]);
    for name in [
        "evil.example.",
        "xallowed.example.",
        "allowed.example.evil.example.",
        "www.allowed.example.",
        "example.",
        "com.",
        ".",
        "127.1.",
        "1.1.1.1.",
        "0xa9fea9fe.",
        "2852039166.",
        "metadata.google.internal.",
        "host.docker.internal.",
        "printer.local.",
        "wpad.",
    ] {
        for kind in
            [RecordType::A, RecordType::AAAA, RecordType::TXT, RecordType::ANY, RecordType::AXFR]
        {
            assert_eq!(asked.ask(name, kind), Answer::NoName, "{name} {kind}");
        }
    }
    let records = asked.records();
    assert_eq!(records.len(), 15, "one for each name, not for each type");
    let first = &records[0];
    assert_eq!(
        [&first["ev"], &first["name"], &first["verdict"], &first["reason"], &first["proto"]],
        ["dns", "evil.example", "deny", "no_rule_for_name", "dns"]
    );
    assert_eq!(first["fix"], "--allow evil.example:443");
    assert_eq!(asked.ask("allowed.example.", RecordType::A), v4("198.18.1.0"));
}

#[test]
fn bytes_that_are_no_name_are_refused_and_shown_harmless() {
    let asked = asked(&["*.allowed.example"], &[]);
    let ask = |labels: &[&[u8]]| {
        let mut message = Message::query();
        let name = Name::from_labels(labels.iter().copied()).unwrap();
        message.add_query(Query::query(name, RecordType::A));
        let Received::Question(question) = read(&message.to_vec().unwrap()) else { panic!() };
        answer(&asked.door, asked.door.side_of("127.0.0.1".parse().unwrap()).unwrap(), &question)
    };
    assert_eq!(ask(&[b"good", b"allowed", b"example"]), v4("198.18.1.0"));
    for label in [
        b"evil\0".as_slice(),
        b"evil.x",
        b"a b",
        b"a%00",
        b"[a]",
        b"\x1b[31m",
        b"\xe2\x84\xaa",
        b"a\nb",
    ] {
        assert_eq!(ask(&[label, b"allowed", b"example"]), Answer::NoName, "{label:?}");
    }
    let records = asked.records();
    assert_eq!(records.len(), 9);
    for record in &records[1..] {
        let name = record["name"].as_str().unwrap();
        assert!(name.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{name}");
        assert_eq!(record["reason"], "name_malformed");
    }
}

#[test]
fn an_address_of_the_pool_has_its_name_and_no_other_address_has_one() {
    let asked = asked(&["a.example"], &["t.example"]);
    assert_eq!(asked.ask("0.1.18.198.in-addr.arpa.", RecordType::PTR), Answer::NoName);
    asked.ask("a.example.", RecordType::A);
    let name = Name::from_str("a.example.").unwrap();
    assert_eq!(asked.ask("0.1.18.198.in-addr.arpa.", RecordType::PTR), Answer::Pointer(name));
    assert_eq!(asked.ask("0.1.18.198.in-addr.arpa.", RecordType::A), Answer::Empty);
    for name in [
        "1.1.18.198.in-addr.arpa.",
        "0.1.18.in-addr.arpa.",
        "8.8.8.8.in-addr.arpa.",
        "in-addr.arpa.",
        "x.0.1.18.198.in-addr.arpa.",
        "1.0.0.0.ip6.arpa.",
        "256.1.18.198.in-addr.arpa.",
    ] {
        assert_eq!(asked.ask(name, RecordType::PTR), Answer::NoName, "{name}");
    }
    // Another network cannot read this one's names.
    let answer = asked.ask_from("127.0.0.2", "0.1.18.198.in-addr.arpa.", RecordType::PTR);
    assert_eq!(answer, Answer::NoName);
    assert_eq!(asked.records().len(), 1);
}

#[test]
fn localhost_is_the_boxs_own_and_needs_no_rule() {
    let asked = asked(&[], &[]);
    for name in ["localhost.", "x.localhost.", "LocalHost."] {
        assert_eq!(asked.ask(name, RecordType::A), v4("127.0.0.1"), "{name}");
        assert_eq!(asked.ask(name, RecordType::AAAA), Answer::V6(Ipv6Addr::LOCALHOST), "{name}");
        assert_eq!(asked.ask(name, RecordType::MX), Answer::Empty, "{name}");
    }
    assert!(asked.records().is_empty());
}

#[test]
fn a_network_has_its_own_names_alone() {
    let asked = asked(&["own.example"], &["tracker.example"]);
    assert_eq!(asked.ask("tracker.example.", RecordType::A), Answer::NoName);
    assert_eq!(asked.ask_from("127.0.0.2", "own.example.", RecordType::A), Answer::NoName);
    assert_eq!(asked.ask_from("::2", "tracker.example.", RecordType::A), v4("198.18.1.0"));
    assert_eq!(asked.ask("own.example.", RecordType::A), v4("198.18.1.0"));
    let records = asked.records();
    assert_eq!((&records[0]["network"], &records[1]["network"]), (&().into(), &"tracker".into()));
    assert_eq!(records[1]["fix"], "mcp.tracker.egress = [\"own.example:443\"]");
}

#[test]
fn a_wildcard_is_good_for_some_names_and_never_for_its_own_or_a_local_one() {
    let asked = asked(&["*.wild.example", "*.corp.internal", "db.corp.internal"], &[]);
    assert_eq!(asked.ask("wild.example.", RecordType::A), Answer::NoName);
    assert_eq!(asked.ask("x.corp.internal.", RecordType::A), Answer::NoName);
    assert_eq!(asked.ask("db.corp.internal.", RecordType::A), v4("198.18.1.0"));
    assert_eq!(asked.ask("a.b.c.d.e.wild.example.", RecordType::A), Answer::NoName);
    let given = (0..200)
        .filter(|number| {
            asked.ask(&format!("n{number}.wild.example."), RecordType::TXT) == Answer::Empty
        })
        .count();
    assert_eq!(given, 64, "whatever type is asked for");
    assert_eq!(asked.ask("n5.wild.example.", RecordType::A), v4("198.18.1.6"), "known ones stay");
    let reasons =
        |reason: &str| asked.records().iter().filter(|one| one["reason"] == reason).count();
    assert_eq!((reasons("too_many_under_wildcard"), reasons("name_reserved")), (136, 1));
    assert_eq!(reasons("wildcard_limit"), 1);
}
