//! The one form in which a step that went wrong crosses from one process to another.
//!
//! Runs in: any.

use std::borrow::Cow;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

/// A step that could not be done, on what, and what the kernel said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("cannot {step}{}{object}: {}", if object.is_empty() { "" } else { " " }, describe(*errno))]
pub struct Failure {
    /// What was tried, as a verb with its kind of object: `mount the workspace`.
    pub step: Cow<'static, str>,
    /// On which object; empty when the step says it all.
    pub object: String,
    /// The kernel's answer.
    pub errno: i32,
}

impl Failure {
    /// Makes the record of a step that the kernel refused.
    pub fn new(step: &'static str, object: impl Into<String>, errno: Errno) -> Self {
        Self { step: Cow::Borrowed(step), object: object.into(), errno: errno as i32 }
    }
}

/// Says what an error number means, in words and lower case.
fn describe(errno: i32) -> String {
    let text = Errno::from_raw(errno).desc();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// Turns an error number into a [`Failure`] by saying what was tried on what.
pub trait Failing<T> {
    /// Names the step; it is about no object in particular.
    ///
    /// # Errors
    /// The error it was, with the step's name.
    fn failing(self, step: &'static str) -> Result<T, Failure>;
    /// Names the step and its object.
    ///
    /// # Errors
    /// The error it was, with the step's and the object's name.
    fn failing_on(self, step: &'static str, object: &dyn AsDisplay) -> Result<T, Failure>;
}

/// Anything that can be named in a message; paths too.
pub trait AsDisplay {
    /// Returns the text.
    fn text(&self) -> String;
}

impl AsDisplay for std::path::Path {
    fn text(&self) -> String {
        self.display().to_string()
    }
}

impl AsDisplay for std::path::PathBuf {
    fn text(&self) -> String {
        self.display().to_string()
    }
}

impl AsDisplay for &std::path::Path {
    fn text(&self) -> String {
        self.display().to_string()
    }
}

impl AsDisplay for &str {
    fn text(&self) -> String {
        (*self).to_owned()
    }
}

impl AsDisplay for String {
    fn text(&self) -> String {
        self.clone()
    }
}

impl<T> Failing<T> for Result<T, Errno> {
    fn failing(self, step: &'static str) -> Result<T, Failure> {
        self.map_err(|errno| Failure::new(step, "", errno))
    }

    fn failing_on(self, step: &'static str, object: &dyn AsDisplay) -> Result<T, Failure> {
        self.map_err(|errno| Failure::new(step, object.text(), errno))
    }
}

impl<T> Failing<T> for Result<T, std::io::Error> {
    fn failing(self, step: &'static str) -> Result<T, Failure> {
        self.map_err(errno_of).failing(step)
    }

    fn failing_on(self, step: &'static str, object: &dyn AsDisplay) -> Result<T, Failure> {
        self.map_err(errno_of).failing_on(step, object)
    }
}

fn errno_of(error: std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_reads_as_a_sentence() {
        let failure = Failure::new("mount the workspace", "/home/ann/shop", Errno::EACCES);
        let text = "cannot mount the workspace /home/ann/shop: permission denied";
        assert_eq!(failure.to_string(), text);
        let failure = Failure::new("set the host name", "", Errno::EPERM);
        assert_eq!(failure.to_string(), "cannot set the host name: operation not permitted");
    }
}
