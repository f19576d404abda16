//! Removes known secret values from what is shown or kept.
//!
//! A value is looked for as it is, as JSON would write it, in base64 (both alphabets, at each of the three
//! positions it can have in a longer text), in hexadecimal and percent-encoded. Values under 4 bytes are
//! left alone: they would take ordinary words along.
//!
//! Runs in: host (any thread).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use zeroize::Zeroizing;

/// What stands where a secret stood.
const MARK: &[u8] = b"[redacted]";
/// The shortest value that is redacted.
const SHORTEST: usize = 4;
/// The shortest line of a value of several lines that is redacted on its own.
const SHORTEST_LINE: usize = 8;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Knows secret values and removes them; cheap to clone, and all clones count together.
#[derive(Clone, Default)]
pub struct Redactor(Arc<Known>);

#[derive(Default)]
struct Known {
    /// The longest first: a value may hold another one.
    needles: RwLock<Vec<Zeroizing<Vec<u8>>>>,
    count: AtomicU64,
}

type Needles<'a> = RwLockReadGuard<'a, Vec<Zeroizing<Vec<u8>>>>;

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} forms)", self.needles().len())
    }
}

impl Redactor {
    /// Returns a redactor of these values.
    #[must_use]
    pub fn new<V: AsRef<[u8]>>(values: impl IntoIterator<Item = V>) -> Self {
        let redactor = Self::default();
        redactor.learn(values);
        redactor
    }

    /// Adds values, for all clones: a server's secrets are read when it is started, and those of an earlier
    /// start still stand in what it has written.
    pub fn learn<V: AsRef<[u8]>>(&self, values: impl IntoIterator<Item = V>) {
        // The list is whole between two calls, so a panic elsewhere has not spoilt it.
        let mut needles = self.0.needles.write().unwrap_or_else(PoisonError::into_inner);
        for value in values {
            add_value(&mut needles, value.as_ref());
        }
        needles.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        needles.dedup();
    }

    fn needles(&self) -> Needles<'_> {
        self.0.needles.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many occurrences were removed so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.count.load(Ordering::Relaxed)
    }

    /// Returns `bytes` without any known value, or nothing where there was none.
    #[must_use]
    pub fn redact(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let spans = self.spans(bytes);
        if spans.is_empty() {
            return None;
        }
        self.0.count.fetch_add(spans.len() as u64, Ordering::Relaxed);
        let mut clean = Vec::with_capacity(bytes.len());
        let mut from = 0;
        for (start, end) in spans {
            clean.extend_from_slice(&bytes[from..start]);
            clean.extend_from_slice(MARK);
            from = end;
        }
        clean.extend_from_slice(&bytes[from..]);
        Some(clean)
    }

    /// Returns where an over-long line may be cut so that no known value is cut in two: whatever follows
    /// the cut has to be kept and looked at again with what comes next.
    pub(crate) fn cut(&self, bytes: &[u8]) -> usize {
        let longest = self.needles().first().map_or(0, |needle| needle.len());
        let cut = bytes.len().saturating_sub(longest.saturating_sub(1));
        let within = self.spans(bytes).into_iter().find(|&(start, end)| start < cut && cut < end);
        within.map_or(cut, |(_, end)| end)
    }

    /// Returns the occurrences of all values, in order and joined where they overlap.
    fn spans(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = Vec::new();
        for needle in self.needles().iter() {
            found.extend(
                memchr::memmem::find_iter(bytes, needle.as_slice())
                    .map(|at| (at, at + needle.len())),
            );
        }
        found.sort_unstable();
        let mut joined: Vec<(usize, usize)> = Vec::with_capacity(found.len());
        for (start, end) in found {
            match joined.last_mut() {
                Some(last) if start < last.1 => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        joined
    }
}

fn add_value(needles: &mut Vec<Zeroizing<Vec<u8>>>, value: &[u8]) {
    if value.len() < SHORTEST {
        return;
    }
    add_forms(needles, value);
    // A log has lines, so a key of several lines is met one line at a time.
    let lines: Vec<&[u8]> = value.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).collect();
    if lines.len() > 1 {
        for line in lines.into_iter().filter(|line| line.len() >= SHORTEST_LINE) {
            add_forms(needles, line);
        }
    }
}

fn add_forms(needles: &mut Vec<Zeroizing<Vec<u8>>>, value: &[u8]) {
    let mut add = |form: Vec<u8>| {
        let form = Zeroizing::new(form);
        if form.len() >= SHORTEST {
            needles.push(form);
        }
    };
    add(value.to_vec());
    if let Ok(text) = std::str::from_utf8(value)
        && let Ok(json) = serde_json::to_string(text)
    {
        add(json.as_bytes()[1..json.len() - 1].to_vec());
    }
    for alphabet in [STANDARD, URL] {
        for offset in 0..3 {
            add(base64_core(value, offset, alphabet));
        }
    }
    for upper in [false, true] {
        add(hex(value, upper));
        add(percent(value, upper));
    }
}

