//! Names that users type: sessions, servers, secrets.
//!
//! Runs in: any (pure data).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Says why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
#[error(
    "expected 1 to 63 characters of a-z, 0-9 and -, starting with a letter or a digit, found {found:?}"
)]
pub struct NameError {
    /// What stood there, cut to 80 characters.
    pub found: String,
}

/// Checks the one grammar of all names: `[a-z0-9][a-z0-9-]{0,62}`.
fn check_name(text: &str) -> Result<(), NameError> {
    let mut bytes = text.bytes();
    let starts = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let goes_on = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if starts && goes_on && text.len() <= 63 {
        return Ok(());
    }
    Err(NameError { found: text.chars().take(80).collect() })
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Returns the name as it was typed.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                check_name(text).map(|()| Self(text.to_owned()))
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                check_name(&text).map(|()| Self(text))
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// The name of a live session, unique among its user's.
    SessionName
}
name! {
    /// The name of an MCP server in a session file: `[mcp.NAME]`.
    ServerName
}
name! {
    /// The name of a secret in a session file: a key of `[secrets]`.
    SecretName
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_lower_case_letters_digits_and_hyphens() {
        for good in ["a", "0", "tracker", "a-b-9", &"x".repeat(63)] {
            assert!(SessionName::from_str(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn anything_else_is_no_name_and_the_error_quotes_it() {
        for bad in ["", "-a", "A", "a.b", "../x", "a/b", "ü", "a\0b", &"x".repeat(64)] {
            let error = ServerName::from_str(bad).unwrap_err();
            assert!(bad.starts_with(&error.found), "{bad}");
        }
    }
}
