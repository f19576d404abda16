//! The words of the errors that clients get from the relay.
//!
//! Runs in: any (pure data).

use std::time::Duration;

use policy::ServerName;
use serde_json::Value;

use crate::jsonrpc::{Refusal, code};
use crate::log::quote;

/// What is known about the child when an error is worded.
#[derive(Debug, Clone)]
pub(crate) struct Speaker<'a> {
    /// Which server.
    pub(crate) name: &'a ServerName,
    /// Which start of the child.
    pub(crate) incarnation: u64,
    /// The quoted end of its stderr.
    pub(crate) tail: Option<String>,
}

/// A limit of time that passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// The key in the session file.
    pub(crate) key: &'static str,
    /// How long it is.
    pub(crate) length: Duration,
    /// What it limits, said after the length.
    pub(crate) of: &'static str,
}

impl Speaker<'_> {
    /// No answer came within a limit.
    pub(crate) fn no_answer(&self, method: &str, limit: Limit, unterminated: usize) -> Refusal {
        let Limit { key, length, of } = limit;
        let hint = match unterminated {
            0 => String::new(),
            bytes => format!("; it wrote {bytes} bytes without a newline after them"),
        };
        let text = format!(
            "gave no answer to {} within {}{of} (limit of this hop: {key}){hint}",
            shown(method),
            seconds(length)
        );
        let limit = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        self.refusal(code::DEADLINE, &text).with("limit", key).with("limit_ms", limit)
    }

    /// The child ended, `how` says how, before it answered.
    pub(crate) fn ended(&self, method: &str, how: &str) -> Refusal {
        let text = format!("{how} before it answered {}", shown(method));
        self.refusal(code::ENDED, &text).with("ending", how)
    }

    /// The child could not be started.
    pub(crate) fn unspawned(&self, chain: &str) -> Refusal {
        self.plain(code::START, &format!("could not be started: {chain}"))
    }

    /// The child ended, `how` says how, in each of `tries` starts.
    pub(crate) fn died(&self, how: &str, tries: u32) -> Refusal {
        let tries = if tries > 1 { format!(" (tried {tries} times)") } else { String::new() };
        let text = format!("{how} before it answered initialize{tries}");
        self.refusal(code::START, &text).with("ending", how)
    }

    /// The child answered a repeated `initialize` with an error.
    pub(crate) fn rejected(&self, error: &str) -> Refusal {
        let text = format!("refused initialize: {}", quote(error.as_bytes(), 200));
        self.refusal(code::START, &text)
    }

    /// The breaker allows no start for `wait`.
    pub(crate) fn looping(&self, starts: usize, wait: Duration) -> Refusal {
        let text = format!(
            "was started {starts} times within 60 s and is left alone; the next start is allowed in {}",
            seconds(wait)
        );
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.refusal(code::LOOP, &text).with("retry_ms", wait)
    }

    /// Too much waits already.
    pub(crate) fn full(&self, waiting: usize) -> Refusal {
        let text = format!("has {waiting} requests waiting already; this one was not sent");
        self.plain(code::FULL, &text).with("waiting", waiting)
    }

    /// The child does not read its input.
    pub(crate) fn deaf(&self, bytes: usize) -> Refusal {
        let text =
            format!("does not read its input ({bytes} bytes wait); this request was not sent");
        self.refusal(code::FULL, &text)
    }

    /// The child's answer could not be passed on.
    pub(crate) fn unreadable(&self, method: &str, why: &str) -> Refusal {
        self.plain(code::FRAME, &format!("answered {} with {why}", shown(method)))
    }

    /// The server was ended.
    pub(crate) fn closed(&self) -> Refusal {
        self.plain(code::CLOSED, "was ended with its session")
    }

    /// A request came before `initialize`.
    pub(crate) fn ungreeted(&self, method: &str) -> Refusal {
        self.plain(code::UNGREETED, &format!("cannot take {} before initialize", shown(method)))
    }

    /// Words an error and adds the end of stderr to it.
    fn refusal(&self, code: i64, text: &str) -> Refusal {
        match &self.tail {
            None => self.plain(code, text),
            Some(tail) => self
                .plain(code, &format!("{text}; its last error output: {tail}"))
                .with("stderr", tail.trim_matches('"')),
        }
    }

    fn plain(&self, code: i64, text: &str) -> Refusal {
        let name = self.name.as_str();
        let incarnation =
            if self.incarnation > 0 { Value::from(self.incarnation) } else { Value::Null };
        Refusal::new(code, format!("relay: \"{name}\" {text}"))
            .with("server", name)
            .with("incarnation", incarnation)
    }
}

/// Returns a method as it may stand in a message: a plain one as it is, anything else quoted and cut.
pub(crate) fn shown(method: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-.$".contains(&byte);
    if !method.is_empty() && method.len() <= 64 && method.bytes().all(plain) {
        return method.to_owned();
    }
    quote(method.as_bytes(), 64)
}

/// Returns a length of time as people write it: `300 s`, `2.5 s`, `250 ms`.
pub(crate) fn seconds(length: Duration) -> String {
    let milli = length.as_millis();
    match milli {
        0..1_000 => format!("{milli} ms"),
        _ if milli.is_multiple_of(1_000) => format!("{} s", milli / 1_000),
        _ => format!("{}.{} s", milli / 1_000, milli % 1_000 / 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_hop_limit_and_last_words() {
        let name: ServerName = "tracker".parse().unwrap();
        let tail = Some("\"rate limited\"".to_owned());
        let speaker = Speaker { name: &name, incarnation: 2, tail };
        let limit = Limit { key: "timeouts.call", length: Duration::from_secs(300), of: "" };
        let refusal = speaker.no_answer("tools/call", limit, 0);
        assert_eq!(
            refusal.message,
            "relay: \"tracker\" gave no answer to tools/call within 300 s (limit of this hop: \
             timeouts.call); its last error output: \"rate limited\""
        );
        assert_eq!(refusal.data["origin"], "relay");
        assert_eq!(refusal.data["limit_ms"], 300_000);
        let ended = speaker.ended("tools/call", "ended with status 9").message;
        assert!(
            ended.starts_with(
                "relay: \"tracker\" ended with status 9 before it answered tools/call"
            )
        );
        assert_eq!(shown("evil\u{1b}[31m"), "\"evil\\x1b[31m\"");
        assert_eq!(
            [250, 2_500, 60_000].map(|milli| seconds(Duration::from_millis(milli))),
            ["250 ms", "2.5 s", "60 s"]
        );
    }
}
