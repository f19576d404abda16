//! Which of the user's files a box sees, and that nothing is ever created among them.
//!
//! Runs in: the test's own process.

use std::os::unix::net::UnixListener;

use sandboxd_tests::{TestHost, needs};
use serde_json::json;

#[test]
fn the_workspace_is_the_caller_s_directory_at_its_own_path() {
    let host = needs!(TestHost::start());
    let tree = host.project("here");
    tree.write("file", "content");
    let done = host
        .run_in(&tree)
        .shell("pwd; readlink /workspace; cat /workspace/file; echo new > written")
        .expect(0);
    let path = tree.path().display();
    assert_eq!(done.text(), format!("{path}\n{path}\ncontent"));
    assert_eq!(tree.read("written"), "new\n");
}

#[test]
fn a_workspace_may_be_named_be_read_only_or_be_none() {
    let host = needs!(TestHost::start());
    let tree = host.project("named");
    tree.write("file", "content");
    let path = tree.path().display().to_string();
    for (flag, answers) in [
        (path.clone(), json!(["OK", "OK"])),
        (format!("{path}:rw"), json!(["OK", "OK"])),
        (format!("{path}:ro"), json!(["OK", "EROFS"])),
        ("none".to_owned(), json!(["ENOENT", "ENOENT"])),
    ] {
        let file = tree.at("file").display().to_string();
        let order = host.sandboxd().with(["run", "--workspace", &flag]);
        assert_eq!(order.probe(["try", "read", &file, ",", "append", &file]), answers, "{flag}");
    }
}

#[test]
fn staged_is_refused_until_it_is_enforced() {
    let host = needs!(TestHost::start());
    let tree = host.project("staged");
    let before = tree.listing();
    let flag = format!("{}:staged", tree.path().display());
    let done =
        host.sandboxd().with(["run", "--workspace", &flag]).command(["touch", "x"]).expect(125);
    assert!(
        done.complaint().contains("staged") && done.complaint().contains("--workspace"),
        "{done:?}"
    );
    tree.write("sandbox.toml", "[workspace]\nmode = \"staged\"\n");
    let file = tree.at("sandbox.toml");
    let done =
        host.sandboxd().with(["run", "-f"]).with([&file]).command(["touch", "x"]).expect(125);
    assert!(done.complaint().contains("sandbox.toml:2"), "{done:?}");
    std::fs::remove_file(file).unwrap();
    assert_eq!(tree.listing(), before);
}

#[test]
fn a_home_is_no_workspace_and_one_line_says_so() {
    let host = needs!(TestHost::start());
    for directory in [host.home(), host.home().parent().unwrap(), std::path::Path::new("/")] {
        let done = host
            .sandboxd()
            .with(["run"])
            .from_directory(directory)
            .shell("pwd; test -e /workspace || echo none")
            .expect(0);
        assert!(done.text().ends_with("none\n"), "{done:?}");
        assert!(done.complaint().contains("no workspace"), "{done:?}");
        assert_eq!(done.complaint().lines().count(), 1, "{done:?}");
    }
    let home = host.home().display().to_string();
    let done = host.sandboxd().with(["run", "--workspace", &home]).command(["true"]).expect(125);
    assert!(done.complaint().contains("home directory"), "{done:?}");
}

#[test]
fn a_box_sees_nothing_of_a_home_but_what_was_granted() {
    let host = needs!(TestHost::start());
    let tree = host.project("granted");
    let other = host.project("other");
    other.write("secret", "x");
    // The private home holds the way to the workspace, and nothing else.
    let done = host.run_in(&tree).shell("find ~ -mindepth 1 | sort").expect(0);
    let mut expected = String::new();
    let mut path = tree.path();
    let mut ways = vec![path];
    while path.parent().is_some_and(|parent| parent != host.home()) {
        path = path.parent().unwrap();
        ways.push(path);
    }
    for way in ways.iter().rev() {
        expected.push_str(&format!("{}\n", way.display()));
    }
    assert_eq!(done.text(), expected);
    let file = other.at("secret").display().to_string();
    assert_eq!(host.run_in(&tree).probe(["try", "read", &file]), json!(["ENOENT"]));
}

