//! Whole files, and the words that the tests of each table share.
//!
//! Runs in: any (pure data).

use std::path::Path;

use super::*;
use crate::{
    EgressMode, LandlockDemand, Mode, Rule, SecretSource, Server, Tool, Workspace, WorkspaceChoice,
};

/// The start of a file whose next line is line 5 and belongs to a server that may hold a secret.
pub(super) const SERVER: &str =
    "[secrets]\ntracker = \"env:T\"\n[mcp.tracker]\ncommand = [\"node\", \"/opt/s.js\"]\n";

pub(super) fn parse(text: &str) -> Result<SessionFile, PolicyError> {
    let context = Context {
        file: "sandbox.toml".into(),
        directory: "/home/ann/shop".into(),
        home: "/home/ann".into(),
    };
    SessionFile::parse(text, &context)
}

pub(super) fn accepted(text: &str) -> SessionFile {
    parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Asserts the whole line of the error, and returns its hint.
#[track_caller]
pub(super) fn refused(text: &str, error: &str) -> Option<String> {
    let found = parse(text).expect_err(text);
    assert_eq!(found.to_string(), format!("sandbox.toml:{error}"), "{text}");
    found.hint().map(str::to_owned)
}

pub(super) fn server(lines: &str) -> Server {
    accepted(&format!("{SERVER}{lines}")).servers.into_values().next().unwrap()
}

#[test]
fn an_empty_file_asks_for_nothing() {
    assert_eq!(accepted(""), SessionFile::default());
    assert_eq!(accepted("").workspace, WorkspaceChoice::Unsaid);
}

#[test]
fn a_whole_file_is_read_and_survives_json() {
    let file = accepted(include_str!("tests_whole.toml"));
    assert_eq!(file.tools, [Tool::Node, Tool::Rust]);
    let workspace = Workspace { path: "/home/ann/shop".into(), mode: Mode::ReadOnly };
    assert_eq!(file.workspace, WorkspaceChoice::At(workspace));
    assert_eq!(file.mounts[0].source, Path::new("/home/ann/.cache/models"));
    assert_eq!(file.mounts[0].target, file.mounts[0].source);
    assert_eq!(file.mounts[0].mode, Mode::ReadOnly);
    assert_eq!(file.mounts[1].source, Path::new("/home/ann/data"));
    assert_eq!(file.mounts[1].target, Path::new("/data"));
    assert_eq!(file.mounts[1].mode, Mode::ReadWrite);
    assert_eq!(file.env["NODE_ENV"], "test");
    assert_eq!(file.egress.mode, EgressMode::Filter);
    let allow = file.egress.allow.iter().map(Rule::to_string).collect::<Vec<_>>();
    assert_eq!(allow, ["github.com:22,443", "*.pkg.example", "[2606:4700::/32]:853"]);
    assert_eq!(file.egress.resolver.unwrap().to_string(), "10.0.0.1:5353");
    assert_eq!(file.rules().count(), 4);
    assert_eq!(file.limits.pids, Some(512));
    assert_eq!(file.walls.landlock, LandlockDemand::Required);
    let sources = file.secrets.values().cloned().collect::<Vec<_>>();
    let command = ["pass", "show", "tracker"].map(str::to_owned);
    assert_eq!(
        sources,
        [
            SecretSource::Command(command.into()),
            SecretSource::Env("TRACKER_TOKEN".into()),
            SecretSource::File("/home/ann/shop/secret/token".into()),
        ]
    );
    let json = serde_json::to_string(&file).unwrap();
    assert_eq!(serde_json::from_str::<SessionFile>(&json).unwrap(), file);
}

#[test]
fn json_with_a_key_of_a_newer_version_is_refused() {
    let mut json = serde_json::to_value(SessionFile::default()).unwrap();
    assert!(serde_json::from_value::<SessionFile>(json.clone()).is_ok());
    json["sidecars"] = "none".into();
    assert!(serde_json::from_value::<SessionFile>(json).is_err());
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    accepted("[workspace]\npath = \".\"\n");
    for text in ["[workspace]\npath = .\n", "[workspace]\npath \".\"", "\n[workspace\npath=1"] {
        let error = parse(text).unwrap_err();
        assert_eq!((error.line(), error.field()), (Some(2), None), "{error}");
        assert!(error.to_string().starts_with("sandbox.toml:2: "), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    let error = parse("[env]\nA = \"1\"\nA = \"2\"\n").unwrap_err();
    assert_eq!((error.line(), error.message()), (Some(3), "duplicate key"));
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    let hint = refused(
        "[workspace]\npth = \".\"\n",
        "2: workspace.pth: expected a key that sandboxd knows",
    );
    assert_eq!(hint.as_deref(), Some("did you mean path?"));
    let hint = refused("\nworkspaces = 1", "2: workspaces: expected a key that sandboxd knows");
    assert_eq!(hint.as_deref(), Some("did you mean workspace?"));
    let hint =
        refused("[limits]\nmemry = 1", "2: limits.memry: expected a key that sandboxd knows");
    let later = "the nearest key is memory, which this version of sandboxd does not enforce";
    assert_eq!(hint.as_deref(), Some(later));
    let hint = refused(
        "[[mounts]]\n\"a.b\\u0000\" = 1",
        "2: mounts[0].\"a.b\\0\": expected a key that sandboxd knows",
    );
    assert_eq!(hint.as_deref(), Some("the keys here are source, target, mode"));
}

#[test]
fn the_workspace_is_a_directory_with_a_mode_or_none() {
    let workspace = |text: &str| accepted(&format!("[workspace]\n{text}")).workspace;
    let at = |path: &str, mode| WorkspaceChoice::At(Workspace { path: path.into(), mode });
    assert_eq!(workspace("path = '.'"), at("/home/ann/shop", Mode::ReadWrite));
    assert_eq!(
        workspace("path = '../other/./x/'\nmode='rw'"),
        at("/home/ann/other/x", Mode::ReadWrite)
    );
    assert_eq!(workspace("path = '~/a'\nmode = 'ro'"), at("/home/ann/a", Mode::ReadOnly));
    assert_eq!(workspace("path = '/workspace'"), at("/workspace", Mode::ReadWrite));
    assert_eq!(workspace("mode = 'none'"), WorkspaceChoice::None);
}

#[test]
fn a_workspace_that_contradicts_itself_or_cannot_be_one_is_refused() {
    let refused = |text: &str, error: &str| refused(&format!("[workspace]\n{text}"), error);
    refused(
        "mode = 'none'\npath = '.'",
        "3: workspace.path: expected no path beside mode = \"none\"",
    );
    refused(
        "mode = 'ro'",
        "1: workspace.path: expected a path (\".\" is the directory of this file), found nothing",
    );
    refused("path = 1", "2: workspace.path: expected a path, found a number");
    refused("path = ''", "2: workspace.path: expected a path, found an empty string");
    refused(
        "mode = 'wr'\npath = '.'",
        "2: workspace.mode: expected \"rw\", \"ro\" or \"none\", found \"wr\"",
    );
    for (path, shown, why) in [
        ("~", "/home/ann", "it is the home directory"),
        ("..", "/home/ann", "it is the home directory"),
        ("/home", "/home", "the home directory lies in it"),
        ("/", "/", "it is the root of the file system"),
        ("/proc/self", "/proc/self", "the box needs this path itself"),
        ("/tmp", "/tmp", "the box needs this path itself"),
    ] {
        let error = format!(
            "2: workspace.path: expected a directory that may be a workspace, found \"{shown}\": {why}"
        );
        refused(&format!("path = '{path}'"), &error);
    }
}

#[test]
fn there_are_at_most_64_mounts_and_64_servers() {
    let mounts =
        |n: usize| (0..n).map(|i| format!("[[mounts]]\nsource='/srv/{i}'\n")).collect::<String>();
    assert_eq!(accepted(&mounts(64)).mounts.len(), 64);
    refused(&mounts(65), "129: mounts[64]: expected at most 64 mounts, found 65");
    let servers =
        |n: usize| (0..n).map(|i| format!("[mcp.s{i}]\ncommand=['a']\n")).collect::<String>();
    assert_eq!(accepted(&servers(64)).servers.len(), 64);
    refused(&servers(65), "129: mcp.s64: expected at most 64 servers, found 65");
}

#[test]
fn a_toolchain_is_one_that_sandboxd_knows_and_is_named_once() {
    assert_eq!(accepted("tools = ['go', 'python']").tools, [Tool::Go, Tool::Python]);
    refused(
        "tools = ['go',\n 'ruby']",
        "2: tools[1]: expected \"rust\", \"node\", \"python\" or \"go\", found \"ruby\"",
    );
    refused(
        "tools = ['go', 'go']",
        "1: tools[1]: expected each toolchain once, found \"go\" again",
    );
    refused("tools = 'go'", "1: tools: expected an array of names of toolchains, found a string");
}

#[test]
fn what_this_version_has_one_of_is_accepted_and_the_rest_refused_by_name() {
    accepted("[root]\nimage = 'host'\n[egress]\nmode = 'none'\n");
    accepted("[root]\n[egress]\n");
    refused(
        "[root]\nimage = 'oci:./x'",
        "2: root.image: \"oci:./x\" is not enforced by this version of sandboxd, which has \"host\" alone",
    );
    refused(
        "[workspace]\npath='.'\nmode = 'staged'",
        "3: workspace.mode: \"staged\" is not enforced by this version of sandboxd, which has \"rw\", \"ro\" and \"none\"",
    );
}

#[test]
fn limits_and_walls_are_in_range() {
    for pids in [16, 1_048_576] {
        assert_eq!(accepted(&format!("[limits]\npids = {pids}")).limits.pids, Some(pids));
    }
    for pids in [i64::MIN, -1, 0, 15, 1_048_577, i64::MAX] {
        let error =
            format!("2: limits.pids: expected a whole number from 16 to 1048576, found {pids}");
        refused(&format!("[limits]\npids = {pids}"), &error);
    }
    refused(
        "[limits]\npids = 20.0",
        "2: limits.pids: expected a whole number from 16 to 1048576, found a number",
    );
    assert_eq!(
        accepted("[walls]\nlandlock = 'available'").walls.landlock,
        LandlockDemand::Available
    );
    refused(
        "[walls]\nlandlock = true",
        "2: walls.landlock: expected \"required\" or \"available\", found a boolean",
    );
}

#[test]
fn a_table_is_a_table() {
    for key in ["workspace", "root", "egress", "env", "secrets", "mcp", "limits", "walls"] {
        accepted(if key == "workspace" { "[workspace]\npath='.'" } else { "" });
        refused(&format!("\n{key} = [1]"), &format!("2: {key}: expected a table, found an array"));
        refused(
            &format!("{key} = 2026-01-01"),
            &format!("1: {key}: expected a table, found a date or time"),
        );
    }
}

#[test]
fn no_text_anywhere_holds_a_nul_byte() {
    let nul = "expected text without a NUL byte";
    refused("[workspace]\npath = \"a\\u0000\"", &format!("2: workspace.path: {nul}"));
    refused("[env]\nA = \"\\u0000\"", &format!("2: env.A: {nul}"));
    refused("[secrets]\na = \"file:\\u0000\"", &format!("2: secrets.a: {nul}"));
    refused("[secrets]\na = 'command:[\"a\\u0000\"]'", &format!("2: secrets.a: {nul}"));
    refused("[mcp.a]\ncommand = [\"a\", \"\\u0000\"]", &format!("2: mcp.a.command[1]: {nul}"));
    accepted("[env]\nA = \"\\u0001\"");
}

#[test]
fn a_file_cut_anywhere_or_nested_deeply_is_read_or_refused() {
    let whole = include_str!("tests_whole.toml");
    let cuts = whole.char_indices().filter(|(end, _)| parse(&whole[..*end]).is_ok());
    assert!(cuts.count() > 10);
    assert!(parse(&format!("tools = {}", "[".repeat(100_000))).is_err());
    assert!(parse(&format!("[secrets]\na = 'command:{}'", "[".repeat(100_000))).is_err());
}
