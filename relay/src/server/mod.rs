//! The life of one MCP server and the bookkeeping around it, as plain data.
//!
//! Runs in: any (pure data; the clock is a parameter).

pub(crate) mod breaker;
pub(crate) mod greeting;
pub(crate) mod life;
pub(crate) mod queue;
pub(crate) mod tail;
pub(crate) mod ticket;
pub(crate) mod words;
