//! Finds the id of a line without holding or parsing the line.
//!
//! For lines that are too long, not UTF-8 or broken, and for the stub, which only has to know which
//! requests are open. It follows strings and nesting, byte by byte, and knows the members of the outermost
//! object alone.
//!
//! Runs in: any (pure data).

use super::id::is_id;

/// The longest id that is kept.
const LONGEST: usize = 1_024;

/// Follows one line, in pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    depth: usize,
    string: bool,
    escaped: bool,
    member: Member,
    key: Vec<u8>,
    id: Vec<u8>,
    id_ended: bool,
    method: bool,
}

/// Where in the outermost object the scanner stands.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Member {
    #[default]
    Key,
    Colon,
    Id,
    Other,
}

impl Scanner {
    /// Takes the next bytes of the line.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.string && !self.escaped && !self.keeps() {
                // Nothing inside this string matters but where it ends.
                let skip = memchr::memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
                bytes = &bytes[skip..];
                if let Some((&byte, rest)) = bytes.split_first() {
                    self.step(byte);
                    bytes = rest;
                }
                continue;
            }
            self.step(byte);
            bytes = rest;
        }
    }

    /// Returns the raw id of the outermost object, once it was seen whole.
    pub(crate) fn id(&self) -> Option<&str> {
        if !self.id_ended || self.id.len() >= LONGEST {
            return None;
        }
        std::str::from_utf8(&self.id).ok().map(str::trim).filter(|raw| is_id(raw))
    }

    /// Says whether the outermost object has a `method`.
    pub(crate) fn has_method(&self) -> bool {
        self.method
    }

    /// Says whether the bytes of the current string have to be kept.
    fn keeps(&self) -> bool {
        self.depth == 1 && matches!(self.member, Member::Key | Member::Id)
    }

    fn keep(&mut self, byte: u8) {
        match self.member {
            Member::Key if self.depth == 1 && self.key.len() < LONGEST => self.key.push(byte),
            Member::Id if self.id.len() < LONGEST => self.id.push(byte),
            Member::Key | Member::Colon | Member::Id | Member::Other => {}
        }
    }

    fn step(&mut self, byte: u8) {
        if self.string {
            self.step_in_string(byte);
            return;
        }
        match byte {
            b'"' => {
                self.string = self.depth > 0;
                if self.depth == 1 {
                    self.keep(byte);
                }
            }
            b'{' | b'[' => self.depth += usize::from(self.depth > 0 || byte == b'{'),
            b'}' | b']' => self.close(),
            b',' if self.depth == 1 => self.end_member(),
            b':' if self.depth == 1 && self.member == Member::Colon => self.begin_value(),
            _ if self.depth == 1 && self.member == Member::Id => self.keep(byte),
            _ => {}
        }
    }

    fn step_in_string(&mut self, byte: u8) {
        if self.keeps() {
            self.keep(byte);
        }
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' => self.escaped = true,
            b'"' => {
                self.string = false;
                if self.depth == 1 && self.member == Member::Key {
                    self.member = Member::Colon;
                }
            }
            _ => {}
        }
    }

    fn begin_value(&mut self) {
        self.method |= self.key == b"\"method\"";
        let id = self.key == b"\"id\"" && !self.id_ended;
        self.member = if id { Member::Id } else { Member::Other };
        self.key.clear();
    }

    fn end_member(&mut self) {
        self.id_ended |= self.member == Member::Id;
        self.member = Member::Key;
        self.key.clear();
    }

    fn close(&mut self) {
        if self.depth == 1 {
            self.end_member();
        }
        self.depth = self.depth.saturating_sub(1);
    }
}

/// Returns the raw id that stands as the last member at the end of a line whose beginning is not known.
pub(crate) fn id_at_end(tail: &[u8]) -> Option<&str> {
    let inner = tail.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let at = memchr::memmem::rfind(inner, b"\"id\"")?;
    let value = inner[at + 4..].trim_ascii_start().strip_prefix(b":")?.trim_ascii();
    let raw = std::str::from_utf8(value).ok()?;
    let whole = serde_json::from_str::<serde_json::Value>(raw);
    whole.is_ok_and(|value| value.is_string() || value.is_number()).then_some(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(line: &[u8], piece: usize) -> (Option<String>, bool) {
        let mut scanner = Scanner::default();
        line.chunks(piece).for_each(|bytes| scanner.feed(bytes));
        (scanner.id().map(str::to_owned), scanner.has_method())
    }

    #[test]
    fn the_id_of_the_outermost_object_is_found_in_any_cut() {
        for (line, id, method) in [
            (&br#"{"jsonrpc":"2.0","id":7,"method":"x"}"#[..], Some("7"), true),
            (br#"{"params":{"id":1,"method":"m"},"id": "a\"b" }"#, Some(r#""a\"b""#), false),
            (
                br#"noise [ {"jsonrpc":"2.0","id":"g1-2","result":{"t":"unended"#,
                Some("\"g1-2\""),
                false,
            ),
            (br#"{"result":[{"id":3}],"x":"id\":4"}"#, None, false),
            (br#"{"id":null,"result":1}"#, None, false),
            (br#"{"id":{"a":1},"result":1}"#, None, false),
            (br#"{"id":"g1-5"#, None, false),
            (b"{\"id\":\"g1-5\",\"result\":\"\xff\xfe\"}", Some("\"g1-5\""), false),
        ] {
            for piece in [1, 3, 1_000] {
                let text = String::from_utf8_lossy(line);
                assert_eq!(scan(line, piece), (id.map(str::to_owned), method), "{text}");
            }
        }
    }

    #[test]
    fn the_id_at_the_end_of_a_line_is_found() {
        assert_eq!(id_at_end(br#"xxxx"}]},"id":"g1-7"}"#), Some("\"g1-7\""));
        assert_eq!(id_at_end(br#"xxxx"}]}, "id" : 7 } "#), Some("7"));
        assert_eq!(id_at_end(br#"xx,"id":7}]}}"#), None);
        assert_eq!(id_at_end(br#"xx"}]}}"#), None);
    }
}
