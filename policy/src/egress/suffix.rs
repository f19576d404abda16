//! Names below which anybody may have a name of their own.
//!
//! Runs in: any (pure data).
//!
//! A wildcard there would allow names that an attacker can register: `*.co.uk`, and `*.github.io` as much.
//! The public suffix list, which browsers use for cookies, has both kinds.

use super::host::HostName;

/// Names above some suffixes of the list, so that the list itself has nothing to say about them.
const ABOVE: [&str; 5] =
    ["amazonaws.com", "amazonaws.com.cn", "azure.com", "core.windows.net", "windows.net"];

/// Returns why a wildcard may not stand right below a name; nothing when it may.
pub(super) fn shared_reason(name: &HostName) -> Option<&'static str> {
    // The list has rows such as `*.ck`, which say that every name right below is a suffix.
    let child = format!("x.{name}");
    let child = if child.len() > 253 { name.as_str() } else { child.as_str() };
    if is_suffix(name.as_str()) || is_suffix(child) {
        return Some("it is a public suffix, below which anybody may have names");
    }
    ABOVE
        .contains(&name.as_str())
        .then_some("names below it belong to the customers of a cloud as well")
}

fn is_suffix(name: &str) -> bool {
    psl::suffix_str(name) == Some(name)
}
