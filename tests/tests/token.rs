//! A token that was given to one MCP server is that server's own: nothing else in the box can find it, nothing
//! says it, and no code that the agent can write gets it.
//!
//! References: bubblewrap #725 and "Comment and Control" (environments of other processes), the credential rows of
//! the threat model.
//!
//! Runs in: the test's own process.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use sandboxd_tests::{Daemon, PROBE, Process, Recipe, TestHost, Tree, eventually, needs};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Two halves, so that no command line that searches for it contains it.
const HALVES: [&str; 2] = ["token-7c1e90", "-of/the+tracker=43ab"];

fn token() -> String {
    HALVES.concat()
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

const SECRET: &str = "[secrets]\ntracker = \"env:TRACKER_TOKEN\"";

const TOKEN: &str = "env = { TOKEN = { secret = \"tracker\" } }\n";

/// A session with two servers; one of them, the tracker, holds the token.
fn two_servers<'a>(host: &'a TestHost, tree: &Tree) -> Daemon<'a> {
    let daemon = Daemon::of(host);
    let servers = daemon.servers();
    let recipe = Recipe::on(tree)
        .with_probe(host)
        .mount(servers.path())
        .with(SECRET)
        .server("tracker", &servers, "good", TOKEN)
        .server("other", &servers, "good", "");
    let order = daemon.order_up("shop", &recipe.text()).caller_variable("TRACKER_TOKEN", token());
    order.command([""; 0]).done();
    daemon
}

/// The processes of the two servers: the one that holds the token, and the other.
fn servers(daemon: &Daemon<'_>) -> [Process; 2] {
    ["tracker", "other"].map(|name| {
        let pid: i32 = daemon
            .ask("shop", name, "count", &json!({}))
            .split(' ')
            .nth(1)
            .and_then(|pid| pid.parse().ok())
            .expect("a number");
        // Inside, the numbers of two compartments may be the same: ask each which it is by its parent's.
        let found = daemon.named("python3").into_iter().filter(|process| {
            let status = String::from_utf8_lossy(&process.file("status")).into_owned();
            let line = status.lines().find(|line| line.starts_with("NSpid:")).unwrap_or("");
            line.split_whitespace().last() == Some(&pid.to_string())
        });
        let is_tracker = |process: &Process| !process.places_of(&token()).is_empty();
        let mut found = found.filter(|process| is_tracker(process) == (name == "tracker"));
        found.next().expect(name)
    })
}

#[test]
fn a_token_is_found_by_its_server_and_by_nobody_else_in_the_box() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let tree = host.project("work");
    let daemon = two_servers(&host, &tree);
    let holds = |server| daemon.ask("shop", server, "holds", &json!({}));
    assert_eq!((holds("tracker"), holds("other")), (sha256(&token()), sha256("")));
    // The agent's shell, with a job of its own in the background and every process number tried.
    let scan = ["scan", HALVES[0], HALVES[1]];
    let found = daemon.probe("shop", &scan);
    assert_eq!(found["found"], json!([]), "{found}");
    assert!(found["looked"].as_u64() > Some(20), "{found}");
    assert_eq!(found["keys"], json!(vec!["EPERM"; 5]));
    // The other server, with the rights that it has.
    let command: Vec<&str> = [PROBE].into_iter().chain(scan).collect();
    let from = |server: &str| -> Value {
        let answer = daemon.ask("shop", server, "run", &json!({ "command": command }));
        serde_json::from_str(&answer).expect(&answer)
    };
    let other = from("other");
    assert_eq!((&other["found"], &other["keys"]), (&json!([]), &json!(vec!["EPERM"; 5])));
    assert!(other["looked"].as_u64() > Some(20), "{other}");
    // The twin: the server's own processes find it where it is.
    let own = from("tracker")["found"].to_string();
    assert!(own.contains("/environ") && own.contains("memory of "), "{own}");
}

