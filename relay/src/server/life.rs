//! The life of one MCP server as a table of states and events.
//!
//! ```text
//!            Need            Spawned               Greeted
//!  Absent ─────────▶ Starting ─────▶ Initializing ─────────▶ Ready
//!    ▲  ▲  Unspawned │  │ Limit         │ Lost, Limit,        │ Lost
//!    │  └────────────┘  ▼               │ Rejected            │
//!    │            Abandoned ──Spawned─▶ Draining ◀────────────┘
//!    │                                  │ Gone: nobody waits, or may not try again
//!    ├──────────────────────────────────┤
//!    │                                  │ Gone in start-up, somebody waits: Pausing, then Starting
//!    │                                  │ Gone later, somebody waits: Starting
//!  Broken ◀── a start that the breaker refuses; the next Need asks it again
//!
//!  any ──End──▶ Ending ──Gone──▶ Ended          (Ended at once where no process is or may come)
//! ```
//!
//! The table does nothing itself: it names actions. A child whose compartment may still hold a process is
//! always in Starting, Abandoned, Initializing, Ready, Draining or Ending, and only Absent, Broken and
//! Pausing lead to a new start: so there is never a second child beside the first.
//!
//! Runs in: any (pure data).

use serde::Serialize;

/// Where the server stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// No process; the next message that needs one starts it.
    Absent,
    /// The process was asked for.
    Starting,
    /// The start took too long; the process is ended as soon as it is there.
    Abandoned,
    /// The process runs and has not answered `initialize` yet.
    Initializing,
    /// Messages are passed.
    Ready,
    /// The process is lost or given up; its compartment is being ended.
    Draining,
    /// It ended in start-up; the next try comes in a moment.
    Pausing,
    /// Started too often; messages are refused until the next start is allowed.
    Broken,
    /// The end was asked for and is under way.
    Ending,
    /// It has ended and never starts again.
    Ended,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A message came that needs the child.
    Need,
    /// The child was started.
    Spawned,
    /// The child could not be started.
    Unspawned,
    /// `initialize` was answered with a result.
    Greeted,
    /// `initialize` was answered with an error.
    Rejected,
    /// The child ended, closed its output, or takes no input any more.
    Lost,
    /// Every process of the child's compartment is dead.
    Gone,
    /// The time for a start is over.
    Limit,
    /// The pause before the next try is over.
    Resume,
    /// The server shall end.
    End,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask the spawner for a child.
    Spawn,
    /// Send `initialize` to the child.
    Greet,
    /// Answer those who wait for `initialize` and send what waits for the child.
    Open,
    /// End the child's compartment at once.
    Kill,
    /// End the child in the polite order: end of input, TERM, then its compartment.
    Wind,
    /// Wait before the next try.
    Pause,
    /// Answer everything that was sent to the child with an error.
    FailSent,
    /// Answer everything that waits for the child with an error.
    FailWaiting(Cause),
    /// Let go of all connections.
    Finish,
}

/// Why those who waited for the child get an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The spawner refused.
    Unspawned,
    /// The child answered `initialize` with an error.
    Rejected,
    /// The child ended in start-up, as often as it was tried.
    Died,
    /// The time for a start is over.
    Limit,
    /// The breaker allows no start now.
    Loop,
    /// The server was ended.
    Ended,
}

/// What the table has to know beside the state and the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Somebody waits for the child.
    pub(crate) waiting: bool,
    /// The breaker allows a start now.
    pub(crate) allowed: bool,
    /// The child that is gone never answered `initialize`.
    pub(crate) early: bool,
    /// A child that ended in start-up may be tried again.
    pub(crate) again: bool,
}

/// Looks up one cell: the next state and what to do, in order.
pub(crate) fn step(state: State, event: Event, facts: Facts) -> (State, &'static [Action]) {
    match state {
        State::Absent | State::Broken => step_absent(state, event, facts),
        State::Starting => step_starting(event),
        State::Abandoned => step_abandoned(event, facts),
        State::Initializing => step_initializing(event),
        State::Ready => step_ready(event),
        State::Draining => step_draining(event, facts),
        State::Pausing => step_pausing(event, facts),
        State::Ending => step_ending(event),
        State::Ended => step_ended(event),
    }
}

const FAIL_ENDED: Action = Action::FailWaiting(Cause::Ended);

/// Starts the child, or refuses to where it was started too often.
fn start(facts: Facts) -> (State, &'static [Action]) {
    if facts.allowed {
        return (State::Starting, &[Action::Spawn]);
    }
    (State::Broken, &[Action::FailWaiting(Cause::Loop)])
}

fn step_absent(state: State, event: Event, facts: Facts) -> (State, &'static [Action]) {
    match event {
        Event::Need => start(facts),
        Event::End => (State::Ended, &[FAIL_ENDED, Action::Finish]),
        Event::Spawned | Event::Unspawned | Event::Greeted | Event::Rejected => (state, &[]),
        Event::Lost | Event::Gone | Event::Limit | Event::Resume => (state, &[]),
    }
}

