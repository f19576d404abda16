//! Variables and secrets.
//!
//! Runs in: any (pure data).

use super::super::tests::{SERVER, accepted, parse, refused, server};
use crate::SecretSource;

#[test]
fn a_variable_has_a_name_and_text() {
    let file = accepted("[env]\n_a1 = ''\nPATH = '/x'\nLD_LIBRARY_PATH = '/x'\nBASH_ENV = 'x'");
    assert_eq!(file.env.len(), 4);
    for bad in ["1A", "A-B", "\"\"", "\"A B\"", "\"Ä\"", "\"A=B\""] {
        let error = parse(&format!("[env]\n{bad} = 'x'")).unwrap_err();
        assert_eq!(error.line(), Some(2), "{error}");
        let start =
            "expected a variable name of letters, digits and _, not starting with a digit, found";
        assert!(error.message().starts_with(start), "{error}");
    }
    refused("[env]\nA = 1", "2: env.A: expected a string, found a number");
    refused("[env]\nA = { secret = 'x' }", "2: env.A: expected a string, found a table");
    let hint = refused(
        "[env]\nA = '${TOKEN}'",
        "2: env.A: expected the value itself, found \"${...}\", which is not expanded here",
    );
    assert!(hint.is_some());
    accepted("[env]\nA = 'x${TOKEN}'");
}

#[test]
fn a_loader_variable_is_refused_for_agent_and_server() {
    for name in ["LD_PRELOAD", "LD_AUDIT"] {
        let why =
            format!("{name} would run before every program of the compartment and may not be set");
        assert!(
            refused(&format!("[env]\n{name} = 'x'"), &format!("2: env.{name}: {why}")).is_some()
        );
        let lines = format!("{SERVER}trust_workspace_code = true\nenv = {{ {name} = 'x' }}");
        refused(&lines, &format!("6: mcp.tracker.env.{name}: {why}"));
    }
    accepted("[mcp.a]\ncommand = ['env', 'LD_PRELOAD=/opt/x.so', '/opt/server']");
}

#[test]
fn a_server_that_holds_a_secret_names_no_code_in_its_environment() {
    let lines = "env = { T = { secret = 'tracker' }, NODE_OPTIONS = '--require /x' }\n";
    let error = "5: mcp.tracker.env.NODE_OPTIONS: NODE_OPTIONS names code to run, and this server holds a secret";
    assert!(refused(&format!("{SERVER}{lines}"), error).is_some());
    assert!(server(&format!("trust_workspace_code = true\n{lines}")).holds_secret());
    assert!(!server("env = { NODE_OPTIONS = '--require /x' }").holds_secret());
    assert!(server("env = { T = { secret = 'tracker' }, NODE_ENV = 'x' }").holds_secret());
}

#[test]
fn a_server_variable_is_text_or_a_defined_secret() {
    let refused = |lines: &str, error: &str| refused(&format!("{SERVER}{lines}"), error);
    refused(
        "env = { TOKEN = 14 }",
        "5: mcp.tracker.env.TOKEN: expected a string or { secret = \"NAME\" }, found a number",
    );
    refused(
        "env = { T = { prefix = 'x' } }",
        "5: mcp.tracker.env.T.secret: expected the name of a secret, found nothing",
    );
    refused(
        "[mcp.tracker.env]\nA = 'x'\nT = { secret = 1 }",
        "7: mcp.tracker.env.T.secret: expected the name of a secret, found a number",
    );
    refused(
        "env = { T = { secret = 'tracker', prefix = 1 } }",
        "5: mcp.tracker.env.T.prefix: expected a string, found a number",
    );
    let hint = refused(
        "env = { T = { secret = 'tracker', prfix = 'x' } }",
        "5: mcp.tracker.env.T.prfix: expected a key that sandboxd knows",
    );
    assert_eq!(hint.as_deref(), Some("did you mean prefix?"));
    let unknown = "5: mcp.tracker.env.T.secret: expected the name of a secret in [secrets], found another string";
    let hint = refused("env = { T = { secret = 'traker' } }", unknown);
    assert_eq!(hint.as_deref(), Some("did you mean tracker?"));
    let hint = refused("env = { T = { secret = 'ghp_S3CRET' } }", unknown);
    assert_eq!(hint.as_deref(), Some("define it below [secrets]: NAME = \"file:PATH\""));
    assert!(server("env.T = { secret = 'tracker' }").holds_secret());
}

#[test]
fn a_secret_is_a_reference_and_never_quoted() {
    let source =
        |text: &str| accepted(&format!("[secrets]\na = {text}")).secrets.into_values().next();
    assert_eq!(source("'env:A_1'"), Some(SecretSource::Env("A_1".into())));
    assert_eq!(source("'file:~/t:x'"), Some(SecretSource::File("/home/ann/t:x".into())));
    assert_eq!(source("'command: [ \"p\" ]'"), Some(SecretSource::Command(vec!["p".into()])));
    let what =
        "expected a reference: \"env:VAR\", \"file:PATH\" or 'command:[\"PROGRAM\", ...]', found";
    for (value, error) in [
        ("'S3CRET'", format!("{what} another string")),
        ("'https:S3CRET'", format!("{what} another string")),
        ("''", format!("{what} another string")),
        ("5", format!("{what} a number")),
        ("['S3CRET']", format!("{what} an array")),
        (
            "'env:S3CRET-x'",
            "expected the name of a variable after \"env:\", found something else".into(),
        ),
        ("'file:'", "expected a path after \"file:\", found nothing".into()),
        (
            "'command:S3CRET'",
            "expected an array of strings after \"command:\", found something else".into(),
        ),
        (
            "'command:[\"a\", 1]'",
            "expected an array of strings after \"command:\", found something else".into(),
        ),
        ("'command:[]'", "expected a program after \"command:\", found none".into()),
        ("'command:[\"\"]'", "expected a program after \"command:\", found none".into()),
        (
            "'credential:S3CRET'",
            "\"credential:\" is not enforced by this version of sandboxd".into(),
        ),
    ] {
        let hint = refused(&format!("[secrets]\na = {value}"), &format!("2: secrets.a: {error}"));
        assert!(!error.contains("S3CRET") && !hint.unwrap_or_default().contains("S3CRET"));
    }
}
