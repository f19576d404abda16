//! What is under way and what waits: sending, queueing, cancelling, deadlines.
//!
//! Runs in: host (any tokio task; nothing here waits).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{ANSWER_BOUND, Desk};
use crate::jsonrpc::{Edit, Id, Refusal, answer_frame, error_frame, progress_tokens, span, splice};
use crate::log::quote;
use crate::server::life::State;
use crate::server::ticket::{Side, Ticket};

/// How many requests may wait for one server.
const WAITING: usize = 1_024;
/// How many bytes they may hold together; a single one may always wait.
const WAITING_BYTES: usize = 64 << 20;
/// How many requests may be under way at one server.
const FLIGHTS: usize = 4_096;

/// How long a call waits before the log says so.
const PATIENCE: Duration = Duration::from_secs(5);

/// The one method whose calls are sent one at a time.
pub(super) const CALL: &str = "tools/call";

/// A request of a client as it came in.
#[derive(Debug, Clone)]
pub(super) struct Request<'a> {
    pub(super) client: u64,
    pub(super) line: &'a str,
    pub(super) id: Range<usize>,
    pub(super) tokens: Vec<Range<usize>>,
    pub(super) method: &'a str,
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Held {
    client: u64,
    line: Box<str>,
    id: Range<usize>,
    tokens: Vec<Range<usize>>,
    method: Box<str>,
    /// Since when.
    since: Instant,
    /// Whether the log was told that it waits long.
    told: bool,
}

/// A request that was sent to the child.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) client: u64,
    pub(super) id: Id,
    pub(super) method: Box<str>,
    /// The client's progress token, raw.
    pub(super) token: Option<Box<str>>,
    pub(super) call_by: Instant,
    pub(super) idle_by: Instant,
}

/// A request of the child that was passed on to a client.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) client: u64,
    /// The child's own id.
    pub(super) id: Id,
    /// The child's own progress token, raw.
    pub(super) token: Option<Box<str>>,
}

impl<'a> Request<'a> {
    /// Finds the parts of a request that have to be replaced on its way.
    pub(super) fn new(client: u64, line: &'a str, id: &str, method: &'a str, params: &str) -> Self {
        let tokens = progress_tokens(params).into_iter().map(|token| span(line, token)).collect();
        Self { client, line, id: span(line, id), tokens, method }
    }

    /// Returns the raw id.
    pub(super) fn raw_id(&self) -> &'a str {
        self.line.get(self.id.clone()).unwrap_or("null")
    }

    /// Copies what waits.
    pub(super) fn hold(&self) -> Held {
        Held {
            client: self.client,
            line: self.line.into(),
            id: self.id.clone(),
            tokens: self.tokens.clone(),
            method: self.method.into(),
            since: Instant::now(),
            told: false,
        }
    }

    /// Returns the frame with the relay's own id and token in it, in pieces.
    pub(super) fn frame<'b>(&'b self, own: &'b str) -> Vec<&'b [u8]> {
        let spans = std::iter::once(&self.id).chain(&self.tokens);
        let mut edits: Vec<Edit<'b>> = spans.map(|at| Edit { at: at.clone(), with: own }).collect();
        splice(self.line, &mut edits)
    }
}

impl Held {
    pub(super) fn request(&self) -> Request<'_> {
        Request {
            client: self.client,
            line: &self.line,
            id: self.id.clone(),
            tokens: self.tokens.clone(),
            method: &self.method,
        }
    }
}

impl Flight {
    fn is_call(&self) -> bool {
        &*self.method == CALL
    }
}