#[test]
fn the_same_search_by_the_host_finds_the_token_in_its_server_and_on_no_way_there() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let tree = host.project("work");
    let daemon = two_servers(&host, &tree);
    daemon.exec("shop").shell("sleep 100000 > /dev/null 2>&1 &").done();
    let [tracker, other] = servers(&daemon);
    let places = tracker.places_of(&token());
    assert_eq!(places.first().map(String::as_str), Some("environ"), "{places:?}");
    assert!(places.iter().any(|place| place.contains("[stack]")), "{places:?}");
    assert!(!places.contains(&"cmdline".to_owned()));
    // The host holds it to give it to the next incarnation: in its memory alone.
    let held = daemon.process().places_of(&token());
    assert!(held.iter().all(|place| *place != "environ" && *place != "cmdline"), "{held:?}");
    assert!(!held.is_empty());
    let others: Vec<Process> =
        daemon.family().into_iter().filter(|process| process.pid != tracker.pid).collect();
    for name in ["zygote", "supervisor", "init", "sleep", "python3"] {
        assert!(others.iter().any(|process| process.name == name), "{name}: {others:?}");
    }
    for process in &others {
        assert_eq!(process.places_of(&token()), Vec::<String>::new(), "{process:?}");
    }
    // What can be read of a sleeping command and of the other server is read: the search is no blind one.
    assert!(!other.places_of("PYTHONUNBUFFERED").is_empty());
}

#[test]
fn every_way_into_a_server_is_closed_to_the_agent_and_to_its_sibling() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let tree = host.project("work");
    let daemon = two_servers(&host, &tree);
    assert_eq!(daemon.ask("shop", "tracker", "linger", &json!({ "count": 1 })), "OK");
    let from_shell = daemon.probe("shop", &["processes"]);
    let command = json!({ "command": [PROBE, "processes"] });
    let from_sibling = daemon.ask("shop", "other", "run", &command);
    let from_sibling: Value = serde_json::from_str(&from_sibling).unwrap();
    // The sibling sees itself; neither sees, signals, traces or reads anything of the tracker's.
    for (seen, own) in [(from_shell, 0), (from_sibling, 1)] {
        let listed = seen["listed"].as_array().unwrap();
        assert_eq!(listed.len(), own + 1, "{seen}");
        let found = seen["found"].as_object().unwrap();
        assert_eq!(found.len(), own + 1, "{seen}");
        for (way, answer) in found["1"].as_object().unwrap() {
            let allowed: &[&str] = match way.as_str() {
                "ptrace" | "process_vm_readv" | "process_vm_writev" | "pidfd_getfd" => &["EPERM"],
                // A signal is accepted, and has no effect.
                "kill 0" => &["OK"],
                _ => &["ENOENT"],
            };
            assert!(allowed.contains(&answer.as_str().unwrap()), "{way}: {answer}");
        }
    }
    // The twin: within the compartment there are its own, and every way is open.
    let own = daemon.ask("shop", "tracker", "run", &command);
    let own: Value = serde_json::from_str(&own).unwrap();
    assert_eq!(own["listed"].as_array().map(Vec::len), Some(3), "{own}");
    let open = own["found"].as_object().unwrap().values();
    assert_eq!(open.filter(|ways| ways["environ"] == "OK" && ways["mem"] == "OK").count(), 2);
}

#[test]
fn files_memory_and_sockets_of_one_compartment_are_not_in_another() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let tree = host.project("work");
    let daemon = two_servers(&host, &tree);
    // The server writes its token wherever it can, as a careless one would.
    let write = "for place in /tmp /dev/shm \"$HOME\"; do echo \"$TOKEN\" > $place/left; done;
        cat /tmp/left > /dev/null && echo written";
    let command = json!({ "command": ["sh", "-c", write] });
    assert_eq!(daemon.ask("shop", "tracker", "run", &command), "written\n");
    let scan = ["scan", HALVES[0], HALVES[1]];
    assert_eq!(daemon.probe("shop", &scan)["found"], json!([]));
    let look =
        json!({ "command": ["sh", "-c", "cat /tmp/left /dev/shm/left $HOME/left 2>/dev/null"] });
    assert_eq!(daemon.ask("shop", "other", "run", &look), "");
    assert_eq!(
        daemon
            .exec("shop")
            .shell("ls -A /tmp /dev/shm $HOME")
            .expect(0)
            .text()
            .matches("left")
            .count(),
        0
    );
    // The twin.
    assert_eq!(daemon.ask("shop", "tracker", "run", &look), format!("{0}\n{0}\n{0}\n", token()));
}

