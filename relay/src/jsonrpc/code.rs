//! The numbers of errors that the relay makes itself.
//!
//! They lie outside -32768..-32000, so that nobody takes one for the server's own; each such error also
//! carries `data.origin = "relay"`. Only what JSON-RPC itself has a number for uses that number.
//!
//! Runs in: any (pure data).

/// The server could not be started, or ended before it answered `initialize`.
pub const START: i64 = 53_001;
/// A limit of time passed before the server answered.
pub const DEADLINE: i64 = 53_002;
/// The server ended before it answered; the call may have run.
pub const ENDED: i64 = 53_003;
/// Too much is waiting for the server already.
pub const FULL: i64 = 53_004;
/// The server was started too often in a short time and is left alone for a while.
pub const LOOP: i64 = 53_005;
/// A message was too long, or an answer could not be read.
pub const FRAME: i64 = 53_006;
/// The session, or this server of it, was ended.
pub const CLOSED: i64 = 53_007;
/// A request came before `initialize`.
pub const UNGREETED: i64 = 53_008;
/// The stub has no connection to the relay, or lost it.
pub const CONNECTION: i64 = 53_009;
/// The client that was asked by the server went away (told to the server).
pub const CLIENT: i64 = 53_010;

/// JSON-RPC: the line is not JSON.
pub const PARSE: i64 = -32_700;
/// JSON-RPC: the line is JSON but no message, or a batch.
pub const INVALID: i64 = -32_600;
/// JSON-RPC: nobody here handles this method.
pub const METHOD: i64 = -32_601;
