//! Tests of the rule about code that the agent can write.
//!
//! Runs in: host.

use std::collections::BTreeMap;
use std::fs;

use policy::{EnvValue, Timeouts};
use rootfs::{Shape, Source};

use super::*;

fn bind(path: &Path, target: &str, access: Access) -> Step {
    let source = Source { path: path.to_owned(), identity: (0, 0), shape: Shape::Directory };
    Step::Bind { source, target: target.into(), access }
}

fn server(command: &[&str], secret: bool) -> Server {
    let value = if secret {
        EnvValue::Secret { name: "token".parse().unwrap(), prefix: String::new() }
    } else {
        EnvValue::Literal("x".into())
    };
    Server {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        env: BTreeMap::from([("TOKEN".to_owned(), value)]),
        cwd: ServerDirectory::Home,
        trust_workspace_code: false,
        concurrency: 1,
        timeouts: Timeouts::default(),
        egress: None,
        own_network: false,
    }
}

struct World {
    _tree: tempfile::TempDir,
    plan: MountPlan,
}

fn world() -> World {
    let tree = tempfile::tempdir().unwrap();
    for name in ["ws", "opt"] {
        fs::create_dir(tree.path().join(name)).unwrap();
        fs::write(tree.path().join(name).join("server.js"), "").unwrap();
    }
    std::os::unix::fs::symlink(tree.path().join("ws/server.js"), tree.path().join("opt/link.js"))
        .unwrap();
    let steps = vec![
        bind(Path::new("/usr"), "/usr", Access::ReadOnly),
        bind(&tree.path().join("opt"), "/srv/opt", Access::ReadOnly),
        bind(&tree.path().join("ws"), "/srv/ws", Access::ReadWrite),
    ];
    let plan = MountPlan { steps, directory: "/srv/ws".into(), ..MountPlan::default() };
    World { _tree: tree, plan }
}

fn verdict(world: &World, server: &Server, path: &str) -> Result<(), Fault> {
    let directory = Path::new("/home/ann");
    check(Start { name: "t", server, plan: &world.plan, path, directory })
}

#[test]
fn a_server_with_a_secret_runs_no_code_of_the_workspace() {
    let world = world();
    let paths = "/usr/bin:/bin";
    for command in [
        &["/srv/ws/server.js"][..],
        &["node", "/srv/ws/server.js"],
        &["node", "/workspace/server.js"],
        &["node", "--inspect", "/srv/opt/link.js"],
        &["node", "-r", "/srv/opt/server.js", "/srv/ws/server.js"],
        &["env", "A=1", "python3", "/srv/ws/server.js"],
        &["timeout", "9", "node", "/srv/ws/server.js"],
        &["sh", "-c", "exec node /srv/ws/server.js"],
        &["sh", "-c", "cd /workspace && make"],
        &["make", "-C", "/srv/ws"],
        &["git", "-C/srv/ws", "status"],
        &["python3.11", "/srv/ws"],
        &["node", "--require=/srv/ws/server.js", "/srv/opt/server.js"],
    ] {
        let fault = verdict(&world, &server(command, true), paths).unwrap_err();
        assert_eq!(fault.field.as_deref(), Some("mcp.t.command"), "{command:?}");
        assert!(verdict(&world, &server(command, false), paths).is_ok(), "{command:?}");
        let mut trusted = server(command, true);
        trusted.trust_workspace_code = true;
        assert!(verdict(&world, &trusted, paths).is_ok(), "{command:?}");
    }
}

#[test]
fn a_server_outside_the_workspace_may_be_told_of_it() {
    let world = world();
    for command in [
        &["node", "/srv/opt/server.js", "/srv/ws"][..],
        &["/usr/bin/env", "/srv/opt/server.js"],
        &["python3", "/srv/opt/server.js", "--root", "/srv/ws"],
        &["/srv/opt/server.js", "--root=/srv/ws"],
    ] {
        assert!(verdict(&world, &server(command, true), "/usr/bin").is_ok(), "{command:?}");
    }
}

#[test]
fn a_path_through_the_workspace_is_refused_for_a_secret() {
    let world = world();
    let server = server(&["node", "/srv/opt/server.js"], true);
    let fault = verdict(&world, &server, "/usr/bin:/srv/ws/node_modules/.bin").unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("mcp.t.env.PATH"));
}

#[test]
fn a_variable_that_names_code_in_the_workspace_is_refused_for_a_secret() {
    let world = world();
    let mut server = server(&["node", "/srv/opt/server.js"], true);
    let set = |server: &mut Server, name: &str| {
        server.env.insert(name.to_owned(), EnvValue::Literal("/srv/ws".to_owned()));
    };
    set(&mut server, "REPOSITORY");
    assert!(verdict(&world, &server, "/usr/bin").is_ok());
    set(&mut server, "HOME");
    let fault = verdict(&world, &server, "/usr/bin").unwrap_err();
    assert_eq!(fault.field.as_deref(), Some("mcp.t.env.HOME"));
}

#[test]
fn the_interpreter_of_a_script_is_looked_at_too() {
    let world = world();
    let script = world._tree.path().join("opt/wrapped");
    fs::write(&script, "#!/srv/ws/server.js\n").unwrap();
    assert!(verdict(&world, &server(&["/srv/opt/wrapped"], true), "/usr/bin").is_err());
    fs::write(&script, "#!/usr/bin/env node\n").unwrap();
    assert!(verdict(&world, &server(&["/srv/opt/wrapped"], true), "/usr/bin").is_ok());
}
