//! A session as JSON, with one value at a time made wrong.
//!
//! Runs in: any (pure data).

use serde_json::{Value, json};

use super::*;
use crate::Context;

fn whole() -> SessionFile {
    let context = Context {
        file: "sandbox.toml".into(),
        directory: "/home/ann/shop".into(),
        home: "/home/ann".into(),
    };
    SessionFile::parse(include_str!("parse/tests_whole.toml"), &context).unwrap()
}

/// Replaces one value of the whole file's JSON, and checks what comes out of it.
fn with(pointer: &str, value: Value) -> Result<(), PolicyError> {
    let mut json = serde_json::to_value(whole()).unwrap();
    *json.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
    serde_json::from_value::<SessionFile>(json).unwrap().check()
}

#[test]
fn a_parsed_file_passes_and_so_does_a_small_change_of_it() {
    assert_eq!(whole().check(), Ok(()));
    assert_eq!(SessionFile::default().check(), Ok(()));
    assert_eq!(with("/servers/tracker/concurrency", json!(64)), Ok(()));
    assert_eq!(with("/mounts/1/target", json!("/mnt/x")), Ok(()));
    assert_eq!(with("/egress/allow", json!([])), Ok(()));
    assert_eq!(with("/egress/allow", json!(["a.test:100-162"])), Ok(()));
    assert_eq!(with("/servers/tracker/egress", json!([])), Ok(()));
    assert_eq!(with("/servers/tracker/egress", Value::Null), Ok(()));
    assert_eq!(with("/servers/plain/own_network", json!(true)), Ok(()));
}

#[test]
fn a_value_that_the_parser_would_refuse_is_refused_by_its_key() {
    let day = json!({ "secs": 86_401, "nanos": 0 });
    for (pointer, value, field) in [
        ("/workspace/at/path", json!("shop"), "workspace.path"),
        ("/mounts/0/source", json!("/a/../b"), "mounts[0].source"),
        ("/mounts/0/target", json!("/proc/x"), "mounts[0].target"),
        ("/mounts/1/target", json!("/home/ann/shop"), "mounts"),
        ("/env", json!({ "1A": "" }), "env"),
        ("/env", json!({ "LD_AUDIT": "" }), "env"),
        ("/env/NODE_ENV", json!("\0"), "env.NODE_ENV"),
        ("/secrets/by-env", json!({ "env": "a-b" }), "secrets.by-env"),
        ("/secrets/by-file", json!({ "file": "token" }), "secrets.by-file"),
        ("/secrets/by-command", json!({ "command": [] }), "secrets.by-command"),
        ("/servers/plain/command", json!([]), "mcp.plain.command"),
        ("/servers/tracker/concurrency", json!(0), "mcp.tracker.concurrency"),
        ("/servers/tracker/timeouts/start", day, "mcp.tracker.timeouts"),
        (
            "/servers/tracker/timeouts/idle",
            json!({ "secs": 7_201, "nanos": 0 }),
            "mcp.tracker.timeouts",
        ),
        (
            "/servers/plain/env",
            json!({ "T": { "secret": { "name": "x", "prefix": "" } } }),
            "mcp.plain.env.T",
        ),
        ("/servers/tracker/env/MODE", json!({ "literal": "\0" }), "mcp.tracker.env.MODE"),
        ("/egress/mode", json!("none"), "egress.allow"),
        ("/egress/allow", json!(["a.test", "A.test"]), "egress.allow"),
        ("/egress/allow", json!(["a.test:100-163"]), "mcp.tracker.egress"),
        ("/servers/tracker/own_network", json!(false), "mcp.tracker.egress"),
        ("/servers/tracker/egress", json!(["a.test:100-161"]), "mcp.tracker.egress"),
        ("/limits/pids", json!(1), "limits.pids"),
    ] {
        let error = with(pointer, value).expect_err(pointer);
        assert_eq!(error.field(), Some(field), "{error}");
    }
}

#[test]
fn a_rule_of_json_is_read_as_one_of_a_file() {
    let read = |rule: &str| {
        let mut json = serde_json::to_value(whole()).unwrap();
        json["egress"]["allow"] = json!([rule]);
        serde_json::from_value::<SessionFile>(json)
    };
    assert!(read("a.test:22").is_ok());
    for rule in ["10.0.0.1", "*", "a.test:0", "*.com", "https://a.test"] {
        assert!(read(rule).is_err(), "{rule}");
    }
}

#[test]
fn a_server_that_holds_a_secret_names_no_code() {
    let mut file = whole();
    let server = file.servers.get_mut(&"tracker".parse().unwrap()).unwrap();
    server.env.insert("PYTHONPATH".into(), EnvValue::Literal("/x".into()));
    assert_eq!(file.check(), Ok(()));
    file.servers.get_mut(&"tracker".parse().unwrap()).unwrap().trust_workspace_code = false;
    let error = file.check().unwrap_err();
    assert_eq!(error.field(), Some("mcp.tracker.env.PYTHONPATH"));
}