fn step_starting(event: Event) -> (State, &'static [Action]) {
    match event {
        Event::Spawned => (State::Initializing, &[Action::Greet]),
        Event::Unspawned => (State::Absent, &[Action::FailWaiting(Cause::Unspawned)]),
        Event::Limit => (State::Abandoned, &[Action::FailWaiting(Cause::Limit)]),
        Event::End => (State::Ending, &[FAIL_ENDED]),
        Event::Need | Event::Greeted | Event::Rejected => (State::Starting, &[]),
        Event::Lost | Event::Gone | Event::Resume => (State::Starting, &[]),
    }
}

fn step_abandoned(event: Event, facts: Facts) -> (State, &'static [Action]) {
    match event {
        Event::Spawned => (State::Draining, &[Action::Kill]),
        Event::Unspawned if facts.waiting => start(facts),
        Event::Unspawned => (State::Absent, &[]),
        Event::Limit => (State::Abandoned, &[Action::FailWaiting(Cause::Limit)]),
        Event::End => (State::Ending, &[FAIL_ENDED]),
        Event::Need | Event::Greeted | Event::Rejected => (State::Abandoned, &[]),
        Event::Lost | Event::Gone | Event::Resume => (State::Abandoned, &[]),
    }
}

fn step_initializing(event: Event) -> (State, &'static [Action]) {
    match event {
        Event::Greeted => (State::Ready, &[Action::Open]),
        Event::Rejected => (State::Draining, &[Action::FailWaiting(Cause::Rejected), Action::Kill]),
        Event::Lost => (State::Draining, &[Action::Kill]),
        Event::Limit => (State::Draining, &[Action::FailWaiting(Cause::Limit), Action::Kill]),
        Event::End => (State::Ending, &[FAIL_ENDED, Action::Wind]),
        Event::Need | Event::Spawned | Event::Unspawned => (State::Initializing, &[]),
        Event::Gone | Event::Resume => (State::Initializing, &[]),
    }
}

fn step_ready(event: Event) -> (State, &'static [Action]) {
    match event {
        Event::Lost => (State::Draining, &[Action::Kill]),
        Event::End => (State::Ending, &[FAIL_ENDED, Action::Wind]),
        Event::Need | Event::Spawned | Event::Unspawned | Event::Greeted => (State::Ready, &[]),
        Event::Rejected | Event::Gone | Event::Limit | Event::Resume => (State::Ready, &[]),
    }
}

fn step_draining(event: Event, facts: Facts) -> (State, &'static [Action]) {
    match event {
        Event::Gone if !facts.waiting => (State::Absent, &[Action::FailSent]),
        Event::Gone if facts.early && facts.again => (State::Pausing, &[Action::Pause]),
        Event::Gone if facts.early => (State::Absent, &[Action::FailWaiting(Cause::Died)]),
        Event::Gone if facts.allowed => (State::Starting, &[Action::FailSent, Action::Spawn]),
        Event::Gone => (State::Broken, &[Action::FailSent, Action::FailWaiting(Cause::Loop)]),
        Event::Limit => (State::Draining, &[Action::FailWaiting(Cause::Limit)]),
        Event::End => (State::Ending, &[FAIL_ENDED]),
        Event::Need | Event::Spawned | Event::Unspawned | Event::Greeted => (State::Draining, &[]),
        Event::Rejected | Event::Lost | Event::Resume => (State::Draining, &[]),
    }
}

fn step_pausing(event: Event, facts: Facts) -> (State, &'static [Action]) {
    match event {
        Event::Resume if facts.waiting => start(facts),
        Event::Resume => (State::Absent, &[]),
        Event::Limit => (State::Absent, &[Action::FailWaiting(Cause::Died)]),
        Event::End => (State::Ended, &[FAIL_ENDED, Action::Finish]),
        Event::Need | Event::Spawned | Event::Unspawned | Event::Greeted => (State::Pausing, &[]),
        Event::Rejected | Event::Lost | Event::Gone => (State::Pausing, &[]),
    }
}

fn step_ending(event: Event) -> (State, &'static [Action]) {
    match event {
        // Asked for before the end, there after it.
        Event::Spawned => (State::Ending, &[Action::Wind]),
        Event::Unspawned => (State::Ended, &[Action::FailSent, FAIL_ENDED, Action::Finish]),
        Event::Gone => (State::Ended, &[Action::FailSent, FAIL_ENDED, Action::Finish]),
        Event::Need => (State::Ending, &[FAIL_ENDED]),
        Event::Greeted | Event::Rejected | Event::Lost => (State::Ending, &[]),
        Event::Limit | Event::Resume | Event::End => (State::Ending, &[]),
    }
}

fn step_ended(event: Event) -> (State, &'static [Action]) {
    match event {
        Event::Need => (State::Ended, &[FAIL_ENDED]),
        Event::Spawned | Event::Unspawned | Event::Greeted | Event::Rejected => (State::Ended, &[]),
        Event::Lost | Event::Gone | Event::Limit | Event::Resume => (State::Ended, &[]),
        Event::End => (State::Ended, &[]),
    }
}

#[cfg(test)]
#[path = "life_tests.rs"]
mod tests;
