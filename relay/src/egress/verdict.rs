//! What the rules of one network say, in the words of the records.
//!
//! Runs in: host (any thread; decides nothing that `policy` does not).

use std::net::IpAddr;

use policy::ServerName;
use policy::egress::{self, Host, HostName, Rule, decide, find_rule};

use super::names::{Names, is_synthetic};
use super::record::{Event, Kind, Outcome, Proto, Reason};

/// The port that a rule stands for when it says none; what is proposed to whoever only asked for a name.
const STANDARD_PORT: u16 = 443;

/// What a client wants to reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A name, or an address that stands for itself.
    Host(Host),
    /// An address of the pool that no name has.
    Unassigned(IpAddr),
}

impl Target {
    /// Returns what a client means by an address, given the names of its network.
    pub(super) fn of(address: IpAddr, names: &Names) -> Self {
        let address = address.to_canonical();
        match address {
            IpAddr::V4(v4) if is_synthetic(address) => match names.name_of(v4) {
                Some(name) => Self::Host(Host::Name(name)),
                None => Self::Unassigned(address),
            },
            IpAddr::V4(_) | IpAddr::V6(_) => Self::Host(Host::Address(address)),
        }
    }
}

/// What was decided, why, and what would change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    pub(super) reason: Option<Reason>,
    pub(super) rule: Option<String>,
    pub(super) fix: Option<String>,
}

impl Verdict {
    /// Returns a refusal that no rule decided and no rule changes.
    pub(super) fn deny(reason: Reason) -> Self {
        Self { outcome: Outcome::Deny, reason: Some(reason), rule: None, fix: None }
    }

    /// Says whether it goes on.
    pub(super) fn is_allowed(&self) -> bool {
        self.outcome == Outcome::Allow
    }

    /// Returns a refusal for this reason where the rules had none.
    pub(super) fn or_deny(mut self, reason: Reason) -> Self {
        if self.is_allowed() {
            self.outcome = Outcome::Deny;
            self.reason = Some(reason);
        }
        self
    }

    /// Puts the verdict into an event.
    pub(super) fn tell(&self, event: Event) -> Event {
        let (outcome, reason) = (self.outcome, self.reason);
        Event { outcome, reason, rule: self.rule.clone(), fix: self.fix.clone(), ..event }
    }
}

/// Judges an attempt to connect.
pub(super) fn judge(
    rules: &[Rule],
    network: Option<&ServerName>,
    target: &Target,
    port: u16,
) -> Verdict {
    match target {
        Target::Host(host) => word(decide(rules, host, port), network),
        Target::Unassigned(_) => Verdict::deny(Reason::AddressUnassigned),
    }
}

/// Judges a question for a name: it is answered when some rule has the name, on whatever port.
pub(super) fn judge_name(
    rules: &[Rule],
    network: Option<&ServerName>,
    name: &HostName,
) -> (Verdict, Option<Standing>) {
    let Some(rule) = find_rule(rules, name) else {
        let decision = decide(rules, &Host::Name(name.clone()), STANDARD_PORT);
        return (word(decision, network), None);
    };
    let is_wildcard = matches!(rule.target(), egress::Target::Below(_));
    if is_wildcard && is_reserved(name) {
        let verdict =
            Verdict { rule: Some(rule.to_string()), ..Verdict::deny(Reason::NameReserved) };
        return (verdict, None);
    }
    let rule = rule.to_string();
    let standing = Standing { wildcard: is_wildcard.then(|| rule.clone()) };
    (Verdict { outcome: Outcome::Allow, reason: None, rule: Some(rule), fix: None }, Some(standing))
}

/// How a name is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    /// The wildcard that allows it, where no rule has the name itself.
    pub(super) wildcard: Option<String>,
}

/// Says whether a name is kept for local use, so that a wildcard does not reach it: RFC 6762 section 3,
/// RFC 8375 section 4, RFC 7686 section 2, ICANN's `internal`, and the names by which browsers and phones
/// ask whether they may go around this name server.
fn is_reserved(name: &HostName) -> bool {
    let text = name.as_str();
    let last = name.labels().last().unwrap_or_default();
    matches!(last, "local" | "internal" | "onion")
        || text == "home.arpa"
        || text.ends_with(".home.arpa")
        || matches!(text, "use-application-dns.net" | "mask.icloud.com" | "mask-h2.icloud.com")
}

fn word(decision: egress::Decision, network: Option<&ServerName>) -> Verdict {
    let fix = match network {
        None => decision.fix.clone(),
        Some(server) => decision.fix_server(server),
    };
    let reason = match &decision.reason {
        egress::Reason::Allowed => None,
        egress::Reason::NoRuleForName => Some(Reason::NoRuleForName),
        egress::Reason::WildcardLimit => Some(Reason::WildcardLimit),
        egress::Reason::LocalName => Some(Reason::LocalName),
        egress::Reason::PortNotListed { .. } => Some(Reason::PortNotListed),
        egress::Reason::LiteralNotListed => Some(Reason::LiteralNotListed),
        egress::Reason::AddressDenied { .. } => Some(Reason::AddressDenied),
    };
    let outcome = match decision.verdict {
        egress::Verdict::Allow => Outcome::Allow,
        egress::Verdict::Deny => Outcome::Deny,
    };
    Verdict { outcome, reason, rule: decision.rule, fix }
}

impl Event {
    /// Returns an event about this target, with nothing decided yet.
    pub(super) fn about(kind: Kind, proto: Proto, target: &Target, port: u16) -> Self {
        let mut event = Self { port: Some(port), ..Self::new(kind, Outcome::Deny, proto) };
        match target {
            Target::Host(Host::Name(name)) => event.name = Some(name.to_string()),
            Target::Host(Host::Address(address)) | Target::Unassigned(address) => {
                event.address = Some(*address);
            }
        }
        event
    }
}
