//! What is explained is what happens.
//!
//! Runs in: host (tests).

use super::super::harness::{Fake, door};
use super::*;

#[test]
fn an_explanation_has_the_verdict_the_rule_and_the_fix_and_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let world = Fake::default();
    let door =
        door(folder.path(), world.clone(), &["a.example:22,443", "*.c.internal"], &["t.example"]);
    let tracker = "tracker".parse().unwrap();
    let other = "other".parse().unwrap();
    for (network, host, port, reason, fix) in [
        (None, "a.example", 443, None, None),
        (None, "A.Example.", 22, None, None),
        (None, "a.example", 80, Some(Reason::PortNotListed), Some("--allow a.example:80")),
        (None, "t.example", 443, Some(Reason::NoRuleForName), Some("--allow t.example:443")),
        (Some(&tracker), "t.example", 443, None, None),
        (
            Some(&tracker),
            "a.example",
            22,
            Some(Reason::NoRuleForName),
            Some("mcp.tracker.egress = [\"a.example:22\"]"),
        ),
        (None, "1.1.1.1", 443, Some(Reason::LiteralNotListed), Some("--allow 1.1.1.1:443")),
        (None, "[::ffff:169.254.169.254]", 80, Some(Reason::AddressDenied), None),
        (None, "198.18.1.0", 443, Some(Reason::AddressUnassigned), None),
        (None, "x.c.internal", 443, Some(Reason::NameReserved), None),
        (None, "localhost", 443, Some(Reason::LocalName), None),
        (None, "a b", 443, Some(Reason::NameMalformed), None),
        (Some(&other), "a.example", 443, Some(Reason::SourceUnknown), None),
    ] {
        let said = explain(&door, network, host, port);
        assert_eq!((said.reason, said.fix.as_deref()), (reason, fix), "{host}:{port}");
        assert_eq!(said.verdict == Outcome::Allow, reason.is_none(), "{host}:{port}");
    }
    let said = explain(&door, None, "A.Example.", 22);
    assert_eq!((said.host.as_str(), said.rule.as_deref()), ("a.example", Some("a.example:22,443")));
    assert!(door.audit.refused().is_empty() && world.asked().is_empty());
    assert!(std::fs::read(door.audit.path()).unwrap().is_empty());
}
