//! Single calls by hand: a client that says hello, asks once and leaves.
//!
//! Runs in: client (tokio).

use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::timeout;

use super::StubError;
use crate::jsonrpc::{Body, Message, Refusal, code, error_frame, member, parse_line};
use crate::lines::{Frame, Lines};

/// The longest answer that is taken.
const LONGEST: usize = 64 << 20;
/// The version of the protocol that is asked for.
const VERSION: &str = "2025-11-25";

/// What a tool answered.
#[derive(Debug, Clone)]
pub struct CallOutcome {
    /// The tool says that it did not succeed.
    pub is_error: bool,
    /// The whole result, byte for byte.
    pub result: Box<RawValue>,
}

/// Calls one tool over a connection to the relay and returns its result.
///
/// # Errors
/// When the connection breaks, the answer is a JSON-RPC error, or `deadline` passes, which counts for
/// everything together.
pub async fn call<S>(
    connection: S,
    tool: &str,
    arguments: Box<RawValue>,
    deadline: Duration,
) -> Result<CallOutcome, StubError>
where
    S: AsyncRead + AsyncWrite,
{
    let name = serde_json::Value::from(tool);
    let params = format!("{{\"name\":{name},\"arguments\":{}}}", one_line(arguments.get()));
    let asking = async {
        let mut caller = Caller::greet(connection).await?;
        let result = caller.ask("tools/call", &params).await?;
        let is_error = member(result.get(), "isError") == Some("true");
        Ok(CallOutcome { is_error, result })
    };
    timeout(deadline, asking).await.unwrap_or(Err(StubError::Late(deadline)))
}

/// Returns the tools of a server, each as it described it, over all pages of the list.
///
/// # Errors
/// As [`call`].
pub async fn list_tools<S>(
    connection: S,
    deadline: Duration,
) -> Result<Vec<Box<RawValue>>, StubError>
where
    S: AsyncRead + AsyncWrite,
{
    let asking = async {
        let mut caller = Caller::greet(connection).await?;
        let (mut tools, mut params) = (Vec::new(), "{}".to_owned());
        loop {
            let result = caller.ask("tools/list", &params).await?;
            let page: Page = serde_json::from_str(result.get())
                .map_err(|_| StubError::Answer("tools/list".to_owned()))?;
            tools.extend(page.tools);
            match page.next {
                Some(next) => params = format!("{{\"cursor\":{}}}", next.get()),
                None => return Ok(tools),
            }
        }
    };
    timeout(deadline, asking).await.unwrap_or(Err(StubError::Late(deadline)))
}

#[derive(Deserialize)]
struct Page {
    tools: Vec<Box<RawValue>>,
    #[serde(rename = "nextCursor")]
    next: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct ErrorText {
    code: i64,
    #[serde(default)]
    message: String,
}

/// A message is one line, and arguments from a file may have several: outside strings a newline is white
/// space, and inside them JSON allows none.
fn one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

/// A client that is one connection and a running number.
struct Caller<S> {
    lines: Lines<ReadHalf<S>>,
    writer: WriteHalf<S>,
    number: u64,
}

impl<S: AsyncRead + AsyncWrite> Caller<S> {
    async fn greet(connection: S) -> Result<Self, StubError> {
        let (reader, writer) = tokio::io::split(connection);
        let mut caller = Self { lines: Lines::new(reader, LONGEST), writer, number: 0 };
        let params = format!(
            "{{\"protocolVersion\":\"{VERSION}\",\"capabilities\":{{}},\
             \"clientInfo\":{{\"name\":\"sandboxd\",\"version\":\"{}\"}}}}",
            env!("CARGO_PKG_VERSION")
        );
        caller.ask("initialize", &params).await?;
        let note = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
        caller.write(note.as_bytes()).await?;
        Ok(caller)
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), StubError> {
        self.writer.write_all(bytes).await.map_err(StubError::Broken)?;
        self.writer.flush().await.map_err(StubError::Broken)
    }

    /// Asks and waits for the answer; what the server asks meanwhile is refused.
    async fn ask(&mut self, method: &str, params: &str) -> Result<Box<RawValue>, StubError> {
        self.number += 1;
        let id = self.number.to_string();
        let frame = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n"
        );
        self.write(frame.as_bytes()).await?;
        loop {
            match self.next(&id, method).await? {
                Step::Result(result) => return Ok(result),
                Step::Asked(theirs) => {
                    let refusal = Refusal::new(code::METHOD, "Method not found");
                    self.write(&error_frame(Some(&theirs), &refusal)).await?;
                }
                Step::Other => {}
            }
        }
    }

    async fn next(&mut self, id: &str, method: &str) -> Result<Step, StubError> {
        let line = match self.lines.next().await.map_err(StubError::Broken)? {
            Some(Frame::Line(line) | Frame::Rest(line)) => line,
            Some(Frame::LongHead(_) | Frame::LongTail(_)) => {
                return Err(StubError::Answer(method.to_owned()));
            }
            None => return Err(StubError::Broken(io::ErrorKind::UnexpectedEof.into())),
        };
        let text = std::str::from_utf8(line).unwrap_or_default();
        match parse_line(text) {
            Ok(Message::Answer { id: Some(theirs), body }) if theirs == id => {
                read_body(body, method).map(Step::Result)
            }
            Ok(Message::Request { id, .. }) => Ok(Step::Asked(id.to_owned())),
            Ok(Message::Answer { .. } | Message::Notification { .. }) | Err(_) => Ok(Step::Other),
        }
    }
}

/// What one line means to somebody who waits for an answer.
enum Step {
    Result(Box<RawValue>),
    Asked(String),
    Other,
}

fn read_body(body: Body<'_>, method: &str) -> Result<Box<RawValue>, StubError> {
    match body {
        Body::Result(raw) => {
            RawValue::from_string(raw.to_owned()).map_err(|_| StubError::Answer(method.to_owned()))
        }
        Body::Error(raw) => {
            let error: ErrorText =
                serde_json::from_str(raw).map_err(|_| StubError::Answer(method.to_owned()))?;
            let method = method.to_owned();
            Err(StubError::Refused { method, code: error.code, message: error.message })
        }
    }
}
