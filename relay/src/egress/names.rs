//! The synthetic addresses: one for each name that a network has asked for and may use.
//!
//! A name keeps its address for the whole session and an address is never given to another name: programs
//! keep addresses longer than any time to live says. Each network has a table of its own, so that one
//! cannot read from the addresses how many names another one uses.
//!
//! Runs in: host (any thread).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use policy::egress::{HostName, MAX_NAMES_PER_WILDCARD};

use super::record::Reason;

/// The first address of the pool.
const FIRST: u32 = u32::from_be_bytes([198, 18, 1, 0]);
/// The last address of the pool. RFC 2544 keeps 198.18.0.0/15 for tests of network equipment: nothing on
/// the Internet has it, and the first 256 are the session's own.
const LAST: u32 = u32::from_be_bytes([198, 19, 255, 254]);
/// How many names a network may use.
const MAX_NAMES: usize = 4_096;

/// The names of one network and their addresses.
#[derive(Debug, Default)]
pub(super) struct Names {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_name: HashMap<HostName, Ipv4Addr>,
    /// In the order of their addresses, from the first one of the pool on.
    by_address: Vec<HostName>,
    under_wildcard: HashMap<String, usize>,
}

/// An address given to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) address: Ipv4Addr,
    /// Whether the name was not known before.
    pub(super) first: bool,
}

impl Names {
    /// Returns the address of a name, a new one at its first time. `wildcard` is the rule that allows it,
    /// where that is a wildcard.
    ///
    /// # Errors
    /// The reason, when there is no room for another name.
    pub(super) fn give(&self, name: &HostName, wildcard: Option<&str>) -> Result<Given, Reason> {
        let mut table = self.lock();
        if let Some(&address) = table.by_name.get(name) {
            return Ok(Given { address, first: false });
        }
        let count = table.by_address.len();
        let number = u32::try_from(count).ok().and_then(|count| FIRST.checked_add(count));
        let address = number.filter(|&number| number <= LAST && count < MAX_NAMES);
        let address = Ipv4Addr::from(address.ok_or(Reason::TooManyNames)?);
        if let Some(rule) = wildcard {
            let used = table.under_wildcard.entry(rule.to_owned()).or_default();
            if *used >= MAX_NAMES_PER_WILDCARD {
                return Err(Reason::TooManyUnderWildcard);
            }
            *used += 1;
        }
        table.by_name.insert(name.clone(), address);
        table.by_address.push(name.clone());
        Ok(Given { address, first: true })
    }

    /// Returns the name that has this address.
    pub(super) fn name_of(&self, address: Ipv4Addr) -> Option<HostName> {
        let at = u32::from(address).checked_sub(FIRST)?;
        self.lock().by_address.get(usize::try_from(at).ok()?).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says whether an address belongs to the pool, whether or not a name has it.
pub(super) fn is_synthetic(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => (FIRST..=LAST).contains(&u32::from(address)),
        IpAddr::V6(_) => false,
    }
}
