//! The door out.
//!
//! Runs in: any (pure data).

use super::super::tests::{SERVER, accepted, refused, server};
use super::*;
use crate::ServerNetwork;

fn egress(lines: &str) -> Egress {
    accepted(&format!("[egress]\n{lines}")).egress
}

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn something_allowed_implies_a_filter() {
    assert_eq!(egress(""), Egress::default());
    assert_eq!(egress("mode = 'none'"), Egress::default());
    assert_eq!(egress("allow = []"), Egress::default());
    assert_eq!(egress("mode = 'none'\nallow = []"), Egress::default());
    assert_eq!(egress("mode = 'filter'").mode, EgressMode::Filter);
    assert_eq!(egress("mode = 'filter'").allow, []);
    let allow = rules(&["github.com:22,443", "*.pkg.example", "1.1.1.1"]);
    let lines = "allow = ['github.com:22,443', '*.pkg.example', '1.1.1.1', 'GitHub.com:443,22']";
    assert_eq!(egress(lines), Egress { mode: EgressMode::Filter, allow, resolver: None });
    refused(
        "[egress]\nmode = 'none'\nallow = ['a.test']",
        "3: egress.allow: expected no rules beside mode = \"none\"",
    );
}

#[test]
fn a_mode_that_is_not_enforced_is_refused_by_name() {
    for mode in ["ask", "audit"] {
        let error = format!(
            "2: egress.mode: \"{mode}\" is not enforced by this version of sandboxd, which has \"none\" and \"filter\""
        );
        refused(&format!("[egress]\nmode = '{mode}'"), &error);
    }
    refused(
        "[egress]\nmode = 'off'",
        "2: egress.mode: expected \"none\" or \"filter\", found \"off\"",
    );
}

#[test]
fn a_bad_rule_is_refused_with_its_line_and_the_reason() {
    for (rule, error) in [
        (
            "'*.com'",
            "expected a wildcard below a domain of one owner, found \"*.com\": it is a public suffix, below which anybody may have names",
        ),
        (
            "'10.0.0.0/8'",
            "expected public addresses alone, found 10.0.0.0/8: 10.0.0.0/8 is a private network",
        ),
        ("'b.test:0'", "expected ports such as 22,443,8000-8010, found \"0\""),
        ("1", "expected a rule such as \"github.com:22,443\", found a number"),
        ("\"b\\u0000.test\"", "expected text without a NUL byte"),
    ] {
        let text = format!("[egress]\nallow = ['a.test',\n {rule}]");
        refused(&text, &format!("3: egress.allow[1]: {error}"));
        accepted("[egress]\nallow = ['a.test',\n 'b.test']");
    }
    let hint = refused(
        "egress.allow = ['10.0.0.1']",
        "1: egress.allow[0]: expected public addresses alone, found 10.0.0.1: 10.0.0.0/8 is a private network",
    );
    assert!(hint.unwrap().contains("allow_private"));
    refused(
        "[egress]\nallow = 'a.test'",
        "2: egress.allow: expected an array of rules such as \"github.com:22,443\", found a string",
    );
}

#[test]
fn a_resolver_is_an_address() {
    let resolver = egress("resolver = '10.0.0.1:5353'").resolver.unwrap();
    assert_eq!(resolver.address(), "10.0.0.1:5353".parse().unwrap());
    refused(
        "[egress]\nresolver = 'dns.test'",
        "2: egress.resolver: expected an address and perhaps a port, such as 192.0.2.1 or [2001:db8::1]:53, found \"dns.test\"",
    );
}

#[test]
fn a_servers_list_implies_a_network_of_its_own() {
    let own = server("egress = ['api.tracker.example']");
    assert_eq!(own.network(), ServerNetwork::Own(&rules(&["api.tracker.example"])));
    assert!(own.own_network);
    let said = server("network = 'own'\negress = ['api.tracker.example']");
    assert_eq!(said, own);
    assert_eq!(server("").network(), ServerNetwork::Session);
    assert_eq!(server("network = 'session'"), server(""));
    for lines in ["network = 'own'", "egress = []", "network = 'own'\negress = []"] {
        let server = server(lines);
        assert_eq!((server.network(), server.own_network), (ServerNetwork::Loopback, true));
    }
    refused(
        &format!("{SERVER}egress = ['a.test']\nnetwork = 'session'"),
        "6: mcp.tracker.network: expected \"own\", found \"session\", and egress lists what its own may reach",
    );
    refused(
        &format!("{SERVER}network = 'host'"),
        "5: mcp.tracker.network: expected \"own\" or \"session\", found \"host\"",
    );
    refused(
        &format!("{SERVER}egress = ['a.test',\n '*']"),
        "6: mcp.tracker.egress[1]: expected \"*\" in front of a dot and a name alone, found \"*\"",
    );
}

#[test]
fn a_list_on_a_server_leaves_the_session_without_a_door() {
    let file = accepted(&format!("{SERVER}egress = ['a.test']"));
    assert_eq!(file.egress, Egress::default());
    assert_eq!(file.rules().count(), 1);
}

#[test]
fn all_lists_of_a_session_have_64_ports_together() {
    let text = |last: &str| {
        format!(
            "[egress]\nallow = ['a.test:100-162']\n[mcp.a]\ncommand = ['a']\negress = ['b.test:100-110,443',\n '{last}']\n"
        )
    };
    let file = accepted(&text("c.test:162"));
    assert_eq!(crate::egress::ports(file.rules()).len(), 64);
    refused(
        &text("c.test:22"),
        "6: mcp.a.egress[1]: expected at most 64 ports in all rules of a session, found 65 with \"c.test:22\"",
    );
}
