//! Cuts a stream into lines, with a bound on their length.
//!
//! Runs in: host and client (tokio).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt};

/// The most that is asked for in one read: what a pipe holds.
const READ: usize = 64 * 1024;
/// The least that is asked for; a quiet stream keeps a buffer of twice that.
const LEAST: usize = 4 * 1024;
/// How much of an over-long line's end is kept.
const TAIL: usize = 2 * 1024;
/// A byte order mark; some programs begin their output with one.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// One line, or what is known of one that was too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// A line without its newline, carriage return and byte order mark. Never empty.
    Line(&'a [u8]),
    /// The beginning of a line that has passed the bound; it goes on.
    LongHead(&'a [u8]),
    /// The last bytes of that line.
    LongTail(&'a [u8]),
    /// What stood after the last newline when the stream ended.
    Rest(&'a [u8]),
}

/// Reads lines from `R`.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// Where the current line starts.
    start: usize,
    /// Up to where no newline is.
    searched: usize,
    bound: usize,
    long: bool,
    ended: bool,
    /// How many bytes stand after the last newline, for others to see.
    unterminated: Arc<AtomicUsize>,
}

/// What `next` found, as positions, so that the buffer is borrowed once.
enum Cut {
    Line(usize, usize),
    Head(usize, usize),
    Tail(usize, usize),
    Rest(usize),
    More,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads lines of at most `bound` bytes.
    pub(crate) fn new(source: R, bound: usize) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            bound,
            long: false,
            ended: false,
            unterminated: Arc::default(),
        }
    }

    /// Returns a count of the bytes after the last newline that stays up to date.
    pub(crate) fn unterminated(&self) -> Arc<AtomicUsize> {
        self.unterminated.clone()
    }

    /// Returns the next frame; nothing at the end of the stream. Cancel-safe.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Frame<'_>>> {
        loop {
            match self.cut() {
                Cut::Line(from, to) if from == to => {}
                Cut::Line(from, to) => return Ok(Some(Frame::Line(&self.buffer[from..to]))),
                Cut::Head(from, to) => return Ok(Some(Frame::LongHead(&self.buffer[from..to]))),
                Cut::Tail(from, to) => return Ok(Some(Frame::LongTail(&self.buffer[from..to]))),
                Cut::Rest(from) => return Ok(Some(Frame::Rest(&self.buffer[from..]))),
                Cut::More if self.ended => return Ok(None),
                Cut::More => self.read().await?,
            }
        }
    }

    async fn read(&mut self) -> io::Result<()> {
        self.make_room();
        self.unterminated.store(self.buffer.len(), Ordering::Relaxed);
        self.ended = self.source.read_buf(&mut self.buffer).await? == 0;
        Ok(())
    }

    /// Moves an unfinished line to the front and sees to it that a read has room.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > 4 * READ {
            self.buffer = Vec::new();
        }
        if self.buffer.capacity() - self.buffer.len() < LEAST {
            self.buffer.reserve(self.buffer.len().clamp(2 * LEAST, READ));
        }
    }

    fn cut(&mut self) -> Cut {
        let newline = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        let Some(newline) = newline.map(|at| self.searched + at) else {
            return self.cut_unfinished();
        };
        if !self.long && newline - self.start > self.bound {
            self.long = true;
            return Cut::Head(self.start, newline);
        }
        let from = std::mem::replace(&mut self.start, newline + 1);
        self.searched = newline + 1;
        if std::mem::take(&mut self.long) {
            return Cut::Tail(from, newline);
        }
        let (from, to) = trimmed(&self.buffer, from, newline);
        Cut::Line(from, to)
    }

    fn cut_unfinished(&mut self) -> Cut {
        self.searched = self.buffer.len();
        let length = self.buffer.len() - self.start;
        if self.long {
            if self.ended {
                let from = std::mem::replace(&mut self.start, self.buffer.len());
                self.long = false;
                return Cut::Tail(from, self.buffer.len());
            }
            self.start = self.start.max(self.buffer.len().saturating_sub(TAIL));
            return Cut::More;
        }
        if length > self.bound {
            self.long = true;
            return Cut::Head(self.start, self.buffer.len());
        }
        if self.ended && length > 0 {
            let (from, to) = trimmed(&self.buffer, self.start, self.buffer.len());
            self.buffer.truncate(to);
            self.start = self.buffer.len();
            self.searched = self.start;
            return if from == to { Cut::More } else { Cut::Rest(from) };
        }
        Cut::More
    }
}

/// Takes white space and byte order marks off both ends of a span.
fn trimmed(buffer: &[u8], from: usize, to: usize) -> (usize, usize) {
    let line = &buffer[from..to];
    let kept = line.trim_ascii_end();
    let mut begin = kept.trim_ascii_start();
    while let Some(rest) = begin.strip_prefix(MARK) {
        begin = rest.trim_ascii_start();
    }
    let to = from + kept.len();
    (to - begin.len(), to)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn cut(input: &[u8], bound: usize) -> Vec<String> {
        let mut lines = Lines::new(input, bound);
        let mut all = Vec::new();
        while let Some(frame) = lines.next().await.unwrap() {
            let (kind, bytes) = match frame {
                Frame::Line(bytes) => ("line", bytes),
                Frame::LongHead(bytes) => ("head", bytes),
                Frame::LongTail(bytes) => ("tail", bytes),
                Frame::Rest(bytes) => ("rest", bytes),
            };
            let text = String::from_utf8_lossy(bytes).into_owned();
            let shown = if text.len() > 40 { format!("{} bytes", text.len()) } else { text };
            all.push(format!("{kind} {shown}"));
        }
        all
    }

    #[tokio::test]
    async fn a_stream_is_cut_at_newlines_alone() {
        let input = "\u{feff}a\r\n\n \nb\u{2028}\u{85}c\nd".as_bytes();
        assert_eq!(cut(input, 100).await, ["line a", "line b\u{2028}\u{85}c", "rest d"]);
        assert_eq!(cut(b"", 100).await, [""; 0]);
        assert_eq!(cut(b"a\n \r", 100).await, ["line a"]);
    }

    #[tokio::test]
    async fn a_line_over_the_bound_is_told_and_the_next_one_is_whole() {
        let long = "x".repeat(300_000);
        let input = format!("ok\n{long}end\nnext\n{long}");
        let all = cut(input.as_bytes(), 100_000).await;
        assert_eq!(all[0], "line ok");
        assert!(all[1].starts_with("head ") && all[2].starts_with("tail "), "{all:?}");
        assert_eq!(all[3], "line next");
        assert!(all[4].starts_with("head ") && all[5].starts_with("tail "), "{all:?}");
        assert_eq!(all.len(), 6);
    }

    #[tokio::test]
    async fn a_line_of_exactly_the_bound_passes() {
        for length in [1_000, 65_535, 65_536, 1 << 20] {
            let input = format!("{}\n", "x".repeat(length));
            assert_eq!(cut(input.as_bytes(), length).await.len(), 1, "{length}");
        }
    }
}
