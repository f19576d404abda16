//! The course of the server's life: what happened goes through the table, what it says is done.
//!
//! Runs in: host (any tokio task; nothing here waits).

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use super::super::outlet::Outlet;
use super::super::spawner::Ending;
use super::{ChildEnd, Desk};
use crate::jsonrpc::{Body, Refusal};
use crate::server::breaker::STARTS;
use crate::server::greeting::{changes, is_same};
use crate::server::life::{Action, Cause, Event, Facts, State, step};
use crate::server::ticket::{Side, Ticket};
use crate::server::words::Limit;

/// How often a child that ends before it answers `initialize` is tried for those who wait.
const TRIES: u32 = 3;
/// The pause before the second try and before the third.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

const INITIALIZED: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";

/// How a child was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Loss {
    /// The command ended.
    Exited(Ending),
    /// It closed its output.
    Closed,
    /// It takes no more input.
    Deaf,
    /// The relay ended it.
    Put,
}

impl Desk<'_> {
    /// A message came that needs the child.
    pub(super) fn need(&mut self) {
        self.happen(Event::Need);
    }

    /// The driver is about to ask the spawner.
    pub(in super::super) fn starting(&mut self) {
        let now = Instant::now();
        self.breaker.note(now);
        self.incarnation += 1;
        self.start.tries += 1;
        self.start.early = false;
        self.shared.tail().clear();
    }

    /// The child is there.
    pub(in super::super) fn spawned(
        &mut self,
        pid: u32,
        stdin: Arc<Outlet>,
        rest: Arc<AtomicUsize>,
    ) {
        self.child =
            Some(ChildEnd { pid, stdin, unterminated: rest, initialized: false, deaf: false });
        self.say(&format!("started, pid {pid}"));
        self.happen(Event::Spawned);
    }

    /// The child could not be started.
    pub(in super::super) fn unspawned(&mut self, chain: &str) {
        chain.clone_into(&mut self.start.reason);
        self.say(&format!("could not be started: {chain}"));
        self.happen(Event::Unspawned);
    }

    /// The child is lost; its compartment is still to be ended.
    pub(in super::super) fn lost(&mut self) {
        self.start.early = self.state == State::Initializing;
        self.happen(Event::Lost);
    }

    /// Every process of the compartment is dead; `unread` is what it left in its input.
    pub(in super::super) fn gone(&mut self, loss: Loss, unread: &[u8]) {
        self.start.fate = match loss {
            Loss::Exited(ending) => format!("ended with {ending}"),
            Loss::Closed => "closed its output".to_owned(),
            Loss::Deaf => "closed its input".to_owned(),
            Loss::Put => "was ended".to_owned(),
        };
        let fate = self.start.fate.clone();
        self.say(&fate);
        self.child = None;
        self.greeting.number = None;
        self.withdraw_asked();
        if self.state == State::Draining {
            self.take_unread(unread);
        }
        self.happen(Event::Gone);
    }

    /// The server shall end.
    pub(in super::super) fn end(&mut self) {
        self.happen(Event::End);
    }

    /// Looks at the deadlines of the start.
    pub(super) fn tick_course(&mut self, now: Instant) {
        if self.start.resume.is_some_and(|at| at <= now) {
            self.start.resume = None;
            self.happen(Event::Resume);
        }
        if self.start.by.is_some_and(|at| at <= now) {
            self.start.by = None;
            self.happen(Event::Limit);
        }
    }

    /// Sends an event through the table and does what it says.
    fn happen(&mut self, event: Event) {
        let facts = self.facts();
        let (next, actions) = step(self.state, event, facts);
        self.state = next;
        for action in actions {
            self.act(*action);
        }
        self.settle();
        self.shared.driver.notify_one();
    }

    fn facts(&self) -> Facts {
        let now = Instant::now();
        Facts {
            waiting: self.waiting() > 0,
            allowed: self.breaker.wait(now).is_zero(),
            early: self.start.early,
            again: self.start.tries < TRIES
                && self.breaker.wait(now).is_zero()
                && self.start.by.is_none_or(|by| now + self.pause() < by),
        }
    }

    /// Returns the pause before the next try.
    fn pause(&self) -> Duration {
        let at = usize::try_from(self.start.tries.saturating_sub(1)).unwrap_or(0);
        PAUSES[at.min(PAUSES.len() - 1)]
    }

    fn act(&mut self, action: Action) {
        match action {
            // The driver sees the new state and does these.
            Action::Spawn | Action::Kill | Action::Wind => {}
            Action::Greet => self.greet(),
            Action::Open => self.open(),
            Action::Pause => {
                let at = Instant::now() + self.pause();
                self.start.resume = Some(at);
                self.wake_by(at);
            }
            Action::FailSent => self.fail_flights(),
            Action::FailWaiting(cause) => self.fail_for(cause),
            Action::Finish => self.finish(),
        }
    }

    /// Keeps the limit of a start while one is under way.
    fn settle(&mut self) {
        match self.state {
            State::Absent | State::Ready | State::Broken | State::Ending | State::Ended => {
                self.start.by = None;
                self.start.resume = None;
                self.start.tries = 0;
            }
            State::Starting | State::Abandoned | State::Initializing => self.limit_start(),
            State::Draining | State::Pausing => self.limit_start(),
        }
    }

    fn limit_start(&mut self) {
        if self.start.by.is_none() {
            let by = Instant::now() + self.shared.settings.start;
            self.start.by = Some(by);
            self.wake_by(by);
        }
    }

    /// Sends the first client's `initialize` under an id of the relay.
    fn greet(&mut self) {
        let Some(line) = self.greeting.line.take() else { return };
        let ticket = self.ticket(Side::Client);
        self.greeting.number = Some(ticket.number);
        self.tell_child(&line.request().frame(&ticket.to_string()));
        self.greeting.line = Some(line);
    }

    /// Takes the child's answer to `initialize`.
    pub(super) fn take_greeting(&mut self, body: Body<'_>) {
        let result = match body {
            Body::Result(result) => result,
            Body::Error(error) => {
                error.clone_into(&mut self.start.reason);
                self.happen(Event::Rejected);
                return;
            }
        };
        let old = self.greeting.result.replace(result.into());
        self.start.early = false;
        self.happen(Event::Greeted);
        // Also where the child ended right after its answer: the answer counts.
        self.answer_greeters();
        if let Some(old) = old.filter(|old| !is_same(old, result)) {
            self.say("says something else about itself than before its restart");
            for frame in changes(&old) {
                self.tell_all(&[frame.as_bytes(), b"\n"]);
            }
        }
    }

    fn open(&mut self) {
        if self.greeting.finished {
            self.finish_greeting();
        }
        self.answer_greeters();
        self.unpark();
    }

    /// Answers those who wait for `initialize` with the recorded result.
    pub(super) fn answer_greeters(&mut self) {
        let Some(result) = self.greeting.result.clone() else { return };
        for (client, id) in std::mem::take(&mut self.greeters) {
            if let Some(client) = self.clients.get_mut(&client) {
                client.greeted = true;
            }
            self.answer_raw(client, id.as_raw(), "result", &result);
        }
    }

    /// Tells the child, once, that the handshake is finished.
    pub(super) fn finish_greeting(&mut self) {
        self.finish_greeting_as(INITIALIZED);
    }

    /// The same, in the words of a client.
    pub(super) fn finish_greeting_as(&mut self, line: &str) {
        self.greeting.finished = true;
        let Some(child) = &mut self.child else { return };
        if !std::mem::replace(&mut child.initialized, true) {
            self.tell_child(&[line.as_bytes(), b"\n"]);
        }
    }

    /// Answers those who wait, in the words of the cause.
    fn fail_for(&mut self, cause: Cause) {
        let speaker = self.speaker();
        let refusal = match cause {
            Cause::Unspawned => speaker.unspawned(&self.start.reason),
            Cause::Rejected => return self.fail_rejected(),
            Cause::Died => speaker.died(&self.start.fate, self.start.tries),
            Cause::Limit => {
                let length = self.shared.settings.start;
                let limit = Limit { key: "timeouts.start", length, of: "" };
                speaker.no_answer("initialize", limit, self.unterminated())
            }
            Cause::Loop => speaker.looping(STARTS, self.breaker.wait(Instant::now())),
            Cause::Ended => speaker.closed(),
        };
        self.fail_start(&refusal);
    }

    fn fail_start(&mut self, refusal: &Refusal) {
        if self.waiting() > 0 {
            self.say(&refusal.message);
        }
        self.fail_waiting(refusal);
        if self.greeting.result.is_none() {
            // The next client's words are as good as those that led nowhere.
            self.greeting.line = None;
        }
    }

    /// Passes the child's own error on to those who wait for `initialize`.
    fn fail_rejected(&mut self) {
        let error = std::mem::take(&mut self.start.reason);
        for (client, id) in self.dismiss_greeters() {
            self.errors += 1;
            self.answer_raw(client, id.as_raw(), "error", &error);
        }
        let refusal = self.speaker().rejected(&error);
        self.fail_start(&refusal);
    }

    /// Tells clients that a child which has ended no longer waits for their answers.
    fn withdraw_asked(&mut self) {
        for (number, asked) in std::mem::take(&mut self.asked) {
            let ticket = Ticket { side: Side::Child, incarnation: self.incarnation, number };
            let frame = format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\
                 \"params\":{{\"requestId\":{ticket},\"reason\":\"the server ended\"}}}}\n"
            );
            self.tell_client(asked.client, &[frame.as_bytes()], super::NOTE_BOUND);
        }
    }

    /// The driver is gone: nothing is started, ended or limited any more.
    pub(in super::super) fn collapse(&mut self) {
        if self.state != State::Ended {
            self.state = State::Ended;
            self.fail_flights();
            self.fail_for(Cause::Ended);
            self.finish();
        }
    }

    fn finish(&mut self) {
        for client in self.clients.values() {
            client.outlet.close();
        }
        self.shared.ended.send_replace(true);
    }
}
