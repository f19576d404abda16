//! `[[mounts]]`.
//!
//! Runs in: any (pure data).

use super::node::Node;
use super::schema;
use crate::error::PolicyError;
use crate::paths;
use crate::session::{Mode, Mount, WorkspaceChoice};

/// Reads all mounts and checks them together.
pub(super) fn read(
    node: &Node<'_>,
    workspace: &WorkspaceChoice,
) -> Result<Vec<Mount>, PolicyError> {
    let elements = node.list("an array of tables, each headed [[mounts]]")?;
    let mounts = elements.iter().map(mount).collect::<Result<Vec<_>, _>>()?;
    paths::check_together(&mounts, workspace).map_err(|clash| {
        let at = elements.get(clash.index).unwrap_or(node);
        at.refuse(clash.complaint)
    })?;
    Ok(mounts)
}

fn mount(node: &Node<'_>) -> Result<Mount, PolicyError> {
    let fields = node.fields(&schema::MOUNT)?;
    let at = fields.require("source", "a path")?;
    let text = at.text("a path")?;
    let source = paths::resolve(text, at.bases()).map_err(|wrong| at.refuse(wrong))?;
    let target = match fields.find("target") {
        None => {
            paths::check_target(&source).map_err(|wrong| at.refuse(wrong))?;
            source.clone()
        }
        Some(at) => {
            let text = at.text("an absolute path in the box")?;
            paths::target(text).map_err(|wrong| at.refuse(wrong))?
        }
    };
    let mode = match fields.find("mode") {
        None => Mode::ReadOnly,
        Some(mode) => mode.word(&[("ro", Mode::ReadOnly), ("rw", Mode::ReadWrite)])?,
    };
    Ok(Mount { source, target, mode })
}

#[cfg(test)]
#[path = "mounts_tests.rs"]
mod tests;
