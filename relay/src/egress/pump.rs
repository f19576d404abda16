//! Carries the bytes of one connection, both ways.
//!
//! Each direction reads what is there and writes it before it reads again, so a slow reader holds up its own
//! writer and nothing is queued here. An end of one direction is passed on and the other goes on. There is
//! no limit on silence. A direction that waits to read holds no buffer.
//!
//! Runs in: host (tokio; inside a flow's task).

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::task::consume_budget;

/// How much one read takes at most: enough that a system call costs little for each byte, and little enough
/// to stay in a processor's own cache between the read and the write.
const BUFFER: usize = 128 * 1024;
/// How many buffers are kept for the next connection that has something to say.
const MAX_SPARE: usize = 4;

/// Seconds of silence before the kernel asks whether a peer still lives, seconds between two askings, and
/// how many stay unanswered before the connection is given up.
const KEEPALIVE: (u32, u32, u32) = (60, 15, 4);

/// Lends buffers to the directions that move bytes right now.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Vec<Vec<u8>>>);

impl Buffers {
    fn take(&self) -> Vec<u8> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| Vec::with_capacity(BUFFER))
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MAX_SPARE {
            spare.push(buffer);
        }
    }
}

/// How many bytes went each way so far.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// From the client to the other side.
    pub(super) up: AtomicU64,
    /// From the other side to the client.
    pub(super) down: AtomicU64,
}

/// Which side gave the connection up before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    Client,
    Server,
}

/// Prepares both ends: no delay of small writes (what the client wanted delayed it has delayed itself), a
/// dead peer is noticed, and closing means giving up until [`finish`] says otherwise. So whatever ends this
/// process, neither side takes a broken connection for a complete one.
///
/// # Errors
/// When the kernel refuses an option.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (idle, interval, count) = KEEPALIVE;
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &idle)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &interval)?;
    setsockopt(stream, sockopt::TcpKeepCount, &count)?;
    abort_on_close(stream)
}

/// Makes closing a socket send RST instead of FIN.
///
/// # Errors
/// When the kernel refuses it.
pub(super) fn abort_on_close(stream: &TcpStream) -> io::Result<()> {
    linger(stream, true)
}

fn linger(stream: &TcpStream, abort: bool) -> io::Result<()> {
    let linger = nix::libc::linger { l_onoff: i32::from(abort), l_linger: 0 };
    Ok(setsockopt(stream, sockopt::Linger, &linger)?)
}

/// Copies until both directions have ended, or one side broke off.
///
/// This is the one place that moves bytes: a kernel that can move them itself would be asked here.
///
/// # Errors
/// Which side broke off. The caller closes both, and both are told by RST.
pub(super) async fn pump(
    client: &mut TcpStream,
    server: &mut TcpStream,
    counters: &Counters,
    buffers: &Buffers,
) -> Result<(), Broken> {
    {
        let (client_reads, client_writes) = client.split();
        let (server_reads, server_writes) = server.split();
        let up = Direction {
            from: client_reads,
            to: server_writes,
            sides: (Broken::Client, Broken::Server),
            count: &counters.up,
        };
        let down = Direction {
            from: server_reads,
            to: client_writes,
            sides: (Broken::Server, Broken::Client),
            count: &counters.down,
        };
        tokio::try_join!(up.run(buffers), down.run(buffers))?;
    }
    finish(client).map_err(|_| Broken::Client)?;
    finish(server).map_err(|_| Broken::Server)
}

/// Lets a connection end in order: what is still under way is delivered after the close.
fn finish(stream: &TcpStream) -> io::Result<()> {
    linger(stream, false)
}

struct Direction<'a> {
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    sides: (Broken, Broken),
    count: &'a AtomicU64,
}

impl Direction<'_> {
    async fn run(mut self, buffers: &Buffers) -> Result<(), Broken> {
        let (reader, writer) = self.sides;
        loop {
            // A task may do so much before it lets others run. Waiting to be readable does not count, and a
            // read beyond that finds nothing, so that without this line the two would spin.
            consume_budget().await;
            self.from.readable().await.map_err(|_| reader)?;
            let mut buffer = buffers.take();
            let turn = self.turn(&mut buffer).await;
            buffers.give_back(buffer);
            if turn? == Turn::End {
                return self.to.shutdown().await.map_err(|_| writer);
            }
        }
    }

    /// Moves what is there, and returns when there is no more.
    async fn turn(&mut self, buffer: &mut Vec<u8>) -> Result<Turn, Broken> {
        let (reader, writer) = self.sides;
        loop {
            buffer.clear();
            match read_now(&mut self.from, buffer).await.map_err(|_| reader)? {
                None => return Ok(Turn::Emptied),
                Some(0) => return Ok(Turn::End),
                Some(count) => {
                    self.to.write_all(buffer).await.map_err(|_| writer)?;
                    self.count.fetch_add(count as u64, Ordering::Relaxed);
                }
            }
            // tokio knows that a read which did not fill the buffer has emptied the socket, and makes no
            // system call until the kernel says that there is more.
        }
    }
}

/// What a turn came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Emptied,
    End,
}

/// Reads what is there; nothing when there is nothing yet.
async fn read_now(from: &mut ReadHalf<'_>, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let mut read = pin!(from.read_buf(buffer));
    poll_fn(|context| match read.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(result.map(Some)),
        Poll::Pending => Poll::Ready(Ok(None)),
    })
    .await
}

#[cfg(test)]
#[path = "pump_tests.rs"]
mod tests;
