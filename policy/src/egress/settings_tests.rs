//! Rules of file and flags together.
//!
//! Runs in: any (pure data).

use super::*;

fn rule(text: &str) -> Rule {
    text.parse().unwrap()
}

#[test]
fn a_flag_opens_the_door_and_repeats_nothing() {
    let mut egress = Egress::default();
    egress.add([]);
    assert_eq!(egress, Egress::default());
    egress.add(["a.test", "b.test:22", "A.test:443"].map(rule));
    assert_eq!(egress.mode, EgressMode::Filter);
    assert_eq!(egress.allow, ["a.test", "b.test:22"].map(rule));
}

#[test]
fn a_session_has_64_ports_and_1024_rules() {
    let mut budget = Budget::default();
    assert_eq!(budget.spend(&rule("a.test:100-162")), Ok(()));
    assert_eq!(budget.spend(&rule("b.test:100-162,443")), Ok(()));
    let error = budget.spend(&rule("c.test:22")).unwrap_err();
    let message =
        "expected at most 64 ports in all rules of a session, found 65 with \"c.test:22\"";
    assert_eq!(error, Complaint::new(message).hint("each port has a listener of its own"));
    let mut budget = Budget::default();
    for _ in 0..1024 {
        assert_eq!(budget.spend(&rule("a.test")), Ok(()));
    }
    let error = Complaint::new("expected at most 1024 rules in a session, found more");
    assert_eq!(budget.spend(&rule("a.test")), Err(error));
}
