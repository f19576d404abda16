//! Tests of what is believed of a tree.
//!
//! Runs in: host.

use super::*;

/// A repository with a worktree beside it, as `git worktree add` lays them out.
fn worktree() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(place.path()).unwrap();
    let (common, tree) = (base.join("main/.git"), base.join("tree"));
    let entry = common.join("worktrees/tree");
    for directory in [&entry, &common.join("objects"), &common.join("refs"), &tree] {
        fs::create_dir_all(directory).unwrap();
    }
    fs::write(common.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(entry.join("commondir"), "../..\n").unwrap();
    fs::write(entry.join("gitdir"), format!("{}\n", tree.join(".git").display())).unwrap();
    fs::write(tree.join(".git"), format!("gitdir: {}\n", entry.display())).unwrap();
    (place, common, tree)
}

#[test]
fn the_repository_of_a_linked_worktree_comes_along() {
    let (_place, common, tree) = worktree();
    assert_eq!(HostFacts::tree(&tree).unwrap().repository.unwrap().path, common);
}

#[test]
fn a_tree_cannot_name_a_directory_that_does_not_name_it_back() {
    let (place, common, tree) = worktree();
    let secret = fs::canonicalize(place.path()).unwrap().join("keys");
    fs::create_dir_all(secret.join("worktrees/tree")).unwrap();
    let fake = tree.join("fake/worktrees/tree");
    fs::create_dir_all(&fake).unwrap();
    fs::write(fake.join("commondir"), format!("{}\n", secret.display())).unwrap();
    fs::write(fake.join("gitdir"), format!("{}\n", tree.join(".git").display())).unwrap();
    for gitdir in
        ["fake/worktrees/tree".to_owned(), secret.join("worktrees/tree").display().to_string()]
    {
        fs::write(tree.join(".git"), format!("gitdir: {gitdir}\n")).unwrap();
        assert_eq!(HostFacts::tree(&tree).unwrap().repository, None, "{gitdir}");
    }
    // A real repository that does not know this tree.
    fs::write(common.join("worktrees/tree/gitdir"), "/elsewhere/.git\n").unwrap();
    let entry = common.join("worktrees/tree");
    fs::write(tree.join(".git"), format!("gitdir: {}\n", entry.display())).unwrap();
    assert_eq!(HostFacts::tree(&tree).unwrap().repository, None);
}
