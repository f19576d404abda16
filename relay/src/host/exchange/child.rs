//! What the child sends. Every byte of it is hostile.
//!
//! Runs in: host (any tokio task; nothing here waits).

use std::time::Instant;

use super::super::outlet::Sent;
use super::calls::{Asked, Request};
use super::{Desk, NOTE_BOUND};
use crate::jsonrpc::{
    Body, Edit, Id, Message, Refusal, Scanner, answer_frame, code, error_frame, id_at_end, member,
    span, splice,
};
use crate::log::{LogStream, quote};
use crate::server::greeting::{capability, is_for_all};
use crate::server::ticket::{Side, Ticket};
use crate::server::words::shown;

/// How many requests of a child may be open at its clients.
const ASKED: usize = 1_024;

impl Desk<'_> {
    /// Takes one message of the child's incarnation `from`; `line` is the message's own text.
    pub(in super::super) fn child_message(&mut self, from: u64, line: &str, message: &Message<'_>) {
        if from != self.incarnation || self.child.is_none() {
            self.say(&format!("dropped a message of incarnation {from}: it has ended"));
            return;
        }
        match message {
            Message::Answer { id: Some(id), body } => self.child_answer(line, id, *body),
            Message::Answer { id: None, .. } => {
                self.say(&format!(
                    "dropped an answer without an id: {}",
                    quote(line.as_bytes(), 200)
                ));
            }
            Message::Notification { method, params } => {
                self.child_note(line, method, params.unwrap_or(""));
            }
            Message::Request { id, method, params } => {
                self.child_request(&Request::new(0, line, id, method, params.unwrap_or("")));
            }
        }
    }

    fn child_answer(&mut self, line: &str, raw: &str, body: Body<'_>) {
        let Some(number) = self.own_number(raw) else { return };
        if self.greeting.number == Some(number) {
            self.greeting.number = None;
            self.take_greeting(body);
            return;
        }
        let Some(flight) = self.land(number) else {
            let known = number <= self.number;
            let why = if known { "late, cancelled or given twice" } else { "never asked" };
            self.say(&format!("dropped an answer for {}: {why}", quote(raw.as_bytes(), 40)));
            return;
        };
        if let Body::Error(_) = body {
            self.errors += 1;
        }
        let mut edits = [Edit { at: span(line, raw), with: flight.id.as_raw() }];
        self.answer(flight.client, &splice(line, &mut edits));
        self.pump();
    }

    /// Reads an id that has to be one of ours, of this incarnation.
    fn own_number(&self, raw: &str) -> Option<u64> {
        match Ticket::from_raw(raw) {
            Some(ticket)
                if ticket.side == Side::Client && ticket.incarnation == self.incarnation =>
            {
                Some(ticket.number)
            }
            Some(ticket) if ticket.side == Side::Client => {
                let from = ticket.incarnation;
                self.say(&format!("dropped an answer for {raw}: it belongs to incarnation {from}"));
                None
            }
            Some(_) | None => {
                let shown = quote(raw.as_bytes(), 40);
                self.say(&format!("dropped an answer for {shown}: the relay gave no such id"));
                None
            }
        }
    }

    /// Takes an answer that cannot be passed on: its request gets an error, the child is kept.
    pub(in super::super) fn child_unreadable(&mut self, from: u64, id: Option<&str>, why: &str) {
        let number = id.filter(|_| from == self.incarnation).and_then(|id| self.own_number(id));
        let Some(number) = number else { return };
        if self.greeting.number == Some(number) {
            self.greeting.number = None;
            let refusal = self.speaker().unreadable("initialize", why);
            let raw = serde_json::to_string(&refusal).unwrap_or_else(|_| "{}".to_owned());
            self.take_greeting(Body::Error(&raw));
            return;
        }
        if let Some(flight) = self.land(number) {
            let refusal = self.speaker().unreadable(&flight.method, why);
            self.say(&refusal.message);
            self.refuse(flight.client, flight.id.as_raw(), &refusal);
            self.pump();
        }
    }

    fn child_note(&mut self, line: &str, method: &str, params: &str) {
        match method {
            "notifications/progress" => self.child_progress(line, params),
            "notifications/cancelled" => self.child_cancel(line, params),
            _ if is_for_all(method) => self.tell_all(&splice(line, &mut [])),
            _ => self.say(&format!("dropped {} of the child", shown(method))),
        }
    }

    /// Passes progress on to the owner of the token and starts its idle limit anew.
    fn child_progress(&mut self, line: &str, params: &str) {
        let raw = member(params, "progressToken").unwrap_or("");
        let ours =
            |ticket: &Ticket| ticket.side == Side::Client && ticket.incarnation == self.incarnation;
        let number = Ticket::from_raw(raw).filter(ours).map(|ticket| ticket.number);
        let idle_by = Instant::now() + self.shared.settings.idle;
        let Some(flight) = number.and_then(|number| self.flights.get_mut(&number)) else {
            self.say("dropped progress of the child: it belongs to nothing under way");
            return;
        };
        flight.idle_by = idle_by;
        let (client, token) = (flight.client, flight.token.clone());
        if let Some(token) = token {
            let mut edits = [Edit { at: span(line, raw), with: &token }];
            self.tell_client(client, &splice(line, &mut edits), NOTE_BOUND);
        }
    }

    /// Takes back something that the child asked a client.
    fn child_cancel(&mut self, line: &str, params: &str) {
        let raw = member(params, "requestId").unwrap_or("");
        let asked = self.asked.iter().find(|(_, asked)| asked.id.is_same(raw));
        let Some(number) = asked.map(|(number, _)| *number) else { return };
        let Some(asked) = self.asked.remove(&number) else { return };
        let own = Ticket { side: Side::Child, incarnation: self.incarnation, number }.to_string();
        let mut edits = [Edit { at: span(line, raw), with: &own }];
        self.tell_client(asked.client, &splice(line, &mut edits), NOTE_BOUND);
    }

    /// Passes a request of the child on to a client that can answer it, or refuses it at once.
    fn child_request(&mut self, request: &Request<'_>) {
        let (raw, method) = (request.raw_id(), request.method);
        if method == "ping" {
            self.tell_child(&[&answer_frame(raw, "result", "{}")]);
            return;
        }
        let client = capability(method).and_then(|capability| self.able_client(capability));
        let (Some(client), Some(id)) = (client, Id::from_raw(raw)) else {
            let text = format!("Method not found: no client here handles {}", shown(method));
            self.tell_child(&[&error_frame(Some(raw), &Refusal::new(code::METHOD, text))]);
            return;
        };
        let ticket = self.ticket(Side::Child);
        let token = request.tokens.last().and_then(|at| request.line.get(at.clone()));
        let asked = Asked { client, id, token: token.map(Into::into) };
        let sent = self.asked.len() < ASKED
            && self.tell_client(client, &request.frame(&ticket.to_string()), NOTE_BOUND);
        if sent {
            self.asked.insert(ticket.number, asked);
        } else {
            let refusal = Refusal::new(code::CLIENT, "relay: the client takes no more requests");
            self.tell_child(&[&error_frame(Some(raw), &refusal)]);
        }
    }

    /// Returns the client to ask: the one that called last, where it can answer, else the first that can.
    fn able_client(&self, capability: &str) -> Option<u64> {
        let able = |number: &u64| {
            let client = self.clients.get(number);
            client.is_some_and(|client| client.greeted && client.capabilities.contains(&capability))
        };
        let last =
            self.flights.iter().filter(|(_, flight)| able(&flight.client)).max_by_key(|at| at.0);
        last.map(|(_, flight)| flight.client).or_else(|| self.clients.keys().copied().find(able))
    }

    /// Writes a frame to every client that finished `initialize`.
    pub(super) fn tell_all(&mut self, pieces: &[&[u8]]) {
        let greeted = self.clients.iter().filter(|(_, client)| client.greeted);
        let numbers: Vec<u64> = greeted.map(|(number, _)| *number).collect();
        for number in numbers {
            self.tell_client(number, pieces, NOTE_BOUND);
        }
    }

    /// Writes a frame to the child and says whether it was taken. What waits for a child that reads nothing is bounded: requests are
    /// held back before they come here, and the rest is dropped and logged.
    pub(super) fn tell_child(&mut self, pieces: &[&[u8]]) -> bool {
        let bound = 3 * self.shared.settings.max_frame;
        let Some(child) = &mut self.child else { return false };
        match child.stdin.send(pieces, bound) {
            Sent::Yes => return true,
            Sent::Closed => child.deaf = true,
            Sent::Full => self.say("dropped a message to the child: it does not read its input"),
        }
        false
    }

    /// Notes a line of the child that is no message.
    pub(in super::super) fn child_noise(&mut self, from: u64, line: &[u8]) {
        if line.trim_ascii_start().to_ascii_lowercase().starts_with(b"content-length:") {
            self.say("the child frames its messages by Content-Length; expected one in a line");
        }
        self.shared.journal.line(from, LogStream::Noise, line);
    }
}

/// Returns the id of the answer that a line seems to be.
pub(in super::super) fn answered_id(line: &[u8]) -> Option<String> {
    let mut scanner = Scanner::default();
    scanner.feed(line);
    if scanner.has_method() {
        return None;
    }
    scanner.id().or_else(|| id_at_end(line)).map(str::to_owned)
}
