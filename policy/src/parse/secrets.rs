//! `[secrets]`: references, never values.
//!
//! Runs in: any (pure data).
//!
//! What stands here may be a secret that somebody put in the wrong place, so no message quotes it.

use std::collections::BTreeMap;

use toml_edit::Value;

use super::node::Node;
use crate::error::{Complaint, PolicyError};
use crate::name::SecretName;
use crate::paths::{self, Bases};
use crate::secret::SecretSource;
use crate::variables;

const WHAT: &str = "a reference: \"env:VAR\", \"file:PATH\" or 'command:[\"PROGRAM\", ...]'";

/// Reads the table.
pub(super) fn read(node: &Node<'_>) -> Result<BTreeMap<SecretName, SecretSource>, PolicyError> {
    let mut secrets = BTreeMap::new();
    for (key, value) in node.entries()? {
        let name: SecretName = key.parse().map_err(|wrong| {
            value.refuse(Complaint::new(format!("{wrong}")).hint("this is the secret's name"))
        })?;
        let text = value.text(WHAT)?;
        let source = source(text, value.bases()).map_err(|wrong| value.refuse(wrong))?;
        secrets.insert(name, source);
    }
    Ok(secrets)
}

fn source(text: &str, bases: Bases<'_>) -> Result<SecretSource, Complaint> {
    match text.split_once(':') {
        Some(("env", variable)) => {
            variables::check_grammar(variable).map_err(|_| {
                Complaint::new(
                    "expected the name of a variable after \"env:\", found something else",
                )
            })?;
            Ok(SecretSource::Env(variable.to_owned()))
        }
        Some(("file", "")) => Err(Complaint::new("expected a path after \"file:\", found nothing")),
        Some(("file", path)) => paths::resolve(path, bases).map(SecretSource::File),
        Some(("command", list)) => command(list).map(SecretSource::Command),
        Some(("credential", _)) => {
            Err(Complaint::new("\"credential:\" is not enforced by this version of sandboxd")
                .hint("use \"env:VAR\", \"file:PATH\" or 'command:[\"PROGRAM\", ...]'"))
        }
        Some(_) | None => Err(Complaint::new(format!("expected {WHAT}, found another string"))
            .hint("a secret's value never stands in this file; put it in a file of mode 0600")),
    }
}

/// Reads the array after `command:`.
fn command(list: &str) -> Result<Vec<String>, Complaint> {
    let wrong = || {
        Complaint::new("expected an array of strings after \"command:\", found something else")
            .hint(
                "such as 'command:[\"pass\", \"show\", \"tracker\"]', with single quotes around it",
            )
    };
    let value: Value = list.trim().parse().map_err(|_| wrong())?;
    let array = value.as_array().ok_or_else(wrong)?;
    let words = array
        .iter()
        .map(|word| word.as_str().map(str::to_owned).ok_or_else(wrong))
        .collect::<Result<Vec<_>, _>>()?;
    if words.iter().any(|word| word.contains('\0')) {
        return Err(Complaint::new("expected text without a NUL byte"));
    }
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        Some(_) | None => Err(Complaint::new("expected a program after \"command:\", found none")),
    }
}
