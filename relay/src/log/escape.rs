//! Makes bytes from inside fit to be shown: no control characters, no ANSI, no broken UTF-8.
//!
//! Runs in: host (any thread).

/// Returns `bytes` as one line of text in which nothing can move a cursor, start a line or change the
/// direction of writing.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            push(&mut text, character);
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

fn push(text: &mut String, character: char) {
    let number = u32::from(character);
    match character {
        '\t' | ' '..='~' => text.push(character),
        '\0'..='\x1f' | '\x7f' => text.push_str(&format!("\\x{number:02x}")),
        _ if hides(number) => text.push_str(&format!("\\u{{{number:x}}}")),
        _ => text.push(character),
    }
}

/// Says whether a character acts on the text around it instead of showing itself: C1 controls, line and
/// paragraph separators, zero-width and bidirectional marks, tags, the byte order mark.
fn hides(number: u32) -> bool {
    matches!(number,
        0x80..=0x9f | 0x00ad | 0x061c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e
        | 0x2060..=0x206f | 0xfeff | 0xfff9..=0xfffb | 0xe0000..=0xe007f)
}

/// Returns `bytes` escaped, in quotes and cut at about `limit` bytes, for use inside a message.
pub(crate) fn quote(bytes: &[u8], limit: usize) -> String {
    let cut = &bytes[..floor_char(bytes, limit)];
    let more = if cut.len() < bytes.len() { "…" } else { "" };
    let shown = escape(cut).replace('"', "'").replace('\t', " ");
    format!("\"{shown}{more}\"")
}

/// Returns the largest cut at or below `limit` that does not split a character.
fn floor_char(bytes: &[u8], limit: usize) -> usize {
    if bytes.len() <= limit {
        return bytes.len();
    }
    let lowest = limit.saturating_sub(3);
    (lowest..=limit).rev().find(|&at| bytes[at] & 0xc0 != 0x80).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_shown_line_can_act_on_a_terminal() {
        assert_eq!(escape(b"\x1b[32mINFO\x1b[0m a\tb\r"), "\\x1b[32mINFO\\x1b[0m a\tb\\x0d");
        assert_eq!(escape("x\u{202e}y\u{2028}\u{85}z".as_bytes()), "x\\u{202e}y\\u{2028}\\u{85}z");
        assert_eq!(escape(b"a\xff\xfeb"), "a\\xff\\xfeb");
        assert_eq!(escape("grün 世界".as_bytes()), "grün 世界");
    }

    #[test]
    fn a_quote_is_cut_at_a_character() {
        assert_eq!(quote("aé".as_bytes(), 2), "\"a…\"");
        assert_eq!(quote(b"say \"hi\"", 200), "\"say 'hi'\"");
    }
}