#[test]
fn mounts_are_read_only_unless_said_otherwise() {
    let host = needs!(TestHost::start());
    let tree = host.project("data");
    tree.write("file", "content");
    let source = tree.path().display().to_string();
    let file = tree.at("file").display().to_string();
    let cases = [
        (source.clone(), file.clone(), "EROFS"),
        (format!("{source}:ro"), file.clone(), "EROFS"),
        (format!("{source}:rw"), file.clone(), "OK"),
        (format!("{source}:/mnt/data"), "/mnt/data/file".to_owned(), "EROFS"),
        (format!("{source}:/mnt/data:rw"), "/mnt/data/file".to_owned(), "OK"),
        (format!("{file}:/mnt/single"), "/mnt/single".to_owned(), "EROFS"),
        (format!("{file}:/mnt/single:rw"), "/mnt/single".to_owned(), "OK"),
    ];
    for (flag, path, append) in cases {
        let answers = host.run().mount(&flag).probe(["try", "read", &path, ",", "append", &path]);
        assert_eq!(answers, json!(["OK", append]), "{flag}");
    }
    assert!(tree.read("file").starts_with("contentx"));
}

#[test]
fn a_relative_mount_starts_at_the_caller_s_directory() {
    let host = needs!(TestHost::start());
    let (tree, data) = (host.project("start"), host.project("data"));
    data.write("file", "content");
    let done =
        host.run_in(&tree).mount("../data:/mnt/data").command(["cat", "/mnt/data/file"]).expect(0);
    assert_eq!(done.text(), "content");
    tree.write("sandbox.toml", "[workspace]\npath = \".\"\n[[mounts]]\nsource = \"../data\"\ntarget = \"/mnt/there\"\nmode = \"rw\"\n");
    let file = tree.at("sandbox.toml");
    let order = host.sandboxd().with(["run", "-f"]).with([&file]);
    let done = order.shell("pwd; cat /mnt/there/file; echo more > /mnt/there/new").expect(0);
    assert_eq!(done.text(), format!("{}\ncontent", tree.path().display()));
    assert_eq!(data.read("new"), "more\n");
}

#[test]
fn nothing_is_created_in_the_user_s_trees() {
    let host = needs!(TestHost::start());
    let (tree, data) = (host.project("untouched"), host.project("data"));
    tree.write("src/a", "a").directory(".git").write(".vscode/tasks.json", "{}");
    data.write("file", "content");
    let (before, data_before) = (tree.listing(), data.listing());
    let (inside, source) = (tree.path().display(), data.path().display());
    // Plainly; with a mount beside it; with ones whose places are missing inside the workspace or a mount.
    host.run_in(&tree).command(["true"]).done();
    host.run_in(&tree).mount(data.path()).command(["true"]).done();
    for flag in [
        format!("{source}:{inside}/missing"),
        format!("{source}:{inside}/missing/deeper"),
        format!("{source}/file:{inside}/missing-file"),
        format!("{source}:{inside}/src/missing:rw"),
    ] {
        let done = host.run_in(&tree).mount(&flag).command(["true"]).expect(125);
        assert!(done.complaint().contains("nothing is created in it"), "{done:?}");
    }
    assert_eq!((tree.listing(), data.listing()), (before, data_before));
}

#[test]
fn nothing_is_created_in_the_tree_of_a_mount() {
    let host = needs!(TestHost::start());
    let (other, work) = (host.project("other"), host.project("work"));
    other.write("file", "x");
    work.write("sub/file", "y");
    let before = other.listing();
    // `work/sub` is shown at its own path, which in the box lies inside `other`.
    let outer = format!("{}:{}:rw", other.path().display(), work.path().display());
    let order = host.run().mount(&outer).mount(work.at("sub"));
    let done = order.command(["true"]);
    assert_eq!(other.listing(), before, "{done:?}");
    assert_eq!(done.status, 125, "{done:?}");
}

#[test]
fn a_mount_inside_the_workspace_at_its_own_path_is_as_it_says() {
    let host = needs!(TestHost::start());
    let tree = host.project("inner");
    tree.write("fixed/file", "x").write("free", "y");
    let answers = host.run_in(&tree).mount(format!("{}:ro", tree.at("fixed").display())).probe([
        "try",
        "write",
        "fixed/file",
        ",",
        "create",
        "fixed/new",
        ",",
        "write",
        "free",
        ",",
        "rename",
        "fixed",
        "moved",
    ]);
    assert_eq!(answers, json!(["EROFS", "EROFS", "OK", "EBUSY"]));
}

