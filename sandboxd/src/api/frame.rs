//! The frames of an exec connection: kind, length, bytes (docs/API.md).
//!
//! Runs in: client, host.

use std::io;

use sandbox_sys::terminal::Size;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::fault::Fault;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Client: one byte, whose bits 0 to 2 say which of its streams ride along as descriptors.
    Start = 0,
    /// Client: bytes for the command.
    Input = 1,
    /// Client: no more of them.
    InputEnd = 2,
    /// Host: bytes of the command's output.
    Output = 3,
    /// Host: bytes of its error output.
    Error = 4,
    /// Client: the terminal's new size, rows and columns as two u16.
    Resize = 5,
    /// Client: a signal for the command, its number as one byte.
    Signal = 6,
    /// Host: how it ended, as JSON; the last frame.
    Exit = 7,
}

/// How a command ended, as the exit frame says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Exit {
    /// With this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// It was ended, for it ran longer than the caller allowed.
    TimedOut,
    /// It runs on without a caller: the process number inside.
    Detached(i32),
    /// It was not started.
    Fault(Fault),
}

/// A frame longer than this is refused; a sender cuts its bytes.
pub(crate) const FRAME_LIMIT: usize = 256 * 1024;

/// Writes one frame.
pub(crate) async fn write<W: AsyncWrite + Unpin>(
    to: &mut W,
    kind: FrameKind,
    bytes: &[u8],
) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut frame = Vec::with_capacity(5 + bytes.len());
    frame.push(kind as u8);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(bytes);
    to.write_all(&frame).await
}

/// Reads one frame into `buffer`; `None` when the other side has ended.
pub(crate) async fn read<R: AsyncRead + Unpin>(
    from: &mut R,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<FrameKind>> {
    let mut head = [0; 5];
    if from.read(&mut head[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[1..]).await?;
    let [kind, length @ ..] = head;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    let kind = kind_of(kind).filter(|_| length <= FRAME_LIMIT);
    let kind = kind.ok_or(io::ErrorKind::InvalidData)?;
    buffer.resize(length, 0);
    from.read_exact(buffer).await?;
    Ok(Some(kind))
}

fn kind_of(byte: u8) -> Option<FrameKind> {
    use FrameKind::{Error, Exit, Input, InputEnd, Output, Resize, Signal, Start};
    [Start, Input, InputEnd, Output, Error, Resize, Signal, Exit]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
}

/// Encodes a terminal's size.
pub(crate) fn encode_size(size: Size) -> [u8; 4] {
    let ([a, b], [c, d]) = (size.rows.to_be_bytes(), size.columns.to_be_bytes());
    [a, b, c, d]
}

/// Decodes a terminal's size.
pub(crate) fn decode_size(bytes: &[u8]) -> Option<Size> {
    let [a, b, c, d] = *bytes else { return None };
    Some(Size { rows: u16::from_be_bytes([a, b]), columns: u16::from_be_bytes([c, d]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_frame_comes_back_as_it_was_sent() {
        let (mut a, mut b) = tokio::io::duplex(64);
        write(&mut a, FrameKind::Output, b"bytes").await.unwrap();
        let mut buffer = Vec::new();
        assert_eq!(read(&mut b, &mut buffer).await.unwrap(), Some(FrameKind::Output));
        assert_eq!(buffer, b"bytes");
        drop(a);
        assert_eq!(read(&mut b, &mut buffer).await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_unknown_or_over_long_frame_is_refused() {
        for bytes in [[99_u8, 0, 0, 0, 0], [1, 0xff, 0xff, 0xff, 0xff]] {
            assert!(read(&mut &bytes[..], &mut Vec::new()).await.is_err(), "{bytes:?}");
        }
    }
}
