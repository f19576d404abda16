//! Servers.
//!
//! Runs in: any (pure data).

use std::time::Duration;

use super::super::tests::{SERVER, accepted, refused, server};
use crate::{EnvValue, ServerDirectory, Timeouts};

#[test]
fn a_server_of_a_whole_file_has_all_its_fields() {
    let file = accepted(include_str!("tests_whole.toml"));
    let tracker = &file.servers[&"tracker".parse().unwrap()];
    assert_eq!(tracker.command, ["node", "/opt/tracker-mcp/server.js"]);
    assert_eq!(tracker.env["MODE"], EnvValue::Literal("fast".into()));
    let secret =
        |prefix: &str| EnvValue::Secret { name: "by-env".parse().unwrap(), prefix: prefix.into() };
    assert_eq!(tracker.env["TOKEN"], secret(""));
    assert_eq!(tracker.env["AUTHORIZATION"], secret("Bearer "));
    assert_eq!(tracker.secrets().count(), 2);
    assert_eq!(tracker.cwd, ServerDirectory::Workspace);
    assert!(tracker.holds_secret() && tracker.trust_workspace_code);
    assert_eq!(tracker.concurrency, 4);
    let [start, call, idle] = [1_500, 7_200_000, 300_000].map(Duration::from_millis);
    assert_eq!(tracker.timeouts, Timeouts { start, call, idle });
}

#[test]
fn the_names_of_secrets_and_servers_have_one_grammar() {
    accepted("[secrets]\n0-a = 'env:A'\n[mcp.b-0]\ncommand = ['a']");
    let what = "expected 1 to 63 characters of a-z, 0-9 and -, starting with a letter or a digit, found \"A_b\"";
    refused("[secrets]\nA_b = 'env:A'", &format!("2: secrets.A_b: {what}"));
    refused("[mcp.A_b]\ncommand = ['a']", &format!("1: mcp.A_b: {what}"));
}

#[test]
fn a_command_is_words_and_nothing_in_it_is_expanded() {
    let with = |command: &str| format!("[mcp.a]\ncommand = {command}");
    accepted(&with("['sh', '-c', 'echo ${HOME} $x', '', '$HOME']"));
    refused("[mcp.a]\nenv = {}", "1: mcp.a.command: expected an array of strings, found nothing");
    refused(&with("'node x'"), "2: mcp.a.command: expected an array of strings, found a string");
    refused(
        &with("[]"),
        "2: mcp.a.command: expected a program and its arguments, found an empty array",
    );
    refused(&with("['']"), "2: mcp.a.command[0]: expected a program, found an empty string");
    refused(&with("['a',\n1]"), "3: mcp.a.command[1]: expected a string, found a number");
    for word in ["${TOKEN}", "--token=${TOKEN}"] {
        let error = "2: mcp.a.command[1]: expected the text itself, found \"${...}\", which is not expanded in a command";
        assert!(refused(&with(&format!("['a', '{word}']")), error).is_some());
    }
    refused("[mcp]\na = 'x'", "2: mcp.a: expected a table, found a string");
}

#[test]
fn a_server_starts_at_home_when_it_holds_a_secret_or_there_is_no_workspace() {
    let secret = "env = { T = { secret = 'tracker' } }\n";
    assert_eq!(server("").cwd, ServerDirectory::Workspace);
    assert_eq!(server(secret).cwd, ServerDirectory::Home);
    assert_eq!(server("cwd = 'home'").cwd, ServerDirectory::Home);
    assert_eq!(server(&format!("{secret}cwd = 'workspace'")).cwd, ServerDirectory::Workspace);
    assert_eq!(server("[workspace]\nmode = 'none'").cwd, ServerDirectory::Home);
    refused(
        &format!("{SERVER}cwd = 'workspace'\n[workspace]\nmode = 'none'"),
        "5: mcp.tracker.cwd: expected \"home\", found \"workspace\", and workspace.mode is \"none\"",
    );
    refused(
        &format!("{SERVER}cwd = '/opt'"),
        "5: mcp.tracker.cwd: expected \"home\" or \"workspace\", found \"/opt\"",
    );
}

#[test]
fn a_servers_small_fields_are_in_range() {
    assert_eq!(server("concurrency = 64").concurrency, 64);
    assert_eq!((server("").concurrency, server("").trust_workspace_code), (1, false));
    for n in [0, 65] {
        let error =
            format!("5: mcp.tracker.concurrency: expected a whole number from 1 to 64, found {n}");
        refused(&format!("{SERVER}concurrency = {n}"), &error);
    }
    refused(
        &format!("{SERVER}trust_workspace_code = 'yes'"),
        "5: mcp.tracker.trust_workspace_code: expected true or false, found a string",
    );
}

#[test]
fn a_timeout_lasts_from_a_second_to_a_day() {
    let call = |text: &str| server(&format!("timeouts = {{ call = '{text}' }}")).timeouts.call;
    for (text, millis) in [("1000ms", 1_000), ("1s", 1_000), ("2m", 120_000), ("24h", 86_400_000)] {
        assert_eq!(call(text), Duration::from_millis(millis));
    }
    let what = "expected a duration from \"1s\" to \"24h\" (units ms, s, m, h), found";
    for bad in [
        "500ms",
        "0s",
        "25h",
        "60",
        "s",
        "",
        "-1s",
        "1.5s",
        "1 s",
        "1d",
        "99999999999999999999h",
        "9999999999999999999h",
    ] {
        refused(
            &format!("{SERVER}timeouts = {{ start = '{bad}' }}"),
            &format!("5: mcp.tracker.timeouts.start: {what} \"{bad}\""),
        );
    }
    refused(
        &format!("{SERVER}timeouts.idle = 60"),
        &format!("5: mcp.tracker.timeouts.idle: {what} a number"),
    );
}

#[test]
fn a_call_without_progress_ends_no_later_than_the_call() {
    assert_eq!(server("").timeouts, Timeouts::default());
    let idle = |text: &str| server(&format!("timeouts = {{ {text} }}")).timeouts.idle.as_secs();
    assert_eq!(idle("call = '60s'"), 60);
    assert_eq!(idle("call = '10m'"), 120);
    assert_eq!(idle("call = '60s', idle = '60s'"), 60);
    refused(
        &format!("{SERVER}timeouts = {{ call = '60s', idle = '61s' }}"),
        "5: mcp.tracker.timeouts.idle: expected at most timeouts.call (60s), found 61s",
    );
    refused(
        &format!("{SERVER}timeouts = {{ idle = '301s' }}"),
        "5: mcp.tracker.timeouts.idle: expected at most timeouts.call (300s), found 301s",
    );
}