#[test]
fn a_secret_comes_from_a_variable_a_file_or_a_command() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = Daemon::of(&host);
    let servers = daemon.servers();
    let keys = host.project("keys");
    keys.write("token", token() + "\n");
    fs::set_permissions(keys.at("token"), PermissionsExt::from_mode(0o600)).unwrap();
    let path = keys.at("token").display().to_string();
    // Beside the session file: relative to it, not to the caller.
    host.project("files").write("beside", token() + "\r\n");
    for (name, source, value) in [
        ("variable", "\"env:TRACKER_TOKEN\"", token()),
        ("file", &format!("\"file:{path}\""), token()),
        ("beside", "\"file:beside\"", token()),
        ("command", &format!("'command:[\"cat\", \"{path}\"]'"), token()),
        ("prefix", "\"env:TRACKER_TOKEN\"", format!("Bearer {}", token())),
    ] {
        let prefix = if name == "prefix" { ", prefix = \"Bearer \"" } else { "" };
        let recipe = Recipe::bare()
            .mount(servers.path())
            .with(&format!("[secrets]\ntracker = {source}"))
            .server(
                "tracker",
                &servers,
                "good",
                &format!("env = {{ TOKEN = {{ secret = \"tracker\"{prefix} }} }}"),
            );
        let order = daemon.order_up(name, &recipe.text());
        order.caller_variable("TRACKER_TOKEN", token()).command([""; 0]).done();
        assert_eq!(daemon.ask(name, "tracker", "holds", &json!({})), sha256(&value), "{name}");
        let shown = daemon.inspect(name);
        assert_eq!(shown["servers"]["tracker"]["holds_secret"], json!(true));
        daemon.remove(name);
    }
}

#[test]
fn a_secret_that_cannot_be_read_is_named_without_its_value() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = Daemon::of(&host);
    let servers = daemon.servers();
    let recipe = |source: &str| {
        let secrets = format!("[secrets]\ntracker = {source}");
        Recipe::bare()
            .mount(servers.path())
            .with(&secrets)
            .server("tracker", &servers, "good", TOKEN)
    };
    let unset = recipe("\"env:TRACKER_TOKEN\"").text();
    let refused = daemon.order_up("unset", &unset).command([""; 0]).expect(125).complaint();
    assert!(refused.contains("secret tracker") && refused.contains("TRACKER_TOKEN"), "{refused}");
    let keys = host.project("keys");
    let binary = keys.write("binary", b"a\0b").at("binary").display().to_string();
    let empty = keys.write("empty", "\n").at("empty").display().to_string();
    let (missing, value) = (keys.at("missing").display().to_string(), token());
    for (name, source, part) in [
        ("missing", format!("\"file:{missing}\""), "no such file"),
        ("binary", format!("\"file:{binary}\""), "expected 1 to 65536 bytes"),
        ("empty", format!("\"file:{empty}\""), "expected 1 to 65536 bytes"),
        ("directory", format!("\"file:{}\"", keys.path().display()), "expected a regular file"),
        (
            "none",
            "'command:[\"no-such-program\"]'".to_owned(),
            "cannot start its command no-such-program",
        ),
        // What such a command says is nobody's.
        (
            "fails",
            format!("'command:[\"sh\", \"-c\", \"echo {value}; echo {value} >&2; exit 3\"]'"),
            "its command ended with status 3",
        ),
    ] {
        let text = recipe(&source).text();
        let up = daemon.order_up(name, &text).command([""; 0]);
        let told = if up.status == 0 {
            let call = daemon.call(name, "tracker", "holds", &json!({})).expect(125);
            call.complaint() + &call.text() + &daemon.does(&["logs", name, "tracker"]).text()
        } else {
            up.complaint()
        };
        assert!(told.contains("secret tracker") && told.contains(part), "{name}: {told}");
        assert!(!told.contains(&value), "{name}: {told}");
    }
    assert!(!said(daemon.directory(), &value), "in the daemon's files");
}

/// Says whether a text, or a usual form of it, is in a file below a directory.
fn said(directory: &Path, text: &str) -> bool {
    let mut next = vec![directory.to_owned()];
    while let Some(path) = next.pop() {
        next.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        let bytes = fs::read(&path).unwrap_or_default();
        if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
            return true;
        }
    }
    false
}

