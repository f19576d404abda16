//! The environment of a command: exactly the documented base and what was declared.
//!
//! Runs in: the test's own process.

use std::collections::BTreeMap;

use sandboxd_tests::{Order, TestHost, needs};

fn environment(order: Order<'_>) -> BTreeMap<String, String> {
    serde_json::from_value(order.probe(["environment"])).unwrap_or_default()
}

fn base(host: &TestHost) -> BTreeMap<String, String> {
    let home = host.home().display().to_string();
    let pairs = [
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", &home),
        ("USER", host.user()),
        ("LOGNAME", host.user()),
        ("SHELL", host.shell()),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", "/tmp"),
        ("PYTHONUNBUFFERED", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        // A git below another prefix looks elsewhere for the box's own settings.
        ("GIT_CONFIG_SYSTEM", "/etc/gitconfig"),
    ];
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_environment_is_exactly_the_base() {
    let host = needs!(TestHost::start());
    let order = host
        .run()
        .caller_variable("AWS_SECRET_ACCESS_KEY", "canary")
        .caller_variable("LD_PRELOAD", "");
    assert_eq!(environment(order), base(&host));
}

#[test]
fn a_time_zone_of_the_caller_s_is_added() {
    let host = needs!(TestHost::start());
    let mut expected = base(&host);
    expected.insert("TZ".into(), "Europe/Vienna".into());
    assert_eq!(environment(host.run().caller_variable("TZ", "Europe/Vienna")), expected);
}

#[test]
fn what_was_declared_is_added_and_wins() {
    let host = needs!(TestHost::start());
    let mut expected = base(&host);
    expected.insert("SET".into(), "a b=c".into());
    expected.insert("EMPTY".into(), String::new());
    expected.insert("LANG".into(), "C".into());
    expected.insert("PASSED".into(), "from the caller".into());
    let order =
        host.run().caller_variable("PASSED", "from the caller").caller_variable("OTHER", "x");
    let order =
        order.with(["--env", "SET=a b=c", "--env", "EMPTY=", "--env", "LANG=C", "--env", "PASSED"]);
    assert_eq!(environment(order), expected);
}

#[test]
fn a_variable_that_the_caller_has_not_is_refused_by_name() {
    let host = needs!(TestHost::start());
    let done = host.run().with(["--env", "NOT_THERE"]).command(["true"]).expect(125);
    assert!(done.complaint().contains("NOT_THERE"), "{done:?}");
}

#[test]
fn a_session_file_declares_too_and_the_flag_wins() {
    let host = needs!(TestHost::start());
    let tree = host.project("declared");
    tree.write(
        "sandbox.toml",
        "[workspace]\nmode = \"none\"\n[env]\nFROM = \"file\"\nBOTH = \"file\"\n",
    );
    let file = tree.at("sandbox.toml").display().to_string();
    let order = host.sandboxd().with(["run", "-f", &file, "--env", "BOTH=flag"]);
    let found = environment(order);
    assert_eq!((found["FROM"].as_str(), found["BOTH"].as_str()), ("file", "flag"));
}

#[test]
fn git_knows_the_caller_without_a_variable() {
    let host = needs!(TestHost::start());
    needs!(host.command("git"));
    let done = host.run().command(["git", "config", "--show-origin", "user.email"]).expect(0);
    assert!(done.text().starts_with("file:/etc/gitconfig"), "{done:?}");
}
