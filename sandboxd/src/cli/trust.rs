//! A session file that lies where a box can write is trusted once, as it was then.
//!
//! The agent cannot write it (it is bound read-only), but a host tool that the agent feeds might; so its
//! content is kept, and a change of it is shown and wants a word of the operator's.
//!
//! Runs in: client.

use std::collections::BTreeMap;
use std::path::PathBuf;

use policy::{Mode, WorkspaceChoice};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use similar::TextDiff;

use super::flags::Asked;
use super::session::SourceFile;
use crate::api::place::Place;
use crate::fault::{Fault, Kind};
use crate::host::daemon::write_whole;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Trusted {
    version: u32,
    files: BTreeMap<PathBuf, Accepted>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Accepted {
    sha256: String,
    text: String,
}

const VERSION: u32 = 1;

/// Refuses a file that has changed since it was accepted; remembers one that is new or accepted now.
pub(super) fn check(
    place: &Place,
    source: &SourceFile,
    asked: &Asked,
    accept: bool,
) -> Result<(), Fault> {
    if !is_writable_inside(source, asked) {
        return Ok(());
    }
    let mut trusted = read(place)?;
    let sha256: String =
        Sha256::digest(source.text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    match trusted.files.get(&source.path) {
        Some(known) if known.sha256 == sha256 => return Ok(()),
        Some(known) if !accept => return Err(changed(source, &known.text)),
        Some(_) | None => {}
    }
    let accepted = Accepted { sha256, text: source.text.clone() };
    trusted.files.insert(source.path.clone(), accepted);
    let text = serde_json::to_vec_pretty(&trusted).unwrap_or_default();
    write_whole(&place.trusted(), &text).map_err(|error| {
        let mut fault = Fault::chain(Kind::Host, &error);
        let path = place.trusted();
        fault.message = format!("client: cannot write {}: {}", path.display(), fault.message);
        fault
    })
}

fn is_writable_inside(source: &SourceFile, asked: &Asked) -> bool {
    let workspace = match &asked.file.workspace {
        WorkspaceChoice::At(workspace) if workspace.mode == Mode::ReadWrite => {
            std::fs::canonicalize(&workspace.path).ok()
        }
        WorkspaceChoice::Unsaid => Some(asked.caller.directory.clone()),
        WorkspaceChoice::At(_) | WorkspaceChoice::None => None,
    };
    let mounts = asked.file.mounts.iter().filter(|mount| mount.mode == Mode::ReadWrite);
    workspace
        .into_iter()
        .chain(mounts.filter_map(|mount| std::fs::canonicalize(&mount.source).ok()))
        .any(|tree| source.path.starts_with(tree))
}

fn changed(source: &SourceFile, before: &str) -> Fault {
    let diff = TextDiff::from_lines(before, source.text.as_str());
    let shown = diff.unified_diff().context_radius(1).header("accepted", "now").to_string();
    let message = format!(
        "policy: the session file {} has changed since it was accepted, and lies where a box can write:\n{}",
        source.path.display(),
        shown.trim_end()
    );
    Fault::new(Kind::Policy, message)
        .field("--file")
        .hint("say --accept-config if the change is yours")
}

fn read(place: &Place) -> Result<Trusted, Fault> {
    let path = place.trusted();
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Trusted { version: VERSION, ..Trusted::default() });
        }
        Err(error) => return Err(Fault::chain(Kind::Host, &error)),
    };
    let trusted: Option<Trusted> = serde_json::from_slice(&text).ok();
    trusted.filter(|trusted| trusted.version == VERSION).ok_or_else(|| {
        let message = format!("client: cannot read {}: expected version {VERSION}", path.display());
        Fault::new(Kind::Host, message)
            .hint("another version of sandboxd wrote it; move it away to start anew")
    })
}