#[test]
fn a_token_that_its_server_blurts_out_is_told_to_nobody() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let tree = host.project("work");
    let daemon = two_servers(&host, &tree);
    let mut brain = daemon.brain("shop", "tracker");
    brain.greet();
    assert_eq!(brain.text("mutter", "{}"), "OK");
    eventually("the server's words are in its log", || {
        let log = daemon.does(&["logs", "shop", "tracker"]).text();
        log.contains("Authorization: ") && log.contains("not JSON: ")
    });
    let log = daemon.does(&["logs", "shop", "tracker"]).text();
    // Base64, hexadecimal, percent-encoded; of the first some bits of the last byte may be left.
    let forms =
        log.split("forms: ").nth(1).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let forms: Vec<&str> = forms.split(' ').collect();
    let is_redacted = |form: &&str| form.starts_with("[redacted]") && form.len() < 14;
    assert!(forms.len() == 3 && forms.iter().all(is_redacted), "{log}");
    let error = brain.calls("blurt", "{}")["error"].clone();
    let message = error["message"].as_str().unwrap().to_owned();
    assert!(message.contains("ended with status 9"), "{error}");
    assert!(message.contains("fatal: token is [redacted]"), "{error}");
    let call = daemon.call("shop", "tracker", "blurt", &json!({})).expect(125);
    let log = daemon.does(&["logs", "shop", "tracker"]).expect(0).text();
    assert!(
        log.contains("Authorization: [redacted]") && log.contains("token is [redacted]"),
        "{log}"
    );
    let mut told = vec![error.to_string(), call.text(), call.complaint(), log];
    for words in [
        &["ls"][..],
        &["ls", "--json"],
        &["inspect", "shop"],
        &["inspect", "shop", "--json"],
        &["mcp", "ls", "shop"],
        &["mcp", "ls", "shop", "--json"],
        &["logs", "shop"],
    ] {
        let done = daemon.does(words).expect(0);
        told.extend([done.text(), done.complaint()]);
    }
    for text in &told {
        assert!(!text.contains(&token()), "{text}");
        // Nor the name of the variable that the caller keeps it in: the brain knows a route, no more.
        assert!(!text.contains("TRACKER_TOKEN"), "{text}");
    }
    assert!(!said(daemon.directory(), &token()), "in the daemon's files");
    assert!(said(daemon.directory(), "[redacted]"));
    assert!(daemon.directory().join("daemon.log").is_file());
}

#[test]
fn a_secret_in_arguments_in_the_agent_s_environment_or_as_a_value_is_refused_and_not_quoted() {
    let host = needs!(TestHost::start());
    let daemon = Daemon::of(&host);
    let value = token();
    let head = format!("[workspace]\nmode = \"none\"\n{SECRET}\n");
    for (name, rest, part) in [
        (
            "word",
            "[mcp.t]\ncommand = [\"x\", { secret = \"tracker\" }]".to_owned(),
            "mcp.t.command",
        ),
        (
            "dollar",
            "[mcp.t]\ncommand = [\"x\", \"--token=${TRACKER_TOKEN}\"]".to_owned(),
            "not expanded",
        ),
        ("agent", "[env]\nTOKEN = { secret = \"tracker\" }".to_owned(), "env.TOKEN"),
        (
            "unknown",
            format!("[mcp.t]\ncommand = [\"x\"]\nenv = {{ TOKEN = {{ secret = \"{value}\" }} }}"),
            "mcp.t.env.TOKEN",
        ),
    ] {
        let up = daemon.order_up(name, &(head.clone() + &rest));
        let done = up.caller_variable("TRACKER_TOKEN", &value).command([""; 0]).expect(125);
        assert!(done.complaint().contains(part), "{name}: {done:?}");
        assert!(!done.complaint().contains(&value), "{name}: {done:?}");
    }
    let plain = format!("[workspace]\nmode = \"none\"\n[secrets]\ntracker = \"{value}\"\n");
    let done = daemon.order_up("plain", &plain).command([""; 0]).expect(125).complaint();
    assert!(done.contains("secrets.tracker: expected a reference"), "{done}");
    assert!(!done.contains(&value), "{done}");
    assert_eq!(daemon.list(), Vec::<Value>::new());
}

/// A recipe whose tracker holds the token and runs this script.
fn runs(recipe: Recipe, script: &Path, more: &str) -> String {
    let command = json!(["python3", "-S", "-E", script, "good"]);
    recipe.with(SECRET).with(&format!("[mcp.tracker]\ncommand = {command}\n{TOKEN}{more}")).text()
}

