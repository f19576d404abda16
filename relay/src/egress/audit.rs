//! The log of a session's traffic: one JSON object a line, bounded in rate and in size.
//!
//! A record is in the file before the client can see the refusal that it tells of: whoever decides writes,
//! under one lock, so that `seq` and the order in the file are one. Beyond a rate the same things are
//! counted instead, and written once with their `count`.
//!
//! Runs in: host (any thread; plain blocking writes of one line to a local file).

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use policy::ServerName;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::record::{Event, Kind, Outcome, Proto, Reason, Refusal};
use crate::log::{LogError, Rotating, rfc3339};

/// The version of the records' form.
const VERSION: u32 = 1;
/// What the log and the one before it may take on disk together.
const SIZE: u64 = 8 << 20;
/// How many records are written one by one in each window; then they are counted.
const PER_WINDOW: u32 = 1_000;
/// The window of the rate.
const WINDOW: Duration = Duration::from_secs(60);
/// How many different things are counted at once beyond the rate.
const MAX_HELD: usize = 256;
/// How many different refusals are remembered for the end of the session.
const MAX_REFUSALS: usize = 1_024;
/// The longest text in a record.
const LONGEST: usize = 256;

/// Writes the log and remembers what was refused.
#[derive(Debug)]
pub(super) struct Audit {
    session: String,
    path: PathBuf,
    ids: AtomicU64,
    state: Mutex<State>,
    /// Told when something begins to be counted instead of written.
    counting: Notify,
}

#[derive(Debug)]
struct State {
    file: Option<Rotating>,
    seq: u64,
    window: Instant,
    written: u32,
    held: Vec<Held>,
    held_index: HashMap<Key, usize>,
    refusals: Vec<Refusal>,
    refusal_index: HashMap<Key, usize>,
    /// Records that had no room even to be counted by what they tell of.
    dropped: u64,
    /// Lines that the file system did not take.
    lost: u64,
}

/// What makes two events the same thing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    kind: Option<Kind>,
    network: Option<ServerName>,
    host: String,
    port: Option<u16>,
    proto: Proto,
    reason: Option<Reason>,
}

#[derive(Debug)]
struct Held {
    event: Event,
    count: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    v: u32,
    seq: u64,
    ts: String,
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<&'a ServerName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    ev: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    proto: Proto,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    verdict: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    up: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    down: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

impl Audit {
    /// Opens or goes on with the log at `path`, readable by its owner alone.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(super) fn open(session: String, path: &Path) -> Result<Self, LogError> {
        Ok(Self::new(session, path.to_owned(), Some(Rotating::open(path, SIZE)?)))
    }

    /// Remembers what was refused and writes nothing: for a session whose refusals are told at its end.
    pub(super) fn unwritten(session: String) -> Self {
        Self::new(session, PathBuf::new(), None)
    }

    fn new(session: String, path: PathBuf, file: Option<Rotating>) -> Self {
        let state = State {
            file,
            seq: 0,
            window: Instant::now(),
            written: 0,
            held: Vec::new(),
            held_index: HashMap::new(),
            refusals: Vec::new(),
            refusal_index: HashMap::new(),
            dropped: 0,
            lost: 0,
        };
        let ids = AtomicU64::new(1);
        Self { session, path, ids, state: Mutex::new(state), counting: Notify::new() }
    }

    /// Returns where the log is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a number for a decision, never given twice in a session.
    pub(super) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes the record of an event, or counts it beyond the rate; remembers refusals.
    pub(super) fn note(&self, mut event: Event) {
        cut(&mut event);
        let event_id = event.id.unwrap_or_else(|| self.next_id());
        event.id = Some(event_id);
        let mut state = self.lock();
        state.remember(&event, event_id);
        state.turn(&self.session, Instant::now());
        if state.written < PER_WINDOW {
            state.written += 1;
            state.write(&self.session, &event, None);
        } else {
            state.hold(event);
            drop(state);
            self.counting.notify_one();
        }
    }

    /// Writes what was counted when its window is over, without waiting for a record that may never come.
    /// Runs until its task is ended.
    pub(super) async fn release_in_time(&self) {
        loop {
            self.counting.notified().await;
            sleep(WINDOW).await;
            self.lock().turn(&self.session, Instant::now());
        }
    }

    /// Writes what was counted so far, whatever the window.
    pub(super) fn flush(&self) {
        self.lock().release(&self.session);
    }

