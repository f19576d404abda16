//! One client's connection, from its first line to its last answer.
//!
//! Runs in: host (tokio; the task of whoever calls `serve`).

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf};
use tokio::sync::Notify;

use super::exchange::Shared;

use super::outlet::{End, Outlet};
use crate::jsonrpc::{Scanner, Unfit, Why, id_at_end, parse_line};
use crate::lines::{Frame, Lines};

/// How often a client that closed its side is asked whether it still reads.
const PROBE: Duration = Duration::from_millis(500);

/// Says why a connection was not served to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The client went away before it had all its answers.
    #[error("cannot write to the client")]
    Broken(#[source] io::Error),
    /// The client does not read.
    #[error("cannot keep more messages for a client that does not read them")]
    Slow,
    /// The server was ended.
    #[error("cannot serve a client of a server that was ended")]
    Ended,
}

/// Lets go of the client however the serving ends.
struct Attached<'s> {
    shared: &'s Shared,
    client: u64,
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        self.shared.exchange().detach(self.client);
    }
}

/// Serves one client; see [`super::Server::serve`].
pub(super) async fn serve<S>(shared: &Shared, connection: S) -> Result<(), ServeError>
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (reader, writer) = tokio::io::split(connection);
    let outlet = Arc::new(Outlet::new(writer));
    let Some((client, idle)) = shared.exchange().attach(outlet.clone()) else {
        return Err(ServeError::Ended);
    };
    let attached = Attached { shared, client };
    let end = tokio::select! {
        biased;
        end = outlet.run(|| ()) => end,
        () = take_in(&attached, reader, &outlet, &idle) => End::Closed,
        () = give_up(shared, &outlet) => End::Closed,
    };
    match end {
        End::Closed if *shared.ended.borrow() => Err(ServeError::Ended),
        End::Closed => Ok(()),
        End::Overflow => Err(ServeError::Slow),
        End::Broken(error) => Err(ServeError::Broken(error)),
    }
}

/// After the server's end, gives a client that does not read its last messages up.
async fn give_up(shared: &Shared, outlet: &Outlet) {
    let mut ended = shared.ended.subscribe();
    // Ignored: the sender lives as long as `shared`.
    let _ = ended.wait_for(|ended| *ended).await;
    tokio::time::sleep(shared.settings.grace).await;
    outlet.overflow();
    pending().await
}

/// Takes the client's lines, waits for the answers, then closes. Never returns: closing ends the outlet.
async fn take_in<S>(attached: &Attached<'_>, reader: ReadHalf<S>, outlet: &Outlet, idle: &Notify)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let Attached { shared, client } = *attached;
    let mut lines = Lines::new(reader, shared.settings.max_frame);
    let mut answered = false;
    // A connection that cannot be read any more has come to its end.
    while let Ok(Some(frame)) = lines.next().await {
        match frame {
            Frame::Line(line) | Frame::Rest(line) => take_line(shared, client, line),
            Frame::LongHead(head) => {
                let mut scanner = Scanner::default();
                scanner.feed(head);
                answered = scanner.id().is_some();
                if answered {
                    shared.exchange().client_too_long(client, scanner.id());
                }
            }
            Frame::LongTail(_) if answered => {}
            Frame::LongTail(tail) => shared.exchange().client_too_long(client, id_at_end(tail)),
        }
    }
    drop(lines);
    while !shared.exchange().is_idle(client) {
        // A client that closed its side may still read; only writing tells whether it does.
        outlet.probe();
        // Ignored: either is a reason to look again.
        let _ = tokio::time::timeout(PROBE, idle.notified()).await;
    }
    outlet.close();
    pending().await
}

fn take_line(shared: &Shared, client: u64, bytes: &[u8]) {
    let parsed = match std::str::from_utf8(bytes) {
        Ok(line) => parse_line(line).map(|message| (line, message)),
        Err(_) => Err(Unfit { why: Why::Syntax, id: None }),
    };
    match parsed {
        Ok((line, message)) => shared.exchange().client_message(client, line, &message),
        Err(unfit) if unfit.why == Why::Syntax => {
            // Whoever sent a broken request waits for its id, not for null.
            let mut scanner = Scanner::default();
            scanner.feed(bytes);
            let id = scanner.id().filter(|_| scanner.has_method());
            shared.exchange().client_unfit(client, &Unfit { why: unfit.why, id });
        }
        Err(unfit) => shared.exchange().client_unfit(client, &unfit),
    }
}
