//! What the rules decide, why, and what would change it.
//!
//! Runs in: any (pure data).

use super::*;

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn host(text: &str) -> Host {
    match text.parse() {
        Ok(address) => Host::Address(address),
        Err(_) => Host::Name(HostName::from_wire(text.as_bytes()).unwrap()),
    }
}

const RULES: &[&str] = &[
    "allowed.test",
    "git.test:22,443",
    "git.test:9418",
    "*.wild.test:80",
    "own.wild.test:22",
    "1.1.1.0/24:853",
    "[2606:4700::/32]",
];

fn ask(text: &str, port: u16) -> Decision {
    decide(&rules(RULES), &host(text), port)
}

#[test]
fn what_a_rule_lists_is_allowed_and_the_rule_named() {
    for (text, port, rule) in [
        ("allowed.test", 443, "allowed.test"),
        ("ALLOWED.test.", 443, "allowed.test"),
        ("git.test", 22, "git.test:22,443"),
        ("git.test", 9418, "git.test:9418"),
        ("x.wild.test", 80, "*.wild.test:80"),
        ("own.wild.test", 22, "own.wild.test:22"),
        ("own.wild.test", 80, "*.wild.test:80"),
        ("1.1.1.1", 853, "1.1.1.0/24:853"),
        ("::ffff:1.1.1.1", 853, "1.1.1.0/24:853"),
        ("2606:4700::1", 443, "[2606:4700::/32]"),
    ] {
        let rule = Some(rule.to_owned());
        let allowed =
            Decision { verdict: Verdict::Allow, rule, reason: Reason::Allowed, fix: None };
        assert_eq!(ask(text, port), allowed, "{text}:{port}");
        assert_eq!(ask(text, port).fix_file(), None);
    }
}

#[test]
fn what_no_rule_lists_is_refused_with_the_flag_that_would_allow_it() {
    for (text, port, code, fix) in [
        ("evilallowed.test", 443, "no_rule_for_name", "evilallowed.test:443"),
        ("allowed.test.evil.test", 443, "no_rule_for_name", "allowed.test.evil.test:443"),
        ("wild.test", 80, "no_rule_for_name", "wild.test:80"),
        ("allowed.test", 80, "port_not_listed", "allowed.test:80"),
        ("x.wild.test", 443, "port_not_listed", "x.wild.test:443"),
        ("a.b.c.d.e.wild.test", 80, "wildcard_limit", "a.b.c.d.e.wild.test:80"),
        ("1.1.2.1", 853, "literal_not_listed", "1.1.2.1:853"),
        ("1.1.1.1", 443, "port_not_listed", "1.1.1.1:443"),
        ("::ffff:8.8.8.8", 443, "literal_not_listed", "8.8.8.8:443"),
    ] {
        let decision = ask(text, port);
        assert_eq!((decision.verdict, decision.reason.code()), (Verdict::Deny, code), "{text}");
        assert_eq!(decision.fix, Some(format!("--allow {fix}")));
        assert_eq!(decision.fix_file(), Some(format!("allow = [\"{fix}\"]")));
        // The flag does what it says.
        let mut fixed = rules(RULES);
        fixed.push(fix.parse().unwrap());
        assert_eq!(decide(&fixed, &host(text), port).verdict, Verdict::Allow);
    }
}

#[test]
fn an_address_in_brackets_is_quoted_for_the_shell_alone() {
    let decision = ask("2a00::1", 22);
    assert_eq!(decision.fix.as_deref(), Some("--allow '[2a00::1]:22'"));
    assert_eq!(decision.fix_file().as_deref(), Some("allow = [\"[2a00::1]:22\"]"));
    let server = "tracker".parse().unwrap();
    assert_eq!(
        decision.fix_server(&server).as_deref(),
        Some("mcp.tracker.egress = [\"[2a00::1]:22\"]")
    );
}

#[test]
fn what_no_rule_can_allow_has_no_fix() {
    for (text, port, code) in [
        ("localhost", 443, "local_name"),
        ("x.localhost.", 443, "local_name"),
        ("10.0.0.1", 443, "address_denied"),
        ("127.0.0.1", 443, "address_denied"),
        ("169.254.169.254", 80, "address_denied"),
        ("::ffff:169.254.169.254", 80, "address_denied"),
        ("64:ff9b::a00:1", 443, "address_denied"),
        ("198.18.1.9", 443, "address_denied"),
        ("64:ff9b::808:808", 443, "literal_not_listed"),
        ("allowed.test", 53, "port_not_listed"),
        ("xn--a.test", 443, "no_rule_for_name"),
    ] {
        let decision = ask(text, port);
        assert_eq!((decision.verdict, decision.reason.code()), (Verdict::Deny, code), "{text}");
        assert_eq!((decision.fix.clone(), decision.fix_file()), (None, None), "{text}");
    }
    assert!(ask("other.test", 443).fix.is_some());
}

#[test]
fn a_reason_is_worded_and_survives_json() {
    for (text, port, words, json) in [
        ("git.test", 22, "a rule allows it", r#"{"code":"allowed"}"#),
        ("x.test", 22, "no rule for this name", r#"{"code":"no_rule_for_name"}"#),
        (
            "git.test",
            80,
            "this port is not listed (22, 443, 9418 are)",
            r#"{"code":"port_not_listed","listed":[22,443,9418]}"#,
        ),
        (
            "allowed.test",
            80,
            "this port is not listed (443 is)",
            r#"{"code":"port_not_listed","listed":[443]}"#,
        ),
        ("9.9.9.9", 80, "no rule lists this address", r#"{"code":"literal_not_listed"}"#),
        (
            "169.254.169.254",
            80,
            "the address is a cloud's metadata service",
            r#"{"code":"address_denied","what":"a cloud's metadata service"}"#,
        ),
        ("localhost", 80, "the name is the box's own", r#"{"code":"local_name"}"#),
        (
            "1.2.3.4.5.wild.test",
            80,
            "further below than a wildcard reaches",
            r#"{"code":"wildcard_limit"}"#,
        ),
    ] {
        let decision = ask(text, port);
        assert_eq!(decision.reason.to_string(), words, "{text}");
        assert_eq!(serde_json::to_string(&decision.reason).unwrap(), json);
        let whole = serde_json::to_string(&decision).unwrap();
        assert_eq!(serde_json::from_str::<Decision>(&whole).unwrap(), decision);
    }
}

#[test]
fn a_name_is_found_whatever_the_port_and_the_exact_rule_first() {
    let rules = rules(RULES);
    let find = |text: &str| {
        let name = HostName::from_wire(text.as_bytes()).unwrap();
        find_rule(&rules, &name).map(Rule::to_string)
    };
    assert_eq!(find("own.wild.test").as_deref(), Some("own.wild.test:22"));
    assert_eq!(find("x.wild.test").as_deref(), Some("*.wild.test:80"));
    for text in ["wild.test", "evil.test", "a.b.c.d.e.wild.test", "localhost"] {
        assert_eq!(find(text), None, "{text}");
    }
}

#[test]
fn without_rules_nothing_is_allowed() {
    for text in ["allowed.test", "1.1.1.1"] {
        assert_eq!(decide(&[], &host(text), 443).verdict, Verdict::Deny);
    }
}
