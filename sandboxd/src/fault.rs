//! What the user is told when something cannot be done: one form for the terminal, for `--json` and the API.
//!
//! Runs in: client, host.

use std::error::Error;
use std::fmt;

use policy::PolicyError;
use serde::{Deserialize, Serialize};

use crate::host::{SessionError, cause};

/// Whose the fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// What was typed, or named, does not exist or does not fit.
    User,
    /// A rule says no.
    Policy,
    /// This host lacks something, or refuses it.
    Host,
    /// Ours.
    Internal,
}

/// Something that could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// Whose fault it is.
    pub(crate) kind: Kind,
    /// The whole chain, outermost first.
    pub(crate) message: String,
    /// The key or flag at fault.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) field: Option<String>,
    /// What the user can do.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) hint: Option<String>,
    /// The exit status that says it: 125, or launch's 126 and 127.
    #[serde(default = "refused")]
    pub(crate) status: i32,
    /// Finds this answer again in the daemon's log.
    pub(crate) id: String,
}

/// The exit status of sandboxd's own refusals (DESIGN: as env(1) and docker use it).
pub(crate) const REFUSED: i32 = 125;

fn refused() -> i32 {
    REFUSED
}

impl Fault {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        let id = crate::identity::random_hex(4);
        Self { kind, message: message.into(), field: None, hint: None, status: REFUSED, id }
    }

    /// Makes a fault of an error and all its causes.
    pub(crate) fn chain(kind: Kind, error: &dyn Error) -> Self {
        let mut message = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            // The standard library says `Permission denied (os error 13)`.
            let text = text.split(" (os error").next().unwrap_or_default();
            message.push_str(": ");
            message.push_str(&lower_first(text));
            next = cause.source();
        }
        Self::new(kind, message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl From<PolicyError> for Fault {
    fn from(error: PolicyError) -> Self {
        let mut fault = Self::new(Kind::User, format!("policy: {error}"));
        fault.field = error.field().map(str::to_owned);
        fault.hint = error.hint().map(str::to_owned);
        fault
    }
}

impl From<SessionError> for Fault {
    fn from(error: SessionError) -> Self {
        let kind = match &error {
            SessionError::Launch(_) => Kind::User,
            SessionError::Silent(_) => Kind::Internal,
            SessionError::Host(_)
            | SessionError::Zygote(_)
            | SessionError::Setup(_)
            | SessionError::Supervisor(_)
            | SessionError::Init(_) => Kind::Host,
        };
        let mut fault = Self::new(kind, error.to_string());
        if let SessionError::Launch(failure) = &error {
            fault.status = crate::launch::status(failure);
        }
        fault.hint = cause::explain(&error);
        fault
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox_sys::{Errno, Failure};

    #[test]
    fn a_fault_names_the_process_the_step_and_the_way_out() {
        let failure = Failure::new("create a user namespace", "", Errno::EPERM);
        let fault = Fault::from(SessionError::Zygote(failure));
        let text = fault.to_string();
        assert!(
            text.starts_with("zygote: cannot create a user namespace: operation not permitted\n")
        );
        assert!(text.contains("\n\nhint: "), "{text}");
    }

    #[test]
    fn a_missing_program_has_the_status_that_a_shell_gives_it() {
        let status =
            |errno| Fault::from(SessionError::Launch(Failure::new("execute", "x", errno))).status;
        assert_eq!((status(Errno::ENOENT), status(Errno::EACCES)), (127, 126));
    }
}
