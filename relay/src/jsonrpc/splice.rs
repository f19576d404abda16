//! Replaces parts of a line and keeps every other byte.
//!
//! Runs in: any (pure data).

use std::ops::Range;

/// One part to replace.
#[derive(Debug, Clone)]
pub(crate) struct Edit<'a> {
    /// Where the part stands in the line.
    pub(crate) at: Range<usize>,
    /// What to write there.
    pub(crate) with: &'a str,
}

/// Returns where `part`, a slice of `line`, stands in it. A slice of something else gives an empty span at
/// the end.
pub(crate) fn span(line: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).wrapping_sub(line.as_ptr() as usize);
    match start.checked_add(part.len()) {
        Some(end) if end <= line.len() => start..end,
        _ => line.len()..line.len(),
    }
}

/// Returns the pieces of `line` with the edits made, and the newline that ends a frame. Edits that overlap
/// an earlier one are left out.
pub(crate) fn splice<'a>(line: &'a str, edits: &mut [Edit<'a>]) -> Vec<&'a [u8]> {
    edits.sort_by_key(|edit| edit.at.start);
    let bytes = line.as_bytes();
    let mut pieces: Vec<&[u8]> = Vec::with_capacity(edits.len() * 2 + 2);
    let mut from = 0;
    for edit in edits.iter().filter(|edit| edit.at.end <= bytes.len()) {
        if edit.at.start < from {
            continue;
        }
        pieces.push(&bytes[from..edit.at.start]);
        pieces.push(edit.with.as_bytes());
        from = edit.at.end;
    }
    pieces.push(&bytes[from..]);
    pieces.push(b"\n");
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_spans_change() {
        let line = r#"{ "id" : 7 , "b":1,"b":[ 1.10 ], "t":0}"#;
        let (id, token) = (span(line, &line[9..10]), span(line, &line[37..38]));
        let mut edits = [Edit { at: token, with: "\"g1-1\"" }, Edit { at: id, with: "\"g1-1\"" }];
        let text = splice(line, &mut edits).concat();
        let expected = "{ \"id\" : \"g1-1\" , \"b\":1,\"b\":[ 1.10 ], \"t\":\"g1-1\"}\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert_eq!(splice(line, &mut []).concat(), [line.as_bytes(), b"\n"].concat());
    }
}
