//! One rule: what may be reached, and on which ports.
//!
//! Runs in: any (pure data).
//!
//! ```text
//! RULE    = TARGET [ ":" PORTS ]            port 443 when none is said
//! TARGET  = NAME | "*." NAME | IPV4 [ "/" BITS ] | "[" IPV6 [ "/" BITS ] "]"
//! PORTS   = PORT [ "-" PORT ] { "," PORT [ "-" PORT ] }
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::denied::denied_network;
use super::host::{HostError, HostName};
use super::network::Network;
use super::ports::{MAX_PORTS, Ports};
use super::suffix::shared_reason;
use crate::error::{Complaint, quote};

/// How many different names one wildcard may stand for in one session: each of them tells something to the
/// name servers of whoever owns the domain. The host counts; `decide` cannot.
pub const MAX_NAMES_PER_WILDCARD: usize = 64;

/// How many labels a wildcard stands for at most, and how many characters they have in all.
const MAX_WILDCARD_LABELS: usize = 4;
const MAX_WILDCARD_LENGTH: usize = 100;

/// One rule of `allow`: `github.com:22,443`, `*.pkg.example`, `1.1.1.0/24:443`, `[2606:4700::/32]`.
///
/// As JSON it is that text, held to the same rules.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rule {
    target: Target,
    ports: Ports,
}

/// What a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// `NAME`: this name alone.
    Name(HostName),
    /// `*.NAME`: every name of one to four more labels (100 characters), and not NAME itself.
    Below(HostName),
    /// An address or a range of them: what is dialled by address, not by name.
    Network(Network),
}

/// Says why a text is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The name is none.
    #[error(transparent)]
    Host(HostError),
    /// A URL or a path.
    #[error("expected a name and perhaps ports, found {found}")]
    Url {
        /// The whole rule.
        found: String,
    },
    /// A `*` somewhere else than in front.
    #[error("expected \"*\" in front of a dot and a name alone, found {found}")]
    Wildcard {
        /// The target of the rule.
        found: String,
    },
    /// A wildcard below which names belong to anybody.
    #[error("expected a wildcard below a domain of one owner, found \"*.{name}\": {reason}")]
    Shared {
        /// The name that the wildcard stands below.
        name: HostName,
        /// Whose names they are.
        reason: &'static str,
    },
    /// `localhost` or a name below it.
    #[error("expected a name outside of the box, found \"{name}\", which is the box's own")]
    Local {
        /// The name.
        name: HostName,
    },
    /// Something in brackets that is no IPv6 address, or one without them.
    #[error("expected an IPv6 address in brackets, found {found}")]
    Brackets {
        /// The target of the rule, or the whole.
        found: String,
    },
    /// An address or a range that is none.
    #[error("expected an address or a range such as 192.0.2.0/24, found {found}")]
    Network {
        /// The target of the rule.
        found: String,
    },
    /// A range that does not start where its bits say.
    #[error("expected the first address of the range, {first}, found {found}")]
    First {
        /// The range as it should be.
        first: Network,
        /// The target of the rule.
        found: String,
    },
    /// Addresses that are not public.
    #[error("expected public addresses alone, found {network}: {reason}")]
    Denied {
        /// The addresses.
        network: Network,
        /// Which of them are not, and what they are.
        reason: String,
    },
    /// Ports that are none.
    #[error("expected ports such as 22,443,8000-8010, found {found}")]
    Ports {
        /// The ports of the rule.
        found: String,
    },
    /// Port 53.
    #[error("expected another port than 53, where sandboxd answers names itself")]
    Dns,
    /// More ports than a whole session may have.
    #[error(
        "expected at most {MAX_PORTS} ports in all rules of a session, found {found} in one rule"
    )]
    TooManyPorts {
        /// How many the rule names.
        found: usize,
    },
}

impl RuleError {
    /// Returns what the user can do about it, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Host(HostError::Number { .. }) => {
                Some("an address is written as four decimal numbers, such as 1.1.1.1")
            }
            Self::Host(HostError::Spelling { .. }) => {
                Some("write it that way, if this is the name you mean")
            }
            Self::Url { .. } => Some("such as github.com:443, without scheme and path"),
            Self::Wildcard { .. } => Some("\"*.name\" stands for every name below name"),
            Self::Shared { .. } => Some("name each host, or a wildcard below one of them"),
            Self::Brackets { .. } => Some("such as [2606:4700:4700::1111]:443"),
            Self::Denied { .. } => Some(
                "this version of sandboxd reaches public addresses only; it has no allow_private",
            ),
            Self::Ports { .. } => Some("a port is a number from 1 to 65535"),
            Self::Host(_) | Self::Local { .. } | Self::Network { .. } => None,
            Self::First { .. } | Self::Dns | Self::TooManyPorts { .. } => None,
        }
    }
}

impl From<RuleError> for Complaint {
    fn from(error: RuleError) -> Self {
        let complaint = Self::new(error.to_string());
        match error.hint() {
            None => complaint,
            Some(hint) => complaint.hint(hint),
        }
    }
}

