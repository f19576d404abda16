//! What a dead child never read: sent again, since it cannot have run.
//!
//! A child may end right after an answer, while the next call is already in its pipe. What then still lies
//! in the pipe was read by nobody; every other call may have run and is never repeated.
//!
//! Runs in: host (the driver's task; nothing here waits).

use super::Desk;
use super::calls::{Flight, Request};
use crate::jsonrpc::{Edit, Message, parse_line, splice};
use crate::server::ticket::{Side, Ticket};

impl Desk<'_> {
    /// Takes the bytes that the child left in its input and has their requests wait for the next child.
    ///
    /// The first line may be the rest of one that was read in part. It is no message then: the end of a
    /// JSON object closes one brace more than it opens.
    pub(super) fn take_unread(&mut self, unread: &[u8]) {
        for line in unread.split(|&byte| byte == b'\n').rev() {
            let Ok(line) = std::str::from_utf8(line) else { continue };
            if let Ok(Message::Request { id, method, params }) = parse_line(line) {
                let request = Request::new(0, line, id, &method, params.unwrap_or(""));
                self.take_back(&request);
            }
        }
    }

    /// Gives a request its client's id and token back and has it wait.
    fn take_back(&mut self, request: &Request<'_>) {
        let Some(ticket) = Ticket::from_raw(request.raw_id()) else { return };
        if ticket.side != Side::Client || ticket.incarnation != self.incarnation {
            return;
        }
        let Some(flight) = self.land(ticket.number) else { return };
        let line = String::from_utf8(restored(request, &flight)).unwrap_or_default();
        let line = line.trim_end();
        if let Ok(Message::Request { id, method, params }) = parse_line(line) {
            let request = Request::new(flight.client, line, id, &method, params.unwrap_or(""));
            self.put_back(request.hold());
            self.say(&format!("kept {ticket} for the next start: this one never read it"));
        }
    }
}

/// Returns the line as the client sent it.
fn restored(request: &Request<'_>, flight: &Flight) -> Vec<u8> {
    let mut edits = vec![Edit { at: request.id.clone(), with: flight.id.as_raw() }];
    if let Some(token) = &flight.token {
        edits.extend(request.tokens.iter().map(|at| Edit { at: at.clone(), with: token }));
    }
    splice(request.line, &mut edits).concat()
}