    /// Returns the distinct refusals in the order of their first time.
    pub(super) fn refused(&self) -> Vec<Refusal> {
        self.lock().refusals.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.flush();
    }
}

impl State {
    fn remember(&mut self, event: &Event, id: u64) {
        let (Some(reason), false) = (event.reason, event.outcome == Outcome::Allow) else {
            return;
        };
        // The kind is left out: a name is the same refusal however often and by whatever record.
        let key = Key { kind: None, ..key(event) };
        if let Some(refusal) =
            self.refusal_index.get(&key).and_then(|&at| self.refusals.get_mut(at))
        {
            refusal.count += 1;
        } else if self.refusals.len() < MAX_REFUSALS {
            self.refusals.push(Refusal {
                id,
                network: key.network.clone(),
                host: key.host.clone(),
                port: key.port,
                proto: key.proto,
                outcome: event.outcome,
                reason,
                rule: event.rule.clone(),
                fix: event.fix.clone(),
                count: 1,
            });
            self.refusal_index.insert(key, self.refusals.len() - 1);
        }
    }

    /// Begins a new window when the current one is over.
    fn turn(&mut self, session: &str, now: Instant) {
        if now.duration_since(self.window) >= WINDOW {
            self.release(session);
            self.window = now;
            self.written = 0;
        }
    }

    fn hold(&mut self, event: Event) {
        let key = key(&event);
        if let Some(held) = self.held_index.get(&key).and_then(|&at| self.held.get_mut(at)) {
            held.count += 1;
            if let (Some(sum), Some(more)) = (held.event.traffic.as_mut(), event.traffic) {
                sum.up = sum.up.saturating_add(more.up);
                sum.down = sum.down.saturating_add(more.down);
                sum.milliseconds = sum.milliseconds.saturating_add(more.milliseconds);
            }
        } else if self.held.len() < MAX_HELD {
            self.held.push(Held { event, count: 1 });
            self.held_index.insert(key, self.held.len() - 1);
        } else {
            self.dropped += 1;
        }
    }

    fn release(&mut self, session: &str) {
        self.held_index.clear();
        for held in std::mem::take(&mut self.held) {
            self.write(session, &held.event, Some(held.count));
        }
        if self.dropped > 0 {
            let rest = Event::new(Kind::Dropped, Outcome::Deny, Proto::Tcp);
            let count = std::mem::take(&mut self.dropped);
            self.write(session, &rest, Some(count));
        }
    }

    fn write(&mut self, session: &str, event: &Event, count: Option<u64>) {
        self.seq += 1;
        let line = Line {
            v: VERSION,
            seq: self.seq,
            ts: rfc3339(SystemTime::now()),
            session,
            network: event.network.as_ref(),
            id: event.id,
            ev: event.kind,
            name: event.name.as_deref(),
            port: event.port,
            address: event.address,
            proto: event.proto,
            rule: event.rule.as_deref(),
            verdict: event.outcome,
            reason: event.reason,
            fix: event.fix.as_deref(),
            up: event.traffic.map(|traffic| traffic.up),
            down: event.traffic.map(|traffic| traffic.down),
            dur_ms: event.traffic.map(|traffic| traffic.milliseconds),
            count,
        };
        let Some(file) = &mut self.file else { return };
        let written =
            serde_json::to_vec(&line).map_err(std::io::Error::from).and_then(|mut text| {
                text.push(b'\n');
                file.append(&text)
            });
        if let Err(error) = written {
            // Said once: a full disk would otherwise fill the daemon's own log too.
            if self.lost == 0 {
                tracing::warn!(session, path = %file.path().display(), %error, "egress record lost");
            }
            self.lost += 1;
        }
    }
}

fn key(event: &Event) -> Key {
    let address = || event.address.map(|address| address.to_string());
    Key {
        kind: Some(event.kind),
        network: event.network.clone(),
        host: event.name.clone().or_else(address).unwrap_or_default(),
        port: event.port,
        proto: event.proto,
        reason: event.reason,
    }
}

/// Cuts every text of an event to what a record may hold.
fn cut(event: &mut Event) {
    for text in [&mut event.name, &mut event.rule, &mut event.fix].into_iter().flatten() {
        if text.len() > LONGEST {
            let most = LONGEST - "…".len();
            let at = (0..=most).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
            text.truncate(at);
            text.push('…');
        }
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
