//! What the host would later execute or trust: read-only in the box where it exists, however it is reached.
//!
//! Runs in: the test's own process.

use std::fs;

use sandboxd_tests::{PROBE, Running, TestHost, Tree, eventually, needs};
use serde_json::{Value, json};

/// One file for each kind of trusted name.
const FILES: [&str; 12] = [
    ".git/hooks/pre-commit.sample",
    ".git/config",
    ".gitmodules",
    ".githooks/pre-push",
    ".husky/pre-commit",
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    ".devcontainer/devcontainer.json",
    ".envrc",
    ".claude/settings.json",
    ".cursor/mcp.json",
    ".mcp.json",
];

fn repository(host: &TestHost, name: &str) -> Tree {
    let tree = host.project(name);
    host.on_host(tree.path(), ["git", "init", "-q", "-b", "main"]).done();
    for file in FILES.iter().filter(|file| !file.ends_with("/config")) {
        tree.write(file, "trusted\n");
    }
    tree.write("src/a", "ordinary\n");
    tree
}

#[test]
fn trusted_files_are_read_only_and_everything_beside_them_is_not() {
    let host = needs!(TestHost::start());
    needs!(host.command("git"));
    let tree = repository(&host, "trusted");
    let before = tree.listing();
    for file in FILES {
        let answers = host.run_in(&tree).probe([
            "try", "read", file, ",", "write", file, ",", "truncate", file, ",", "unlink", file,
            ",", "chmod", "777", file, ",", "rename", file, "stolen", ",", "link", file, "linked",
        ]);
        let refused = answers.as_array().unwrap();
        assert_eq!(refused[0], "OK", "{file}");
        for (answer, operation) in
            refused[1..].iter().zip(["write", "truncate", "unlink", "chmod", "rename", "link"])
        {
            let allowed: &[&str] = match operation {
                "unlink" => &["EBUSY", "EROFS"],
                // Some lie in a mount of their own.
                "rename" => &["EBUSY", "EROFS", "EXDEV"],
                "link" => &["EXDEV", "EROFS"],
                _ => &["EROFS"],
            };
            assert!(allowed.contains(&answer.as_str().unwrap()), "{operation} {file}: {answer}");
        }
    }
    assert_eq!(tree.listing(), before);
    // The twin.
    let answers = host.run_in(&tree).probe([
        "try", "append", "src/a", ",", "create", "src/b", ",", "create", ".git/new", ",", "rename",
        "src/a", "moved", ",", "unlink", "src/b", ",", "unlink", ".git/new",
    ]);
    assert_eq!(answers, json!(vec!["OK"; 6]));
}

#[test]
fn new_files_in_a_trusted_directory_are_refused() {
    let host = needs!(TestHost::start());
    needs!(host.command("git"));
    let tree = repository(&host, "new-hooks");
    for directory in [".git/hooks", ".githooks", ".vscode", ".claude", ".cursor", ".husky", ".idea"]
    {
        let (file, below) = (format!("{directory}/new"), format!("{directory}/new-directory"));
        let answers = host.run_in(&tree).probe([
            "try", "create", &file, ",", "mkdir", &below, ",", "symlink", "/bin/sh", &file,
        ]);
        assert_eq!(answers, json!(vec!["EROFS"; 3]), "{directory}");
    }
}

#[test]
fn the_directories_above_a_trusted_path_cannot_be_moved_away() {
    let host = needs!(TestHost::start());
    needs!(host.command("git"));
    let tree = repository(&host, "ancestors");
    let before = tree.listing();
    for name in [".git", ".vscode", ".claude", ".git/hooks"] {
        let beside = format!("{name}.moved");
        let answers =
            host.run_in(&tree).probe(["try", "rename", name, &beside, ",", "rmdir", name]);
        assert_eq!(answers[0], "EBUSY", "{name}");
        assert_ne!(answers[1], "OK", "{name}");
    }
    let done = host
        .run_in(&tree)
        .shell("mv .git .git2; mkdir -p .git/hooks; echo evil > .git/hooks/post-commit");
    assert_ne!(done.status, 0);
    assert_eq!(tree.listing(), before);
    // The twin: other directories move.
    host.run_in(&tree).shell("mv src other && mv other src").done();
}

#[test]
fn git_works_beside_its_protected_settings_and_says_why_they_are_so() {
    let host = needs!(TestHost::start());
    needs!(host.command("git"));
    let tree = repository(&host, "git");
    host.run_in(&tree)
        .shell(
            "git add -A && git commit -qm all && git switch -qc side && git log --oneline | wc -l",
        )
        .done();
    let refused = host.run_in(&tree).command(["git", "config", "core.fsmonitor", "/tmp/evil"]);
    assert_ne!(refused.status, 0);
    assert!(!tree.has(".git/config.lock"));
    let value = host.on_host(tree.path(), ["git", "config", "core.fsmonitor"]);
    assert_eq!((value.status, value.text()), (1, String::new()));
    host.on_host(tree.path(), ["git", "config", "remote.origin.url", "https://git.example/x"])
        .done();
}

