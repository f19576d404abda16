//! Trusted names.
//!
//! Runs in: any (pure data).

use std::collections::BTreeSet;

use super::*;

#[test]
fn every_trusted_path_stays_below_where_it_starts() {
    for row in TRUSTED_PATHS.iter().chain(TRUSTED_GIT_PATHS) {
        assert!(row.path.split('/').all(|part| !matches!(part, "" | "." | "..")), "{}", row.path);
        assert!(!row.reason.is_empty() && !row.reason.ends_with('.'), "{}", row.path);
    }
}

#[test]
fn no_trusted_path_stands_twice_or_lies_below_another() {
    let mut seen = BTreeSet::new();
    for row in TRUSTED_PATHS {
        assert!(seen.insert(row.path), "{} stands twice", row.path);
        for whole in TRUSTED_PATHS.iter().filter(|other| other.kind != PathKind::File) {
            assert!(!row.path.starts_with(&format!("{}/", whole.path)), "{}", row.path);
        }
    }
}

#[test]
fn what_is_trusted_in_any_git_directory_is_trusted_in_the_workspaces_own() {
    for row in TRUSTED_GIT_PATHS {
        let own = format!(".git/{}", row.path);
        let found = TRUSTED_PATHS.iter().find(|other| other.path == own).unwrap();
        assert_eq!((found.kind, found.reason), (row.kind, row.reason));
    }
}

#[test]
fn what_an_agent_is_asked_to_edit_stays_writable() {
    for name in ["AGENTS.md", "CLAUDE.md", "package.json", ".npmrc", ".github/workflows", ".env"] {
        let covers =
            |row: &&TrustedPath| row.path == name || name.starts_with(&format!("{}/", row.path));
        assert_eq!(TRUSTED_PATHS.iter().find(covers), None, "{name}");
    }
}
