//! What a session file says about the door out, and how much all its rules may ask for together.
//!
//! Runs in: any (pure data).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::ports::MAX_PORTS;
use super::resolver::Resolver;
use super::rule::Rule;
use crate::error::Complaint;

/// The most rules that one session may have, those of its servers with them.
pub const MAX_RULES: usize = 1024;

/// `[egress]`: what may be reached from the session's network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// `mode`: whether there is a door at all; `"filter"` when not said and something is allowed.
    pub mode: EgressMode,
    /// `allow`: names and ports, none twice, in the order of the file; empty beside `"none"`.
    pub allow: Vec<Rule>,
    /// `resolver`: the DNS server that the host asks; those of its own resolv.conf when not said. A
    /// server's own network uses it as well.
    pub resolver: Option<Resolver>,
}

/// Whether a session's network has a door out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EgressMode {
    /// `"none"`: no interface but loopback, so that nothing is seen or recorded.
    #[default]
    None,
    /// `"filter"`: what the rules allow; everything else is refused and recorded.
    Filter,
}

impl Egress {
    /// Adds what the flags allow to what the file does: there is a door from the first rule on, whatever
    /// the file said, since whoever gives the flag means it.
    ///
    /// What is still missing: `check_rules`, over the whole session.
    pub fn add(&mut self, rules: impl IntoIterator<Item = Rule>) {
        for rule in rules {
            self.mode = EgressMode::Filter;
            if !self.allow.contains(&rule) {
                self.allow.push(rule);
            }
        }
    }
}

/// Counts what the rules of one session ask for.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    ports: BTreeSet<u16>,
    rules: usize,
}

impl Budget {
    /// Counts one more rule, and refuses the one that is too much.
    pub(crate) fn spend(&mut self, rule: &Rule) -> Result<(), Complaint> {
        self.rules += 1;
        if self.rules > MAX_RULES {
            let message = format!("expected at most {MAX_RULES} rules in a session, found more");
            return Err(Complaint::new(message));
        }
        self.ports.extend(rule.ports().iter());
        if self.ports.len() > MAX_PORTS {
            let message = format!(
                "expected at most {MAX_PORTS} ports in all rules of a session, found {} with \"{rule}\"",
                self.ports.len()
            );
            return Err(Complaint::new(message).hint("each port has a listener of its own"));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
