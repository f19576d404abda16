//! Says what would happen to a connection, from the code that decides.
//!
//! Runs in: host (any thread).

use std::net::IpAddr;

use policy::ServerName;
use policy::egress::{Host, HostName};
use serde::{Deserialize, Serialize};

use super::door::Door;
use super::record::{Outcome, Reason};
use super::verdict::{Target, Verdict};

/// What would happen to a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Whose network was asked about; nothing for the session's own.
    pub network: Option<ServerName>,
    /// The name or the address in its one form; what stood there where it is neither.
    pub host: String,
    /// The port.
    pub port: u16,
    /// `Allow`, or `Deny`. What an allowed name resolves to is checked when it is dialled.
    pub verdict: Outcome,
    /// Why not.
    pub reason: Option<Reason>,
    /// The rule that decided, where there is one.
    pub rule: Option<String>,
    /// The exact flag or line that would allow it, where there is one.
    pub fix: Option<String>,
}

/// Explains an attempt, without dialling and without a record.
pub(super) fn explain(
    door: &Door,
    network: Option<&ServerName>,
    host: &str,
    port: u16,
) -> Explanation {
    let (shown, verdict) = match (door.side_named(network), parse(host)) {
        (None, _) => (host.to_owned(), Verdict::deny(Reason::SourceUnknown)),
        (Some(_), None) => (host.to_owned(), Verdict::deny(Reason::NameMalformed)),
        (Some(side), Some(host)) => {
            let shown = host.to_string();
            // A client gets no further than the first refusal: no address, no connection.
            let name = match &host {
                Host::Name(name) => Some(side.judge_name(name).0),
                Host::Address(_) => None,
            };
            let target = match host {
                Host::Name(name) => Target::Host(Host::Name(name)),
                Host::Address(address) => side.target(address),
            };
            let connection = side.judge(&target, port);
            let refused = name.filter(|name| !name.is_allowed() && connection.is_allowed());
            let verdict = refused.unwrap_or(connection);
            let is_open = !verdict.is_allowed() || door.listens_on(port);
            (shown, if is_open { verdict } else { verdict.or_deny(Reason::PortNotOpen) })
        }
    };
    Explanation {
        network: network.cloned(),
        host: shown,
        port,
        verdict: verdict.outcome,
        reason: verdict.reason,
        rule: verdict.rule,
        fix: verdict.fix,
    }
}

/// Reads what a user typed: a name, or an address with or without brackets.
fn parse(host: &str) -> Option<Host> {
    let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = inside.parse::<IpAddr>() {
        return Some(Host::Address(address));
    }
    HostName::from_rule(host).ok().map(Host::Name)
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
