//! The limits of time of what is under way.
//!
//! Runs in: host (the driver's task; nothing here waits).

use std::time::Instant;

use super::calls::Flight;
use super::{Desk, FAR};
use crate::server::words::Limit;

impl Desk<'_> {
    /// Answers what has waited too long, and finds out when to look again.
    pub(in super::super) fn tick(&mut self) {
        let now = Instant::now();
        let late: Vec<u64> = self.late(now);
        for number in late {
            self.expire(number, now);
        }
        self.pump();
        self.tick_course(now);
        let waiting = self.tell_waiting(now);
        let flights = self.flights.values().map(|flight| flight.call_by.min(flight.idle_by));
        let course = [self.start.by, self.start.resume].into_iter().flatten();
        self.next_wake = flights.chain(course).chain(waiting).min().unwrap_or(now + FAR);
    }

    /// Returns what passed a limit. While a client is being asked something on behalf of its calls, their
    /// silence is the client's, so their idle limit starts anew.
    fn late(&mut self, now: Instant) -> Vec<u64> {
        let idle = self.shared.settings.idle;
        let asked: Vec<u64> = self.asked.values().map(|asked| asked.client).collect();
        for flight in self.flights.values_mut() {
            if flight.idle_by <= now && asked.contains(&flight.client) {
                flight.idle_by = now + idle;
            }
        }
        let late = |flight: &Flight| flight.call_by <= now || flight.idle_by <= now;
        let mut numbers: Vec<u64> =
            self.flights.iter().filter(|(_, flight)| late(flight)).map(|(at, _)| *at).collect();
        numbers.sort_unstable();
        numbers
    }

    fn expire(&mut self, number: u64, now: Instant) {
        let Some(flight) = self.land(number) else { return };
        let settings = &self.shared.settings;
        let limit = if flight.call_by <= now {
            Limit { key: "timeouts.call", length: settings.call, of: "" }
        } else {
            Limit { key: "timeouts.idle", length: settings.idle, of: " without progress" }
        };
        let unterminated = self.unterminated();
        let refusal = self.speaker().no_answer(&flight.method, limit, unterminated);
        self.say(&refusal.message);
        self.tell_cancelled(number, "no answer within the relay's limit");
        self.refuse(flight.client, flight.id.as_raw(), &refusal);
    }
}
