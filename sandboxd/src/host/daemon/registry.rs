//! The daemon's sessions, by name and id, and those that died with a daemon before it.
//!
//! Runs in: host (tokio).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use policy::SessionName;

use super::live::{Live, lost};
use super::record::Record;
use crate::api::place::Place;
use crate::api::{SessionView, State, UpRequest};
use crate::fault::{Fault, Kind};
use crate::host::{self, Zygote};

/// All sessions of one daemon.
#[derive(Debug)]
pub(super) struct Registry {
    zygote: Zygote,
    place: Place,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    live: BTreeMap<SessionName, Slot>,
    lost: Vec<Record>,
}

#[derive(Debug)]
enum Slot {
    /// The name is taken; the session is being made, or ended.
    Changing,
    /// It stands.
    Standing(Arc<Live>),
}

impl Slot {
    fn is(&self, live: &Arc<Live>) -> bool {
        matches!(self, Self::Standing(it) if Arc::ptr_eq(it, live))
    }
}

impl Registry {
    /// Starts with what a daemon before left: sessions that died with it.
    pub(super) fn new(zygote: Zygote, place: Place, lost: Vec<Record>) -> Self {
        Self { zygote, place, table: Mutex::new(Table { lost, ..Table::default() }) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // The table is whole between two calls, so a panic elsewhere has not spoilt it.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a session.
    pub(super) async fn up(self: Arc<Self>, request: UpRequest) -> Result<SessionView, Fault> {
        request.file.check()?;
        let name = self.reserve(&request)?;
        let made = self.make(name.clone(), request).await;
        match made {
            Ok(live) => {
                let view = live.view();
                self.table().live.insert(name, Slot::Standing(Arc::clone(&live)));
                tokio::spawn(async move { self.bury(&live).await });
                Ok(view)
            }
            Err(fault) => {
                self.table().live.remove(&name);
                Err(fault)
            }
        }
    }

    /// Waits until a session has ended, and lists it as lost unless somebody asked for its end.
    async fn bury(&self, live: &Arc<Live>) {
        live.ended().await;
        let standing = {
            let mut table = self.table();
            let standing = table.live.get(&live.record.name).is_some_and(|slot| slot.is(live));
            if standing {
                table.live.remove(&live.record.name);
                table.lost.push(live.record.clone());
            }
            standing
        };
        if standing {
            tracing::warn!(
                session = live.record.name.as_str(),
                id = live.record.id,
                "session was lost"
            );
            live.end().await;
        }
    }

    async fn make(&self, name: SessionName, request: UpRequest) -> Result<Arc<Live>, Fault> {
        let place = self.place.clone();
        // A thread of its own: the trees that it looks at may be slow, or somebody's trap.
        let prepared = tokio::task::spawn_blocking(move || {
            let prepared = host::prepare(&request.file, &request.caller, name.as_str(), &place);
            (prepared, name, request)
        });
        let (prepared, name, request) =
            prepared.await.map_err(|error| Fault::chain(Kind::Internal, &error))?;
        let mut prepared = prepared?;
        if let Some(source) = &request.source {
            prepared.protect(source);
        }
        let workspace = prepared.workspace.as_ref().map(|(tree, _)| tree.source.path.clone());
        let record = Record::new(name, workspace);
        record.write(&self.sessions())?;
        let again = record.clone();
        let live = Live::start(&self.zygote, record, request, prepared, &self.sessions()).await;
        if live.is_err() {
            // Ignored: the fault that is told is the one before.
            let _ = again.remove(&self.sessions());
        }
        live
    }

    /// Takes a name, or makes one up from the workspace's.
    fn reserve(&self, request: &UpRequest) -> Result<SessionName, Fault> {
        let mut table = self.table();
        let name = match &request.name {
            Some(name) if table.live.contains_key(name) => {
                let message = format!("host: the name {name} is taken by a live session");
                return Err(Fault::new(Kind::User, message).field("name").hint(format!(
                    "`sandboxd rm {name}` ends that session; or choose another --name"
                )));
            }
            Some(name) => name.clone(),
            None => free_name(&table, &request.caller.directory),
        };
        // A lost session of that name makes room: its logs go with it.
        let (old, kept) =
            std::mem::take(&mut table.lost).into_iter().partition(|old: &Record| old.name == name);
        table.lost = kept;
        for record in old {
            // Ignored: a directory that stays behind is listed and cleaned by the next start.
            let _ = record.remove(&self.sessions());
        }
        table.live.insert(name.clone(), Slot::Changing);
        Ok(name)
    }

    /// Finds a live session by its name or id.
    pub(super) fn find(&self, key: &str) -> Result<Arc<Live>, Fault> {
        let table = self.table();
        let found = table.live.values().find_map(|slot| match slot {
            Slot::Standing(live) if live.record.name.as_str() == key || live.record.id == key => {
                Some(Arc::clone(live))
            }
            Slot::Standing(_) | Slot::Changing => None,
        });
        found.ok_or_else(|| {
            let was_lost = table.lost.iter().any(|old| old.name.as_str() == key || old.id == key);
            let message = if was_lost {
                format!("host: the session {key} was lost: its processes, or its daemon, died")
            } else {
                format!("host: there is no session {key:?}")
            };
            Fault::new(Kind::User, message).hint("`sandboxd ls` lists the sessions")
        })
    }

    /// Describes all sessions.
    pub(super) fn list(&self) -> Vec<SessionView> {
        let table = self.table();
        let standing = table.live.values().filter_map(|slot| match slot {
            Slot::Standing(live) => Some(live.view()),
            Slot::Changing => None,
        });
        standing.chain(table.lost.iter().map(|record| lost(record, State::Lost))).collect()
    }

    /// Ends a session, or forgets a lost one.
    pub(super) async fn remove(&self, key: &str) -> Result<(), Fault> {
        if let Some(record) = self.take_lost(key) {
            return forget(&record, &self.sessions());
        }
        let live = self.take(key)?;
        let name = live.record.name.clone();
        live.end().await;
        let forgotten = forget(&live.record, &self.sessions());
        self.table().live.remove(&name);
        forgotten
    }

    /// Takes a session out, so that nobody else finds it; its name stays taken until it has ended.
    fn take(&self, key: &str) -> Result<Arc<Live>, Fault> {
        let live = self.find(key)?;
        let mut table = self.table();
        match table.live.get_mut(&live.record.name) {
            Some(slot) if slot.is(&live) => {
                *slot = Slot::Changing;
                Ok(live)
            }
            Some(_) | None => {
                let message = format!("host: the session {key} is being ended already");
                Err(Fault::new(Kind::User, message))
            }
        }
    }

    fn take_lost(&self, key: &str) -> Option<Record> {
        let mut table = self.table();
        let place = table.lost.iter().position(|old| old.name.as_str() == key || old.id == key)?;
        Some(table.lost.remove(place))
    }

    /// Ends all sessions.
    pub(super) async fn end_all(&self) {
        let names: Vec<String> = self.table().live.keys().map(ToString::to_string).collect();
        for name in names {
            // Ignored: what could not be removed is cleaned by the next start.
            let _ = self.remove(&name).await;
        }
    }

    /// Ends the process that makes sessions.
    pub(super) async fn end_zygote(&self) {
        self.zygote.end().await;
    }

    /// Returns where the sessions' records are.
    pub(super) fn sessions(&self) -> PathBuf {
        self.place.sessions()
    }
}

fn forget(record: &Record, sessions: &Path) -> Result<(), Fault> {
    record.remove(sessions).map_err(|error| {
        let mut fault = Fault::chain(Kind::Host, &error);
        fault.message = format!("host: cannot remove the session's record: {}", fault.message);
        fault
    })
}

/// The workspace's own name, as far as it is one, and a number when it is taken.
fn free_name(table: &Table, directory: &Path) -> SessionName {
    let base: String = directory
        .file_name()
        .map(|name| name.to_string_lossy().to_lowercase())
        .unwrap_or_default()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .take(40)
        .collect();
    let base = base.trim_matches('-');
    let base = if base.is_empty() { "box" } else { base };
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    std::iter::once(base.to_owned())
        .chain(numbered)
        .filter_map(|name| name.parse::<SessionName>().ok())
        .find(|name| !table.live.contains_key(name))
        .unwrap_or_else(|| unreachable!("an endless list of valid names has one that is free"))
}
