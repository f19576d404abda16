//! Stops a server that ends again and again from being started again and again.
//!
//! Runs in: any (pure data; the clock is a parameter).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many starts are allowed in one window.
pub(crate) const STARTS: usize = 5;
/// The window. The oldest start leaves it, then one more is allowed: so a broken server is tried again
/// later, at most five times a minute for ever.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);

/// Remembers the last starts.
#[derive(Debug, Default)]
pub(crate) struct Breaker(VecDeque<Instant>);

impl Breaker {
    /// Notes a start.
    pub(crate) fn note(&mut self, now: Instant) {
        if self.0.len() == STARTS {
            self.0.pop_front();
        }
        self.0.push_back(now);
    }

    /// Returns how long no start is allowed; zero when one is allowed now.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        match self.0.front() {
            Some(oldest) if self.0.len() == STARTS => {
                WINDOW.saturating_sub(now.saturating_duration_since(*oldest))
            }
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixth_start_in_a_minute_has_to_wait_for_the_first_to_age() {
        let (mut breaker, begin) = (Breaker::default(), Instant::now());
        for second in 0..5 {
            let now = begin + Duration::from_secs(second);
            assert_eq!(breaker.wait(now), Duration::ZERO);
            breaker.note(now);
        }
        assert_eq!(breaker.wait(begin + Duration::from_secs(10)), Duration::from_secs(50));
        assert_eq!(breaker.wait(begin + WINDOW), Duration::ZERO);
        breaker.note(begin + WINDOW);
        assert_eq!(breaker.wait(begin + WINDOW), Duration::from_secs(1));
    }
}