/// A shell in the box that carries out what it is asked, a line for a line.
fn shell(host: &TestHost, tree: &Tree) -> Running {
    let text = "while read -r line; do eval \"$line\"; done";
    host.run_in(tree).with_probe().input("").start(["sh", "-c", text])
}

/// What the probe says in it. Opening for writing changes nothing, also where it works for a moment.
fn attempt(shell: &mut Running, operations: &str) -> Value {
    let answer = shell.asks(&format!("{PROBE} try {operations}"), 1);
    serde_json::from_str(&answer).unwrap_or_default()
}

#[test]
fn a_file_that_the_host_replaces_is_protected_again() {
    let host = needs!(TestHost::start());
    needs!(host.command("git"));
    let tree = repository(&host, "replaced");
    let mut inside = shell(&host, &tree);
    assert_eq!(attempt(&mut inside, "write .git/config"), json!(["EROFS"]));
    // The host's git writes a new file and renames it over the old one.
    for round in 1..=5 {
        let name = format!("seen-by.round{round}");
        host.on_host(tree.path(), ["git", "config", &name, "yes"]).done();
        eventually("the new file is protected", || {
            attempt(&mut inside, "write .git/config") == json!(["EROFS"])
        });
        let seen = inside.asks(&format!("grep -c round{round} .git/config"), 1);
        assert_eq!(seen, "1\n");
        let moved = "rename .git/config .git/config.x , rename .git other , unlink .git/config";
        assert_eq!(attempt(&mut inside, moved), json!(["EBUSY", "EBUSY", "EBUSY"]));
    }
    inside.ends_input();
    inside.wait().done();
    assert!(tree.read(".git/config").contains("round5"));
}

#[test]
fn a_directory_that_the_host_replaces_is_protected_again() {
    let host = needs!(TestHost::start());
    needs!(host.command("git"));
    let tree = repository(&host, "replaced-directory");
    let mut inside = shell(&host, &tree);
    for (directory, old) in [(".git/hooks", "pre-commit.sample"), (".vscode", "tasks.json")] {
        assert_eq!(attempt(&mut inside, &format!("write {directory}/{old}")), json!(["EROFS"]));
        let (real, old) = (tree.at(directory), tree.at("old"));
        fs::rename(&real, &old).unwrap();
        fs::create_dir(&real).unwrap();
        fs::write(real.join("by-the-host"), "trusted").unwrap();
        eventually("the new directory is protected", || {
            attempt(&mut inside, &format!("write {directory}/by-the-host")) == json!(["EROFS"])
        });
        fs::remove_dir_all(old).unwrap();
    }
    inside.ends_input();
    inside.wait().done();
    let answers =
        host.run_in(&tree).probe(["try", "create", ".git/hooks/new", ",", "create", ".vscode/new"]);
    assert_eq!(answers, json!(vec!["EROFS"; 2]));
}

#[test]
fn a_whole_git_directory_that_the_host_replaces_is_protected_again() {
    let host = needs!(TestHost::start());
    needs!(host.command("git"));
    let tree = repository(&host, "replaced-whole");
    let mut inside = shell(&host, &tree);
    assert_eq!(attempt(&mut inside, "write .git/config"), json!(["EROFS"]));
    fs::rename(tree.at(".git"), tree.at("old-git")).unwrap();
    host.on_host(tree.path(), ["git", "init", "-q"]).done();
    for file in [".git/config", ".git/hooks/../config"] {
        eventually("the new repository is protected", || {
            attempt(&mut inside, &format!("write {file}")) == json!(["EROFS"])
        });
    }
}

#[test]
fn a_trusted_name_that_is_a_link_is_told_of() {
    let host = needs!(TestHost::start());
    let tree = host.project("linked");
    tree.write("real/settings.json", "{}");
    std::os::unix::fs::symlink("real", tree.at(".claude")).unwrap();
    let done = host.run_in(&tree).command(["true"]).expect(0);
    assert!(done.complaint().contains(".claude cannot be protected"), "{done:?}");
}

#[test]
fn in_a_read_only_workspace_nothing_can_be_written() {
    let host = needs!(TestHost::start());
    needs!(host.command("git"));
    let tree = repository(&host, "read-only");
    let before = tree.listing();
    let workspace = format!("{}:ro", tree.path().display());
    let order = host.sandboxd().with(["run", "--workspace", &workspace]);
    let answers = order.clone().probe([
        "try",
        "read",
        "src/a",
        ",",
        "write",
        "src/a",
        ",",
        "create",
        "b",
        ",",
        "mkdir",
        "d",
        ",",
        "unlink",
        "src/a",
        ",",
        "create",
        ".git/hooks/x",
        ",",
        "rename",
        "src",
        "other",
        ",",
        "rename",
        ".git",
        "other",
    ]);
    let refused = answers.as_array().unwrap();
    assert_eq!(refused[0], "OK");
    assert!(refused[1..].iter().all(|answer| answer == "EROFS"), "{answers}");
    assert_eq!(tree.listing(), before);
    // Reading tools work.
    order.command(["git", "status", "--short"]).done();
}
