//! Knows which requests have no answer yet, from the bytes that pass.
//!
//! Runs in: client (any thread).

use std::collections::VecDeque;

use crate::jsonrpc::Scanner;

/// How many open requests are known; cancelled ones are never answered and would stay for ever.
const KNOWN: usize = 4_096;

/// Follows one direction, line by line.
#[derive(Debug, Default)]
pub(super) struct Passing {
    line: Scanner,
    /// Whether the last byte ended a line.
    within: bool,
}

impl Passing {
    /// Takes the next bytes; `each` gets the id of every line that ends and whether it has a method.
    pub(super) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&str, bool)) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.feed(piece);
            self.within = !piece.ends_with(b"\n");
            if !self.within {
                self.end_line(&mut each);
            }
        }
    }

    /// Takes the end of the stream, which ends a line too.
    pub(super) fn finish(&mut self, mut each: impl FnMut(&str, bool)) {
        if std::mem::take(&mut self.within) {
            self.end_line(&mut each);
        }
    }

    /// Says whether a line has begun and not ended.
    pub(super) fn is_within(&self) -> bool {
        self.within
    }

    fn end_line(&mut self, each: &mut impl FnMut(&str, bool)) {
        let line = std::mem::take(&mut self.line);
        if let Some(id) = line.id() {
            each(id, line.has_method());
        }
    }
}

/// The ids of the client's requests that have no answer yet, in order.
#[derive(Debug, Default)]
pub(super) struct Open(VecDeque<Box<str>>);

impl Open {
    /// Notes what the client sent.
    pub(super) fn sent(&mut self, id: &str, has_method: bool) {
        if has_method {
            if self.0.len() == KNOWN {
                self.0.pop_front();
            }
            self.0.push_back(id.into());
        }
    }

    /// Notes what the client gets.
    pub(super) fn answered(&mut self, id: &str, has_method: bool) {
        if !has_method && let Some(at) = self.0.iter().position(|open| **open == *id) {
            self.0.remove(at);
        }
    }

    /// Takes all of them.
    pub(super) fn take(&mut self) -> VecDeque<Box<str>> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_and_not_answered_is_open() {
        let (mut up, mut down, mut open) =
            (Passing::default(), Passing::default(), Open::default());
        let sent = concat!(
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"b\"}\r\n",
            "{\"jsonrpc\":\"2.0\",\"method\":\"note\"}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":\"s1-1\",\"result\":{}}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"c\"}",
        );
        for piece in sent.as_bytes().chunks(5) {
            up.feed(piece, |id, method| open.sent(id, method));
        }
        up.finish(|id, method| open.sent(id, method));
        down.feed(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"res", |id, method| open.answered(id, method));
        assert!(down.is_within());
        down.feed(b"ult\":{\"id\":0}}\n", |id, method| open.answered(id, method));
        assert!(!down.is_within());
        assert_eq!(open.take(), ["\"1\"".into(), Box::<str>::from("0")]);
    }
}
