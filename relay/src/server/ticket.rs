//! The relay's own ids: a word for the direction, the incarnation of the child, a running number.
//!
//! Runs in: any (pure data).

use std::fmt;

/// Names one request, in either direction; also used as its progress token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// Who asks.
    pub(crate) side: Side,
    /// Which start of the child it belongs to.
    pub(crate) incarnation: u64,
    /// Which request, over the whole life of the server.
    pub(crate) number: u64,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// A client asks the child: `g3-17`.
    Client,
    /// The child asks a client: `s3-18`.
    Child,
}

impl Ticket {
    /// Reads the raw text of an id or token; nothing where it is not exactly one of ours.
    pub(crate) fn from_raw(raw: &str) -> Option<Self> {
        let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
        let side = match inner.as_bytes().first()? {
            b'g' => Side::Client,
            b's' => Side::Child,
            _ => return None,
        };
        let (incarnation, number) = inner.get(1..)?.split_once('-')?;
        let whole = |text: &str| {
            let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
            plain.then(|| text.parse().ok()).flatten()
        };
        Some(Self { side, incarnation: whole(incarnation)?, number: whole(number)? })
    }
}

impl fmt::Display for Ticket {
    /// Writes the raw text, with the quotes of a JSON string.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Client => 'g',
            Side::Child => 's',
        };
        write!(f, "\"{side}{}-{}\"", self.incarnation, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_spelling_is_ours() {
        let ticket = Ticket { side: Side::Client, incarnation: 3, number: 17 };
        assert_eq!(ticket.to_string(), "\"g3-17\"");
        assert_eq!(Ticket::from_raw("\"g3-17\""), Some(ticket));
        assert_eq!(Ticket::from_raw("\"s3-17\"").unwrap().side, Side::Child);
        for raw in [
            "7",
            "\"7\"",
            "g3-17",
            "\"g3\"",
            "\"g03-17\"",
            "\"g3-+7\"",
            "\"g3-\"",
            "\"é3-1\"",
            "\"\"",
        ] {
            assert_eq!(Ticket::from_raw(raw), None, "{raw}");
        }
    }
}
