//! Waiting for something to become true.
//!
//! Runs in: the test's own process.

use std::time::{Duration, Instant};

/// How long anything may take before the test is given up. It says nothing about how fast things are.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// Waits until a condition holds; panics when it does not within [`DEADLINE`].
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    assert!(within(DEADLINE, condition), "not within {DEADLINE:?}: {what}");
}

/// Waits until a condition holds, and says whether it did in time.
pub fn within(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if begun.elapsed() > deadline {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}
