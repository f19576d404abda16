//! The session file: who may change it, and that each key of it is enforced or refused by name.
//!
//! Runs in: the test's own process.

use sandboxd_tests::{Daemon, Finished, Recipe, TestHost, Tree, needs};
use serde_json::{Value, json};

const WORKSPACE: &str = "[workspace]\npath = \".\"\n";

/// Makes a session from a file of a tree; the name is always the same, so one before it is removed.
fn up(daemon: &Daemon<'_>, tree: &Tree, flags: &[&str]) -> Finished {
    let file = tree.at("sandbox.toml").display().to_string();
    let words = [&["up", "--name", "shop", "-f", &file][..], flags].concat();
    let done = daemon.does(&words);
    if done.status == 0 {
        daemon.remove("shop");
    }
    done
}

#[test]
fn a_session_file_in_the_workspace_cannot_be_changed_from_inside() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let tree = host.project("work");
    tree.write("conf/sandbox.toml", "[workspace]\npath = \"..\"\n").write("conf/other.toml", "x");
    let file = tree.at("conf/sandbox.toml").display().to_string();
    daemon.does(&["up", "--name", "shop", "-f", &file]).done();
    let before = tree.read("conf/sandbox.toml");
    let tries = [
        "echo x >> conf/sandbox.toml",
        "echo x > conf/sandbox.toml",
        "rm -f conf/sandbox.toml",
        "mv conf/sandbox.toml conf/moved.toml",
        "mv conf/other.toml conf/sandbox.toml",
        "mv conf elsewhere",
        "ln -f conf/other.toml conf/sandbox.toml",
        "truncate -s 0 conf/sandbox.toml",
        "chmod 777 conf/sandbox.toml",
    ];
    for text in tries {
        let done = daemon.exec("shop").shell(text);
        assert_ne!(done.status, 0, "{text}: {done:?}");
    }
    assert_eq!(tree.read("conf/sandbox.toml"), before);
    // The twins: it can be read, and its neighbour can be changed.
    let read = daemon.exec("shop").command(["cat", "conf/sandbox.toml"]).expect(0);
    assert_eq!(read.text(), before);
    let text = "echo y >> conf/other.toml && mv conf/other.toml conf/moved.toml";
    daemon.exec("shop").shell(text).done();
    assert_eq!(tree.read("conf/moved.toml"), "xy\n");
    // `run` protects it as well.
    let run = host.sandboxd().with(["run", "-f", &file]).shell("echo x >> conf/sandbox.toml");
    assert_ne!(run.status, 0, "{run:?}");
}

#[test]
fn a_session_file_in_a_mount_that_the_box_can_write_cannot_be_changed_from_inside() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let tree = host.project("shared");
    let mount = format!("[[mounts]]\nsource = {}\nmode = \"rw\"\n", json!(tree.path()));
    tree.write("sandbox.toml", Recipe::bare().with(&mount).text());
    let file = tree.at("sandbox.toml").display().to_string();
    daemon.does(&["up", "--name", "shop", "-f", &file]).done();
    let here = tree.path().display();
    let done = daemon.exec("shop").shell(&format!("echo '[env]' >> {here}/sandbox.toml"));
    assert_ne!(done.status, 0, "{done:?}");
    daemon.exec("shop").shell(&format!("echo x >> {here}/other")).done();
    daemon.remove("shop");
    // And a change of it is noticed.
    tree.write("sandbox.toml", Recipe::bare().with(&mount).with("[env]\nA = \"b\"").text());
    let refused = up(&daemon, &tree, &[]).expect(125);
    assert!(refused.complaint().contains("--accept-config"), "{refused:?}");
    up(&daemon, &tree, &["--accept-config"]).done();
}

