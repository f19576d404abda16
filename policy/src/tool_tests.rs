//! Toolchains.
//!
//! Runs in: any (pure data).

use super::*;

#[test]
fn a_toolchain_is_named_as_it_is_shown() {
    for tool in Tool::ALL {
        assert_eq!(tool.to_string().parse(), Ok(tool));
        assert_eq!(tool.row().tool, tool);
        assert_eq!(serde_json::to_string(&tool).unwrap(), format!("\"{tool}\""));
    }
}

#[test]
fn an_unknown_toolchain_is_refused_with_the_known_ones() {
    let error = "Rust".parse::<Tool>().unwrap_err();
    assert_eq!(error.to_string(), "expected one of rust, node, python, go, found \"Rust\"");
}

#[test]
fn every_path_of_a_row_stays_below_the_home() {
    for row in Tool::ALL.map(Tool::row) {
        let entries = row.path_entries.iter().map(|entry| match entry {
            PathEntry::Directory(path) | PathEntry::NewestOf(path) => *path,
        });
        for path in row.mounts.iter().copied().chain(entries).chain(row.env.iter().map(|e| e.1)) {
            assert!(path.split('/').all(|part| !matches!(part, "" | "." | "..")), "{path}");
        }
    }
}

#[test]
fn what_a_row_puts_on_the_path_is_what_it_shows() {
    for row in Tool::ALL.map(Tool::row) {
        for entry in row.path_entries {
            let shown = match entry {
                PathEntry::Directory(path) => row
                    .mounts
                    .iter()
                    .any(|mount| path.starts_with(mount) || mount.starts_with(&format!("{path}/"))),
                PathEntry::NewestOf(pattern) => {
                    assert_eq!(pattern.split('/').filter(|part| part.contains('*')).count(), 1);
                    let (before, _) = pattern.split_once("/*/").unwrap();
                    row.mounts.iter().any(|mount| before.starts_with(mount))
                }
            };
            assert!(shown, "{entry:?}");
        }
    }
}

#[test]
fn no_row_shows_a_place_of_credentials() {
    let hidden = [
        ".cargo/credentials.toml",
        ".cargo/config.toml",
        ".cargo/registry/index",
        ".npmrc",
        ".config/pip/pip.conf",
        ".netrc",
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".local/share/keyrings/login.keyring",
    ];
    for mount in Tool::ALL.iter().flat_map(|tool| tool.row().mounts) {
        for secret in hidden {
            assert!(secret != *mount && !secret.starts_with(&format!("{mount}/")), "{mount}");
        }
    }
}

#[test]
fn the_newest_version_is_the_highest_number_and_not_the_last_name() {
    let newest = |names: &[&str]| newest_version(names.iter().copied()).map(str::to_owned);
    assert_eq!(newest(&["v9.11.2", "v22.1.0", "v18.20.4"]).as_deref(), Some("v22.1.0"));
    assert_eq!(newest(&["go1.9.7", "go1.25.1"]).as_deref(), Some("go1.25.1"));
    let uv = ["cpython-3.9.20-linux-x86_64-gnu", "cpython-3.13.1-linux-x86_64-gnu"];
    assert_eq!(newest(&uv).as_deref(), Some(uv[1]));
}

#[test]
fn a_pre_release_is_taken_only_where_there_is_no_release() {
    let newest = |names: &[&str]| newest_version(names.iter().copied()).map(str::to_owned);
    assert_eq!(newest(&["3.15.0a1", "3.13.1"]).as_deref(), Some("3.13.1"));
    assert_eq!(newest(&["v23.0.0-rc.1", "v22.0.0"]).as_deref(), Some("v22.0.0"));
    assert_eq!(newest(&["3.15.0a1"]).as_deref(), Some("3.15.0a1"));
}

#[test]
fn a_name_without_a_number_is_no_version() {
    assert_eq!(newest_version(["system", "latest", "default"]), None);
    assert_eq!(newest_version([]), None);
}
