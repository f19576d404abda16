//! Connections of the box: accepts, judges, dials, carries.
//!
//! ```text
//! accept -> which network? (source) -> what was dialled? (getsockname) -> name -> rules
//!    refused: a record, then RST                                            |
//!    allowed: dial -> failed: a record, then RST                            |
//!                  -> a record, bytes both ways, a record  <----------------+
//! ```
//!
//! Runs in: host (tokio; one task for each listener, one for each connection).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use policy::egress::Host;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::dial::{Dialled, Failure};
use super::door::{Door, Side};
use super::pump::{Broken, Counters, abort_on_close, prepare, pump};
use super::record::{Event, Kind, Outcome, Proto, Reason, Traffic};
use super::verdict::{Target, Verdict};

/// How long to rest when no connection can be accepted: the process may be out of descriptors.
const REST: Duration = Duration::from_millis(50);

/// Accepts connections until the task is ended, which ends its connections too.
pub(super) async fn serve(door: Arc<Door>, listener: TcpListener, port: u16) {
    let mut flows = JoinSet::new();
    loop {
        while flows.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((client, peer)) => {
                if let Some(flow) = admit(&door, client, peer.ip(), port) {
                    flows.spawn(flow.run());
                }
            }
            // A client that was gone before it was accepted says nothing about the next one.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::debug!(%error, port, "a connection of a box could not be accepted");
                sleep(REST).await;
            }
        }
    }
}

/// Closes a connection by RST, at once.
pub(super) fn reset(stream: TcpStream) {
    // Ignored: without the option the close is an end of file, which refuses as well.
    let _ = abort_on_close(&stream);
    drop(stream);
}

/// A connection that the rules allow.
struct Flow {
    client: TcpStream,
    host: Host,
    port: u16,
    /// What every record of it has.
    event: Event,
    door: Arc<Door>,
    permit: OwnedSemaphorePermit,
}

/// Judges a connection; refuses it here, or returns it.
fn admit(door: &Arc<Door>, client: TcpStream, source: IpAddr, port: u16) -> Option<Flow> {
    // A client that has gone already leaves no address; then there is nothing to judge.
    let dialled = (door.dialled)(&client).ok()?;
    let Some(side) = door.side_of(source) else {
        let event = Event::about(Kind::Deny, Proto::Tcp, &Target::Unassigned(dialled.ip()), port);
        door.audit.note(Verdict::deny(Reason::SourceUnknown).tell(event));
        reset(client);
        return None;
    };
    let (verdict, target) = judge(side, dialled);
    let event = verdict.tell(side.event(Kind::Deny, Proto::Tcp, &target, dialled.port()));
    let permit = door.flows.clone().try_acquire_owned();
    match (verdict.is_allowed(), target, permit) {
        (true, Target::Host(host), Ok(permit)) => {
            let event = Event { id: Some(door.audit.next_id()), ..event };
            Some(Flow { door: door.clone(), client, host, port: dialled.port(), event, permit })
        }
        (is_allowed, _, _) => {
            let verdict = if is_allowed { Verdict::deny(Reason::TooManyFlows) } else { verdict };
            // The record first: whoever sees the refusal finds it.
            door.audit.note(verdict.tell(event));
            reset(client);
            None
        }
    }
}

fn judge(side: &Side, dialled: SocketAddr) -> (Verdict, Target) {
    let target = side.target(dialled.ip());
    (side.judge(&target, dialled.port()), target)
}

impl Flow {
    async fn run(self) {
        // In this order, so that the permit goes last when the task is ended: it says that all is closed.
        let Self { permit, door, mut client, host, port, event } = self;
        let started = Instant::now();
        // Ignored: it is done again, and checked, before the first byte. Until then it makes an end of the
        // session look like what it is.
        let _ = prepare(&client);
        let dialled = tokio::select! {
            dialled = door.dialler.dial(&host, port) => dialled,
            () = gone(&client) => Err(Failure { reason: Reason::ResetByClient, address: None }),
        };
        let prepared = dialled.and_then(|dialled| {
            let Dialled { stream, address } = dialled;
            let failure = Failure { reason: Reason::Unreachable, address: Some(address) };
            prepare(&stream).and_then(|()| prepare(&client)).map_err(|_| failure)?;
            Ok((stream, address))
        });
        let (mut server, address) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => {
                door.audit.note(failed(event, failure));
                reset(client);
                return;
            }
        };
        let event = Event { address: Some(address), ..event };
        door.audit.note(Event { kind: Kind::Open, ..event.clone() });
        let mut close = Close {
            door: door.clone(),
            event,
            started,
            counters: Counters::default(),
            end: Reason::SessionEnded,
        };
        close.end = match pump(&mut client, &mut server, &close.counters, &door.buffers).await {
            Ok(()) => Reason::Eof,
            Err(Broken::Client) => Reason::ResetByClient,
            Err(Broken::Server) => Reason::ResetByServer,
        };
        drop((close, client, server, permit));
    }
}

/// Resolves when the client has given up.
async fn gone(client: &TcpStream) {
    // Ignored: an error here means the same.
    let _ = client.ready(Interest::ERROR).await;
}

/// Returns the record of a connection that could not be made.
fn failed(event: Event, failure: Failure) -> Event {
    let by_rule = [Reason::ResolvedPrivate, Reason::AddressDenied].contains(&failure.reason);
    let outcome = if by_rule { Outcome::Deny } else { Outcome::Fail };
    let address = failure.address.or(event.address);
    Event { kind: Kind::Deny, outcome, address, reason: Some(failure.reason), ..event }
}

/// Writes the last record of a connection, also when its task is ended from outside.
struct Close {
    door: Arc<Door>,
    event: Event,
    started: Instant,
    counters: Counters,
    end: Reason,
}

impl Drop for Close {
    fn drop(&mut self) {
        let traffic = Traffic {
            up: self.counters.up.load(Ordering::Relaxed),
            down: self.counters.down.load(Ordering::Relaxed),
            milliseconds: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        self.door.audit.note(Event {
            kind: Kind::Close,
            reason: Some(self.end),
            traffic: Some(traffic),
            ..self.event.clone()
        });
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
