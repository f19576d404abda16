//! System calls: which a payload may make, with which arguments, and what it is told otherwise.
//!
//! Runs in: any (pure data and a plain model of it).
//!
//! The default is `ENOSYS`, which programs and libraries know how to live with: they fall back to an
//! older call. A call that is refused as a matter of policy answers `EPERM`, so that whoever reads
//! the message looks for a policy and not for a missing kernel feature.
//!
//! ```text
//! allowed.rs    harmless inside the walls      -> allowed, a group for each purpose
//! legacy.rs     the same under older names     -> allowed, on the one architecture that has them
//! arguments.rs  harmless with some arguments   -> clauses over the arguments
//! refused.rs    policy, or surface without use -> EPERM, or ENOSYS said aloud
//! table.rs      the types of a row, and all rows in one sequence
//! model.rs      `decide`: the answer to one call, read straight from the table
//! ```
//!
//! Whoever compiles the table for the kernel does not use [`decide`]: tests hold the two against
//! each other.

mod allowed;
mod arguments;
mod legacy;
mod model;
mod refused;
mod table;

pub use model::{Arch, Call, Profile, Verdict, decide};
pub use table::{Answer, Clause, Group, Row, Rules, Test, groups, rows};

#[cfg(test)]
mod arguments_tests;
#[cfg(test)]
mod syscalls_tests;
