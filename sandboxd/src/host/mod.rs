//! The host: holds sessions from the outside. It trusts no byte that comes from inside, and never forks.
//!
//! Runs in: host (the daemon, or `sandboxd run`, which hosts the one session in itself).

pub(crate) mod cause;
mod compartment;
pub(crate) mod daemon;
mod environment;
mod error;
mod line;
pub(crate) mod network;
mod prepare;
mod session;
mod watch;
mod zygote;

pub(crate) use compartment::{Compartment, Job, Ordered, Post, Signaller, Streams};
pub(crate) use environment::Caller;
pub(crate) use error::SessionError;
pub(crate) use prepare::{Prepared, prepare, raise_descriptor_limit};
pub(crate) use session::Session;
pub(crate) use watch::{Appeared, Watcher};
pub(crate) use zygote::{Asked, Zygote};
