//! What the name server says: a table of names that the rules allow, and nothing from the outside.
//!
//! ```text
//!              a name that a rule has                             any other name
//! A            its synthetic address                              no such name
//! AAAA, HTTPS  empty: "no such name" would break musl's A         no such name
//! PTR          of a synthetic address: the name                   no such name
//! ANY          HINFO                                              no such name
//! other types  empty                                              no such name
//! ```
//!
//! Nothing is asked upstream, so nothing that a box puts into a name leaves the host.
//!
//! Runs in: host (any thread).

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hickory_proto::rr::{Name, RecordType};
use policy::egress::HostName;

use super::door::{Door, Side};
use super::record::{Event, Kind, Outcome, Proto, Reason};
use super::verdict::Verdict;
use super::wire::{Answer, Question};
use crate::log::escape;

/// Questions of other types that follow within this time belong to the same attempt: resolvers ask for
/// every family at once.
const COMPANIONS: Duration = Duration::from_secs(1);
/// How many refused names are remembered to tell companions.
const MAX_RECENT: usize = 64;

/// The names that were refused a moment ago.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<(String, RecordType, Instant)>>);

impl Recent {
    /// Says whether this question only belongs to one that was refused a moment ago.
    fn is_companion(&self, name: &str, kind: RecordType, now: Instant) -> bool {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while recent.front().is_some_and(|(_, _, at)| now.duration_since(*at) > COMPANIONS) {
            recent.pop_front();
        }
        if recent.iter().any(|(known, first, _)| known == name && *first != kind) {
            return true;
        }
        if recent.len() == MAX_RECENT {
            recent.pop_front();
        }
        recent.push_back((name.to_owned(), kind, now));
        false
    }
}

/// Answers one question of one network, and notes what was refused and what was allowed for the first time.
pub(super) fn answer(door: &Door, side: &Side, question: &Question) -> Answer {
    let (name, kind) = (question.name(), question.kind());
    if is_reverse(name) {
        return reverse(side, name, kind);
    }
    match HostName::from_labels(name.iter()) {
        Ok(host) if host.is_local() => local(kind),
        Ok(host) => named(door, side, &host, kind),
        Err(_) => {
            let shown = escape(name.to_ascii().as_bytes());
            refuse(door, side, &shown, kind, Verdict::deny(Reason::NameMalformed))
        }
    }
}

fn named(door: &Door, side: &Side, host: &HostName, kind: RecordType) -> Answer {
    let (verdict, standing) = side.judge_name(host);
    let Some(standing) = standing else {
        return refuse(door, side, host.as_str(), kind, verdict);
    };
    // Every type counts, not only A: the number of names is what is bounded.
    match side.names.give(host, standing.wildcard.as_deref()) {
        Err(reason) => {
            let verdict = Verdict { outcome: Outcome::Deny, reason: Some(reason), ..verdict };
            refuse(door, side, host.as_str(), kind, verdict)
        }
        Ok(given) => {
            if given.first {
                door.audit.note(verdict.tell(event(side, host.as_str())));
            }
            by_type(kind, given.address, None)
        }
    }
}

/// RFC 6761 section 6.3: these names are the machine's own, and a box is one.
fn local(kind: RecordType) -> Answer {
    by_type(kind, Ipv4Addr::LOCALHOST, Some(Ipv6Addr::LOCALHOST))
}

/// Answers for a name that is there. An address of the other family, when there is none, is empty and not
/// "no such name": musl would take that for the whole name.
fn by_type(kind: RecordType, v4: Ipv4Addr, v6: Option<Ipv6Addr>) -> Answer {
    if kind == RecordType::A {
        Answer::V4(v4)
    } else if kind == RecordType::AAAA {
        v6.map_or(Answer::Empty, Answer::V6)
    } else if kind == RecordType::ANY {
        Answer::Any
    } else if kind == RecordType::AXFR || kind == RecordType::IXFR {
        Answer::NoTransfer
    } else {
        Answer::Empty
    }
}

fn refuse(door: &Door, side: &Side, name: &str, kind: RecordType, verdict: Verdict) -> Answer {
    if !side.recent.is_companion(name, kind, Instant::now()) {
        door.audit.note(verdict.tell(event(side, name)));
    }
    Answer::NoName
}

fn event(side: &Side, name: &str) -> Event {
    let name = Some(name.to_owned());
    let network = side.name().cloned();
    Event { name, network, ..Event::new(Kind::Dns, Outcome::Deny, Proto::Dns) }
}

/// Says whether a name is that of an address. Such a question is refused without a record: it follows a
/// connection or precedes a log line, and no rule would change the answer.
fn is_reverse(name: &Name) -> bool {
    let mut labels = name.iter().rev();
    let (last, before) = (labels.next(), labels.next());
    let is = |label: Option<&[u8]>, text: &str| {
        label.is_some_and(|label| label.eq_ignore_ascii_case(text.as_bytes()))
    };
    is(last, "arpa") && (is(before, "in-addr") || is(before, "ip6"))
}

fn reverse(side: &Side, name: &Name, kind: RecordType) -> Answer {
    let address = name.parse_arpa_name().ok().map(|network| (network.addr(), network.prefix_len()));
    let host = match address {
        Some((IpAddr::V4(v4), 32)) => side.names.name_of(v4),
        Some((IpAddr::V4(_) | IpAddr::V6(_), _)) | None => None,
    };
    let name = host.and_then(|host| Name::from_ascii(format!("{host}.")).ok());
    match name {
        None => Answer::NoName,
        Some(name) if kind == RecordType::PTR => Answer::Pointer(name),
        Some(_) if kind == RecordType::ANY => Answer::Any,
        Some(_) => Answer::Empty,
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
