//! Whether a name or an address may be reached on a port, and what would allow it.
//!
//! Runs in: any (pure data).

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::denied::denied_address;
use super::host::{Host, HostName};
use super::ports::ports;
use super::rule::{Rule, Target};
use crate::ServerName;

/// What the rules say about one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// What happens.
    pub verdict: Verdict,
    /// The rule that decided, as a user would write it; of a refused port, the rule that has the name.
    pub rule: Option<String>,
    /// Why.
    pub reason: Reason,
    /// The flag that would allow it; nothing where it is allowed or no rule can.
    pub fix: Option<String>,
}

/// What happens to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It goes on.
    Allow,
    /// It is refused.
    Deny,
}

/// Why the rules decided so. As JSON `{"code": ...}` with the fields of the variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Reason {
    /// A rule has the name or the address, and the port.
    Allowed,
    /// No rule has the name.
    NoRuleForName,
    /// A wildcard is above the name, which has more labels or characters than a wildcard stands for.
    WildcardLimit,
    /// The name is `localhost` or below it: the box's own.
    LocalName,
    /// Rules have the name or the address, and not the port.
    PortNotListed {
        /// The ports that they have.
        listed: BTreeSet<u16>,
    },
    /// No rule lists the address. That a name with a rule resolves to it does not matter.
    LiteralNotListed,
    /// The address is one that nobody may reach.
    AddressDenied {
        /// What it is, in the words of `denied_address`.
        what: String,
    },
}

impl Reason {
    /// Returns the stable word for it that records and JSON use.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::NoRuleForName => "no_rule_for_name",
            Self::WildcardLimit => "wildcard_limit",
            Self::LocalName => "local_name",
            Self::PortNotListed { .. } => "port_not_listed",
            Self::LiteralNotListed => "literal_not_listed",
            Self::AddressDenied { .. } => "address_denied",
        }
    }
}

impl fmt::Display for Reason {
    /// Writes it in the words of a message: "api.example.com:443 denied: REASON".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allowed => f.write_str("a rule allows it"),
            Self::NoRuleForName => f.write_str("no rule for this name"),
            Self::WildcardLimit => f.write_str("further below than a wildcard reaches"),
            Self::LocalName => f.write_str("the name is the box's own"),
            Self::PortNotListed { listed } => {
                let listed = listed.iter().map(u16::to_string).collect::<Vec<_>>();
                let verb = if listed.len() == 1 { "is" } else { "are" };
                write!(f, "this port is not listed ({} {verb})", listed.join(", "))
            }
            Self::LiteralNotListed => f.write_str("no rule lists this address"),
            Self::AddressDenied { what } => write!(f, "the address is {what}"),
        }
    }
}

impl Decision {
    /// Returns the line below `[egress]` that would allow it, beside what stands there already.
    #[must_use]
    pub fn fix_file(&self) -> Option<String> {
        self.missing().map(|rule| format!("allow = [\"{rule}\"]"))
    }

    /// Returns the line below `[mcp.NAME]` that would allow it to a server with its own network.
    #[must_use]
    pub fn fix_server(&self, server: &ServerName) -> Option<String> {
        self.missing().map(|rule| format!("mcp.{server}.egress = [\"{rule}\"]"))
    }

    fn missing(&self) -> Option<&str> {
        self.fix.as_deref().map(|fix| fix.trim_start_matches(FLAG).trim_matches(QUOTE))
    }
}

const FLAG: &str = "--allow ";

/// Around an address in brackets, which a shell would take for a pattern.
const QUOTE: char = '\'';

/// Decides whether `host` may be reached on `port`.
///
/// An IPv4 address inside an IPv6 one (`::ffff:1.1.1.1`) is that IPv4 address, as for the kernel.
#[must_use]
pub fn decide(rules: &[Rule], host: &Host, port: u16) -> Decision {
    match host {
        Host::Name(name) => of_name(rules, name, port),
        Host::Address(address) => {
            let address = address.to_canonical();
            if let Some(what) = denied_address(address) {
                return denied(None, Reason::AddressDenied { what: what.to_owned() }, None);
            }
            let listing = rules.iter().filter(|rule| rule.lists(address)).collect::<Vec<_>>();
            let wanted = fix(&Host::Address(address), port);
            of_port(&listing, port, wanted, Reason::LiteralNotListed)
        }
    }
}

fn of_name(rules: &[Rule], name: &HostName, port: u16) -> Decision {
    if name.is_local() {
        return denied(None, Reason::LocalName, None);
    }
    let mut naming = rules.iter().filter(|rule| rule.names(name)).collect::<Vec<_>>();
    naming.sort_by_key(|rule| !matches!(rule.target(), Target::Name(_)));
    let too_deep = rules.iter().find(|rule| rule.falls_short_of(name));
    let wanted = fix(&Host::Name(name.clone()), port);
    match too_deep {
        Some(rule) if naming.is_empty() => denied(Some(rule), Reason::WildcardLimit, wanted),
        Some(_) | None => of_port(&naming, port, wanted, Reason::NoRuleForName),
    }
}

/// Decides among the rules that have the name or the address, the closest first.
fn of_port(rules: &[&Rule], port: u16, fix: Option<String>, unlisted: Reason) -> Decision {
    if let Some(rule) = rules.iter().find(|rule| rule.ports().contains(port)) {
        let rule = Some(rule.to_string());
        return Decision { verdict: Verdict::Allow, rule, reason: Reason::Allowed, fix: None };
    }
    let Some(first) = rules.first() else { return denied(None, unlisted, fix) };
    let listed = ports(rules.iter().copied());
    denied(Some(first), Reason::PortNotListed { listed }, fix)
}

fn denied(rule: Option<&Rule>, reason: Reason, fix: Option<String>) -> Decision {
    Decision { verdict: Verdict::Deny, rule: rule.map(Rule::to_string), reason, fix }
}

/// Returns the flag for exactly this name and port, if there can be such a rule.
fn fix(host: &Host, port: u16) -> Option<String> {
    let text = format!("{host}:{port}");
    text.parse::<Rule>().ok()?;
    let is_pattern = text.starts_with('[');
    Some(if is_pattern { format!("{FLAG}{QUOTE}{text}{QUOTE}") } else { format!("{FLAG}{text}") })
}

/// Returns the rule that has a name, on whatever port, one without a wildcard before the others: whether
/// the name is answered at all. `localhost` has none.
#[must_use]
pub fn find_rule<'a>(rules: &'a [Rule], name: &HostName) -> Option<&'a Rule> {
    let naming = || rules.iter().filter(|rule| rule.names(name));
    naming().find(|rule| matches!(rule.target(), Target::Name(_))).or_else(|| naming().next())
}

#[cfg(test)]
#[path = "decision_tests.rs"]
mod tests;
