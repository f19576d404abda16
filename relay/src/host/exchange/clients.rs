//! What clients send.
//!
//! Runs in: host (any tokio task; nothing here waits).

use std::sync::Arc;

use tokio::sync::Notify;

use super::super::outlet::{Outlet, Sent};
use super::calls::Request;
use super::{ANSWER_BOUND, Client, Desk};
use crate::jsonrpc::{
    Body, Edit, Id, Message, Refusal, Unfit, Why, code, error_frame, member, span, splice,
};
use crate::server::greeting::declared;
use crate::server::life::State;
use crate::server::ticket::{Side, Ticket};
use crate::server::words::shown;

impl Desk<'_> {
    /// Takes in a connection; nothing once the server has ended.
    pub(in super::super) fn attach(&mut self, outlet: Arc<Outlet>) -> Option<(u64, Arc<Notify>)> {
        if self.state == State::Ended {
            return None;
        }
        self.last_client += 1;
        let idle = Arc::new(Notify::new());
        let client = Client {
            outlet,
            hailed: false,
            greeted: false,
            capabilities: Vec::new(),
            open: 0,
            idle: idle.clone(),
        };
        let number = self.last_client;
        self.clients.insert(number, client);
        Some((number, idle))
    }

    /// Lets go of a connection: its waiting requests are dropped, its running ones cancelled, and what the
    /// child asked it is answered in its place.
    pub(in super::super) fn detach(&mut self, client: u64) {
        if self.clients.remove(&client).is_none() {
            return;
        }
        for number in self.forget(client) {
            self.tell_cancelled(number, "the client went away");
        }
        let asked = self.asked.iter().filter(|(_, asked)| asked.client == client);
        let numbers: Vec<u64> = asked.map(|(number, _)| *number).collect();
        for number in numbers {
            let Some(asked) = self.asked.remove(&number) else { continue };
            let refusal = Refusal::new(code::CLIENT, "relay: the client went away");
            self.tell_child(&[&error_frame(Some(asked.id.as_raw()), &refusal)]);
        }
        self.pump();
    }

    /// Says whether every request of a client has its answer.
    pub(in super::super) fn is_idle(&self, client: u64) -> bool {
        self.clients.get(&client).is_none_or(|client| client.open == 0)
    }

    /// Takes one message of a client; `line` is the line it stands in.
    pub(in super::super) fn client_message(
        &mut self,
        from: u64,
        line: &str,
        message: &Message<'_>,
    ) {
        match message {
            Message::Request { id, method, params } => {
                if let Some(client) = self.clients.get_mut(&from) {
                    client.open += 1;
                }
                self.client_request(Request::new(from, line, id, method, params.unwrap_or("")));
            }
            Message::Notification { method, params } => {
                self.client_note(from, line, method, params.unwrap_or(""));
            }
            Message::Answer { id, body } => self.client_answer(from, line, *id, *body),
        }
    }

    /// Answers a line of a client that is no message.
    pub(in super::super) fn client_unfit(&mut self, from: u64, unfit: &Unfit<'_>) {
        let (code, text) = match unfit.why {
            Why::Syntax => (code::PARSE, "expected one JSON message in a line"),
            Why::Batch => (code::INVALID, "expected one message, found a batch"),
            Why::Shape => (code::INVALID, "expected a JSON-RPC 2.0 message"),
        };
        self.refuse_line(from, unfit.id, &Refusal::new(code, format!("relay: {text}")));
    }

    /// Answers a line of a client that was too long.
    pub(in super::super) fn client_too_long(&mut self, from: u64, id: Option<&str>) {
        let limit = self.shared.settings.max_frame;
        let text = format!("relay: expected at most {limit} bytes in a message");
        self.refuse_line(from, id, &Refusal::new(code::FRAME, text).with("max_frame", limit));
    }

    /// Answers a line that was never counted as a request.
    fn refuse_line(&mut self, from: u64, id: Option<&str>, refusal: &Refusal) {
        self.errors += 1;
        self.tell_client(from, &[&error_frame(id, refusal)], ANSWER_BOUND);
    }

    fn client_request(&mut self, request: Request<'_>) {
        let (client, id) = (request.client, request.raw_id());
        let (hailed, greeted) = self
            .clients
            .get(&client)
            .map_or((false, false), |client| (client.hailed, client.greeted));
        match request.method {
            _ if matches!(self.state, State::Ending | State::Ended) => {
                let refusal = self.speaker().closed();
                self.refuse(client, id, &refusal);
            }
            "initialize" => self.take_initialize(&request),
            // A child that is not there yet, or not any more, does not make its server unreachable: the
            // next request starts it. So the relay answers in its place and starts nothing.
            "ping" if !greeted || self.state != State::Ready => {
                self.answer_raw(client, id, "result", "{}");
            }
            // The child is served in the era of `initialize`; one that has seen this would refuse it.
            "server/discover" => {
                let text = "Method not found: server/discover (use initialize)";
                self.refuse(client, id, &Refusal::new(code::METHOD, text));
            }
            method if !hailed => {
                let refusal = self.speaker().ungreeted(method);
                self.refuse(client, id, &refusal);
            }
            _ => self.take_request(&request),
        }
    }

    /// Answers `initialize` from the record, or has it wait for the child's answer.
    fn take_initialize(&mut self, request: &Request<'_>) {
        let Some(id) = Id::from_raw(request.raw_id()) else { return };
        let params = match crate::jsonrpc::parse_line(request.line) {
            Ok(Message::Request { params, .. }) => params.unwrap_or(""),
            Ok(Message::Notification { .. } | Message::Answer { .. }) | Err(_) => "",
        };
        if let Some(client) = self.clients.get_mut(&request.client) {
            client.capabilities = declared(params);
            client.hailed = true;
        }
        self.greeters.push((request.client, id));
        if self.greeting.result.is_some() {
            self.answer_greeters();
            return;
        }
        if self.greeting.line.is_none() {
            self.greeting.line = Some(request.hold());
        }
        self.need();
    }

    fn client_note(&mut self, from: u64, line: &str, method: &str, params: &str) {
        let hailed = self.clients.get(&from).is_some_and(|client| client.hailed);
        match method {
            "notifications/cancelled" => self.client_cancel(from, line, params),
            "notifications/progress" => self.client_progress(from, line, params),
            "notifications/initialized" if hailed => {
                self.greeting.finished = true;
                if self.state == State::Ready {
                    self.finish_greeting_as(line);
                }
            }
            _ if hailed && self.state == State::Ready => {
                self.finish_greeting();
                self.tell_child(&splice(line, &mut []));
            }
            _ => self.say(&format!("dropped {} of a client: no child runs", shown(method))),
        }
    }

    fn client_cancel(&mut self, from: u64, line: &str, params: &str) {
        let Some(raw) = member(params, "requestId") else {
            self.say("dropped notifications/cancelled without a requestId");
            return;
        };
        if let Some(number) = self.cancel(from, raw) {
            let incarnation = self.incarnation;
            let own = Ticket { side: Side::Client, incarnation, number }.to_string();
            self.tell_child(&splice(line, &mut [Edit { at: span(line, raw), with: &own }]));
        }
        self.pump();
    }

    /// Passes on the progress of something that the child asked.
    fn client_progress(&mut self, from: u64, line: &str, params: &str) {
        let raw = member(params, "progressToken").unwrap_or("");
        let token = self
            .asked_number(from, raw)
            .and_then(|number| self.asked.get(&number).and_then(|asked| asked.token.clone()));
        match token {
            Some(token) => {
                self.tell_child(&splice(line, &mut [Edit { at: span(line, raw), with: &token }]));
            }
            None => self.say("dropped progress of a client: it belongs to nothing under way"),
        }
    }

    fn client_answer(&mut self, from: u64, line: &str, id: Option<&str>, body: Body<'_>) {
        let raw = id.unwrap_or("");
        let asked = self.asked_number(from, raw).and_then(|number| self.asked.remove(&number));
        let Some(asked) = asked else {
            self.say("dropped an answer of a client: nothing of that id was asked");
            return;
        };
        if let Body::Error(_) = body {
            self.errors += 1;
        }
        self.touch(from);
        let edit = Edit { at: span(line, raw), with: asked.id.as_raw() };
        self.tell_child(&splice(line, &mut [edit]));
    }

    /// Returns the number of what the child asked this client under this raw id or token.
    fn asked_number(&self, from: u64, raw: &str) -> Option<u64> {
        let ticket = Ticket::from_raw(raw)?;
        let ours = ticket.side == Side::Child && ticket.incarnation == self.incarnation;
        let asked = self.asked.get(&ticket.number)?;
        (ours && asked.client == from).then_some(ticket.number)
    }

    /// Starts the idle limit of a client's requests anew.
    fn touch(&mut self, client: u64) {
        let idle_by = std::time::Instant::now() + self.shared.settings.idle;
        for flight in self.flights.values_mut().filter(|flight| flight.client == client) {
            flight.idle_by = idle_by;
        }
    }

    /// Writes a frame to a client; one that does not read is disconnected.
    pub(super) fn tell_client(&mut self, client: u64, pieces: &[&[u8]], bound: usize) -> bool {
        let Some(client) = self.clients.get(&client) else { return false };
        match client.outlet.send(pieces, bound) {
            Sent::Yes => true,
            Sent::Closed => false,
            Sent::Full => {
                self.say("disconnected a client that does not read its messages");
                client.outlet.overflow();
                false
            }
        }
    }
}