impl Rule {
    /// Returns what the rule is about.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the ports that it allows.
    #[must_use]
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Returns whether the rule is about this name, on whatever port.
    #[must_use]
    pub fn names(&self, name: &HostName) -> bool {
        match &self.target {
            Target::Name(own) => own == name,
            Target::Below(parent) => name.below(parent).is_some_and(is_short),
            Target::Network(_) => false,
        }
    }

    /// Returns whether the rule is a wildcard above this name that does not reach so far down.
    pub(super) fn falls_short_of(&self, name: &HostName) -> bool {
        match &self.target {
            Target::Below(parent) => name.below(parent).is_some_and(|labels| !is_short(labels)),
            Target::Name(_) | Target::Network(_) => false,
        }
    }

    /// Returns whether the rule lists this address, on whatever port.
    #[must_use]
    pub fn lists(&self, address: IpAddr) -> bool {
        match &self.target {
            Target::Network(network) => network.contains(address),
            Target::Name(_) | Target::Below(_) => false,
        }
    }
}

/// Returns whether a wildcard may stand for these labels.
fn is_short(labels: &str) -> bool {
    labels.len() <= MAX_WILDCARD_LENGTH && labels.split('.').count() <= MAX_WILDCARD_LABELS
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        if text.contains("://") {
            return Err(RuleError::Url { found: quote(text) });
        }
        let (target, ports) = match text.strip_prefix('[') {
            Some(rest) => bracketed(text, rest)?,
            None => match text.split_once(':') {
                None => (named(text)?, None),
                Some((_, ports)) if ports.contains(':') => {
                    return Err(RuleError::Brackets { found: quote(text) });
                }
                Some((target, ports)) => (named(target)?, Some(ports)),
            },
        };
        let ports = ports.map(Ports::parse).transpose()?.unwrap_or_default();
        Ok(Self { target, ports })
    }
}

/// Reads a rule that starts with a bracket, which `rest` stands after.
fn bracketed<'a>(text: &str, rest: &'a str) -> Result<(Target, Option<&'a str>), RuleError> {
    let wrong = || RuleError::Brackets { found: quote(text) };
    let (inside, after) = rest.split_once(']').ok_or_else(wrong)?;
    let ports = match after {
        "" => None,
        _ => Some(after.strip_prefix(':').ok_or_else(wrong)?),
    };
    let (address, bits) = match inside.split_once('/') {
        None => (inside, None),
        Some((address, bits)) => (address, Some(bits)),
    };
    let address: Ipv6Addr = address.parse().map_err(|_| wrong())?;
    Ok((Target::Network(network(address.into(), bits, inside)?), ports))
}

/// Reads a target without brackets.
fn named(text: &str) -> Result<Target, RuleError> {
    let (start, bits) = match text.split_once('/') {
        None => (text, None),
        Some((start, bits)) => (start, Some(bits)),
    };
    if let Ok(address) = start.parse::<Ipv4Addr>() {
        return Ok(Target::Network(network(address.into(), bits, text)?));
    }
    if bits.is_some() {
        return Err(RuleError::Url { found: quote(text) });
    }
    let (name, is_wildcard) = match text.strip_prefix("*.") {
        None => (text, false),
        Some(parent) => (parent, true),
    };
    if name.contains('*') || (is_wildcard && name.is_empty()) {
        return Err(RuleError::Wildcard { found: quote(text) });
    }
    let name = HostName::from_rule(name).map_err(RuleError::Host)?;
    if name.is_local() {
        return Err(RuleError::Local { name });
    }
    if !is_wildcard {
        return Ok(Target::Name(name));
    }
    match shared_reason(&name) {
        None => Ok(Target::Below(name)),
        Some(reason) => Err(RuleError::Shared { name, reason }),
    }
}

/// Reads the rest of an address or a range, and refuses what is not wholly public.
fn network(address: IpAddr, bits: Option<&str>, text: &str) -> Result<Network, RuleError> {
    let network = match bits {
        None => Network::single(address),
        Some(bits) => {
            let prefix = bits.parse().ok().filter(|_| bits.bytes().all(|b| b.is_ascii_digit()));
            let around = prefix.and_then(|prefix| Network::around(address, prefix));
            around.ok_or_else(|| RuleError::Network { found: quote(text) })?
        }
    };
    if network.address() != address {
        return Err(RuleError::First { first: network, found: quote(text) });
    }
    match denied_network(&network) {
        None => Ok(network),
        Some(reason) => Err(RuleError::Denied { network, reason }),
    }
}

impl TryFrom<String> for Rule {
    type Error = RuleError;
    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse()
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> Self {
        rule.to_string()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Below(name) => write!(f, "*.{name}"),
            Self::Network(network) if network.address().is_ipv6() => write!(f, "[{network}]"),
            Self::Network(network) => network.fmt(f),
        }
    }
}

impl fmt::Display for Rule {
    /// Writes the rule as a user would: without ports where it has 443 alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)?;
        if self.ports.is_standard() { Ok(()) } else { write!(f, ":{}", self.ports) }
    }
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