impl Desk<'_> {
    /// Takes a request of a client that finished `initialize`: sends it, or has it wait.
    pub(super) fn take_request(&mut self, request: &Request<'_>) {
        let call = request.method == CALL;
        self.calls += u64::from(call);
        if !self.hears() {
            self.hold(request);
            self.need();
        } else if !call {
            self.send_plain(request);
        } else if self.queue.len() == 0 && self.has_turn() {
            self.transmit(request);
        } else {
            self.hold(request);
        }
    }

    /// Sends a request that never waits behind calls.
    fn send_plain(&mut self, request: &Request<'_>) {
        let waiting = self.child.as_ref().map_or(0, |child| child.stdin.queued());
        if waiting > 2 * self.shared.settings.max_frame {
            let refusal = self.speaker().deaf(waiting);
            self.refuse(request.client, request.raw_id(), &refusal);
        } else if self.flights.len() >= FLIGHTS {
            let refusal = self.speaker().full(self.flights.len());
            self.refuse(request.client, request.raw_id(), &refusal);
        } else {
            self.transmit(request);
        }
    }

    /// Says whether one more call may be sent now.
    fn has_turn(&self) -> bool {
        let room = self.shared.settings.max_frame;
        let heard = self.child.as_ref().is_some_and(|child| child.stdin.queued() <= room);
        self.hears() && heard && self.running < self.shared.settings.concurrency.max(1)
    }

    /// Says whether there is a child that takes messages.
    fn hears(&self) -> bool {
        self.state == State::Ready && self.child.as_ref().is_some_and(|child| !child.deaf)
    }

    fn hold(&mut self, request: &Request<'_>) {
        let waiting = self.waiting();
        let bytes = self.held_bytes + request.line.len();
        if waiting >= WAITING || (waiting > 0 && bytes > WAITING_BYTES) {
            let refusal = self.speaker().full(waiting);
            self.refuse(request.client, request.raw_id(), &refusal);
            return;
        }
        self.held_bytes = bytes;
        let held = request.hold();
        if request.method == CALL {
            self.wake_by(held.since + PATIENCE);
            self.queue.push(request.client, held);
        } else {
            self.parked.push_back(held);
        }
    }

    /// Puts back, as the next one, what was taken too early; it is counted already.
    pub(super) fn put_back(&mut self, held: Held) {
        self.held_bytes += held.line.len();
        if &*held.method == CALL {
            self.queue.push_front(held.client, held);
        } else {
            self.parked.push_front(held);
        }
    }

    /// Sends the calls whose turn it is.
    pub(in super::super) fn pump(&mut self) {
        while self.has_turn() {
            let Some((_, held)) = self.queue.pop() else { return };
            self.held_bytes -= held.line.len();
            self.transmit(&held.request());
        }
    }

    /// Sends what waited for the child, in order.
    pub(super) fn unpark(&mut self) {
        while self.hears() {
            let Some(held) = self.parked.pop_front() else { break };
            self.held_bytes -= held.line.len();
            self.send_plain(&held.request());
        }
        self.pump();
    }

    /// Sends one request to the child and notes it as under way. A child that takes no more input has not
    /// seen it: then it waits for the next child.
    fn transmit(&mut self, request: &Request<'_>) {
        let Some(id) = Id::from_raw(request.raw_id()) else { return };
        if request.method != "ping" {
            self.finish_greeting();
        }
        let ticket = self.ticket(Side::Client);
        if !self.tell_child(&request.frame(&ticket.to_string())) {
            self.put_back(request.hold());
            return;
        }
        let now = Instant::now();
        let token = request.tokens.last().and_then(|at| request.line.get(at.clone()));
        let flight = Flight {
            client: request.client,
            id,
            method: request.method.into(),
            token: token.map(Into::into),
            call_by: now + self.shared.settings.call,
            idle_by: now + self.shared.settings.idle,
        };
        self.running += usize::from(flight.is_call());
        self.wake_by(flight.call_by.min(flight.idle_by));
        self.flights.insert(ticket.number, flight);
    }

    /// Says in the log which calls wait long, and behind what. Returns when to look again.
    pub(super) fn tell_waiting(&mut self, now: Instant) -> Option<Instant> {
        let ahead = self.flights.iter().filter(|(_, flight)| flight.is_call());
        let ahead = ahead.map(|(number, _)| *number).min();
        let mut told = Vec::new();
        for held in self.queue.iter_mut().filter(|held| !held.told) {
            if held.since + PATIENCE <= now {
                held.told = true;
                told.push((held.client, Id::from_raw(held.request().raw_id())));
            }
        }
        for (client, id) in told {
            let id = id.map_or_else(String::new, |id| quote(id.as_raw().as_bytes(), 40));
            let behind = match ahead {
                Some(number) => format!("call number {number}"),
                None => "the start of the child".to_owned(),
            };
            let text = format!("call {id} of client {client} waits over 5 s, behind {behind}");
            self.say(&text);
        }
        self.queue.iter_mut().filter(|held| !held.told).map(|held| held.since + PATIENCE).min()
    }

    /// Takes a request off the list of those under way.
    pub(super) fn land(&mut self, number: u64) -> Option<Flight> {
        let flight = self.flights.remove(&number)?;
        self.running -= usize::from(flight.is_call());
        Some(flight)
    }

    /// Takes back a request that its client no longer wants; returns under which number it was sent.
    pub(super) fn cancel(&mut self, client: u64, raw: &str) -> Option<u64> {
        let wanted = |flight: &Flight| flight.client == client && flight.id.is_same(raw);
        let number = self
            .flights
            .iter()
            .filter(|(_, flight)| wanted(flight))
            .map(|(number, _)| *number)
            .max();
        if let Some(number) = number {
            self.land(number);
            self.close_request(client);
            return Some(number);
        }
        let fits =
            |held: &Held| Id::from_raw(held.request().raw_id()).is_some_and(|id| id.is_same(raw));
        let parked = self.parked.iter().rposition(|held| held.client == client && fits(held));
        let held = match parked {
            Some(at) => self.parked.remove(at),
            None => self.queue.remove(client, fits),
        };
        if let Some(held) = held {
            self.held_bytes -= held.line.len();
            self.close_request(client);
        }
        None
    }

    /// Forgets everything of a client that left; returns the numbers of what was under way.
    pub(super) fn forget(&mut self, client: u64) -> Vec<u64> {
        for held in self.queue.remove_all(client) {
            self.held_bytes -= held.line.len();
        }
        let (theirs, kept): (VecDeque<Held>, VecDeque<Held>) =
            std::mem::take(&mut self.parked).into_iter().partition(|held| held.client == client);
        self.parked = kept;
        self.held_bytes -= theirs.iter().map(|held| held.line.len()).sum::<usize>();
        self.greeters.retain(|(greeter, _)| *greeter != client);
        let flights = self.flights.iter().filter(|(_, flight)| flight.client == client);
        let numbers: Vec<u64> = flights.map(|(number, _)| *number).collect();
        for number in &numbers {
            self.land(*number);
        }
        numbers
    }

    /// Tells the child that nobody waits for an answer any more.
    pub(super) fn tell_cancelled(&mut self, number: u64, reason: &str) {
        let ticket = Ticket { side: Side::Client, incarnation: self.incarnation, number };
        let frame = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\
             \"params\":{{\"requestId\":{ticket},\"reason\":\"{reason}\"}}}}\n"
        );
        self.tell_child(&[frame.as_bytes()]);
    }

    /// Returns how many bytes of an unfinished line the child has written.
    pub(super) fn unterminated(&self) -> usize {
        self.child.as_ref().map_or(0, |child| child.unterminated.load(Ordering::Relaxed))
    }

    /// Answers everything that was sent to the child.
    pub(super) fn fail_flights(&mut self) {
        let mut flights: Vec<_> = self.flights.drain().collect();
        self.running = 0;
        flights.sort_by_key(|(number, _)| *number);
        for (_, flight) in flights {
            let refusal = self.speaker().ended(&flight.method, &self.start.fate);
            self.refuse(flight.client, flight.id.as_raw(), &refusal);
        }
    }

    /// Answers everything that waits for the child.
    pub(super) fn fail_waiting(&mut self, refusal: &Refusal) {
        for (client, id) in self.dismiss_greeters() {
            self.refuse(client, id.as_raw(), refusal);
        }
        for held in std::mem::take(&mut self.parked) {
            self.refuse(held.client, held.request().raw_id(), refusal);
        }
        while let Some((client, held)) = self.queue.pop() {
            self.refuse(client, held.request().raw_id(), refusal);
        }
        self.held_bytes = 0;
    }

    /// Takes those whose `initialize` is about to be refused.
    pub(super) fn dismiss_greeters(&mut self) -> Vec<(u64, Id)> {
        let greeters = std::mem::take(&mut self.greeters);
        for (client, _) in &greeters {
            if let Some(client) = self.clients.get_mut(client) {
                client.hailed = client.greeted;
            }
        }
        greeters
    }

    /// Answers a request with an error of the relay.
    pub(super) fn refuse(&mut self, client: u64, id: &str, refusal: &Refusal) {
        self.errors += 1;
        self.answer(client, &[&error_frame(Some(id), refusal)]);
    }

    /// Answers a request with a raw result or error.
    pub(super) fn answer_raw(&mut self, client: u64, id: &str, member: &str, raw: &str) {
        self.answer(client, &[&answer_frame(id, member, raw)]);
    }

    /// Writes the answer to a request of a client.
    pub(super) fn answer(&mut self, client: u64, pieces: &[&[u8]]) {
        self.tell_client(client, pieces, ANSWER_BOUND);
        self.close_request(client);
    }

    /// Notes that a request of a client needs no answer any more.
    fn close_request(&mut self, client: u64) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.open = client.open.saturating_sub(1);
            if client.open == 0 {
                client.idle.notify_one();
            }
        }
    }
}