#[test]
fn a_changed_session_file_in_the_workspace_is_shown_and_wants_to_be_accepted() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let tree = host.project("work");
    let first = format!("{WORKSPACE}[env]\nLEVEL = \"1\"\n");
    let second = format!("{WORKSPACE}[env]\nLEVEL = \"2\"\n");
    tree.write("sandbox.toml", &first);
    // The first time, and as long as it stays what it was.
    up(&daemon, &tree, &[]).done();
    up(&daemon, &tree, &[]).done();
    tree.write("sandbox.toml", &second);
    let refused = up(&daemon, &tree, &[]).expect(125).complaint();
    for part in [
        "sandbox.toml has changed since it was accepted",
        "\n-LEVEL = \"1\"",
        "\n+LEVEL = \"2\"",
        "hint: say --accept-config",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    // Refused is refused: no session, and the same again.
    assert_eq!(daemon.list(), Vec::<Value>::new());
    up(&daemon, &tree, &[]).expect(125);
    // `run` reads the same file by the same rule.
    let file = tree.at("sandbox.toml").display().to_string();
    let run = |flags: &[&str]| {
        let words = [&["run", "-f", &file][..], flags].concat();
        daemon.order(&words).command(["printenv", "LEVEL"])
    };
    assert!(run(&[]).expect(125).complaint().contains("has changed since it was accepted"));
    up(&daemon, &tree, &["--accept-config"]).done();
    up(&daemon, &tree, &[]).done();
    assert_eq!(run(&[]).expect(0).text(), "2\n");
    // The one before is no more trusted than any other.
    tree.write("sandbox.toml", &first);
    up(&daemon, &tree, &[]).expect(125);
    // A daemon that is new knows it too.
    daemon.kill();
    up(&daemon, &tree, &[]).expect(125);
}

#[test]
fn the_rule_follows_the_file_and_not_the_name_by_which_it_was_given() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let tree = host.project("work");
    let elsewhere = host.project("elsewhere");
    std::os::unix::fs::symlink(tree.at("sandbox.toml"), elsewhere.at("sandbox.toml")).unwrap();
    tree.write("sandbox.toml", WORKSPACE);
    up(&daemon, &elsewhere, &[]).done();
    tree.write("sandbox.toml", format!("{WORKSPACE}[env]\nA = \"b\"\n"));
    up(&daemon, &elsewhere, &[]).expect(125);
    up(&daemon, &tree, &[]).expect(125);
}

#[test]
fn a_session_file_where_no_box_can_write_may_change() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let (tree, files) = (host.project("work"), host.project("outside"));
    let outside = |more: &str| {
        files.write("sandbox.toml", Recipe::on(&tree).with(more).text());
        up(&daemon, &files, &[])
    };
    outside("").done();
    outside("[env]\nA = \"b\"").done();
    // Nor in a workspace that is read-only.
    let inside = |more: &str| {
        tree.write("sandbox.toml", format!("[workspace]\npath = \".\"\nmode = \"ro\"\n{more}"));
        up(&daemon, &tree, &[])
    };
    inside("").done();
    inside("[env]\nA = \"b\"").done();
    assert!(!daemon.directory().join("trusted.json").exists());
}

#[test]
fn nothing_is_read_that_is_not_named() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let tree = host.project("work");
    let broken = "this is no session file\n";
    tree.write("sandbox.toml", broken).write(".mcp.json", broken).write("sandboxd.toml", broken);
    let order = daemon.order(&["up", "--name", "shop"]).from_directory(tree.path());
    order.command([""; 0]).done();
    let file = tree.at("sandbox.toml").display().to_string();
    let refused = daemon.does(&["up", "-f", &file]).expect(125).complaint();
    assert!(refused.contains("sandbox.toml:1"), "{refused}");
}

/// Says what a session file of this text comes to: nothing when a box runs, else the complaint.
fn refusal(host: &TestHost, text: &str) -> Option<String> {
    let daemon = Daemon::of(host);
    let file = daemon.file("tried", text);
    // `run` starts no servers, so their files are checked by `up`.
    if text.contains("[mcp") || text.contains("mcp.") {
        let done = daemon.does(&["up", "-f", &file, "--name", "tried"]);
        let refused = (done.status != 0).then(|| done.expect(125).complaint());
        if refused.is_none() {
            daemon.remove("tried");
        }
        return refused;
    }
    let done = host.sandboxd().with(["run", "-f", &file]).command(["true"]);
    (done.status != 0).then(|| done.expect(125).complaint())
}

