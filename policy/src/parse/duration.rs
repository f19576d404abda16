//! Durations such as `"60s"`.
//!
//! Runs in: any (pure data).

use std::time::Duration;

use super::node::Node;
use crate::error::{Complaint, PolicyError, quote};
use crate::server::TIMEOUT_RANGE;

/// Reads a duration from one second to a day.
pub(super) fn read(node: &Node<'_>) -> Result<Duration, PolicyError> {
    const WHAT: &str = "a duration from \"1s\" to \"24h\" (units ms, s, m, h)";
    let text = node.text(WHAT)?;
    match measure(text) {
        Some(found) if TIMEOUT_RANGE.contains(&found) => Ok(found),
        _ => {
            let message = format!("expected {WHAT}, found {}", quote(text));
            Err(node.refuse(Complaint::new(message)))
        }
    }
}

fn measure(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(end)?;
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(60 * 60).map(Duration::from_secs),
        _ => None,
    }
}
