//! Sessions as text for a person.
//!
//! Runs in: client (pure).

use std::fmt::Write;

use super::session::state;
use crate::api::SessionView;

/// A line a session.
pub(super) fn sessions(views: &[SessionView]) -> String {
    let mut rows = vec![["NAME", "STATE", "AGE", "SERVERS", "WORKSPACE"].map(str::to_owned)];
    for view in views {
        rows.push([
            view.name.to_string(),
            state(view.state).to_owned(),
            age(view.created),
            view.servers.len().to_string(),
            view.workspace
                .as_ref()
                .map_or_else(|| "none".to_owned(), |path| path.display().to_string()),
        ]);
    }
    align(&rows)
}

/// MCP servers, a line each.
pub(super) fn servers(view: &SessionView) -> String {
    let mut rows = vec![
        ["NAME", "STATE", "PID", "STARTS", "CALLS", "ERRORS", "LAST STDERR"].map(str::to_owned),
    ];
    for (name, server) in &view.servers {
        let field = |key: &str| match server.status.get(key) {
            None | Some(serde_json::Value::Null) => "-".to_owned(),
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let last: String = field("last_stderr").chars().take(60).collect();
        rows.push([
            name.to_string(),
            field("state"),
            field("pid"),
            field("incarnation"),
            field("calls"),
            field("errors"),
            last,
        ]);
    }
    align(&rows)
}

/// Everything about one session.
pub(super) fn session(view: &SessionView) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Ignored: writing to a String cannot fail.
        let _ = writeln!(text, "{name:<11}{value}");
    };
    line("name", view.name.to_string());
    line("id", view.id.clone());
    line("state", state(view.state).to_owned());
    line("age", age(view.created));
    let mode = view.mode.as_deref().map(|mode| format!(" ({mode})")).unwrap_or_default();
    let workspace = view.workspace.as_ref().map(|path| format!("{}{mode}", path.display()));
    line("workspace", workspace.unwrap_or_else(|| "none".to_owned()));
    if let Some(walls) = &view.walls {
        line("namespaces", walls.namespaces.join(" "));
        line(
            "landlock",
            match walls.landlock {
                0 => "none: this kernel offers no ABI that is of use".to_owned(),
                abi @ 1..=5 => format!("ABI {abi}: files, without abstract sockets and signals"),
                abi => format!("ABI {abi}: files, abstract sockets, signals"),
            },
        );
        line("seccomp", format!("{} instructions", walls.seccomp));
        line("network", walls.network.clone());
    }
    for note in &view.notes {
        line("note", note.clone());
    }
    if !view.servers.is_empty() {
        text.push('\n');
        text.push_str(&servers(view));
        for (name, server) in &view.servers {
            let secret = if server.holds_secret { "holds a secret" } else { "holds no secret" };
            let trusted =
                if server.trust_workspace_code { ", may run code of the workspace" } else { "" };
            let cwd = match server.cwd {
                policy::ServerDirectory::Home => "its home",
                policy::ServerDirectory::Workspace => "the workspace",
            };
            // Ignored: writing to a String cannot fail.
            let _ = writeln!(text, "{name}: {secret}, starts in {cwd}{trusted}");
        }
    }
    text
}

/// Pads each column to its longest entry.
fn align<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn age(created: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seconds = now.map_or(0, |now| now.as_secs()).saturating_sub(created);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}
