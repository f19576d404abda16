//! The one task that may start or end the child, and that keeps the deadlines.
//!
//! It looks at the state (see the table in `server::life`) and does what that state wants of a task that
//! can wait: spawn, end at once, end politely. Events come back through the exchange.
//!
//! Runs in: host (tokio; one task for each server).

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use super::exchange::{Loss, Shared};
use super::link::{Gone, Link};
use super::spawner::{Child, SpawnError, Spawner};
use crate::server::life::State;

/// What the driver waits for.
enum Phase<'s> {
    /// No child.
    Idle,
    /// The spawner is at work.
    Spawning(Pin<Box<dyn Future<Output = Result<Child, SpawnError>> + Send + 's>>),
    /// A child lives.
    Living(Link),
    /// A child is being ended.
    Falling(Pin<Box<dyn Future<Output = Gone> + Send>>),
}

/// What came of it.
enum Turn {
    Spawned(Result<Child, SpawnError>),
    Lost(Loss),
    Gone(Gone),
}

/// Drives one server until it has ended.
pub(super) async fn drive(shared: Arc<Shared>, spawner: Arc<dyn Spawner>) {
    let _guard = Guard(shared.clone());
    let mut phase = Phase::Idle;
    loop {
        phase = follow(&shared, &*spawner, phase);
        let (state, wake) = {
            let exchange = shared.exchange();
            (exchange.state(), exchange.next_wake())
        };
        if matches!(phase, Phase::Idle) && state == State::Ended {
            break;
        }
        let turn = tokio::select! {
            biased;
            () = shared.driver.notified() => None,
            turn = phase.turn() => Some(turn),
            () = sleep_until(Instant::from_std(wake)) => {
                shared.exchange().tick();
                None
            }
        };
        if let Some(turn) = turn {
            phase = take(&shared, phase, turn);
        }
    }
    tracing::info!(server = %shared.settings.name, "server ended");
}

/// Ends the server for its clients if the driver ends before its time, as by a spawner that panics: without
/// a driver nothing would ever be answered.
struct Guard(Arc<Shared>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.exchange().collapse();
    }
}

impl Phase<'_> {
    /// Resolves when something came of the phase; cancel-safe.
    async fn turn(&mut self) -> Turn {
        match self {
            Self::Idle => pending().await,
            Self::Spawning(spawning) => Turn::Spawned(spawning.await),
            Self::Living(link) => Turn::Lost(link.lost().await),
            Self::Falling(falling) => Turn::Gone(falling.await),
        }
    }
}

/// Does what the state wants.
fn follow<'s>(shared: &Arc<Shared>, spawner: &'s dyn Spawner, phase: Phase<'s>) -> Phase<'s> {
    let state = shared.exchange().state();
    let grace = shared.settings.grace;
    match (phase, state) {
        (Phase::Idle, State::Starting) => {
            shared.exchange().starting();
            Phase::Spawning(spawner.spawn())
        }
        (Phase::Idle, State::Abandoned | State::Ending) => {
            shared.exchange().unspawned("given up before it began");
            Phase::Idle
        }
        (Phase::Living(link), State::Draining) => {
            Phase::Falling(Box::pin(link.put_down(Loss::Put, grace)))
        }
        (Phase::Living(link), State::Ending) => Phase::Falling(Box::pin(link.wind_down(grace))),
        (phase, _) => phase,
    }
}

/// Takes what came of a phase to the exchange; returns the next phase.
fn take<'s>(shared: &Arc<Shared>, phase: Phase<'s>, turn: Turn) -> Phase<'s> {
    match (turn, phase) {
        (Turn::Spawned(Ok(child)), _) => {
            tracing::info!(server = %shared.settings.name, pid = child.pid, "server started");
            Phase::Living(Link::start(shared, child))
        }
        (Turn::Spawned(Err(error)), _) => {
            tracing::warn!(server = %shared.settings.name, %error, "server not started");
            shared.exchange().unspawned(&error.message);
            Phase::Idle
        }
        (Turn::Lost(loss), Phase::Living(link)) => {
            shared.exchange().lost();
            Phase::Falling(Box::pin(link.put_down(loss, shared.settings.grace)))
        }
        (Turn::Gone(Gone { loss, unread }), _) => {
            tracing::info!(server = %shared.settings.name, ?loss, "server child gone");
            shared.exchange().gone(loss, &unread);
            Phase::Idle
        }
        (Turn::Lost(_), phase) => phase,
    }
}
