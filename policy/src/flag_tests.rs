//! Flags.
//!
//! Runs in: any (pure data).

use std::path::Path;

use super::*;

fn workspace(text: &str) -> Result<WorkspaceChoice, PolicyError> {
    parse_workspace_flag(text, Path::new("/home/ann/shop"), Path::new("/home/ann"))
}

fn mount(text: &str) -> Result<Mount, PolicyError> {
    parse_mount_flag(text, Path::new("/home/ann/shop"), Path::new("/home/ann"))
}

fn at(path: &str, mode: Mode) -> WorkspaceChoice {
    WorkspaceChoice::At(Workspace { path: path.into(), mode })
}

#[test]
fn a_workspace_is_a_directory_and_perhaps_a_mode() {
    for (text, expected) in [
        ("none", WorkspaceChoice::None),
        (".", at("/home/ann/shop", Mode::ReadWrite)),
        ("../b:ro", at("/home/ann/b", Mode::ReadOnly)),
        ("~/b:rw", at("/home/ann/b", Mode::ReadWrite)),
        ("/srv/a:b", at("/srv/a:b", Mode::ReadWrite)),
        ("/srv/a:ro:rw", at("/srv/a:ro", Mode::ReadWrite)),
        ("./none:ro", at("/home/ann/shop/none", Mode::ReadOnly)),
    ] {
        assert_eq!(workspace(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn a_workspace_that_cannot_be_had_is_refused_by_the_name_of_the_flag() {
    for (text, error) in [
        (
            ".:staged",
            "\"staged\" is not enforced by this version of sandboxd, which has \"rw\", \"ro\" and \"none\"",
        ),
        ("none:ro", "expected \"none\" without a mode, found \"none:ro\""),
        (":ro", "expected a path, found an empty string"),
        ("", "expected a path, found an empty string"),
        ("a\0", "expected text without a NUL byte"),
        ("a/../b", "expected a path with \"..\" at its start only, found \"a/../b\""),
        (
            "~",
            "expected a directory that may be a workspace, found \"/home/ann\": it is the home directory",
        ),
    ] {
        let found = workspace(text).unwrap_err();
        assert_eq!(found.to_string(), format!("--workspace: {error}"), "{text}");
        assert_eq!((found.field(), found.line(), found.file()), (Some("--workspace"), None, None));
    }
}

#[test]
fn a_mount_is_a_source_and_perhaps_a_target_and_a_mode() {
    for (text, source, target, mode) in [
        ("/a", "/a", "/a", Mode::ReadOnly),
        ("b:rw", "/home/ann/shop/b", "/home/ann/shop/b", Mode::ReadWrite),
        ("/a:/c", "/a", "/c", Mode::ReadOnly),
        ("~/a:/c/:rw", "/home/ann/a", "/c", Mode::ReadWrite),
        ("/etc/ssl:/mnt/ssl:ro", "/etc/ssl", "/mnt/ssl", Mode::ReadOnly),
    ] {
        let expected = Mount { source: source.into(), target: target.into(), mode };
        assert_eq!(mount(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn a_mount_that_cannot_be_had_is_refused_by_the_name_of_the_flag() {
    for (text, error) in [
        ("", "expected a path, found an empty string"),
        (":/c", "expected a path, found an empty string"),
        ("/a:c", "expected an absolute path in the box, found \"c\""),
        ("/a:", "expected an absolute path in the box, found \"\""),
        ("/a:/b:/c", "expected SRC[:DST][:ro|rw], found \"/a:/b:/c\""),
        ("/a:/proc/x", "expected a path that the box does not need itself, found \"/proc/x\""),
        ("/etc", "expected a path that the box does not need itself, found \"/etc\""),
        ("/a\0", "expected text without a NUL byte"),
    ] {
        assert_eq!(mount(text).unwrap_err().to_string(), format!("--mount: {error}"), "{text}");
    }
}

#[test]
fn mounts_of_file_and_flags_share_no_target() {
    let mounts = |texts: &[&str]| texts.iter().map(|text| mount(text).unwrap()).collect::<Vec<_>>();
    let own = workspace(".").unwrap();
    assert_eq!(check_mounts(&mounts(&["/a", "/b:/c"]), &own), Ok(()));
    let error = check_mounts(&mounts(&["/a", "/b:/a"]), &own).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--mount: expected a target of its own, found an earlier mount's: \"/a\""
    );
    let error = check_mounts(&mounts(&["."]), &own).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--mount: expected a target of its own, found the workspace's: \"/home/ann/shop\""
    );
    assert_eq!(check_mounts(&mounts(&["."]), &WorkspaceChoice::None), Ok(()));
}

#[test]
fn a_variable_is_copied_or_set() {
    assert_eq!(parse_env_flag("A").unwrap(), EnvFlag::Copy("A".into()));
    assert_eq!(parse_env_flag("A=").unwrap(), EnvFlag::Set("A".into(), String::new()));
    assert_eq!(parse_env_flag("A=b=c").unwrap(), EnvFlag::Set("A".into(), "b=c".into()));
}

#[test]
fn a_variable_that_may_not_be_set_is_refused_without_its_value() {
    for text in ["", "=S3CRET", "1A=S3CRET", "A B", "LD_PRELOAD=S3CRET", "LD_AUDIT", "A=S3CRET\0"] {
        let error = parse_env_flag(text).unwrap_err();
        assert_eq!(error.field(), Some("--env"));
        assert!(!error.to_string().contains("S3CRET"), "{error}");
    }
}

#[test]
fn a_rule_of_a_flag_has_every_form_of_the_file() {
    for text in
        ["github.com", "a.test:22,443,8000-8010", "*.a.test:80", "1.1.1.0/24", "[2a00::1]:22"]
    {
        assert_eq!(parse_allow_flag(text).unwrap().to_string(), text);
    }
    for (text, error) in [
        ("", "expected a name of 1 to 253 characters, found 0"),
        ("a.test:http", "expected ports such as 22,443,8000-8010, found \"http\""),
        (
            "10.0.0.1",
            "expected public addresses alone, found 10.0.0.1: 10.0.0.0/8 is a private network",
        ),
    ] {
        let found = parse_allow_flag(text).unwrap_err();
        assert_eq!(found.to_string(), format!("--allow: {error}"), "{text}");
        assert_eq!(found.hint().is_some(), !text.is_empty(), "{text}");
    }
}

#[test]
fn a_resolver_of_a_flag_is_an_address() {
    assert_eq!(parse_resolver_flag("1.1.1.1").unwrap().to_string(), "1.1.1.1");
    let error = parse_resolver_flag("dns.test").unwrap_err();
    assert_eq!(error.field(), Some("--resolver"));
}

#[test]
fn rules_of_file_and_flags_have_64_ports_together() {
    let mut file = SessionFile::default();
    file.egress.add([parse_allow_flag("a.test:100-162").unwrap()]);
    file.egress.add([parse_allow_flag("b.test").unwrap()]);
    assert_eq!(check_rules(&file), Ok(()));
    file.egress.add([parse_allow_flag("c.test:22").unwrap()]);
    assert_eq!(
        check_rules(&file).unwrap_err().to_string(),
        "--allow: expected at most 64 ports in all rules of a session, found 65 with \"c.test:22\""
    );
}
