//! What is noted about a session's traffic: the words of the log, and the summary of what was refused.
//!
//! Runs in: host (any thread).

use std::fmt;
use std::net::IpAddr;

use policy::ServerName;
use serde::{Deserialize, Serialize};

/// Why something was refused, failed, or ended. The words are stable: users' scripts read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// No rule names this host.
    NoRuleForName,
    /// A rule names this host, not this port.
    PortNotListed,
    /// A wildcard is above the name, which is further below than a wildcard reaches.
    WildcardLimit,
    /// `localhost`, or a name below it: the box's own.
    LocalName,
    /// No rule lists this address.
    LiteralNotListed,
    /// The address is one of the private, special or metadata ones that no rule can open.
    AddressDenied,
    /// The address belongs to the pool of names, and no name has it.
    AddressUnassigned,
    /// What was asked for is not a host name.
    NameMalformed,
    /// The name is kept for local use, and a wildcard does not reach it.
    NameReserved,
    /// The network has used as many names as it may.
    TooManyNames,
    /// The wildcard has been used for as many names as it may.
    TooManyUnderWildcard,
    /// Only TCP goes out.
    NotTcp,
    /// The session has as many connections as it may.
    TooManyFlows,
    /// No network of the session has the source address.
    SourceUnknown,
    /// The rules allow it, and no socket of the gateway listens on the port.
    PortNotOpen,
    /// The name servers gave no address.
    ResolveFailed,
    /// The name has private, special or metadata addresses alone, or this host's own.
    ResolvedPrivate,
    /// The other side refused the connection.
    ConnectRefused,
    /// The other side did not answer in time.
    TimedOut,
    /// There is no way to the other side.
    Unreachable,
    /// Both sides had said all.
    Eof,
    /// The client gave the connection up.
    ResetByClient,
    /// The other side gave the connection up.
    ResetByServer,
    /// The session ended.
    SessionEnded,
}

impl Reason {
    /// Returns the reason as a phrase for people.
    #[must_use]
    pub fn phrase(self) -> &'static str {
        match self {
            Self::NoRuleForName => "no rule for this name",
            Self::PortNotListed => "the rule for this name does not have this port",
            Self::WildcardLimit => "further below than a wildcard reaches",
            Self::LocalName => "the name is the box's own",
            Self::LiteralNotListed => "no rule for this address",
            Self::AddressDenied => "a private or special address, which no rule opens",
            Self::AddressUnassigned => "an address that no name has been given",
            Self::NameMalformed => "not a host name",
            Self::NameReserved => "a name for local use, which a wildcard does not reach",
            Self::TooManyNames => "the network has used all the names it may",
            Self::TooManyUnderWildcard => "the wildcard has been used for all the names it may",
            Self::NotTcp => "only TCP goes out",
            Self::TooManyFlows => "the session has all the connections it may",
            Self::SourceUnknown => "no network of the session has this source address",
            Self::PortNotOpen => "the gateway does not listen on this port",
            Self::ResolveFailed => "the name servers gave no address",
            Self::ResolvedPrivate => "the name has a private or special address",
            Self::ConnectRefused => "the other side refused the connection",
            Self::TimedOut => "the other side did not answer in time",
            Self::Unreachable => "there is no way to the other side",
            Self::Eof => "both sides had said all",
            Self::ResetByClient => "the client gave the connection up",
            Self::ResetByServer => "the other side gave the connection up",
            Self::SessionEnded => "the session ended",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.phrase())
    }
}

/// What kind of thing a record tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// A name was asked for.
    Dns,
    /// A connection stands.
    Open,
    /// A connection was refused or could not be made.
    Deny,
    /// A connection that stood has ended.
    Close,
    /// Something other than TCP was refused.
    Nontcp,
    /// Records that the rate cap left no room for.
    Dropped,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The rules allow it.
    Allow,
    /// It was refused.
    Deny,
    /// The rules allow it and the outside did not: nothing to change here.
    Fail,
}

/// Which protocol it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Proto {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP.
    Icmp,
    /// Another protocol.
    Other,
    /// A question to the name server.
    Dns,
}

/// One thing that happened, before it has a place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: Kind,
    pub(super) outcome: Outcome,
    pub(super) proto: Proto,
    pub(super) network: Option<ServerName>,
    /// Told by the caller where two records belong to one decision; else the log gives a new one.
    pub(super) id: Option<u64>,
    /// As it may be shown: escaped.
    pub(super) name: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) address: Option<IpAddr>,
    pub(super) rule: Option<String>,
    pub(super) reason: Option<Reason>,
    pub(super) fix: Option<String>,
    pub(super) traffic: Option<Traffic>,
}

impl Event {
    /// Returns an event with nothing but what every one has.
    pub(super) fn new(kind: Kind, outcome: Outcome, proto: Proto) -> Self {
        Self {
            kind,
            outcome,
            proto,
            network: None,
            id: None,
            name: None,
            port: None,
            address: None,
            rule: None,
            reason: None,
            fix: None,
            traffic: None,
        }
    }
}

/// What a connection carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) up: u64,
    pub(super) down: u64,
    pub(super) milliseconds: u64,
}

/// One thing that was refused or failed, however often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The number of the first decision; the log's records of it have the same `id`.
    pub id: u64,
    /// Whose network it came from; nothing for the session's own.
    pub network: Option<ServerName>,
    /// The name, or else the address, escaped.
    pub host: String,
    /// The port; nothing for a name that was asked for.
    pub port: Option<u16>,
    /// Which protocol.
    pub proto: Proto,
    /// `Deny`, or `Fail` where no rule would change it.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
    /// The rule that decided, where there was one.
    pub rule: Option<String>,
    /// The exact flag or line that would allow it, where there is one.
    pub fix: Option<String>,
    /// How often.
    pub count: u64,
}
