//! The fastest MCP server there is: answers every request at once, a `tools/call` with its own text.
//!
//! It reads what this bench's client writes, whose lines are known, and is no example of reading JSON.
//!
//! Runs in: bench (the server behind every relay).

use std::io::{self, BufRead, BufReader, Write};

const GREETING: &[u8] = br#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}"#;

fn main() -> io::Result<()> {
    let mut input = BufReader::with_capacity(256 * 1024, io::stdin().lock());
    let mut output = io::stdout().lock();
    let (mut line, mut answer) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let Some(id) = between(&line, b"\"id\":", b",") else { continue };
        answer.clear();
        answer.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        answer.extend_from_slice(id);
        answer.extend_from_slice(b",\"result\":");
        match between(&line, b"\"text\":\"", b"\"") {
            Some(text) => {
                answer.extend_from_slice(b"{\"content\":[{\"type\":\"text\",\"text\":\"");
                answer.extend_from_slice(text);
                answer.extend_from_slice(b"\"}]}");
            }
            None => answer.extend_from_slice(GREETING),
        }
        answer.extend_from_slice(b"}\n");
        // Standard output is line buffered, and would be written in pieces.
        output.write_all(&answer)?;
        output.flush()?;
    }
}

/// The bytes between the first `before` and the next `after`.
fn between<'a>(line: &'a [u8], before: &[u8], after: &[u8]) -> Option<&'a [u8]> {
    let start = line.windows(before.len()).position(|window| window == before)? + before.len();
    let end = line[start..].iter().position(|byte| after.contains(byte))?;
    Some(&line[start..start + end])
}