const NONE: &str = "[workspace]\nmode = \"none\"\n";

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_nearest_that_is_known() {
    let host = needs!(TestHost::start());
    for (text, line, key, near) in [
        ("\n[worksapce]\npath = \".\"\n", 2, "worksapce", "workspace"),
        ("[workspace]\nmode = \"none\"\npaht = \".\"\n", 3, "workspace.paht", "path"),
        ("[workspace]\nmode = \"none\"\n[mcp.a]\ncomand = [\"x\"]\n", 4, "mcp.a.comand", "command"),
        ("[limits]\nmemroy = \"2GiB\"\n", 2, "limits.memroy", "memory"),
        ("[[mounts]]\nsource = \"/usr\"\nmod = \"ro\"\n", 3, "mounts[0].mod", "mode"),
        ("[wals]\nlandlock = \"required\"\n", 1, "wals", "walls"),
        ("tool = [\"rust\"]\n", 1, "tool", "tools"),
    ] {
        let refused = refusal(&host, text).expect(text);
        assert!(refused.contains(&format!("tried.toml:{line}: {key}: ")), "{text}: {refused}");
        assert!(refused.contains("hint: ") && refused.contains(near), "{text}: {refused}");
    }
    // A key twice, a value of another type, no TOML at all: with their lines too.
    for (text, part) in [
        ("[env]\nA = \"1\"\nA = \"2\"\n", "tried.toml:3"),
        ("[workspace]\npath = 5\n", "tried.toml:2: workspace.path: expected a path"),
        ("[limits]\npids = \"many\"\n", "tried.toml:2: limits.pids: expected"),
        ("[workspace\n", "tried.toml:1"),
        ("tools = [\"cobol\"]\n", "tried.toml:1: tools[0]"),
    ] {
        let refused = refusal(&host, text).expect(text);
        assert!(refused.contains(part), "{text}: {refused}");
    }
    assert_eq!(refusal(&host, NONE), None);
}

#[test]
fn each_key_of_the_design_is_enforced_or_refused_by_name() {
    let host = needs!(TestHost::start());
    let later = "not enforced by this version of sandboxd";
    let server = "[workspace]\nmode = \"none\"\n[mcp.a]\ncommand = [\"true\"]\n";
    let with = |more: &str| format!("{NONE}{more}\n");
    for (text, field) in [
        (with("on_trusted_path = \"stop\""), "workspace.on_trusted_path"),
        ("[workspace]\npath = \".\"\nmode = \"staged\"\n".to_owned(), "workspace.mode"),
        (with("[root]\nimage = \"oci:./image\""), "root.image"),
        (with("[root]\ndirectory = \"/srv/root\""), "root.directory"),
        (with("[egress]\nmode = \"ask\""), "egress.mode"),
        (with("[egress]\nmode = \"audit\""), "egress.mode"),
        (with("[secrets]\na = \"credential:NAME\""), "secrets.a"),
        (with("[mcp.docs]\nurl = \"https://mcp.docs.example/mcp\""), "mcp.docs.url"),
        (format!("{server}headers = {{ Authorization = \"x\" }}\n"), "mcp.a.headers"),
        (with("[services.db]\ncommand = [\"postgres\"]"), "services"),
        (with("[sidecars.lint]\nimage = \"oci:./lint-image\""), "sidecars"),
        (with("[limits]\nmemory = \"2GiB\""), "limits.memory"),
        (with("[walls]\nnested_userns = true"), "walls.nested_userns"),
        (format!("devices = [\"/dev/kvm\"]\n{NONE}"), "devices"),
    ] {
        let refused = refusal(&host, &text).expect(&text);
        assert!(refused.contains(&format!("{field}: ")), "{text}: {refused}");
        assert!(refused.contains(later), "{text}: {refused}");
    }
    for text in [
        with("[root]\nimage = \"host\""),
        with("[egress]\nmode = \"none\""),
        with("[egress]\nmode = \"filter\""),
        with("[egress]\nallow = [\"github.com:22,443\"]\nresolver = \"1.1.1.1\""),
        format!("{server}egress = [\"api.tracker.example\"]\n"),
        format!("{server}network = \"own\"\n"),
        with("[limits]\npids = 512"),
        with("[walls]\nlandlock = \"available\""),
        with("[env]\nNODE_ENV = \"test\""),
        with("[secrets]\ntracker = \"env:TRACKER_TOKEN\""),
        format!("{server}concurrency = 2\ncwd = \"home\"\n"),
        format!("{server}timeouts = {{ start = \"60s\", call = \"300s\", idle = \"120s\" }}\n"),
    ] {
        assert_eq!(refusal(&host, &text), None, "{text}");
    }
}

