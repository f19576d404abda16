//! `[env]` and the `env` of a server.
//!
//! Runs in: any (pure data).

use std::collections::BTreeMap;

use super::node::Node;
use super::schema;
use crate::error::{Complaint, PolicyError};
use crate::name::SecretName;
use crate::nearest::nearest;
use crate::secret::SecretSource;
use crate::server::EnvValue;
use crate::variables;

/// The secrets that the file defines.
type Secrets = BTreeMap<SecretName, SecretSource>;

/// Reads `[env]`: text only.
pub(super) fn read_session(node: &Node<'_>) -> Result<BTreeMap<String, String>, PolicyError> {
    let mut variables = BTreeMap::new();
    for (name, value) in node.entries()? {
        variables::check_name(name).map_err(|wrong| value.refuse(wrong))?;
        variables.insert(name.to_owned(), literal(&value, "a string")?);
    }
    Ok(variables)
}

/// Reads the `env` of a server: text or a secret.
///
/// With `trusts_workspace` the server may run what the agent wrote, and its variables may say so.
pub(super) fn read_server(
    node: &Node<'_>,
    secrets: &Secrets,
    trusts_workspace: bool,
) -> Result<BTreeMap<String, EnvValue>, PolicyError> {
    let mut variables = BTreeMap::new();
    for (name, value) in node.entries()? {
        variables::check_name(name).map_err(|wrong| value.refuse(wrong))?;
        let value = if value.is_table() {
            secret(&value, secrets)?
        } else {
            EnvValue::Literal(literal(&value, "a string or { secret = \"NAME\" }")?)
        };
        variables.insert(name.to_owned(), value);
    }
    let is_secret = |value: &EnvValue| matches!(value, EnvValue::Secret { .. });
    if variables.values().any(is_secret) && !trusts_workspace {
        for (name, value) in node.entries()? {
            variables::check_secret_holder(name).map_err(|wrong| value.refuse(wrong))?;
        }
    }
    Ok(variables)
}

fn literal(node: &Node<'_>, what: &str) -> Result<String, PolicyError> {
    let text = node.text(what)?;
    variables::check_literal(text).map_err(|wrong| node.refuse(wrong))?;
    Ok(text.to_owned())
}

fn secret(node: &Node<'_>, secrets: &Secrets) -> Result<EnvValue, PolicyError> {
    let fields = node.fields(&schema::SECRET_VALUE)?;
    let at = fields.require("secret", "the name of a secret")?;
    let text = at.text("the name of a secret")?;
    let defined = text.parse().ok().filter(|name: &SecretName| secrets.contains_key(name));
    let name = defined.ok_or_else(|| at.refuse(undefined(text, secrets)))?;
    let prefix = match fields.find("prefix") {
        None => String::new(),
        Some(prefix) => prefix.text("a string")?.to_owned(),
    };
    Ok(EnvValue::Secret { name, prefix })
}

/// Does not quote what stands there: it may be the secret itself.
fn undefined(text: &str, secrets: &Secrets) -> Complaint {
    let hint = match nearest(text, secrets.keys().map(SecretName::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None => "define it below [secrets]: NAME = \"file:PATH\"".to_owned(),
    };
    Complaint::new("expected the name of a secret in [secrets], found another string").hint(hint)
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
