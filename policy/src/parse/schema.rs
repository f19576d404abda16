//! Which keys each table of a session file may have.
//!
//! Runs in: any (pure data).
//!
//! A key is enforced, or known and not enforced by this version, or unknown. The last two are refused, in
//! different words.

use crate::error::Complaint;
use crate::nearest::nearest;

/// The keys of one kind of table.
#[derive(Debug)]
pub(super) struct Section {
    /// What this version reads and enforces.
    pub enforced: &'static [&'static str],
    /// What the design has and this version refuses.
    pub later: &'static [&'static str],
}

impl Section {
    /// Refuses a key that this version does not enforce.
    pub(super) fn check(&self, key: &str) -> Result<(), Complaint> {
        if self.enforced.contains(&key) {
            return Ok(());
        }
        if self.later.contains(&key) {
            return Err(not_enforced());
        }
        Err(self.unknown(key))
    }

    fn unknown(&self, key: &str) -> Complaint {
        let known = self.enforced.iter().chain(self.later).copied();
        let hint = match nearest(key, known) {
            Some(near) if self.later.contains(&near) => {
                format!(
                    "the nearest key is {near}, which this version of sandboxd does not enforce"
                )
            }
            Some(near) => format!("did you mean {near}?"),
            None => format!("the keys here are {}", self.enforced.join(", ")),
        };
        Complaint::new("expected a key that sandboxd knows").hint(hint)
    }
}

/// Says that a key is known and not enforced.
fn not_enforced() -> Complaint {
    Complaint::new("not enforced by this version of sandboxd; remove it")
}

pub(super) static ROOT: Section = Section {
    enforced: &[
        "tools",
        "workspace",
        "root",
        "mounts",
        "egress",
        "env",
        "secrets",
        "mcp",
        "limits",
        "walls",
    ],
    later: &["services", "sidecars", "devices"],
};

pub(super) static WORKSPACE: Section =
    Section { enforced: &["path", "mode"], later: &["on_trusted_path"] };

pub(super) static ROOT_FILES: Section = Section { enforced: &["image"], later: &["directory"] };

pub(super) static MOUNT: Section = Section { enforced: &["source", "target", "mode"], later: &[] };

pub(super) static EGRESS: Section = Section {
    enforced: &["mode", "allow", "resolver"],
    later: &["allow_private", "deny", "ask", "audit", "filter", "tls"],
};

pub(super) static SERVER: Section = Section {
    enforced: &[
        "command",
        "env",
        "cwd",
        "trust_workspace_code",
        "concurrency",
        "timeouts",
        "egress",
        "network",
    ],
    later: &["url", "headers", "via", "tools", "allow", "deny", "redact", "devices"],
};

pub(super) static SECRET_VALUE: Section = Section { enforced: &["secret", "prefix"], later: &[] };

pub(super) static TIMEOUTS: Section = Section { enforced: &["start", "call", "idle"], later: &[] };

pub(super) static LIMITS: Section = Section {
    enforced: &["pids"],
    later: &["memory", "swap", "cpu", "cpus", "io", "disk", "files"],
};

pub(super) static WALLS: Section =
    Section { enforced: &["landlock"], later: &["nested_userns", "seccomp"] };
