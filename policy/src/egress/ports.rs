//! The ports of a rule.
//!
//! Runs in: any (pure data).

use std::collections::BTreeSet;
use std::fmt;

use super::rule::{Rule, RuleError};
use crate::error::quote;

/// The most ports that all rules of one session may name together: each has a listener of its own.
pub const MAX_PORTS: usize = 64;

/// The port of a rule that names none.
const STANDARD: u16 = 443;

/// Where the host answers the names of every box, whatever address is asked.
const DNS: u16 = 53;

/// The ports of a rule: 1 to 64 of them, in order, none twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports(BTreeSet<u16>);

impl Ports {
    /// Reads a list of ports and ranges: `22,443,8000-8010`.
    pub(super) fn parse(text: &str) -> Result<Self, RuleError> {
        let mut ports = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = number(first).zip(number(last)).filter(|(first, last)| first <= last);
            let Some((first, last)) = range else {
                return Err(RuleError::Ports { found: quote(text) });
            };
            ports.extend(first..=last);
        }
        if ports.contains(&DNS) {
            return Err(RuleError::Dns);
        }
        if ports.len() > MAX_PORTS {
            return Err(RuleError::TooManyPorts { found: ports.len() });
        }
        Ok(Self(ports))
    }

    /// Returns whether a port is one of these.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        self.0.contains(&port)
    }

    /// Returns each port, the lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().copied()
    }

    /// Returns whether these are what a rule has that names none.
    pub(super) fn is_standard(&self) -> bool {
        self.iter().eq([STANDARD])
    }
}

impl Default for Ports {
    /// Returns the ports of a rule that names none: 443.
    fn default() -> Self {
        Self(BTreeSet::from([STANDARD]))
    }
}

/// Reads a port as digits alone: neither `+22` nor an empty text is one.
fn number(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|port| is_plain && *port != 0)
}

impl fmt::Display for Ports {
    /// Writes three ports in a row, or more, as a range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u16, u16)> = Vec::new();
        for port in self.iter() {
            match runs.last_mut() {
                Some((_, last)) if port - *last == 1 => *last = port,
                Some(_) | None => runs.push((port, port)),
            }
        }
        for (index, (first, last)) in runs.into_iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// Returns every port that some rule names, whatever its name or address.
pub fn ports<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> BTreeSet<u16> {
    rules.into_iter().flat_map(|rule| rule.ports().iter()).collect()
}