#[test]
fn what_the_file_asks_for_is_what_the_box_is() {
    let host = needs!(TestHost::start());
    let (tree, data) = (host.project("work"), host.project("data"));
    data.write("file", "of data\n");
    let run = |text: &str, shell: &str| {
        let file = Daemon::of(&host).file("asked", text);
        host.sandboxd().with(["run", "-f", &file]).shell(shell)
    };
    // The workspace and its mode.
    let here = tree.path().display();
    let pwd = "pwd; echo x > made; readlink /workspace";
    assert_eq!(run(&Recipe::on(&tree).text(), pwd).expect(0).text(), format!("{here}\n{here}\n"));
    assert!(tree.has("made"));
    let refused = run(&Recipe::reading(&tree).text(), "rm made");
    assert!(refused.status != 0 && tree.has("made"), "{refused:?}");
    assert_ne!(run(NONE, &format!("ls {here}")).status, 0);
    // Mounts: the mode is ro when not said, the target is the source.
    let source = json!(data.path());
    let target = data.path().display();
    let mount = |more: &str| format!("{NONE}[[mounts]]\nsource = {source}\n{more}");
    let read = run(&mount(""), &format!("cat {target}/file; echo y >> {target}/file"));
    assert!(read.status != 0 && read.text() == "of data\n", "{read:?}");
    let elsewhere = run(&mount("target = \"/mnt/data\"\n"), "cat /mnt/data/file").expect(0);
    assert_eq!(elsewhere.text(), "of data\n");
    run(&mount("mode = \"rw\"\n"), &format!("echo y >> {target}/file")).done();
    assert_eq!(data.read("file"), "of data\ny\n");
    // The environment, the network, the number of processes.
    let env = run(&format!("{NONE}[env]\nNODE_ENV = \"test\"\n"), "echo $NODE_ENV").expect(0);
    assert_eq!(env.text(), "test\n");
    let network = run(&format!("{NONE}[egress]\nmode = \"none\"\n"), "cat /proc/net/dev").expect(0);
    let names: Vec<&str> = network
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| std::str::from_utf8(line).ok()?.trim().split_once(':'))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["lo"]);
    let crowd =
        "n=0; while [ $n -lt 60 ]; do sleep 100000 2>/dev/null & n=$((n+1)); done; echo all";
    let few = run(&format!("{NONE}[limits]\npids = 30\n"), crowd);
    assert!(few.text().is_empty() && few.complaint().contains("fork"), "{few:?}");
    assert_eq!(run(&format!("{NONE}[limits]\npids = 200\n"), crowd).expect(0).text(), "all\n");
}

#[test]
fn a_restriction_that_cannot_be_enforced_refuses_the_session() {
    let host = needs!(TestHost::start());
    needs!(host.command("strace"));
    let daemon = Daemon::of(&host);
    let text = |word: &str| format!("{NONE}[walls]\nlandlock = \"{word}\"\n");
    // A kernel without Landlock, as far as a box can tell: each of its calls is answered as such a kernel would.
    let inject = "inject=landlock_create_ruleset:error=EOPNOTSUPP";
    let without = [
        "strace",
        "-f",
        "-qqq",
        "-o",
        "/dev/null",
        "-e",
        "trace=landlock_create_ruleset",
        "-e",
        inject,
    ];
    let run = |word: &str| {
        let file = daemon.file(word, &text(word));
        host.sandboxd().with(["run", "-f", &file])
    };
    let refused = run("required").started_by(without).command(["true"]).expect(125);
    assert!(refused.complaint().contains("Landlock"), "{refused:?}");
    assert!(refused.complaint().contains("required"), "{refused:?}");
    // The twins: it was not asked for; the kernel has it.
    run("available").started_by(without).command(["true"]).done();
    let view = daemon.order_up("required", &text("required")).with(["--json"]).command([""; 0]);
    if view.status == 0 {
        assert!(view.json()["walls"]["landlock"].as_u64() >= Some(6), "{view:?}");
    } else {
        assert!(view.complaint().contains("Landlock"), "{view:?}");
    }
    // A workspace that may not be one is refused when it was named, and left out when it was not.
    let at = |path: &std::path::Path| format!("[workspace]\npath = {}\n", json!(path));
    for path in [std::path::Path::new("/"), host.home(), std::path::Path::new("/usr")] {
        let refused = refusal(&host, &at(path)).expect("it may not be one");
        assert!(refused.contains("expected a directory that may be a workspace"), "{refused}");
    }
    let missing = refusal(&host, &at(&host.path("missing"))).expect("it is not there");
    assert!(missing.contains("missing"), "{missing}");
}
