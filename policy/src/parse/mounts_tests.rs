//! Mounts and the paths in them.
//!
//! Runs in: any (pure data).

use std::path::Path;

use super::super::tests::{accepted, refused};

#[test]
fn a_path_that_a_symbolic_link_could_turn_is_refused() {
    for path in ["a/../b", "/a/../b", "~/../b", "./a/.."] {
        let error = format!(
            "2: workspace.path: expected a path with \"..\" at its start only, found \"{path}\""
        );
        assert!(refused(&format!("[workspace]\npath = '{path}'"), &error).is_some());
    }
    refused(
        "[workspace]\npath = '~bob/x'",
        "2: workspace.path: expected \"~/\" and a path, found \"~bob/x\"",
    );
    accepted("[workspace]\npath = '../../b'");
    accepted("[workspace]\npath = './~bob/x'");
}

#[test]
fn a_target_is_absolute_and_no_place_of_the_box() {
    let with = |target: &str| format!("[[mounts]]\nsource = '/srv/a'\ntarget = {target:?}\n");
    for good in ["/srv/b", "/etc/ssl", "/usr/local/x", "/tmp/x", "/run/x", "/procs", "/mnt/./x/"] {
        accepted(&with(good));
    }
    assert_eq!(accepted(&with("/mnt/./x/")).mounts[0].target, Path::new("/mnt/x"));
    for own in [
        "/",
        "/proc",
        "/proc/x",
        "/dev",
        "/dev/shm",
        "/sys",
        "/sys/fs",
        "/etc",
        "/usr/",
        "/tmp",
        "/run",
        "/workspace",
    ] {
        let shown = if own == "/usr/" { "/usr" } else { own };
        let error = "3: mounts[0].target: expected a path that the box does not need itself, found";
        assert!(refused(&with(own), &format!("{error} \"{shown}\"")).is_some());
    }
    for relative in ["x", "./x", "~/x", ""] {
        let error = "3: mounts[0].target: expected an absolute path in the box, found";
        refused(&with(relative), &format!("{error} \"{relative}\""));
    }
    let error = "3: mounts[0].target: expected a path without \"..\", found \"/srv/../etc\"";
    refused(&with("/srv/../etc"), error);
}

#[test]
fn a_mount_names_its_source_and_a_target_of_its_own() {
    let two = |a: &str, b: &str| format!("[[mounts]]\nsource='{a}'\n[[mounts]]\nsource='{b}'\n");
    assert_eq!(accepted(&two("/srv/a", "/srv/a/b")).mounts.len(), 2);
    refused(
        &two("/srv/a", "/srv//a/"),
        "3: mounts[1]: expected a target of its own, found an earlier mount's: \"/srv/a\"",
    );
    let workspace = "[workspace]\npath = '.'\n";
    refused(
        &format!("{workspace}{}", two("/srv/a", ".")),
        "5: mounts[1]: expected a target of its own, found the workspace's: \"/home/ann/shop\"",
    );
    accepted(&format!("{workspace}{}", two("/srv/a", "./b")));
    refused("[[mounts]]\nmode = 'ro'", "1: mounts[0].source: expected a path, found nothing");
    refused(
        "[[mounts]]\nsource = '/etc'",
        "2: mounts[0].source: expected a path that the box does not need itself, found \"/etc\"",
    );
    refused(
        "[[mounts]]\nsource='/a'\nmode='x'",
        "3: mounts[0].mode: expected \"ro\" or \"rw\", found \"x\"",
    );
    refused(
        "mounts = '/a'",
        "1: mounts: expected an array of tables, each headed [[mounts]], found a string",
    );
    refused(
        "[mounts]\nsource = '/a'",
        "1: mounts: expected an array of tables, each headed [[mounts]], found a table",
    );
    assert_eq!(accepted("mounts = [{ source = '/a' },\n{ source = '/b' }]").mounts.len(), 2);
    refused(
        "mounts = [{ source = '/a' },\n'/b']",
        "2: mounts[1]: expected a table, found a string",
    );
}