#[test]
fn a_server_in_the_workspace_gets_no_secret_unless_the_operator_says_so() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = Daemon::of(&host);
    let servers = daemon.servers();
    let tree = host.project("work");
    tree.write("server.py", servers.read("server.py"));
    let up = |name: &str, text: &str| {
        daemon.order_up(name, text).caller_variable("TRACKER_TOKEN", token()).command([""; 0])
    };
    let holds = |name: &str| {
        let right = daemon.ask(name, "tracker", "holds", &json!({})) == sha256(&token());
        daemon.remove(name);
        right
    };
    let inside = tree.at("server.py");
    let link = PathBuf::from("/workspace/server.py");
    for (name, script) in [("own-path", &inside), ("link", &link)] {
        let refused = up(name, &runs(Recipe::on(&tree), script, "")).expect(125).complaint();
        assert!(refused.contains("policy: mcp.tracker.command"), "{refused}");
        assert!(refused.contains(&tree.path().display().to_string()), "{refused}");
        assert!(refused.contains("trust_workspace_code = true"), "{refused}");
    }
    // A mount that the box can write is the same to it.
    let other = host.project("other");
    other.write("server.py", servers.read("server.py"));
    let mount = format!("[[mounts]]\nsource = {}\nmode = \"rw\"\n", json!(other.path()));
    let text = runs(Recipe::bare().with(&mount), &other.at("server.py"), "");
    assert!(up("mounted", &text).expect(125).complaint().contains("mcp.tracker.command"));
    // The twins: it was said; the box cannot write there; the server holds no secret.
    assert_eq!(daemon.list(), Vec::<Value>::new());
    let said = runs(Recipe::on(&tree), &inside, "trust_workspace_code = true\n");
    up("said", &said).done();
    assert_eq!(daemon.inspect("said")["servers"]["tracker"]["trust_workspace_code"], json!(true));
    assert!(daemon.does(&["inspect", "said"]).text().contains("may run code of the workspace"));
    assert!(holds("said"));
    up("read-only", &runs(Recipe::reading(&tree), &inside, "")).done();
    assert!(holds("read-only"));
    let command = json!(["python3", "-S", "-E", inside]);
    let plain = Recipe::on(&tree).with(&format!("[mcp.tracker]\ncommand = {command}\n"));
    up("plain", &plain.text()).done();
    assert_eq!(daemon.ask("plain", "tracker", "go", &json!({})), "OK");
}

#[test]
fn a_server_that_is_replaced_by_a_link_into_the_workspace_gets_no_secret_at_its_next_start() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = Daemon::of(&host);
    let servers = daemon.servers();
    let tree = host.project("work");
    tree.write("evil.py", servers.read("server.py"));
    let text = runs(Recipe::on(&tree).mount(servers.path()), &servers.at("server.py"), "");
    let order = daemon.order_up("shop", &text).caller_variable("TRACKER_TOKEN", token());
    order.command([""; 0]).done();
    assert_eq!(daemon.ask("shop", "tracker", "holds", &json!({})), sha256(&token()));
    daemon.call("shop", "tracker", "die", &json!({})).expect(125);
    // The host's own doing: an update of the server, or a trick that somebody was talked into.
    fs::rename(servers.at("server.py"), servers.at("kept.py")).unwrap();
    symlink(tree.at("evil.py"), servers.at("server.py")).unwrap();
    let refused = daemon.call("shop", "tracker", "holds", &json!({})).expect(125).complaint();
    assert!(refused.contains("cannot give a secret to code that the agent can write"), "{refused}");
    fs::remove_file(servers.at("server.py")).unwrap();
    fs::rename(servers.at("kept.py"), servers.at("server.py")).unwrap();
    assert_eq!(daemon.ask("shop", "tracker", "holds", &json!({})), sha256(&token()));
}

