//! Tests of the pure plan.
//!
//! Runs in: any.

use super::*;

fn source(path: &str) -> Source {
    Source { path: path.into(), identity: (1, 2), shape: Shape::Directory }
}

fn facts() -> HostFacts {
    HostFacts {
        root: vec![
            RootEntry::Directory(source("/usr")),
            RootEntry::Link { path: "/bin".into(), target: "usr/bin".into() },
        ],
        etc: vec![RootEntry::Directory(source("/etc/fonts"))],
        devices: vec![Source { shape: Shape::Device, ..source("/dev/null") }],
        uid: 1000,
        gid: 1000,
        user: "ann".into(),
        home: "/home/ann".into(),
        shell: "/bin/sh".into(),
    }
}

fn workspace(path: &str) -> Wishes {
    let guards = vec![
        Guard { root: path.into(), path: ".git".into(), access: Access::ReadWrite },
        Guard { root: path.into(), path: ".git/hooks".into(), access: Access::ReadOnly },
    ];
    let tree = TreeFacts {
        source: source(path),
        repository: None,
        guards,
        sockets: Vec::new(),
        unprotected: Vec::new(),
    };
    Wishes {
        workspace: Some((tree, Access::ReadWrite)),
        mounts: Vec::new(),
        host_name: "box".into(),
        author: (None, None),
        name_server: None,
    }
}

#[test]
fn every_mounted_path_has_a_landlock_rule_and_no_other_host_path_has_one() {
    let plan = plan(&facts(), &workspace("/srv/shop")).unwrap();
    for step in &plan.steps {
        if let Step::Bind { target, .. } = step {
            assert!(plan.rules.iter().any(|rule| rule.path == *target), "{target:?}");
        }
    }
    let root = plan.rules.iter().find(|rule| rule.path == Path::new("/")).unwrap();
    assert_eq!(root.rights, Rights::List);
    let own = ["/", "/proc", "/etc", "/dev", "/dev/pts", "/tmp", "/dev/shm", "/home/ann"];
    for rule in &plan.rules {
        let mounted = plan
            .steps
            .iter()
            .any(|step| matches!(step, Step::Bind { target, .. } if *target == rule.path));
        assert!(mounted || own.iter().any(|path| Path::new(path) == rule.path), "{rule:?}");
    }
}

#[test]
fn a_workspace_below_a_private_directory_is_moved_over() {
    let plan = plan(&facts(), &workspace("/home/ann/shop")).unwrap();
    let home = plan.private.iter().find(|place| place.path == Path::new("/home/ann")).unwrap();
    assert_eq!(home.nested, [("/home/ann/shop".into(), Shape::Directory)]);
    assert!(plan.private.iter().all(|place| place.path == home.path || place.nested.is_empty()));
    assert_eq!(plan.directory, Path::new("/home/ann/shop"));
}

#[test]
fn a_read_only_workspace_needs_no_guards_and_a_live_one_has_them() {
    let mut wishes = workspace("/srv/shop");
    assert_eq!(plan(&facts(), &wishes).unwrap().guards.len(), 2);
    wishes.workspace.as_mut().unwrap().1 = Access::ReadOnly;
    let read_only = plan(&facts(), &wishes).unwrap();
    assert!(read_only.guards.is_empty());
    assert!(
        read_only
            .rules
            .iter()
            .any(|rule| rule.path == Path::new("/srv/shop") && rule.rights == Rights::Read)
    );
}

#[test]
fn a_mount_inside_the_workspace_needs_a_place_there() {
    let mut wishes = workspace("/srv/shop");
    wishes.mounts.push((source("/data"), "/srv/shop/data".into(), Access::ReadOnly));
    let error = plan(&facts(), &wishes).unwrap_err();
    assert!(matches!(error, PlanError::NoPlace { .. }), "{error}");
    wishes.mounts[0] = (source("/srv/shop/data"), "/srv/shop/data".into(), Access::ReadOnly);
    assert!(plan(&facts(), &wishes).is_ok());
}

#[test]
fn two_mounts_on_one_place_are_refused() {
    let mut wishes = Wishes { host_name: "box".into(), ..Wishes::default() };
    wishes.mounts.push((source("/a"), "/m".into(), Access::ReadOnly));
    assert!(plan(&facts(), &wishes).is_ok());
    wishes.mounts.push((source("/b"), "/m".into(), Access::ReadOnly));
    assert_eq!(plan(&facts(), &wishes), Err(PlanError::Twice("/m".into())));
}

#[test]
fn the_directories_above_an_inner_mount_cannot_be_moved() {
    let mut wishes = workspace("/srv/shop");
    wishes.mounts.push((
        source("/srv/shop/a/b/kept"),
        "/srv/shop/a/b/kept".into(),
        Access::ReadOnly,
    ));
    let plan = plan(&facts(), &wishes).unwrap();
    for path in ["a", "a/b"] {
        let guard =
            Guard { root: "/srv/shop".into(), path: path.into(), access: Access::ReadWrite };
        assert!(plan.guards.contains(&guard), "{path}");
    }
}

#[test]
fn a_socket_in_the_workspace_is_covered() {
    let mut wishes = workspace("/srv/shop");
    let socket = Path::new("/srv/shop/agent.sock");
    wishes.workspace.as_mut().unwrap().0.sockets.push(socket.into());
    let plan = plan(&facts(), &wishes).unwrap();
    let covers = |step: &Step| {
        matches!(step, Step::Bind { source, target, .. }
            if target == socket && source.shape == Shape::Device)
    };
    let tree =
        |step: &Step| matches!(step, Step::Bind { target, .. } if target == Path::new("/srv/shop"));
    assert!(plan.steps.iter().position(covers) > plan.steps.iter().position(tree));
}
