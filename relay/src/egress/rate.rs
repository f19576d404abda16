//! A bound on how often something may happen.
//!
//! Runs in: host (any thread).

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A bucket of tokens: `burst` at once, `per_second` in the long run.
#[derive(Debug)]
pub(super) struct Rate {
    per_second: u32,
    burst: u32,
    state: Mutex<(f64, Instant)>,
}

impl Rate {
    /// Returns a full bucket.
    pub(super) fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second, burst, state: Mutex::new((f64::from(burst), Instant::now())) }
    }

    /// Takes a token; says whether there was one.
    pub(super) fn take(&self) -> bool {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (tokens, filled) = &mut *state;
        let since = now.saturating_duration_since(*filled).as_secs_f64();
        *tokens = (*tokens + since * f64::from(self.per_second)).min(f64::from(self.burst));
        *filled = now.max(*filled);
        let is_there = *tokens >= 1.0;
        if is_there {
            *tokens -= 1.0;
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let rate = Rate::new(10, 3);
        let start = Instant::now();
        let took = |after: u64, times: usize| {
            (0..times).filter(|_| rate.take_at(start + Duration::from_millis(after))).count()
        };
        assert_eq!(took(0, 10), 3);
        assert_eq!(took(50, 10), 0);
        assert_eq!(took(110, 10), 1);
        assert_eq!(took(60_000, 10), 3);
        assert_eq!(took(0, 1), 0, "a clock that steps back fills nothing");
    }
}
