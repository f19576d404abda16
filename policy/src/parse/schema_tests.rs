//! Walks every key of the published example and every row of the schema: each is enforced or refused by
//! name.
//!
//! Runs in: any (pure data).

use super::schema::{self, Section};
use super::tests::parse;
use crate::{EgressMode, EnvValue, Mode, ServerNetwork, SessionFile, Tool, WorkspaceChoice};

/// One key of the example: what has to stand before it, the line itself, and how it is seen to be enforced,
/// or the key that is refused.
struct Row {
    before: &'static str,
    line: &'static str,
    fate: Fate,
}

enum Fate {
    Enforced(fn(&SessionFile) -> bool),
    Refused(&'static str),
}

use Fate::{Enforced, Refused};

const TRACKER: &str = "[secrets]\ntracker = 'env:T'\n[mcp.tracker]\ncommand = ['node']\n";

fn tracker(file: &SessionFile) -> &crate::Server {
    &file.servers[&"tracker".parse().unwrap()]
}

fn workspace(file: &SessionFile) -> &crate::Workspace {
    let WorkspaceChoice::At(workspace) = &file.workspace else { panic!("no workspace") };
    workspace
}

/// The example, key by key, and the keys that the text beside it names.
const EXAMPLE: &[Row] = &[
    row("", "tools = ['node']", Enforced(|f| f.tools == [Tool::Node])),
    row("[workspace]", "path = '.'", Enforced(|f| workspace(f).path.ends_with("shop"))),
    row(
        "[workspace]\npath = '.'",
        "mode = 'ro'",
        Enforced(|f| workspace(f).mode == Mode::ReadOnly),
    ),
    row("[workspace]\npath = '.'", "mode = 'staged'", Refused("workspace.mode")),
    row(
        "[workspace]\npath = '.'",
        "on_trusted_path = 'stop'",
        Refused("workspace.on_trusted_path"),
    ),
    row("[root]", "image = 'host'", Enforced(|f| *f == SessionFile::default())),
    row("[root]", "image = 'oci:./image'", Refused("root.image")),
    row("[root]", "directory = '/srv/root'", Refused("root.directory")),
    row("[[mounts]]", "source = '~/x'", Enforced(|f| f.mounts[0].source.ends_with("ann/x"))),
    row(
        "[[mounts]]\nsource = '/a'",
        "target = '/b'",
        Enforced(|f| f.mounts[0].target.ends_with("b")),
    ),
    row(
        "[[mounts]]\nsource = '/a'",
        "mode = 'rw'",
        Enforced(|f| f.mounts[0].mode == Mode::ReadWrite),
    ),
    row("[egress]", "mode = 'none'", Enforced(|f| *f == SessionFile::default())),
    row("[egress]", "mode = 'filter'", Enforced(|f| f.egress.mode == EgressMode::Filter)),
    row("[egress]", "mode = 'ask'", Refused("egress.mode")),
    row("[egress]", "mode = 'audit'", Refused("egress.mode")),
    row(
        "[egress]",
        "allow = ['github.com:22,443', '*.pkg.example']",
        Enforced(|f| f.egress.allow.len() == 2 && f.egress.mode == EgressMode::Filter),
    ),
    row("[egress]", "allow_private = ['10.0.0.0/8']", Refused("egress.allow_private")),
    row("[egress]", "resolver = '192.0.2.1'", Enforced(|f| f.egress.resolver.is_some())),
    row("[env]", "NODE_ENV = 'test'", Enforced(|f| f.env["NODE_ENV"] == "test")),
    row("[secrets]", "tracker = 'env:TRACKER_TOKEN'", Enforced(|f| f.secrets.len() == 1)),
    row("[secrets]", "tracker = 'file:token'", Enforced(|f| f.secrets.len() == 1)),
    row("[secrets]", "tracker = 'command:[\"pass\"]'", Enforced(|f| f.secrets.len() == 1)),
    row("[secrets]", "tracker = 'credential:NAME'", Refused("secrets.tracker")),
    row("[mcp.tracker]", "command = ['node']", Enforced(|f| tracker(f).command == ["node"])),
    row(
        TRACKER,
        "env = { TOKEN = { secret = 'tracker' } }",
        Enforced(|f| tracker(f).holds_secret()),
    ),
    row(
        TRACKER,
        "env = { TOKEN = { secret = 'tracker', prefix = 'x' } }",
        Enforced(
            |f| matches!(&tracker(f).env["TOKEN"], EnvValue::Secret { prefix, .. } if prefix == "x"),
        ),
    ),
    row(TRACKER, "cwd = 'home'", Enforced(|f| tracker(f).cwd == crate::ServerDirectory::Home)),
    row(TRACKER, "trust_workspace_code = true", Enforced(|f| tracker(f).trust_workspace_code)),
    row(TRACKER, "concurrency = 2", Enforced(|f| tracker(f).concurrency == 2)),
    row(
        TRACKER,
        "timeouts = { start = '61s' }",
        Enforced(|f| tracker(f).timeouts.start.as_secs() == 61),
    ),
    row(
        TRACKER,
        "timeouts = { call = '301s' }",
        Enforced(|f| tracker(f).timeouts.call.as_secs() == 301),
    ),
    row(
        TRACKER,
        "timeouts = { idle = '121s' }",
        Enforced(|f| tracker(f).timeouts.idle.as_secs() == 121),
    ),
    row(
        TRACKER,
        "egress = ['api.tracker.example']",
        Enforced(|f| matches!(tracker(f).network(), ServerNetwork::Own([_]))),
    ),
    row(TRACKER, "network = 'own'", Enforced(|f| tracker(f).network() == ServerNetwork::Loopback)),
    row("[mcp.docs]", "url = 'https://mcp.docs.example/mcp'", Refused("mcp.docs.url")),
    row(
        "[mcp.docs]",
        "headers = { Authorization = { secret = 'docs' } }",
        Refused("mcp.docs.headers"),
    ),
    row("[services.db]", "command = ['postgres']", Refused("services")),
    row("[sidecars.lint]", "image = 'oci:./lint-image'", Refused("sidecars")),
    row("", "devices = ['/dev/kvm']", Refused("devices")),
    row("[limits]", "memory = '2GiB'", Refused("limits.memory")),
    row("[limits]", "pids = 512", Enforced(|f| f.limits.pids == Some(512))),
    row("[walls]", "landlock = 'required'", Enforced(|f| f.walls != SessionFile::default().walls)),
];

const fn row(before: &'static str, line: &'static str, fate: Fate) -> Row {
    Row { before, line, fate }
}

#[test]
fn every_key_of_the_example_is_enforced_or_refused_by_name() {
    for Row { before, line, fate } in EXAMPLE {
        let text = format!("{before}\n{line}\n");
        match (fate, parse(&text)) {
            (Enforced(is_seen), Ok(file)) => assert!(is_seen(&file), "{text}"),
            (Enforced(_), Err(error)) => panic!("{error}\n{text}"),
            (Refused(field), Ok(_)) => panic!("{field} was accepted\n{text}"),
            (Refused(field), Err(error)) => {
                assert_eq!(error.field(), Some(*field), "{error}\n{text}");
                assert!(
                    error.message().contains("not enforced by this version of sandboxd"),
                    "{error}"
                );
            }
        }
    }
}

/// Each kind of table, with what has to stand before a key of it and how its keys are named.
const SECTIONS: &[(&Section, &str, &str)] = &[
    (&schema::ROOT, "", ""),
    (&schema::WORKSPACE, "[workspace]", "workspace."),
    (&schema::ROOT_FILES, "[root]", "root."),
    (&schema::MOUNT, "[[mounts]]", "mounts[0]."),
    (&schema::EGRESS, "[egress]", "egress."),
    (&schema::SERVER, "[mcp.tracker]", "mcp.tracker."),
    (
        &schema::SECRET_VALUE,
        "[mcp.tracker]\ncommand=['a']\n[mcp.tracker.env.T]",
        "mcp.tracker.env.T.",
    ),
    (
        &schema::TIMEOUTS,
        "[mcp.tracker]\ncommand=['a']\n[mcp.tracker.timeouts]",
        "mcp.tracker.timeouts.",
    ),
    (&schema::LIMITS, "[limits]", "limits."),
    (&schema::WALLS, "[walls]", "walls."),
];

#[test]
fn every_key_that_is_not_enforced_is_refused_by_its_own_name() {
    for (section, before, prefix) in SECTIONS {
        for key in section.later {
            let error = parse(&format!("{before}\n{key} = 1\n")).expect_err(key);
            assert_eq!(error.field(), Some(format!("{prefix}{key}").as_str()));
            assert_eq!(error.message(), "not enforced by this version of sandboxd; remove it");
        }
    }
}

#[test]
fn every_key_that_is_enforced_is_read_and_so_refuses_a_value_of_no_kind() {
    for (section, before, prefix) in SECTIONS {
        for key in section.enforced {
            // Keys that have to be there are said first, so that this one is what is wrong.
            let needed = match *prefix {
                "workspace." if *key != "path" => "path = '.'\n",
                "mounts[0]." if *key != "source" => "source = '/a'\n",
                "mcp.tracker." if *key != "command" => "command = ['a']\n",
                "mcp.tracker.env.T." if *key != "secret" => "secret = 'tracker'\n",
                _ => "",
            };
            let secrets = if prefix.is_empty() { "" } else { "[secrets]\ntracker = 'env:T'\n" };
            let text = format!("{secrets}{before}\n{needed}{key} = 1.5\n");
            let error = parse(&text).expect_err(&text);
            assert_eq!(error.field(), Some(format!("{prefix}{key}").as_str()), "{text}");
            assert!(error.message().ends_with("found a number"), "{error}");
        }
    }
}
