//! What is wrong with a file or a flag, and where.
//!
//! Runs in: any (pure data).

use std::fmt;

use thiserror::Error;

/// Says what a session file or a flag asks for that cannot be had, and where it asks for it.
///
/// Its text is one line: `sandbox.toml:14: mcp.tracker.env.TOKEN: expected ..., found ...`. The hint is
/// not part of it. No value that might be a secret is ever quoted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct PolicyError {
    file: Option<String>,
    line: Option<usize>,
    field: Option<String>,
    message: String,
    hint: Option<String>,
}

impl PolicyError {
    /// Makes the error of one flag: `--mount: expected ...`.
    pub(crate) fn flag(flag: &str, complaint: Complaint) -> Self {
        let Complaint { message, hint } = complaint;
        Self { file: None, line: None, field: Some(flag.to_owned()), message, hint }
    }

    /// Makes the error of one place in a file; `field` is empty where no key can be named.
    pub(crate) fn place(
        file: &str,
        line: Option<usize>,
        field: &str,
        complaint: Complaint,
    ) -> Self {
        let Complaint { message, hint } = complaint;
        let field = (!field.is_empty()).then(|| field.to_owned());
        Self { file: Some(file.to_owned()), line, field, message, hint }
    }

    /// Returns the file as the user named it; none for a flag.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Returns the line in the file, counted from 1; none for a flag.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// Returns the key (`mcp.tracker.env.TOKEN`) or the flag (`--mount`) that is at fault; none where the
    /// file is not TOML.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Returns what was expected and what was found, without the place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns what the user can do about it, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{file}:{line}: ")?,
            (Some(file), None) => write!(f, "{file}: ")?,
            (None, _) => {}
        }
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// What is wrong, before it is known where: a check's own error, placed by whoever asked for the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    message: String,
    hint: Option<String>,
}

impl Complaint {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// Quotes what a user wrote, escaped and cut to 200 bytes.
pub(crate) fn quote(text: &str) -> String {
    const LONGEST: usize = 200;
    if text.len() <= LONGEST {
        return format!("{text:?}");
    }
    let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{:?}...", text.get(..end).unwrap_or_default())
}
