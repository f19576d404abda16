//! Environment variables: which names and values a session may declare.
//!
//! Runs in: any (pure data).
//!
//! What stands in a session file or a flag is the operator's own word, so the names are free, but for two
//! cases:
//!
//! - `LD_PRELOAD` and `LD_AUDIT`, anywhere: the loader would put that code in front of *every* program of
//!   the compartment, sandboxd's own among them, before its first line. A single program can still have
//!   them, by `env LD_PRELOAD=... PROGRAM` as its command.
//! - variables that make a loader, an interpreter or git run code from further places, in a server that
//!   holds a secret: such a server runs no code that the agent can write, and of these values nobody can
//!   say where they lead. `trust_workspace_code = true` lifts it. (`PATH` is not among them: where it
//!   leads is checked by whoever can look. Nor is `ENV`: only an interactive shell obeys it, and it is a
//!   common name for something else.)

use crate::error::{Complaint, quote};

/// Refused wherever they stand.
const LOADER: [&str; 2] = ["LD_PRELOAD", "LD_AUDIT"];

/// Refused for a server that holds a secret, unless it says `trust_workspace_code = true`.
const CODE: [&str; 15] = [
    "BASH_ENV",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "JAVA_TOOL_OPTIONS",
    "LD_LIBRARY_PATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "RUBYLIB",
    "RUBYOPT",
];

/// Checks the grammar of a variable's name: `[A-Za-z_][A-Za-z0-9_]*`.
pub(crate) fn check_grammar(name: &str) -> Result<(), Complaint> {
    let mut bytes = name.bytes();
    let starts = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if starts && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Ok(());
    }
    let message = format!(
        "expected a variable name of letters, digits and _, not starting with a digit, found {}",
        quote(name)
    );
    Err(Complaint::new(message))
}

/// Checks the name of a variable that a session may set.
pub(crate) fn check_name(name: &str) -> Result<(), Complaint> {
    check_grammar(name)?;
    if !LOADER.contains(&name) {
        return Ok(());
    }
    let message =
        format!("{name} would run before every program of the compartment and may not be set");
    let hint = format!("give it to one program: env {name}=... PROGRAM");
    Err(Complaint::new(message).hint(hint))
}

/// Checks the name of a variable of a server that holds a secret and runs none of the agent's code.
pub(crate) fn check_secret_holder(name: &str) -> Result<(), Complaint> {
    if !CODE.contains(&name) {
        return Ok(());
    }
    let message = format!("{name} names code to run, and this server holds a secret");
    let hint = "give it in the command, or say trust_workspace_code = true for this server";
    Err(Complaint::new(message).hint(hint))
}

/// Refuses a value that is `${NAME}` as a whole: nothing is expanded.
pub(crate) fn check_literal(text: &str) -> Result<(), Complaint> {
    if !(text.starts_with("${") && text.ends_with('}')) {
        return Ok(());
    }
    let message = "expected the value itself, found \"${...}\", which is not expanded here";
    let hint =
        "a secret of a server is { secret = \"NAME\" }; a variable of the caller is --env NAME";
    Err(Complaint::new(message).hint(hint))
}
