//! Tests of what is found to be trusted.
//!
//! Runs in: host.

use super::*;
use std::os::unix::fs::symlink;

fn tree() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(place.path()).unwrap();
    for directory in [".git/hooks", ".git/refs/heads", "scripts"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for file in [".git/HEAD", ".git/config", ".git/refs/heads/main", "scripts/check.sh"] {
        fs::write(root.join(file), "").unwrap();
    }
    (place, root)
}

fn read_only(trusted: &Trusted) -> Vec<String> {
    trusted
        .guards
        .iter()
        .filter(|guard| guard.access == Access::ReadOnly)
        .map(|guard| guard.path.display().to_string())
        .collect()
}

#[test]
fn hooks_and_configuration_are_guarded_with_their_ancestors_and_nothing_else_of_git() {
    let (_place, root) = tree();
    let trusted = in_workspace(&root);
    assert_eq!(read_only(&trusted), [".git/config", ".git/hooks"]);
    assert_eq!(trusted.guards[0].path, Path::new(".git"));
    assert_eq!(trusted.guards[0].access, Access::ReadWrite);
}

#[test]
fn what_a_trusted_name_leads_to_is_guarded_too() {
    let (_place, root) = tree();
    symlink("../../scripts/check.sh", root.join(".git/hooks/pre-commit")).unwrap();
    fs::write(root.join("scripts/gitconfig"), "").unwrap();
    fs::create_dir(root.join("hooks")).unwrap();
    let text = "[core]\n\thooksPath = hooks\n[include]\n\tpath = ../scripts/gitconfig\n\
                [branch \"main\"]\n\tmerge = refs/heads/main\n[remote \"origin\"]\n\turl = scripts\n";
    fs::write(root.join(".git/config"), text).unwrap();
    let guarded = read_only(&in_workspace(&root));
    for path in ["scripts/check.sh", "scripts/gitconfig", "hooks"] {
        assert!(guarded.iter().any(|known| known == path), "{path}: {guarded:?}");
    }
    assert!(!guarded.iter().any(|path| path.contains("refs") || path == "scripts"), "{guarded:?}");
}

#[test]
fn submodules_and_linked_worktrees_are_guarded() {
    let (_place, root) = tree();
    let module = root.join(".git/modules/lib/inner");
    fs::create_dir_all(module.join("hooks")).unwrap();
    fs::write(module.join("HEAD"), "").unwrap();
    fs::write(module.join("config"), "[core]\n\tworktree = ../../../../vendor/inner\n").unwrap();
    fs::create_dir_all(root.join("vendor/inner")).unwrap();
    fs::write(root.join("vendor/inner/.git"), "gitdir: ../../.git/modules/lib/inner\n").unwrap();
    let entry = root.join(".git/worktrees/other");
    fs::create_dir_all(&entry).unwrap();
    fs::write(entry.join("commondir"), "../..\n").unwrap();
    let guarded = read_only(&in_workspace(&root));
    for path in [
        ".git/modules/lib/inner/config",
        ".git/modules/lib/inner/hooks",
        ".git/worktrees/other/commondir",
        "vendor/inner/.git",
    ] {
        assert!(guarded.iter().any(|known| known == path), "{path}: {guarded:?}");
    }
}

#[test]
fn what_cannot_be_protected_is_named() {
    let (_place, root) = tree();
    symlink("scripts", root.join(".vscode")).unwrap();
    fs::hard_link(root.join(".git/config"), root.join("kept")).unwrap();
    let trusted = in_workspace(&root);
    let named: Vec<_> = trusted.unprotected.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(named, [root.join(".git/config"), root.join(".vscode")]);
    fs::remove_file(root.join("kept")).unwrap();
    assert_eq!(in_workspace(&root).unprotected.len(), 1);
}

#[test]
fn nothing_outside_the_tree_is_followed() {
    let root = Path::new("/srv/tree");
    for path in ["../x", "a/../../x", "/etc/passwd", "", ".", "/srv/tree"] {
        assert_eq!(within(root, Path::new(path)), None, "{path}");
    }
    assert_eq!(within(root, Path::new("a/../b")), Some("b".into()));
    assert_eq!(within(root, Path::new("/srv/tree/b")), Some("b".into()));
}
