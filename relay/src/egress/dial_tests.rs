//! What is dialled, and what never is.
//!
//! Runs in: host (tests).

use tokio::net::TcpListener;

use super::super::harness::{Fake, Place};
use super::*;

fn host(name: &str) -> Host {
    Host::Name(HostName::from_wire(name.as_bytes()).unwrap())
}

async fn failure(world: &Fake, host: Host) -> (Reason, Option<String>) {
    let failure = Dialler::of(world.clone()).dial(&host, 443).await.unwrap_err();
    (failure.reason, failure.address.map(|address| address.to_string()))
}

async fn server() -> (TcpListener, Place) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = Place::Server(listener.local_addr().unwrap());
    (listener, place)
}

#[tokio::test]
async fn exactly_the_checked_address_is_dialled() {
    let (_listener, place) = server().await;
    let world = Fake::default().name("a.example", &["93.184.216.34"]).place("93.184.216.34", place);
    let dialled = Dialler::of(world.clone()).dial(&host("a.example"), 443).await.unwrap();
    assert_eq!(dialled.address.to_string(), "93.184.216.34");
    assert_eq!(world.dialled(), ["93.184.216.34:443"]);
}

#[tokio::test]
async fn a_name_with_private_addresses_alone_is_refused_and_never_dialled() {
    for address in [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "168.63.129.16",
        "0.0.0.0",
        "198.18.1.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fd00:ec2::254",
        "fe80::1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "203.0.113.9",
        "93.184.216.35",
        "::ffff:93.184.216.35",
        "2606:2800::35",
    ] {
        let world = Fake::default().name("a.example", &[address]);
        let world = world.own("93.184.216.35").own("2606:2800::35").place(address, Place::Refuses);
        let (reason, denied) = failure(&world, host("a.example")).await;
        assert_eq!((reason, denied.is_some()), (Reason::ResolvedPrivate, true), "{address}");
        assert!(world.dialled().is_empty(), "{address}");
    }
}

#[tokio::test]
async fn of_mixed_addresses_the_permitted_ones_are_dialled() {
    let (_listener, place) = server().await;
    let world = Fake::default()
        .name("a.example", &["10.0.0.1", "93.184.216.34", "127.0.0.1"])
        .place("93.184.216.34", place);
    assert!(Dialler::of(world.clone()).dial(&host("a.example"), 443).await.is_ok());
    assert_eq!(world.dialled(), ["93.184.216.34:443"]);
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_checked_each_time() {
    let (_listener, place) = server().await;
    let world = Fake::default()
        .name("a.example", &["93.184.216.34"])
        .name("a.example", &["127.0.0.1"])
        .place("93.184.216.34", place);
    assert!(Dialler::of(world.clone()).dial(&host("a.example"), 443).await.is_ok());
    assert_eq!(failure(&world, host("a.example")).await.0, Reason::ResolvedPrivate);
    assert_eq!(world.dialled(), ["93.184.216.34:443"]);
}

#[tokio::test]
async fn a_connection_that_stayed_on_this_host_is_given_up() {
    // An address that the host has had for less than a second: only the connection itself shows it.
    let listener = TcpListener::bind("127.0.0.9:0").await.unwrap();
    let place = Place::Server(listener.local_addr().unwrap());
    let world = Fake::default().name("a.example", &["93.184.216.34"]).place("93.184.216.34", place);
    let refused = failure(&world, host("a.example")).await;
    assert_eq!(refused, (Reason::ResolvedPrivate, Some("93.184.216.34".to_owned())));
}

#[tokio::test]
async fn without_the_list_of_own_addresses_nothing_is_dialled() {
    let world = Fake::default().name("a.example", &["93.184.216.34"]).own_unknown();
    assert_eq!(failure(&world, host("a.example")).await.0, Reason::Unreachable);
    assert!(world.dialled().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_reasons_of_a_failure_are_kept_apart() {
    let world = Fake::default()
        .name("refuses.example", &["93.184.216.1"])
        .name("silent.example", &["93.184.216.2"])
        .name("nowhere.example", &["93.184.216.3"])
        .name("all.example", &["93.184.216.3", "93.184.216.1"])
        .place("93.184.216.1", Place::Refuses)
        .place("93.184.216.2", Place::Silent);
    for (name, reason) in [
        ("none.example", Reason::ResolveFailed),
        ("refuses.example", Reason::ConnectRefused),
        ("silent.example", Reason::TimedOut),
        ("nowhere.example", Reason::Unreachable),
        ("all.example", Reason::ConnectRefused),
    ] {
        assert_eq!(failure(&world, host(name)).await.0, reason, "{name}");
    }
}

#[tokio::test]
async fn an_address_that_a_rule_lists_is_checked_too_and_nothing_is_resolved() {
    let (_listener, place) = server().await;
    let world = Fake::default().own("93.184.216.35").place("93.184.216.34", place);
    let literal = |text: &str| Host::Address(text.parse().unwrap());
    assert!(Dialler::of(world.clone()).dial(&literal("93.184.216.34"), 443).await.is_ok());
    for denied in ["127.0.0.1", "93.184.216.35", "::ffff:169.254.169.254"] {
        assert_eq!(failure(&world, literal(denied)).await.0, Reason::AddressDenied, "{denied}");
    }
    assert_eq!((world.asked().len(), world.dialled().len()), (0, 1));
}

#[tokio::test]
async fn a_silent_address_holds_up_the_next_one_for_a_moment_only() {
    let (_listener, place) = server().await;
    let world = Fake::default()
        .name("a.example", &["93.184.216.34", "2606:2800::1"])
        .place("2606:2800::1", Place::Silent)
        .place("93.184.216.34", place);
    let start = Instant::now();
    let dialled = Dialler::of(world.clone()).dial(&host("a.example"), 443).await.unwrap();
    assert_eq!(dialled.address.to_string(), "93.184.216.34");
    assert!(start.elapsed() >= STAGGER && start.elapsed() < STAGGER * 4);
    assert_eq!(world.dialled(), ["[2606:2800::1]:443", "93.184.216.34:443"]);
}

#[tokio::test]
async fn of_many_addresses_sixteen_are_looked_at() {
    let many: Vec<String> = (0..100).map(|last| format!("93.184.216.{last}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let world = Fake::default().name("a.example", &many);
    assert_eq!(failure(&world, host("a.example")).await.0, Reason::Unreachable);
    assert_eq!(world.dialled().len(), MAX_ADDRESSES);
}

#[test]
fn this_hosts_own_addresses_are_read() {
    let own = read_own_addresses().unwrap();
    assert!(own.contains(&"127.0.0.1".parse().unwrap()), "{own:?}");
}
