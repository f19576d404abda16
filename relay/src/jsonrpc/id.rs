//! Ids of requests: kept as they were written.
//!
//! Runs in: any (pure data).

/// The id of a request as its sender wrote it: the text of a number, or a string with its quotes.
///
/// So `1`, `1.0` and `"1"` are three ids, and an answer carries the sender's own bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Id(Box<str>);

impl Id {
    /// Takes the raw text of an `id` member; nothing where it is neither a number nor a string.
    pub(crate) fn from_raw(raw: &str) -> Option<Self> {
        is_id(raw).then(|| Self(raw.into()))
    }

    /// Returns the text as it was written.
    pub(crate) fn as_raw(&self) -> &str {
        &self.0
    }

    /// Says whether `raw` names the same request: the same text, or the same string spelt with other
    /// escapes.
    pub(crate) fn is_same(&self, raw: &str) -> bool {
        if *self.0 == *raw {
            return true;
        }
        if !self.0.contains('\\') && !raw.contains('\\') {
            return false;
        }
        let decoded = |text: &str| serde_json::from_str::<String>(text).ok();
        decoded(&self.0).is_some_and(|mine| decoded(raw) == Some(mine))
    }
}

/// Says whether the raw text of a JSON value can be an id.
pub(super) fn is_id(raw: &str) -> bool {
    raw.bytes().next().is_some_and(|byte| byte == b'"' || byte == b'-' || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_typed_and_kept_as_written() {
        for raw in ["0", "-1", "\"\"", "\"1\"", "1", "1.0", "9007199254740993"] {
            assert_eq!(Id::from_raw(raw).unwrap().as_raw(), raw);
        }
        for raw in ["null", "true", "{}", "[1]", ""] {
            assert_eq!(Id::from_raw(raw), None, "{raw}");
        }
        let one = Id::from_raw("1").unwrap();
        assert!(one.is_same("1") && !one.is_same("\"1\"") && !one.is_same("1.0"));
        assert!(Id::from_raw(r#""a/b""#).unwrap().is_same(r#""\u0061\/b""#));
    }
}