#[test]
fn variables_that_choose_code_are_refused_beside_a_secret() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = Daemon::of(&host);
    let servers = daemon.servers();
    let tree = host.project("work");
    tree.directory("bin");
    let text = |pairs: &str| {
        let env = format!("env = {{ TOKEN = {{ secret = \"tracker\" }}{pairs} }}");
        let recipe = Recipe::on(&tree).mount(servers.path()).with(SECRET);
        recipe.server("tracker", &servers, "good", &env).text()
    };
    let up = |name: &str, pairs: &str| {
        let order = daemon.order_up(name, &text(pairs));
        order.caller_variable("TRACKER_TOKEN", token()).command([""; 0])
    };
    let path = format!(", PATH = {}", json!(format!("{}:/usr/bin", tree.at("bin").display())));
    let refused = up("path", &path).expect(125).complaint();
    assert!(refused.contains("mcp.tracker.env.PATH"), "{refused}");
    for name in ["LD_PRELOAD", "NODE_OPTIONS", "PYTHONPATH", "BASH_ENV"] {
        let pair = format!(", {name} = {}", json!(tree.at("bin/x")));
        let refused = up("named", &pair).expect(125).complaint();
        assert!(refused.contains(&format!("mcp.tracker.env.{name}")), "{refused}");
    }
    up("plain", ", NODE_ENV = \"test\", PATH = \"/usr/bin:/bin\"").done();
    assert_eq!(daemon.ask("plain", "tracker", "holds", &json!({})), sha256(&token()));
}

#[test]
fn a_secret_whose_source_the_box_can_write_is_refused() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = Daemon::of(&host);
    let servers = daemon.servers();
    let tree = host.project("work");
    tree.write("token.txt", token());
    tree.write("get-token.sh", format!("#!/bin/sh\necho {}\n", token()));
    fs::set_permissions(tree.at("get-token.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    let keys = host.project("keys");
    symlink(tree.at("token.txt"), keys.at("link")).unwrap();
    let sources = [
        ("file", format!("\"file:{}\"", tree.at("token.txt").display())),
        ("link", format!("\"file:{}\"", keys.at("link").display())),
        ("command", format!("'command:[\"{}\"]'", tree.at("get-token.sh").display())),
    ];
    for (name, source) in &sources {
        let up = |recipe: Recipe| {
            let recipe =
                recipe.mount(servers.path()).with(&format!("[secrets]\ntracker = {source}"));
            let text = recipe.server("tracker", &servers, "good", TOKEN).text();
            daemon.order_up(name, &text).command([""; 0])
        };
        let refused = up(Recipe::on(&tree)).expect(125).complaint();
        assert!(refused.contains("cannot read the secret tracker"), "{name}: {refused}");
        assert!(refused.contains("which the box can write"), "{name}: {refused}");
        assert!(!refused.contains(&token()));
        // The twin: a box that cannot write there.
        up(Recipe::reading(&tree)).done();
        assert_eq!(daemon.ask(name, "tracker", "holds", &json!({})), sha256(&token()), "{name}");
    }
}

#[test]
fn a_command_for_a_secret_runs_on_the_host_with_path_and_home_alone() {
    let host = needs!(TestHost::start());
    needs!(host.command("python3"));
    let daemon = Daemon::of(&host);
    let servers = daemon.servers();
    let tree = host.project("work");
    let keys = host.project("keys");
    keys.write(
        "get",
        "#!/bin/sh\n{ env; pwd; ls /proc/self/fd; } > \"$(dirname \"$0\")/seen\"\necho value\n",
    );
    fs::set_permissions(keys.at("get"), PermissionsExt::from_mode(0o755)).unwrap();
    let source = format!("[secrets]\ntracker = 'command:[\"{}\"]'", keys.at("get").display());
    let recipe = Recipe::on(&tree).mount(servers.path()).with(&source);
    let text = recipe.server("tracker", &servers, "good", TOKEN).text();
    // From a directory that the box can write, which must not be where the command starts.
    let order = daemon.order_up("shop", &text).from_directory(tree.path());
    order.caller_variable("CALLERS_SECRET", "canary").command([""; 0]).done();
    assert!(!keys.has("seen"), "it runs when the server starts, not before");
    assert_eq!(daemon.ask("shop", "tracker", "holds", &json!({})), sha256("value"));
    let seen = keys.read("seen");
    let names: Vec<&str> = seen
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .filter(|name| !["PWD", "_", "OLDPWD", "SHLVL"].contains(name))
        .collect();
    let mut names = names;
    names.sort_unstable();
    assert_eq!(names, ["HOME", "PATH"], "{seen}");
    assert!(seen.lines().any(|line| Path::new(line) == host.home()), "{seen}");
    assert!(!seen.contains("canary"));
}
