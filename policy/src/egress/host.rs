//! Host names in their one form.
//!
//! Runs in: any (pure data).
//!
//! The form: lower-case ASCII, no dot at the end, labels of 1 to 63 characters of `a-z0-9_-`, 253 in all,
//! and nothing that a lenient reader of addresses would take for one (`127.1`, `0xa9fea9fe`). There are two
//! ways in. A rule may hold letters beyond ASCII, which IDNA makes an `xn--` label once, at load. What
//! comes from inside a box is never folded: a byte beyond ASCII there is no name.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::error::quote;

const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// No text that is longer can become a name: a character has at most four bytes.
const LONGEST_TEXT: usize = 4 * LONGEST_NAME;

/// A host name in its one form, so that two names are the same exactly if their bytes are.
///
/// As JSON it is its text, held to the rules of `from_wire`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

/// Says why something is not a host name. What stood there is quoted, and cut to 200 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HostError {
    /// The name is empty or too long.
    #[error("expected a name of 1 to 253 characters, found {found}")]
    Length {
        /// How many stood there, without a dot at the end.
        found: usize,
    },
    /// A label is empty (two dots, a dot at the start) or too long.
    #[error("expected 1 to 63 characters before and after each dot, found {found}")]
    Label {
        /// The whole name.
        found: String,
    },
    /// A character that no host name has.
    #[error("expected a name of a-z, 0-9, -, _ and dots, found {found}")]
    Character {
        /// The whole name.
        found: String,
    },
    /// The last label is a number, so that some programs read the name as an address.
    #[error("expected a name, found {found}, which some programs read as an address")]
    Number {
        /// The whole name.
        found: String,
    },
    /// Letters beyond ASCII, or an `xn--` label, that IDNA does not allow.
    #[error("expected a name that IDNA allows, found {found}")]
    Idna {
        /// The whole name.
        found: String,
    },
    /// Letters that look like others and stand for them, such as full-width ones.
    #[error("expected the name as it is looked up, {canonical}, found {found}")]
    Spelling {
        /// The whole name.
        found: String,
        /// The name that it stands for.
        canonical: String,
    },
}

impl HostName {
    /// Reads a name that a user wrote in a rule; letters beyond ASCII become `xn--` labels.
    ///
    /// # Errors
    /// Says what of the one form it does not keep.
    pub fn from_rule(text: &str) -> Result<Self, HostError> {
        let is_encoded =
            |label: &str| label.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("xn--"));
        if text.len() > LONGEST_TEXT {
            return Err(HostError::Length { found: text.chars().count() });
        }
        if text.is_ascii() && !text.split('.').any(is_encoded) {
            return canonical(text.as_bytes());
        }
        let ascii = idna::domain_to_ascii_cow(text.as_bytes(), idna::AsciiDenyList::URL)
            .map_err(|_| HostError::Idna { found: quote(text) })?;
        let name = canonical(ascii.as_bytes())?;
        if !is_spelled(text, &name) {
            return Err(HostError::Spelling { found: quote(text), canonical: name.0 });
        }
        Ok(name)
    }

    /// Reads a name that came from inside a box, written with dots; nothing in it is folded but `A-Z`.
    ///
    /// The labels of a DNS message go through `from_labels`: one of them may hold a dot.
    ///
    /// # Errors
    /// Says what of the one form it does not keep.
    pub fn from_wire(bytes: &[u8]) -> Result<Self, HostError> {
        canonical(bytes)
    }

    /// Reads the labels of a name in a DNS message, without the empty one at its end.
    ///
    /// # Errors
    /// Says what of the one form they do not keep; a label that holds a dot is refused.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, HostError> {
        let labels = labels.into_iter().collect::<Vec<_>>();
        let bytes = labels.join(b".".as_slice());
        match labels.last() {
            Some([]) => Err(HostError::Label { found: shown(&bytes) }),
            Some(_) if labels.iter().any(|label| label.contains(&b'.')) => {
                Err(HostError::Character { found: shown(&bytes) })
            }
            Some(_) | None => canonical(&bytes),
        }
    }

    /// Returns the name in its one form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the labels, the leftmost first.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }

    /// Returns whether the name is `localhost` or lies below it: it is each box's own, and no rule's.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.labels().last() == Some("localhost")
    }

    /// Returns the labels that this name has in front of `parent`; none where it does not lie below it.
    pub(super) fn below(&self, parent: &Self) -> Option<&str> {
        self.0.strip_suffix(&parent.0)?.strip_suffix('.')
    }
}

/// Makes bytes a name.
fn canonical(bytes: &[u8]) -> Result<HostName, HostError> {
    let name = bytes.strip_suffix(b".").unwrap_or(bytes);
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(HostError::Length { found: name.len() });
    }
    let is_known = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let mut last = name;
    for label in name.split(|b| *b == b'.') {
        if !label.iter().all(is_known) {
            return Err(HostError::Character { found: shown(bytes) });
        }
        if label.is_empty() || label.len() > LONGEST_LABEL {
            return Err(HostError::Label { found: shown(bytes) });
        }
        last = label;
    }
    if is_number(last) {
        return Err(HostError::Number { found: shown(bytes) });
    }
    Ok(HostName(name.iter().map(|b| char::from(b.to_ascii_lowercase())).collect()))
}

/// Returns whether a last label makes some programs read the whole name as an address. No top-level domain
/// starts with a digit, so whatever starts with `0x` is refused.
fn is_number(label: &[u8]) -> bool {
    label.iter().all(u8::is_ascii_digit) || matches!(label, [b'0', b'x' | b'X', ..])
}

/// Returns whether `text` shows each label of `name` as it is: in ASCII, or in the letters it stands for.
fn is_spelled(text: &str, name: &HostName) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let text = text.chars().map(lower).collect::<String>();
    let (unicode, _) = idna::domain_to_unicode(name.as_str());
    let mut written = text.split('.');
    name.labels().zip(unicode.split('.')).all(|(ascii, unicode)| {
        written.next().is_some_and(|found| found == ascii || found == unicode)
    }) && written.next().is_none()
}

/// Makes a letter small, but for one that would become ASCII, such as the Kelvin sign.
fn lower(letter: char) -> char {
    let mut small = letter.to_lowercase();
    match (small.next(), small.next()) {
        (Some(only), None) if letter.is_ascii() == only.is_ascii() => only,
        _ => letter,
    }
}

fn shown(bytes: &[u8]) -> String {
    quote(&String::from_utf8_lossy(bytes))
}

impl TryFrom<String> for HostName {
    type Error = HostError;
    fn try_from(text: String) -> Result<Self, HostError> {
        canonical(text.as_bytes())
    }
}

impl From<HostName> for String {
    fn from(name: HostName) -> Self {
        name.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What somebody wants to reach.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Host {
    /// A name.
    Name(HostName),
    /// An address that stands for itself, not for a name.
    Address(IpAddr),
}

impl fmt::Display for Host {
    /// Writes an IPv6 address in brackets, so that `:PORT` can follow.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
