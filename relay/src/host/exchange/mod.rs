//! The exchange: which message belongs to whom, and where the server's life stands.
//!
//! One lock, never held across an await. Whoever holds it decides and writes; see the picture in
//! `host`. The parts: `clients` (what clients send), `child` (what the child sends), `calls` (what is
//! under way or waits), `limits` (for how long), `unread` (what a dead child never read), `course` (the
//! server's life).
//!
//! Runs in: host (any tokio task; nothing here waits).

mod calls;
mod child;
mod clients;
mod course;
mod limits;
mod unread;

pub(super) use child::answered_id;
pub(super) use course::Loss;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::handle::{ServerSettings, Status};
use super::journal::Journal;
use super::outlet::Outlet;
use crate::jsonrpc::Id;
use crate::log::Redactor;
use crate::server::breaker::Breaker;
use crate::server::life::State;
use crate::server::queue::FairQueue;
use crate::server::tail::Tail;
use crate::server::ticket::{Side, Ticket};
use crate::server::words::Speaker;
use calls::{Asked, Flight, Held};

/// The most that may wait for a client before an unasked message disconnects it.
const NOTE_BOUND: usize = 8 << 20;
/// The same before an answer does: it asked for those, so it may have more of them.
const ANSWER_BOUND: usize = 64 << 20;
/// A wake-up that never comes by itself.
const FAR: Duration = Duration::from_secs(86_400 * 365);

/// What all tasks of one server share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: ServerSettings,
    pub(super) journal: Journal,
    /// Wakes the driver, which then looks at the state and the next deadline.
    pub(super) driver: Notify,
    /// Becomes true when the server has ended.
    pub(super) ended: watch::Sender<bool>,
    redactor: Redactor,
    tail: Mutex<Tail>,
    exchange: Mutex<Exchange>,
}

/// The state under the lock.
#[derive(Debug)]
pub(super) struct Exchange {
    state: State,
    breaker: Breaker,
    /// Which start of the child this is or was; 0 before the first.
    incarnation: u64,
    /// The last number given to a ticket.
    number: u64,
    child: Option<ChildEnd>,
    start: Start,
    clients: BTreeMap<u64, Client>,
    last_client: u64,
    flights: HashMap<u64, Flight>,
    /// How many of the flights are `tools/call`.
    running: usize,
    queue: FairQueue<Held>,
    parked: VecDeque<Held>,
    /// Bytes held by `queue` and `parked`.
    held_bytes: usize,
    greeters: Vec<(u64, Id)>,
    greeting: Greeting,
    asked: HashMap<u64, Asked>,
    next_wake: Instant,
    calls: u64,
    errors: u64,
}

/// The relay's end of the living child.
#[derive(Debug)]
struct ChildEnd {
    pid: u32,
    stdin: Arc<Outlet>,
    unterminated: Arc<AtomicUsize>,
    /// Whether `notifications/initialized` was sent to it.
    initialized: bool,
    /// Whether it takes no more input.
    deaf: bool,
}

/// What is known about the start under way, or the last one.
#[derive(Debug, Default)]
struct Start {
    /// By when the child has to have answered `initialize`.
    by: Option<Instant>,
    /// When the next try comes.
    resume: Option<Instant>,
    /// How many starts were made for those who wait.
    tries: u32,
    /// The child ended before it answered `initialize`.
    early: bool,
    /// How the last child ended, as a part of a sentence.
    fate: String,
    /// What the spawner or the child's refusal of `initialize` said.
    reason: String,
}

/// The handshake: what the first client said, and what the child answered.
#[derive(Debug, Default)]
struct Greeting {
    /// The first client's `initialize`.
    line: Option<Held>,
    /// The number under which it was sent to the child, until it is answered.
    number: Option<u64>,
    /// The raw result.
    result: Option<Box<str>>,
    /// Some client has sent `notifications/initialized`.
    finished: bool,
}