/// Returns the characters of a base64 text that depend on `value` alone, when `offset` bytes (modulo 3)
/// stand before it.
fn base64_core(value: &[u8], offset: usize, alphabet: &[u8; 64]) -> Vec<u8> {
    let bits = value.len() * 8;
    let first = (6 - (offset * 8) % 6) % 6;
    let sextet = |at: usize| -> u8 {
        let (byte, shift) = (at / 8, at % 8);
        let pair = u16::from(value[byte]) << 8 | u16::from(*value.get(byte + 1).unwrap_or(&0));
        let [_, low] = (pair >> (10 - shift)).to_be_bytes();
        alphabet[usize::from(low & 63)]
    };
    (first..).step_by(6).take_while(|at| at + 6 <= bits).map(sextet).collect()
}

fn hex(value: &[u8], upper: bool) -> Vec<u8> {
    let digits = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let two = |byte: &u8| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]];
    value.iter().flat_map(two).collect()
}

fn percent(value: &[u8], upper: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(value.len() * 3);
    for byte in value {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            text.push(*byte);
        } else {
            text.push(b'%');
            text.extend(hex(&[*byte], upper));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(redactor: &Redactor, text: &str) -> String {
        let clean = redactor.redact(text.as_bytes()).unwrap_or_else(|| text.as_bytes().to_vec());
        String::from_utf8(clean).unwrap()
    }

    #[test]
    fn what_is_learned_later_is_removed_by_every_clone() {
        let redactor = Redactor::default();
        let clone = redactor.clone();
        assert_eq!(clone.redact(b"a late-secret"), None);
        redactor.learn(["late-secret"]);
        assert_eq!(clone.redact(b"a late-secret").unwrap(), b"a [redacted]");
    }

    #[test]
    fn a_value_is_removed_in_each_of_its_forms() {
        let redactor = Redactor::new(["p@ss/wörd+1"]);
        for text in [
            "p@ss/wörd+1",
            "cEBzcy93w7ZyZCsx",
            "cEBzcy93w7ZyZCsx==",
            "70407373 2f 704073732f77c3b672642b31",
            "p%40ss%2Fw%C3%B6rd%2B1",
            "p%40ss%2fw%c3%b6rd%2b1",
        ] {
            assert!(shown(&redactor, text).contains("[redacted]"), "{text}");
        }
        assert_eq!(redactor.count(), 6);
        assert_eq!(shown(&redactor, "nothing here"), "nothing here");
    }

    #[test]
    fn a_value_inside_a_longer_base64_text_is_removed() {
        let redactor = Redactor::new(["s3cr3t-token"]);
        // "user:s3cr3t-token", "u:s3cr3t-token!", "abc:s3cr3t-token..": three positions.
        for text in ["dXNlcjpzM2NyM3QtdG9rZW4=", "dTpzM2NyM3QtdG9rZW4h", "YWJjOnMzY3IzdC10b2tlbi4u"]
        {
            assert!(shown(&redactor, text).contains("[redacted]"), "{text}");
        }
    }

    #[test]
    fn a_short_value_is_left_alone_and_a_value_with_quotes_is_met_in_json() {
        assert_eq!(shown(&Redactor::new(["abc"]), "abc"), "abc");
        assert_eq!(
            shown(&Redactor::new(["a\"b\\c"]), r#"{"t":"a\"b\\c"}"#),
            r#"{"t":"[redacted]"}"#
        );
    }

    #[test]
    fn a_key_of_several_lines_is_removed_line_by_line() {
        let redactor = Redactor::new(["-----BEGIN KEY-----\nMIIabcdefgh\n-----END KEY-----\n"]);
        assert_eq!(shown(&redactor, "x MIIabcdefgh y"), "x [redacted] y");
    }

    #[test]
    fn a_cut_never_splits_a_value() {
        let redactor = Redactor::new(["0123456789"]);
        for before in 0..40 {
            let text = format!("{}0123456789{}", "-".repeat(before), "-".repeat(40 - before));
            let cut = redactor.cut(text.as_bytes());
            let (head, tail) = text.split_at(cut);
            let both = format!("{}{}", shown(&redactor, head), shown(&redactor, tail));
            assert!(both.contains("[redacted]"), "{before}: {both}");
        }
    }
}
