//! Finds single members of params, where they stand.
//!
//! Runs in: any (pure data).

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Collects every value of one key of an object, as it stands.
struct Wanted<'k>(&'k str);

impl<'de> Visitor<'de> for Wanted<'_> {
    type Value = Vec<&'de str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == self.0 {
                found.push(map.next_value::<&RawValue>()?.get());
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

impl<'de> DeserializeSeed<'de> for Wanted<'_> {
    type Value = Vec<&'de str>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

/// Returns the values of all members named `key`; none where `object` is no object.
fn members<'a>(object: &'a str, key: &str) -> Vec<&'a str> {
    if memchr::memmem::find(object.as_bytes(), key.as_bytes()).is_none() {
        return Vec::new();
    }
    Wanted(key).deserialize(&mut serde_json::Deserializer::from_str(object)).unwrap_or_default()
}

/// Returns the raw value of the member `key`: the last one, which is the one most parsers see.
pub(crate) fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    members(object, key).pop()
}

/// Returns every `_meta.progressToken` of a request's params that is a string or a number.
pub(crate) fn progress_tokens(params: &str) -> Vec<&str> {
    if memchr::memmem::find(params.as_bytes(), b"progressToken").is_none() {
        return Vec::new();
    }
    let metas = members(params, "_meta");
    metas
        .into_iter()
        .flat_map(|meta| members(meta, "progressToken"))
        .filter(|raw| super::id::is_id(raw))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_progress_token_is_found_in_the_meta_of_params_alone() {
        assert_eq!(progress_tokens(r#"{"_meta":{"progressToken":0},"a":1}"#), ["0"]);
        assert_eq!(progress_tokens(r#"{"_meta": { "progressToken" : "t" } }"#), ["\"t\""]);
        assert_eq!(progress_tokens(r#"{"_meta":{"progressToken":null}}"#), [""; 0]);
        assert_eq!(progress_tokens(r#"{"arguments":{"progressToken":1}}"#), [""; 0]);
        assert_eq!(progress_tokens(r#"["_meta","progressToken"]"#), [""; 0]);
        let twice = r#"{"_meta":{"progressToken":1,"progressToken":2}}"#;
        assert_eq!(progress_tokens(twice), ["1", "2"]);
    }

    #[test]
    fn the_last_of_two_equal_members_counts() {
        assert_eq!(member(r#"{"requestId":1,"requestId":"2"}"#, "requestId"), Some("\"2\""));
        assert_eq!(member("[]", "requestId"), None);
    }
}
