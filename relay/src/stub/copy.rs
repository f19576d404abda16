//! The stub itself: bytes both ways, and no request without an answer.
//!
//! Runs in: client (tokio).

use std::sync::{Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

use super::StubError;
use super::open::{Open, Passing};
use crate::jsonrpc::{Refusal, code, error_frame};

/// How much is copied at once.
const PIECE: usize = 64 * 1024;
/// What a request hears whose answer will not come.
const LOST: &str = "relay: the connection to the session was lost before an answer came; \
                    whether the request was carried out is not known";
/// What a later request hears.
const GONE: &str = "relay: the connection to the session was lost; this request was not sent";

/// Says how one direction ended.
enum End {
    /// Its source came to its end.
    Source,
    /// The connection takes no more.
    Connection,
}

/// Is an MCP server on stdin and stdout, by means of a connection to the relay.
///
/// Bytes are passed as they are. When `stdin` ends, the answers still under way are passed on, then this
/// returns. When the connection ends first, every open request is answered with an error, and so is every
/// later one until `stdin` ends: the client is told why instead of waiting.
///
/// # Errors
/// When `stdin` or `stdout` break, and [`StubError::Lost`] when the connection ended first.
pub async fn run<R, W, S>(mut stdin: R, mut stdout: W, connection: S) -> Result<(), StubError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite,
{
    let (from, to) = tokio::io::split(connection);
    let open = Mutex::new(Open::default());
    let (mut asked, mut told) = (Passing::default(), Passing::default());
    let mut ended = false;
    {
        let up = copy_up(&mut stdin, to, &open, &mut asked);
        let down = copy_down(from, &mut stdout, &open, &mut told);
        tokio::pin!(up, down);
        tokio::select! {
            biased;
            result = &mut down => result?,
            result = &mut up => {
                ended = matches!(result?, End::Source);
                down.await?;
            }
        }
    }
    let left = lock(&open).take();
    let lost = !ended || !left.is_empty();
    if told.is_within() {
        write(&mut stdout, b"\n").await?;
    }
    for id in left {
        write(&mut stdout, &error_frame(Some(&id), &refusal(LOST))).await?;
    }
    if !ended {
        refuse_from(&mut stdin, &mut stdout, &mut asked, GONE).await?;
    }
    if lost { Err(StubError::Lost) } else { Ok(()) }
}

/// Is an MCP server that answers every request with an error saying `reason`, until `stdin` ends: for when
/// there is no connection to be had.
///
/// # Errors
/// When `stdin` or `stdout` break.
pub async fn refuse<R, W>(mut stdin: R, mut stdout: W, reason: &str) -> Result<(), StubError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    refuse_from(&mut stdin, &mut stdout, &mut Passing::default(), reason).await
}

async fn refuse_from<R, W>(
    stdin: &mut R,
    stdout: &mut W,
    asked: &mut Passing,
    reason: &str,
) -> Result<(), StubError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut buffer = vec![0; PIECE];
    let mut open = Open::default();
    loop {
        let count = stdin.read(&mut buffer).await.map_err(StubError::Input)?;
        match count {
            0 => asked.finish(|id, method| open.sent(id, method)),
            _ => asked.feed(&buffer[..count], |id, method| open.sent(id, method)),
        }
        for id in open.take() {
            write(stdout, &error_frame(Some(&id), &refusal(reason))).await?;
        }
        if count == 0 {
            return Ok(());
        }
    }
}

fn refusal(text: &str) -> Refusal {
    Refusal::new(code::CONNECTION, text)
}

async fn write<W: AsyncWrite + Unpin>(stdout: &mut W, bytes: &[u8]) -> Result<(), StubError> {
    stdout.write_all(bytes).await.map_err(StubError::Output)?;
    stdout.flush().await.map_err(StubError::Output)
}

/// Copies the client's bytes to the relay. What was read is noted before it is written: an answer may come
/// while the rest of the piece still waits to be written.
async fn copy_up<R, S>(
    stdin: &mut R,
    mut to: WriteHalf<S>,
    open: &Mutex<Open>,
    asked: &mut Passing,
) -> Result<End, StubError>
where
    R: AsyncRead + Unpin,
    S: AsyncWrite,
{
    let mut buffer = vec![0; PIECE];
    loop {
        let count = stdin.read(&mut buffer).await.map_err(StubError::Input)?;
        if count == 0 {
            asked.finish(|id, method| lock(open).sent(id, method));
            // Ignored: the relay may be gone already; the other direction finds that out.
            let _ = to.shutdown().await;
            return Ok(End::Source);
        }
        asked.feed(&buffer[..count], |id, method| lock(open).sent(id, method));
        let written = to.write_all(&buffer[..count]).await;
        if written.is_err() || to.flush().await.is_err() {
            return Ok(End::Connection);
        }
    }
}

/// Copies the relay's bytes to the client until the connection ends or breaks.
async fn copy_down<W, S>(
    mut from: ReadHalf<S>,
    stdout: &mut W,
    open: &Mutex<Open>,
    told: &mut Passing,
) -> Result<(), StubError>
where
    W: AsyncWrite + Unpin,
    S: AsyncRead,
{
    let mut buffer = vec![0; PIECE];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        write(stdout, &buffer[..count]).await?;
        told.feed(&buffer[..count], |id, method| lock(open).answered(id, method));
    }
    Ok(())
}

fn lock(open: &Mutex<Open>) -> std::sync::MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}
