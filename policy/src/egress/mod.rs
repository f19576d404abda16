//! The door out: which names and addresses may be reached, on which ports, and why not.
//!
//! Runs in: any (pure data; resolves nothing, dials nothing).
//!
//! ```text
//! a user's text -> Rule (target, ports)        bytes from the box -> HostName
//!                        \                            /
//!                         decide(rules, host, port) -> Decision (verdict, rule, reason, fix)
//! what a name resolved to -> denied_address -> why it may not be dialled
//! ```
//!
//! A name has one form everywhere (`HostName`), so comparing bytes is comparing names. A rule can allow a
//! name that resolves to an address nobody may reach, therefore the dialler asks `denied_address` about
//! exactly the address that it is about to dial.

mod decision;
mod denied;
mod host;
mod network;
mod ports;
mod resolver;
mod rule;
mod settings;
mod suffix;

pub use decision::{Decision, Reason, Verdict, decide, find_rule};
pub use denied::{DENIED_RANGES, DeniedRange, METADATA_ADDRESSES, denied_address};
pub use host::{Host, HostError, HostName};
pub use network::Network;
pub use ports::{MAX_PORTS, Ports, ports};
pub use resolver::{Resolver, ResolverError};
pub use rule::{MAX_NAMES_PER_WILDCARD, Rule, RuleError, Target};
pub(crate) use settings::Budget;
pub use settings::{Egress, EgressMode, MAX_RULES};
