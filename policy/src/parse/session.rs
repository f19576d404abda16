//! The whole file and its small tables.
//!
//! Runs in: any (pure data).

use super::node::Node;
use super::{egress, environment, mounts, schema, secrets, servers};
use crate::egress::Budget;
use crate::error::{Complaint, PolicyError, quote};
use crate::flag::staged;
use crate::paths;
use crate::session::{
    LandlockDemand, Limits, Mode, PIDS_RANGE, SessionFile, WallsPolicy, Workspace, WorkspaceChoice,
};
use crate::tool::Tool;

/// Reads the file.
pub(super) fn read(root: &Node<'_>) -> Result<SessionFile, PolicyError> {
    let fields = root.fields(&schema::ROOT)?;
    let mut file = SessionFile::default();
    let mut budget = Budget::default();
    if let Some(node) = fields.find("tools") {
        file.tools = tools(&node)?;
    }
    if let Some(node) = fields.find("workspace") {
        file.workspace = workspace(&node)?;
    }
    if let Some(node) = fields.find("root") {
        check_root(&node)?;
    }
    if let Some(node) = fields.find("mounts") {
        file.mounts = mounts::read(&node, &file.workspace)?;
    }
    if let Some(node) = fields.find("egress") {
        file.egress = egress::read(&node, &mut budget)?;
    }
    if let Some(node) = fields.find("env") {
        file.env = environment::read_session(&node)?;
    }
    if let Some(node) = fields.find("secrets") {
        file.secrets = secrets::read(&node)?;
    }
    if let Some(node) = fields.find("mcp") {
        file.servers = servers::read(&node, &file, &mut budget)?;
    }
    if let Some(node) = fields.find("limits") {
        file.limits = limits(&node)?;
    }
    if let Some(node) = fields.find("walls") {
        file.walls = walls(&node)?;
    }
    Ok(file)
}

fn tools(node: &Node<'_>) -> Result<Vec<Tool>, PolicyError> {
    let mut tools = Vec::new();
    for element in node.list("an array of names of toolchains")? {
        let tool = element.word(&Tool::ALL.map(|tool| (tool.as_str(), tool)))?;
        if tools.contains(&tool) {
            let message = format!("expected each toolchain once, found \"{tool}\" again");
            return Err(element.refuse(Complaint::new(message)));
        }
        tools.push(tool);
    }
    Ok(tools)
}

fn workspace(node: &Node<'_>) -> Result<WorkspaceChoice, PolicyError> {
    let fields = node.fields(&schema::WORKSPACE)?;
    let mode = match fields.find("mode") {
        None => Some(Mode::ReadWrite),
        Some(mode) => workspace_mode(&mode)?,
    };
    let Some(mode) = mode else {
        return match fields.find("path") {
            None => Ok(WorkspaceChoice::None),
            Some(path) => {
                let complaint = Complaint::new("expected no path beside mode = \"none\"");
                Err(path.refuse(complaint))
            }
        };
    };
    let path = fields.require("path", "a path (\".\" is the directory of this file)")?;
    let text = path.text("a path")?;
    let path = paths::workspace(text, path.bases()).map_err(|wrong| path.refuse(wrong))?;
    Ok(WorkspaceChoice::At(Workspace { path, mode }))
}

/// Reads the mode of the workspace; nothing for `"none"`.
fn workspace_mode(node: &Node<'_>) -> Result<Option<Mode>, PolicyError> {
    let words = [("rw", Some(Mode::ReadWrite)), ("ro", Some(Mode::ReadOnly)), ("none", None)];
    match node.text("\"rw\", \"ro\" or \"none\"")? {
        "staged" => Err(node.refuse(staged())),
        _ => node.word(&words),
    }
}

/// Accepts the only root that there is: the host's own programs, read-only.
fn check_root(node: &Node<'_>) -> Result<(), PolicyError> {
    let fields = node.fields(&schema::ROOT_FILES)?;
    let Some(image) = fields.find("image") else { return Ok(()) };
    match image.text("\"host\"")? {
        "host" => Ok(()),
        other => {
            let message = format!(
                "{} is not enforced by this version of sandboxd, which has \"host\" alone",
                quote(other)
            );
            Err(image.refuse(Complaint::new(message)))
        }
    }
}

fn limits(node: &Node<'_>) -> Result<Limits, PolicyError> {
    let fields = node.fields(&schema::LIMITS)?;
    let pids = fields.find("pids").map(|pids| pids.whole(PIDS_RANGE)).transpose()?;
    Ok(Limits { pids })
}

fn walls(node: &Node<'_>) -> Result<WallsPolicy, PolicyError> {
    let fields = node.fields(&schema::WALLS)?;
    let Some(landlock) = fields.find("landlock") else { return Ok(WallsPolicy::default()) };
    let words = [("required", LandlockDemand::Required), ("available", LandlockDemand::Available)];
    Ok(WallsPolicy { landlock: landlock.word(&words)? })
}