/// One connection.
#[derive(Debug)]
struct Client {
    outlet: Arc<Outlet>,
    /// Its `initialize` came and was not refused: what follows may wait with it.
    hailed: bool,
    /// Its `initialize` was answered.
    greeted: bool,
    /// The capabilities it declared, of those that let a server ask something.
    capabilities: Vec<&'static str>,
    /// How many of its requests have no answer yet.
    open: usize,
    /// Told when that becomes none.
    idle: Arc<Notify>,
}

impl Shared {
    pub(super) fn new(settings: ServerSettings, journal: Journal, redactor: Redactor) -> Self {
        Self {
            settings,
            journal,
            driver: Notify::new(),
            ended: watch::Sender::new(false),
            tail: Mutex::new(Tail::new(redactor.clone())),
            redactor,
            exchange: Mutex::new(Exchange::new()),
        }
    }

    /// Takes the lock and hands out the exchange with its surroundings.
    pub(super) fn exchange(&self) -> Desk<'_> {
        let exchange = self.exchange.lock().unwrap_or_else(PoisonError::into_inner);
        Desk { exchange, shared: self }
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    pub(super) fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The exchange while somebody works on it.
pub(super) struct Desk<'s> {
    exchange: MutexGuard<'s, Exchange>,
    shared: &'s Shared,
}

impl std::ops::Deref for Desk<'_> {
    type Target = Exchange;
    fn deref(&self) -> &Exchange {
        &self.exchange
    }
}

impl std::ops::DerefMut for Desk<'_> {
    fn deref_mut(&mut self) -> &mut Exchange {
        &mut self.exchange
    }
}

impl Exchange {
    fn new() -> Self {
        Self {
            state: State::Absent,
            breaker: Breaker::default(),
            incarnation: 0,
            number: 0,
            child: None,
            start: Start::default(),
            clients: BTreeMap::new(),
            last_client: 0,
            flights: HashMap::new(),
            running: 0,
            queue: FairQueue::default(),
            parked: VecDeque::new(),
            held_bytes: 0,
            greeters: Vec::new(),
            greeting: Greeting::default(),
            asked: HashMap::new(),
            next_wake: Instant::now() + FAR,
            calls: 0,
            errors: 0,
        }
    }

    /// Returns where the server's life stands.
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Returns which start of the child this is.
    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Returns when the driver has to look at the deadlines.
    pub(super) fn next_wake(&self) -> Instant {
        self.next_wake
    }

    /// Returns how many requests wait for the child or for their turn.
    fn waiting(&self) -> usize {
        self.queue.len() + self.parked.len() + self.greeters.len()
    }

    /// Makes the next ticket.
    fn ticket(&mut self, side: Side) -> Ticket {
        self.number += 1;
        Ticket { side, incarnation: self.incarnation, number: self.number }
    }
}

impl<'s> Desk<'s> {
    /// Returns the numbers and words that `sandboxd mcp ls` shows.
    pub(super) fn status(&self) -> Status {
        Status {
            state: self.state,
            pid: self.child.as_ref().map(|child| child.pid),
            incarnation: self.incarnation,
            calls: self.calls,
            errors: self.errors,
            last_stderr: self.shared.tail().last(),
            waiting: self.waiting(),
            running: self.running,
        }
    }

    /// Returns what words about the server need.
    fn speaker(&self) -> Speaker<'s> {
        let tail = self.shared.tail().quoted();
        Speaker { name: &self.shared.settings.name, incarnation: self.incarnation, tail }
    }

    /// Sees to it that the driver looks at the deadlines by then.
    fn wake_by(&mut self, at: Instant) {
        if at < self.next_wake {
            self.next_wake = at;
            self.shared.driver.notify_one();
        }
    }

    /// Notes the relay's own words in the server's log.
    fn say(&self, text: &str) {
        self.shared.journal.say(self.incarnation, text);
    }
}
