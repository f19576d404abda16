//! The last words of a child on stderr, for errors and the status.
//!
//! Runs in: any (pure data).

use std::collections::VecDeque;

use crate::log::{Redactor, escape, quote};

/// How many bytes of stderr an error may quote.
const QUOTED: usize = 200;
/// How many lines are kept.
const LINES: usize = 8;

/// Keeps the last lines of stderr that say something, redacted.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    lines: VecDeque<Box<[u8]>>,
    redactor: Redactor,
}

impl Tail {
    /// Makes an empty one.
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self { lines: VecDeque::new(), redactor }
    }

    /// Takes the next line.
    pub(crate) fn push(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        // Redacted before it is cut: a cut value would not be known again.
        let clean = self.redactor.redact(line);
        let clean = clean.as_deref().unwrap_or(line);
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(clean[..clean.len().min(QUOTED * 2)].into());
    }

    /// Forgets the lines of an earlier child.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
    }

    /// Returns the last line, escaped.
    pub(crate) fn last(&self) -> Option<String> {
        self.lines.back().map(|line| escape(&line[..line.len().min(QUOTED)]))
    }

    /// Returns the last lines, quoted: as many as fit, at least the last one.
    pub(crate) fn quoted(&self) -> Option<String> {
        let mut shown: VecDeque<&[u8]> = VecDeque::new();
        let mut room = QUOTED;
        for line in self.lines.iter().rev() {
            if !shown.is_empty() && line.len() + 3 > room {
                break;
            }
            room = room.saturating_sub(line.len() + 3);
            shown.push_front(line);
        }
        let text = Vec::from(shown).join(&b" | "[..]);
        (!text.is_empty()).then(|| quote(&text, QUOTED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_quotes_the_last_lines_that_fit() {
        let mut tail = Tail::new(Redactor::new(["hunter22"]));
        assert_eq!(tail.quoted(), None);
        for line in [&b"first"[..], b"", b"token hunter22\r", b"\x1b[31mbad\x1b[0m"] {
            tail.push(line);
        }
        let expected = "\"first | token [redacted] | \\x1b[31mbad\\x1b[0m\"";
        assert_eq!(tail.quoted().unwrap(), expected);
        tail.push(&[b'x'; 5_000]);
        assert_eq!(tail.quoted().unwrap(), format!("\"{}…\"", "x".repeat(200)));
        assert_eq!(tail.last().unwrap().len(), 200);
    }
}
