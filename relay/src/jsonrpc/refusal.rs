//! Writes the frames that the relay makes itself.
//!
//! Runs in: any (pure data).

use serde::Serialize;
use serde_json::{Map, Value};

/// An error that the relay answers with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Refusal {
    /// One of [`super::code`].
    pub(crate) code: i64,
    /// The whole message, shown to users.
    pub(crate) message: String,
    /// `origin` and what a program may want to know.
    pub(crate) data: Map<String, Value>,
}

impl Refusal {
    /// Makes an error whose data says that it is the relay's.
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        let data = Map::from_iter([("origin".to_owned(), Value::from("relay"))]);
        Self { code, message: message.into(), data }
    }

    /// Adds one member of data.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.data.insert(key.to_owned(), value.into());
        self
    }
}

/// Returns the frame that answers `id` (null where there is none) with an error.
pub(crate) fn error_frame(id: Option<&str>, refusal: &Refusal) -> Vec<u8> {
    // A map of strings to values always serialises; an empty object is still a well-formed answer.
    let error = serde_json::to_string(refusal).unwrap_or_else(|_| "{}".to_owned());
    answer_frame(id.unwrap_or("null"), "error", &error)
}

/// Returns the frame that answers `id` with a raw `result` or `error`.
pub(crate) fn answer_frame(id: &str, member: &str, raw: &str) -> Vec<u8> {
    let mut frame = Vec::with_capacity(id.len() + raw.len() + 40);
    for part in ["{\"jsonrpc\":\"2.0\",\"id\":", id, ",\"", member, "\":", raw, "}\n"] {
        frame.extend_from_slice(part.as_bytes());
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_that_it_is_the_relays() {
        let refusal = Refusal::new(53_002, "no \"answer\"").with("limit_ms", 5);
        let text = String::from_utf8(error_frame(Some("\"a\""), &refusal)).unwrap();
        let expected = concat!(
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":53002,"message":"no \"answer\"","#,
            r#""data":{"limit_ms":5,"origin":"relay"}}}"#,
            "\n"
        );
        assert_eq!(text, expected);
    }
}
