//! What a server said about itself when it was started, and whether it says the same again.
//!
//! Runs in: any (pure data).

use serde_json::Value;

use crate::jsonrpc::member;

/// The kinds of list whose change a server may announce.
const LISTS: [&str; 3] = ["tools", "prompts", "resources"];

/// Says whether two results of `initialize` agree in version and capabilities.
pub(crate) fn is_same(old: &str, new: &str) -> bool {
    let value = |result: &str, key: &str| -> Option<Value> {
        member(result, key).and_then(|raw| serde_json::from_str(raw).ok())
    };
    ["protocolVersion", "capabilities"].iter().all(|key| value(old, key) == value(new, key))
}

/// Returns the notifications that tell a client, which knows `result`, that the lists may have changed.
pub(crate) fn changes(result: &str) -> Vec<String> {
    let capabilities = member(result, "capabilities").unwrap_or("{}");
    let declared = |list: &&&str| {
        let entry = member(capabilities, list).unwrap_or("{}");
        member(entry, "listChanged") == Some("true")
    };
    let frame = |list: &&str| {
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{list}/list_changed\"}}")
    };
    LISTS.iter().filter(declared).map(frame).collect()
}

/// Says whether a client's `initialize` params declare the capability that a request from the server needs;
/// nothing for a method that needs none we know.
pub(crate) fn capability(method: &str) -> Option<&'static str> {
    match method {
        "roots/list" => Some("roots"),
        "sampling/createMessage" => Some("sampling"),
        "elicitation/create" => Some("elicitation"),
        _ => None,
    }
}

/// Returns which of those capabilities a client's `initialize` params declare.
pub(crate) fn declared(params: &str) -> Vec<&'static str> {
    let capabilities = member(params, "capabilities").unwrap_or("{}");
    let has =
        |name: &&'static str| member(capabilities, name).is_some_and(|raw| raw.starts_with('{'));
    ["roots", "sampling", "elicitation"].into_iter().filter(has).collect()
}

/// Says whether a notification of a server concerns every client.
pub(crate) fn is_for_all(method: &str) -> bool {
    matches!(
        method,
        "notifications/message"
            | "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/resources/updated"
            | "notifications/elicitation/complete"
            | "notifications/tasks/status"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{}}}"#;

    #[test]
    fn results_agree_by_value_not_by_spelling() {
        let same = r#"{"serverInfo":{},"capabilities":{"prompts":{},"tools":{"listChanged": true}},"protocolVersion":"2025-11-25"}"#;
        assert!(is_same(OLD, same));
        assert!(!is_same(OLD, r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}"#));
        assert!(!is_same(OLD, &OLD.replace("2025-11", "2025-06")));
    }

    #[test]
    fn only_declared_changes_are_told() {
        let told = changes(OLD);
        assert_eq!(told, [r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#]);
        assert_eq!(
            declared(r#"{"capabilities":{"roots":{"listChanged":true},"sampling":null}}"#),
            ["roots"]
        );
        assert_eq!(declared("[]"), [""; 0]);
    }
}
