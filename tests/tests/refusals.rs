//! What is asked for and cannot be done is refused, by name and before anything starts.
//!
//! Runs in: the test's own process.

use sandboxd_tests::{TestHost, needs};

#[test]
fn a_flag_with_a_wrong_value_is_refused_by_name() {
    let host = needs!(TestHost::start());
    let mut unnamed = Vec::new();
    for (flag, value) in [
        ("--tools", "cobol"),
        ("--name", "Not A Name"),
        ("--env", "1NO=x"),
        ("--env", "=x"),
        ("--mount", ""),
        ("--mount", "/usr:/proc/x"),
        ("--mount", "/usr:relative"),
        ("--mount", "/usr:/mnt/a:xx"),
        ("--workspace", "/no/such/directory"),
        ("--workspace", "none:ro"),
        ("--user", "root"),
    ] {
        let order = host.sandboxd().with(["run"]);
        let done = order.with([flag, value]).shell("echo started").expect(125);
        assert_eq!(done.text(), "", "{flag} {value}");
        let text = done.complaint();
        let names = text.contains(flag.trim_start_matches('-'))
            || (value.starts_with("/no/") && text.contains(value));
        let speaks = ["policy: ", "client: ", "host: "]
            .iter()
            .any(|speaker| text.starts_with(&format!("sandboxd: {speaker}")));
        if !(names && speaks) {
            unnamed.push(done);
        }
    }
    assert!(unnamed.is_empty(), "the flag is not named: {unnamed:#?}");
    // The twin of each: the same flags with values that fit.
    let tree = host.project("fits");
    let workspace = tree.path().display().to_string();
    let order = host.sandboxd().with(["run", "--workspace", &workspace, "--name", "a-name"]);
    let order = order.with(["--env", "OK_1=x", "--tools", "python"]).mount("/usr:/mnt/usr");
    assert_eq!(order.shell("echo $OK_1; ls -d /mnt/usr").expect(0).text(), "x\n/mnt/usr\n");
}

#[test]
fn a_session_file_s_mistake_is_told_with_its_line() {
    let host = needs!(TestHost::start());
    let tree = host.project("mistakes");
    for (text, words) in [
        ("[workspace]\nmodee = \"ro\"\n", ["sandbox.toml:2", "did you mean mode?"]),
        ("[limits]\n\nmemory = \"2GiB\"\n", ["sandbox.toml:3", "not enforced"]),
        ("[workspace]\nmode = 3\n", ["sandbox.toml:2", "found"]),
        ("[workspace]\non_trusted_path = \"stop\"\n", ["sandbox.toml:2", "not enforced"]),
        ("[egress]\nallow = [\"*\"]\n", ["sandbox.toml:2", "egress.allow"]),
        ("tools = [\"rust\"\n", ["sandbox.toml", "policy"]),
    ] {
        tree.write("sandbox.toml", text);
        let file = tree.at("sandbox.toml").display().to_string();
        let done = host.sandboxd().with(["run", "-f", &file]).shell("echo started").expect(125);
        assert_eq!(done.text(), "");
        for word in words {
            assert!(done.complaint().contains(word), "{text}: {done:?}");
        }
    }
    let file = tree.at("missing.toml").display().to_string();
    let done = host.sandboxd().with(["run", "-f", &file]).command(["true"]).expect(125);
    assert!(done.complaint().contains("missing.toml"), "{done:?}");
}

#[test]
fn a_session_file_is_read_only_where_it_is_named() {
    let host = needs!(TestHost::start());
    let tree = host.project("not-named");
    tree.write("sandbox.toml", "[env]\nFROM_FILE = \"yes\"\n");
    let done = host.run_in(&tree).shell("echo ${FROM_FILE:-no}").expect(0);
    assert_eq!(done.text(), "no\n");
    let done =
        host.run_in(&tree).with(["-f", "sandbox.toml"]).shell("echo ${FROM_FILE:-no}").expect(0);
    assert_eq!(done.text(), "yes\n");
}

#[test]
fn a_named_session_file_in_the_workspace_cannot_be_written_inside() {
    let host = needs!(TestHost::start());
    let tree = host.project("policy");
    let text = "[env]\nA = \"b\"\n";
    tree.write("sandbox.toml", text).write("other.toml", text);
    let order = host.run_in(&tree).with(["-f", "sandbox.toml"]);
    let answers = order.probe([
        "try",
        "append",
        "sandbox.toml",
        ",",
        "unlink",
        "sandbox.toml",
        ",",
        "rename",
        "other.toml",
        "sandbox.toml",
        ",",
        "append",
        "other.toml",
    ]);
    assert_eq!(answers, serde_json::json!(["EROFS", "EBUSY", "EBUSY", "OK"]));
    assert_eq!(tree.read("sandbox.toml"), text);
}

#[test]
fn a_toolchain_that_the_home_has_not_is_told_of_and_no_failure() {
    let host = needs!(TestHost::start());
    if host.home().join(".local/go").exists() || host.home().join("sdk").exists() {
        return;
    }
    let done = host.run().with(["--tools", "go"]).command(["true"]).expect(0);
    assert!(done.complaint().contains("--tools go"), "{done:?}");
}

#[test]
fn servers_need_a_session_in_the_daemon() {
    let host = needs!(TestHost::start());
    let tree = host.project("servers");
    tree.write("sandbox.toml", "[workspace]\nmode = \"none\"\n[mcp.one]\ncommand = [\"cat\"]\n");
    let file = tree.at("sandbox.toml").display().to_string();
    let done = host.sandboxd().with(["run", "-f", &file]).command(["true"]).expect(125);
    assert!(done.complaint().contains("sandboxd up"), "{done:?}");
}
