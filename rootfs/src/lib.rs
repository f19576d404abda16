//! The floor: what a box sees of the host.
//!
//! [`HostFacts`] reads once what this host has; [`plan()`] turns that and the wishes into an ordered [`MountPlan`],
//! purely; [`apply`] builds it inside the new namespaces. Nothing here decides who may.
//!
//! Runs in: host (`facts`), any (`plan`), setup and init (`apply`).

pub mod apply;
mod facts;
mod plan;
mod small;
mod tools;
mod trusted;
mod users;

pub use facts::{FactsError, HostFacts, TreeFacts};
pub use plan::{
    Access, Guard, MountPlan, PlanError, Private, Rights, Rule, Shape, Source, Step, Wishes, plan,
};
pub use tools::{ToolFacts, tools};
pub use users::Account;
