//! `[mcp.NAME]`.
//!
//! Runs in: any (pure data).

use std::collections::BTreeMap;
use std::time::Duration;

use super::node::{Fields, Node};
use super::{duration, egress, environment, schema};
use crate::egress::{Budget, Rule};
use crate::error::{Complaint, PolicyError};
use crate::name::ServerName;
use crate::server::{CONCURRENCY_RANGE, EnvValue, Server, ServerDirectory, Timeouts};
use crate::session::{MAX_SERVERS, SessionFile, WorkspaceChoice};

/// Reads all servers; `file` holds what was read before them, `budget` what its rules ask for.
pub(super) fn read(
    node: &Node<'_>,
    file: &SessionFile,
    budget: &mut Budget,
) -> Result<BTreeMap<ServerName, Server>, PolicyError> {
    let entries = node.entries()?;
    if let Some((_, first_over)) = entries.get(MAX_SERVERS) {
        let message = format!("expected at most {MAX_SERVERS} servers, found {}", entries.len());
        return Err(first_over.refuse(Complaint::new(message)));
    }
    let mut servers = BTreeMap::new();
    for (key, node) in entries {
        let name: ServerName = key.parse().map_err(|wrong| {
            node.refuse(Complaint::new(format!("{wrong}")).hint("this is the server's name"))
        })?;
        servers.insert(name, server(&node, file, budget)?);
    }
    Ok(servers)
}

fn server(node: &Node<'_>, file: &SessionFile, budget: &mut Budget) -> Result<Server, PolicyError> {
    let fields = node.fields(&schema::SERVER)?;
    let command = command(&fields.require("command", "an array of strings")?)?;
    let trust_workspace_code = match fields.find("trust_workspace_code") {
        None => false,
        Some(trust) => trust.flag()?,
    };
    let env = match fields.find("env") {
        None => BTreeMap::new(),
        Some(env) => environment::read_server(&env, &file.secrets, trust_workspace_code)?,
    };
    let cwd = directory(&fields, &env, &file.workspace)?;
    let concurrency = match fields.find("concurrency") {
        None => 1,
        Some(concurrency) => concurrency.whole(CONCURRENCY_RANGE)?,
    };
    let timeouts = match fields.find("timeouts") {
        None => Timeouts::default(),
        Some(timeouts) => read_timeouts(&timeouts)?,
    };
    let (egress, own_network) = network(&fields, budget)?;
    Ok(Server {
        command,
        env,
        cwd,
        trust_workspace_code,
        concurrency,
        timeouts,
        egress,
        own_network,
    })
}

fn command(node: &Node<'_>) -> Result<Vec<String>, PolicyError> {
    let elements = node.list("an array of strings")?;
    let Some(program) = elements.first() else {
        let message = "expected a program and its arguments, found an empty array";
        return Err(node.refuse(Complaint::new(message)));
    };
    if program.text("a program")?.is_empty() {
        return Err(program.expected("a program"));
    }
    elements.iter().map(word).collect()
}

/// Reads one word of a command. One without a blank is no shell's script, so a `${...}` in it would reach
/// the server as it stands.
fn word(node: &Node<'_>) -> Result<String, PolicyError> {
    let text = node.text("a string")?;
    if text.contains("${") && !text.contains(char::is_whitespace) {
        let message =
            "expected the text itself, found \"${...}\", which is not expanded in a command";
        let hint = "a secret goes into env: NAME = { secret = \"NAME\" }";
        return Err(node.refuse(Complaint::new(message).hint(hint)));
    }
    Ok(text.to_owned())
}

/// Reads where the server starts. One that holds a secret starts where the agent cannot write, unless the
/// file says otherwise.
fn directory(
    fields: &Fields<'_, '_>,
    env: &BTreeMap<String, EnvValue>,
    workspace: &WorkspaceChoice,
) -> Result<ServerDirectory, PolicyError> {
    let has_workspace = *workspace != WorkspaceChoice::None;
    let Some(node) = fields.find("cwd") else {
        let holds_secret = env.values().any(|value| matches!(value, EnvValue::Secret { .. }));
        return Ok(if holds_secret || !has_workspace {
            ServerDirectory::Home
        } else {
            ServerDirectory::Workspace
        });
    };
    let words = [("home", ServerDirectory::Home), ("workspace", ServerDirectory::Workspace)];
    let cwd = node.word(&words)?;
    if cwd == ServerDirectory::Workspace && !has_workspace {
        let message = "expected \"home\", found \"workspace\", and workspace.mode is \"none\"";
        return Err(node.refuse(Complaint::new(message)));
    }
    Ok(cwd)
}

/// Reads the server's own list and whether its network is its own, which a list implies.
fn network(
    fields: &Fields<'_, '_>,
    budget: &mut Budget,
) -> Result<(Option<Vec<Rule>>, bool), PolicyError> {
    let egress = fields.find("egress").map(|list| egress::rules(&list, budget)).transpose()?;
    let Some(node) = fields.find("network") else {
        let own_network = egress.is_some();
        return Ok((egress, own_network));
    };
    let own_network = node.word(&[("own", true), ("session", false)])?;
    if egress.is_some() && !own_network {
        let message =
            "expected \"own\", found \"session\", and egress lists what its own may reach";
        return Err(node.refuse(Complaint::new(message)));
    }
    Ok((egress, own_network))
}

fn read_timeouts(node: &Node<'_>) -> Result<Timeouts, PolicyError> {
    let fields = node.fields(&schema::TIMEOUTS)?;
    let standard = Timeouts::default();
    let read = |key: &str, unsaid: Duration| match fields.find(key) {
        None => Ok(unsaid),
        Some(node) => duration::read(&node),
    };
    let start = read("start", standard.start)?;
    let call = read("call", standard.call)?;
    let idle = read("idle", standard.idle.min(call))?;
    match fields.find("idle") {
        Some(node) if idle > call => {
            let message = format!("expected at most timeouts.call ({call:?}), found {idle:?}");
            Err(node.refuse(Complaint::new(message)))
        }
        Some(_) | None => Ok(Timeouts { start, call, idle }),
    }
}

#[cfg(test)]
#[path = "servers_tests.rs"]
mod tests;
