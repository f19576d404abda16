//! Reads the envelope of one message and leaves its contents alone.
//!
//! Runs in: any (pure data).

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::id::is_id;

/// One message, its parts borrowed from the line it stands in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// Wants an answer.
    Request { id: &'a str, method: Cow<'a, str>, params: Option<&'a str> },
    /// Wants none.
    Notification { method: Cow<'a, str>, params: Option<&'a str> },
    /// Answers a request; without an id where that was null or missing.
    Answer { id: Option<&'a str>, body: Body<'a> },
}

/// What an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    /// The raw `result`.
    Result(&'a str),
    /// The raw `error`.
    Error(&'a str),
}

/// Says why a line is no message, with the id to answer where one can be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unfit<'a> {
    /// What is wrong.
    pub(crate) why: Why,
    /// The raw id of what looks like a request.
    pub(crate) id: Option<&'a str>,
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is not JSON.
    Syntax,
    /// It is an array of messages.
    Batch,
    /// It is JSON, but not the shape of a message.
    Shape,
}

/// The members of an envelope, each where it stands; `null` is not the same as absent.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Reads a line that has to be one message and nothing else. The line has no white space around it.
pub(crate) fn parse_line(line: &str) -> Result<Message<'_>, Unfit<'_>> {
    let unfit = |why| Unfit { why, id: None };
    match line.as_bytes().first() {
        Some(b'{') => {}
        Some(b'[') if serde_json::from_str::<&RawValue>(line).is_ok() => {
            return Err(unfit(Why::Batch));
        }
        _ if serde_json::from_str::<&RawValue>(line).is_ok() => return Err(unfit(Why::Shape)),
        _ => return Err(unfit(Why::Syntax)),
    }
    match serde_json::from_str::<Members<'_>>(line) {
        Ok(members) => members.into_message(),
        Err(error) if error.is_data() => Err(unfit(Why::Shape)),
        Err(_) => Err(unfit(Why::Syntax)),
    }
}

/// A message found in a line that may hold other things around it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found<'a> {
    /// What stands before it.
    pub(crate) before: &'a str,
    /// The message's own text.
    pub(crate) whole: &'a str,
    /// The message.
    pub(crate) message: Message<'a>,
    /// What stands after it.
    pub(crate) after: &'a str,
}

/// How many `{` are tried: each try may read the whole line.
const TRIES: usize = 16;

/// Finds the first message in what a child wrote as one line, also behind a prefix without a newline
/// (`progress 50%\r{...}`) and before another message glued to it.
pub(crate) fn find_message(line: &str) -> Option<Found<'_>> {
    memchr::memmem::find(line.as_bytes(), b"\"jsonrpc\"")?;
    memchr::memchr_iter(b'{', line.as_bytes()).take(TRIES).find_map(|at| {
        let mut stream = serde_json::Deserializer::from_str(&line[at..]).into_iter::<Members<'_>>();
        let message = stream.next()?.ok()?.into_message().ok()?;
        let end = at + stream.byte_offset();
        Some(Found { before: &line[..at], whole: &line[at..end], message, after: &line[end..] })
    })
}

impl<'a> Members<'a> {
    fn into_message(self) -> Result<Message<'a>, Unfit<'a>> {
        let id = self.id.map(RawValue::get);
        let named = id.filter(|raw| is_id(raw));
        let unfit = Unfit { why: Why::Shape, id: named };
        if self.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
            return Err(unfit);
        }
        let params = self.params.map(RawValue::get);
        let Some(method) = self.method else {
            let body = match (self.error, self.result) {
                (Some(error), _) => Body::Error(error.get()),
                (None, Some(result)) => Body::Result(result.get()),
                (None, None) => return Err(unfit),
            };
            return match (id, named) {
                (None | Some("null"), _) => Ok(Message::Answer { id: None, body }),
                (_, Some(id)) => Ok(Message::Answer { id: Some(id), body }),
                _ => Err(unfit),
            };
        };
        let Some(method) = text(method.get()) else { return Err(unfit) };
        match (id, named) {
            (None, _) => Ok(Message::Notification { method, params }),
            (_, Some(id)) => Ok(Message::Request { id, method, params }),
            _ => Err(unfit),
        }
    }
}

/// Reads the raw text of a JSON string.
fn text(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(raw).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_known_by_its_members() {
        let request = parse_line(r#"{"jsonrpc":"2.0","id":0,"method":"a\/b","params":{"x":1.10}}"#);
        let params = Some(r#"{"x":1.10}"#);
        assert_eq!(request, Ok(Message::Request { id: "0", method: "a/b".into(), params }));
        let note = parse_line(r#"{"method":"n","jsonrpc":"2.0"}"#);
        assert_eq!(note, Ok(Message::Notification { method: "n".into(), params: None }));
        let answer = parse_line(r#"{"jsonrpc":"2.0","result":null,"id":"1"}"#);
        assert_eq!(answer, Ok(Message::Answer { id: Some("\"1\""), body: Body::Result("null") }));
        let lost = parse_line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1}}"#);
        assert_eq!(lost, Ok(Message::Answer { id: None, body: Body::Error(r#"{"code":1}"#) }));
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_id_where_it_has_one() {
        let why = |line| parse_line(line).map_err(|unfit| (unfit.why, unfit.id)).unwrap_err();
        assert_eq!(why("{\"a\""), (Why::Syntax, None));
        assert_eq!(why("hello"), (Why::Syntax, None));
        assert_eq!(why("[1,"), (Why::Syntax, None));
        assert_eq!(why("[]"), (Why::Batch, None));
        assert_eq!(why(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#), (Why::Batch, None));
        assert_eq!(why("null"), (Why::Shape, None));
        assert_eq!(why(r#"{"id":1,"method":"ping"}"#), (Why::Shape, Some("1")));
        assert_eq!(why(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), (Why::Shape, None));
        assert_eq!(why(r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#), (Why::Shape, None));
        assert_eq!(why(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#), (Why::Shape, None));
        assert_eq!(why(r#"{"jsonrpc":"2.0","id":7,"method":7}"#), (Why::Shape, Some("7")));
        assert_eq!(why(r#"{"jsonrpc":"2.0","id":7}"#), (Why::Shape, Some("7")));
    }

    #[test]
    fn a_message_is_found_behind_a_prefix_and_before_another_one() {
        let line =
            r#"50% {x} {"a":1} {"jsonrpc":"2.0","id":7,"result":{}}{"jsonrpc":"2.0","method":"n"}"#;
        let found = find_message(line).unwrap();
        assert_eq!(found.before, r#"50% {x} {"a":1} "#);
        assert_eq!(found.whole, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        assert_eq!(found.after, r#"{"jsonrpc":"2.0","method":"n"}"#);
        for noise in [r#"{"not":"jsonrpc"}"#, "null", "[1,2]", "{", r#""{\"a\":1}""#, "plain"] {
            assert_eq!(find_message(noise), None, "{noise}");
        }
    }

    #[test]
    fn depth_and_many_braces_do_not_hurt() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{}1{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert!(matches!(parse_line(&deep), Ok(Message::Answer { .. })));
        let braces = format!("{}\"jsonrpc\"", "{".repeat(1_000_000));
        assert_eq!(find_message(&braces), None);
    }

    #[test]
    fn lone_surrogates_and_duplicate_keys_inside_pass() {
        let line = r#"{"jsonrpc":"2.0","id":1,"result":{"t":"\ud800","a":1,"a":2}}"#;
        let body = Body::Result(r#"{"t":"\ud800","a":1,"a":2}"#);
        assert_eq!(parse_line(line), Ok(Message::Answer { id: Some("1"), body }));
    }
}
