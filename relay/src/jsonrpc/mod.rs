//! JSON-RPC 2.0 as bytes: envelopes are read, everything inside them stays as it was written.
//!
//! A line is never serialised again. Its members are found where they stand, and a frame with another id
//! or token is the same bytes with those spans replaced ([`splice()`]). So key order, duplicate keys,
//! numbers beyond 2^53, `1.10` and lone surrogates in params, results and errors arrive as they were sent.
//!
//! Runs in: any (pure data).

pub mod code;
mod envelope;
mod id;
mod member;
mod refusal;
mod scan;
mod splice;

pub(crate) use envelope::{Body, Message, Unfit, Why, find_message, parse_line};
pub(crate) use id::Id;
pub(crate) use member::{member, progress_tokens};
pub(crate) use refusal::{Refusal, answer_frame, error_frame};
pub(crate) use scan::{Scanner, id_at_end};
pub(crate) use splice::{Edit, span, splice};