#[test]
fn a_source_that_is_missing_or_a_socket_is_refused_by_name() {
    let host = needs!(TestHost::start());
    let tree = host.project("sockets");
    let path = tree.at("daemon.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    tree.write("plain/file", "x");
    for (flag, word) in [
        (path.display().to_string(), "daemon.sock"),
        (tree.path().display().to_string(), "daemon.sock"),
        (tree.at("missing").display().to_string(), "missing"),
        ("/dev/null".to_owned(), "/dev/null"),
        ("/proc".to_owned(), "/proc"),
    ] {
        let done = host.run().mount(&flag).command(["true"]).expect(125);
        assert!(done.complaint().contains(word), "{done:?}");
    }
    host.run().mount(tree.at("plain")).command(["true"]).done();
}

/// What no box has, whatever the host's user may read.
const ABSENT: &str =
    "/etc/shadow /etc/sudoers /etc/ssl/private /etc/ssh /root/.bashrc /boot /run/systemd
    /var/log /var/lib /sys/class /dev/kmsg /dev/mem /dev/kvm /dev/fuse /dev/net /dev/console";

/// What every box has.
const PRESENT: &str =
    "/usr/bin/env /etc/passwd /etc/group /etc/hosts /etc/nsswitch.conf /etc/resolv.conf
    /etc/hostname /proc/self/status /proc/cpuinfo /dev/null /dev/urandom /dev/pts /tmp";

#[test]
fn the_host_s_secrets_are_absent_and_what_programs_need_is_there() {
    let host = needs!(TestHost::start());
    for (paths, answer) in [(ABSENT, "ENOENT"), (PRESENT, "OK")] {
        for path in paths.split_whitespace() {
            assert_eq!(host.run().probe(["try", "stat", path]), json!([answer]), "{path}");
        }
    }
    // Who the user is can be looked up; the host's other users cannot.
    let text = "whoami; wc -l < /etc/passwd; id -u; getent hosts localhost | wc -l";
    let done = host.run().shell(text).expect(0);
    let uid = nix::unistd::Uid::current();
    assert_eq!(done.text(), format!("{}\n3\n{uid}\n1\n", host.user()));
}

#[test]
fn the_host_s_system_is_read_only() {
    let host = needs!(TestHost::start());
    for operation in [
        "create /usr/bin/evil",
        "append /etc/passwd",
        "create /evil",
        "mkdir /etc/new",
        "create /dev/evil",
        "rename /etc/passwd /etc/other",
        "chmod 777 /",
    ] {
        let words = ["try"].into_iter().chain(operation.split(' '));
        let answers = host.run().probe(words);
        let refused = ["EROFS", "EACCES", "EPERM"];
        assert!(refused.contains(&answers[0].as_str().unwrap()), "{operation}: {answers}");
    }
}

#[test]
fn the_kernel_s_files_tell_little_and_take_nothing() {
    let host = needs!(TestHost::start());
    let answers = host.run().probe([
        "try",
        "write",
        "/proc/sys/kernel/core_pattern",
        ",",
        "write",
        "/proc/sys/kernel/hostname",
        ",",
        "write",
        "/proc/sysrq-trigger",
        ",",
        "list",
        "/sys/kernel",
        ",",
        "read",
        "/proc/kcore",
        ",",
        "create",
        "/proc/new",
        ",",
        "write",
        "/proc/self/oom_score_adj",
        ",",
        "read",
        "/proc/meminfo",
    ]);
    let answers = answers.as_array().unwrap();
    for index in [0, 1] {
        assert!(["EROFS", "EACCES"].contains(&answers[index].as_str().unwrap()), "{answers:?}");
    }
    assert_eq!(answers[7], "OK");
    let masked = "for f in keys key-users timer_list kmsg kallsyms config.gz sysrq-trigger; do
        test -e /proc/$f || continue; head -c 100 /proc/$f 2>/dev/null | wc -c; done | sort -u";
    assert_eq!(host.run().shell(masked).expect(0).text().trim(), "0");
    let lowered = host.run().shell("echo -1000 > /proc/self/oom_score_adj");
    assert_ne!(lowered.status, 0);
}

#[test]
fn what_is_not_granted_stays_closed_through_every_link() {
    let host = needs!(TestHost::start());
    let tree = host.project("links");
    let outside = host.project("outside");
    outside.write("secret", "x");
    for (name, target) in [
        ("a", outside.path()),
        ("b", std::path::Path::new("/root")),
        ("c", std::path::Path::new("/proc/1/root")),
    ] {
        std::os::unix::fs::symlink(target, tree.at(name)).unwrap();
    }
    let answers = host.run_in(&tree).probe([
        "try",
        "read",
        "a/secret",
        ",",
        "list",
        "b",
        ",",
        "list",
        "c/",
        ",",
        "list",
        "/proc/self/root/root",
    ]);
    let refused = answers.as_array().unwrap();
    assert!(
        refused.iter().all(|answer| ["ENOENT", "EACCES"].contains(&answer.as_str().unwrap())),
        "{answers}"
    );
}
