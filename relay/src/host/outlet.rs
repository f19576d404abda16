//! The writing end of a pipe or connection: written at once where it takes the bytes, queued where not.
//!
//! Whoever has a frame writes it from its own task, under the outlet's lock, so that a frame costs no hop
//! and two frames never mix. Only what the kernel does not take at once is copied into the queue, which
//! [`Outlet::run`] empties. Nothing here waits for a slow reader, so one slow client cannot hold up the
//! child's output, which everybody shares: its queue has a bound, and past it the outlet fails, which
//! disconnects that client. (Holding up the child instead would let one client that stopped reading stall
//! the answers, progress and deadlines of all others.)
//!
//! Runs in: host (tokio).

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::AsyncWrite;
use tokio::sync::Notify;

/// A queue that has grown beyond this gives its memory back once it is empty.
const KEPT: usize = 256 * 1024;
/// The most pieces given to the kernel in one write.
const PIECES: usize = 16;

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// Written or queued.
    Yes,
    /// The queue was over the bound; nothing of it was taken.
    Full,
    /// The outlet is closed or failed.
    Closed,
}

/// Why an outlet came to its end.
#[derive(Debug)]
pub(super) enum End {
    /// It was closed and everything was written.
    Closed,
    /// The other side does not read: the queue grew over its bound.
    Overflow,
    /// The other side takes no more.
    Broken(io::Error),
}

pub(super) struct Outlet {
    inner: Mutex<Inner>,
    queued: AtomicUsize,
    wake: Notify,
}

struct Inner {
    sink: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    queue: VecDeque<u8>,
    closing: bool,
    failed: Option<End>,
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").field("queued", &self.queued).finish_non_exhaustive()
    }
}

impl Outlet {
    pub(super) fn new(sink: impl AsyncWrite + Send + 'static) -> Self {
        let sink: Pin<Box<dyn AsyncWrite + Send>> = Box::pin(sink);
        let inner =
            Inner { sink: Some(sink), queue: VecDeque::new(), closing: false, failed: None };
        Self { inner: Mutex::new(inner), queued: AtomicUsize::new(0), wake: Notify::new() }
    }

    /// Writes one frame, given in pieces, unless more than `bound` bytes wait already.
    pub(super) fn send(&self, pieces: &[&[u8]], bound: usize) -> Sent {
        let mut inner = self.lock();
        if inner.closing || inner.failed.is_some() || inner.sink.is_none() {
            return Sent::Closed;
        }
        if inner.queue.len() > bound {
            return Sent::Full;
        }
        let mut written = 0;
        if inner.queue.is_empty() {
            match inner.write_now(pieces) {
                Ok(count) => written = count,
                Err(error) => {
                    inner.failed = Some(End::Broken(error));
                    self.wake.notify_one();
                    return Sent::Closed;
                }
            }
        }
        let before = inner.queue.len();
        inner.keep(pieces, written);
        self.queued.store(inner.queue.len(), Ordering::Relaxed);
        if before == 0 && !inner.queue.is_empty() {
            self.wake.notify_one();
        }
        Sent::Yes
    }

    /// Returns how many bytes wait.
    pub(super) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Takes no more frames; what waits is still written, then the other side sees the end.
    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.wake.notify_one();
    }

    /// Lets go of the pipe at once and returns what was never written to it.
    pub(super) fn halt(&self) -> Vec<u8> {
        let mut inner = self.lock();
        inner.closing = true;
        inner.sink = None;
        Vec::from(std::mem::take(&mut inner.queue))
    }

    /// Gives up: what waits is thrown away.
    pub(super) fn overflow(&self) {
        let mut inner = self.lock();
        inner.failed.get_or_insert(End::Overflow);
        self.wake.notify_one();
    }

    /// Asks whether the other side is gone altogether, which a writer learns only by writing: a write of
    /// nothing tells it and disturbs nobody.
    pub(super) fn probe(&self) {
        let mut inner = self.lock();
        if inner.queue.is_empty()
            && inner.failed.is_none()
            && let Err(error) = inner.probe_now()
        {
            inner.failed = Some(End::Broken(error));
            self.wake.notify_one();
        }
    }

    /// Writes what waits, until the outlet comes to its end. `emptied` is called after each time the queue
    /// ran empty.
    pub(super) async fn run(&self, mut emptied: impl FnMut()) -> End {
        loop {
            // A wake-up during a flush may bring a failure: `overflow` does not wait for the other side.
            let flushed = tokio::select! {
                biased;
                flushed = poll_fn(|cx| self.poll_flush(cx)) => flushed,
                () = self.wake.notified() => continue,
            };
            match flushed {
                Ok(false) => {}
                Ok(true) => emptied(),
                Err(end) => return end,
            }
            self.wake.notified().await;
        }
    }

    /// Writes what waits; ready with whether anything did once nothing waits any more.
    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<bool, End>> {
        let mut inner = self.lock();
        let mut wrote = false;
        loop {
            if let Some(end) = inner.failed.take() {
                inner.closing = true;
                inner.sink = None;
                return Poll::Ready(Err(end));
            }
            if inner.queue.is_empty() {
                break;
            }
            let result = ready!(inner.poll_queue(cx));
            self.queued.store(inner.queue.len(), Ordering::Relaxed);
            wrote = true;
            if let Err(error) = result {
                inner.failed = Some(End::Broken(error));
            }
        }
        if inner.queue.capacity() > KEPT {
            inner.queue = VecDeque::new();
        }
        if !inner.closing {
            return Poll::Ready(Ok(wrote));
        }
        if let Some(sink) = &mut inner.sink {
            // Ignored: the other side may be gone already, and then sees no end either.
            let _ = ready!(sink.as_mut().poll_shutdown(cx));
        }
        inner.sink = None;
        Poll::Ready(Err(End::Closed))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Writes as much as is taken without waiting.
    fn write_now(&mut self, pieces: &[&[u8]]) -> io::Result<usize> {
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        // `run` polls again with its own waker before it waits, so none is needed here.
        let mut cx = Context::from_waker(Waker::noop());
        let mut written = 0;
        let Some(sink) = &mut self.sink else { return Ok(total) };
        while written < total {
            let mut slices = [IoSlice::new(&[]); PIECES];
            let count = gather(pieces, written, &mut slices);
            match sink.as_mut().poll_write_vectored(&mut cx, &slices[..count]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(more)) => written += more,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        Ok(written)
    }

    fn probe_now(&mut self) -> io::Result<()> {
        let mut cx = Context::from_waker(Waker::noop());
        match &mut self.sink {
            Some(sink) => match sink.as_mut().poll_write(&mut cx, &[]) {
                Poll::Ready(Err(error)) => Err(error),
                Poll::Ready(Ok(_)) | Poll::Pending => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Queues the rest of a frame.
    fn keep(&mut self, pieces: &[&[u8]], mut written: usize) {
        for piece in pieces {
            let skip = written.min(piece.len());
            written -= skip;
            self.queue.extend(&piece[skip..]);
        }
    }

    fn poll_queue(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(sink) = &mut self.sink else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let (front, _) = self.queue.as_slices();
        match ready!(sink.as_mut().poll_write(cx, front)) {
            Ok(0) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => {
                self.queue.drain(..count);
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

/// Fills `slices` with the pieces from byte `skip` on; returns how many.
fn gather<'a>(pieces: &[&'a [u8]], mut skip: usize, slices: &mut [IoSlice<'a>]) -> usize {
    let mut count = 0;
    for piece in pieces {
        let passed = skip.min(piece.len());
        skip -= passed;
        if passed < piece.len() && count < slices.len() {
            slices[count] = IoSlice::new(&piece[passed..]);
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn frames_arrive_whole_and_in_order_through_a_narrow_pipe() {
        let (near, mut far) = tokio::io::duplex(7);
        let outlet = Arc::new(Outlet::new(near));
        let running = {
            let outlet = outlet.clone();
            tokio::spawn(async move { outlet.run(|| ()).await })
        };
        for number in 0..100 {
            let text = format!("frame {number}");
            assert_eq!(outlet.send(&[b"<", text.as_bytes(), b">"], 1 << 20), Sent::Yes);
        }
        outlet.close();
        assert_eq!(outlet.send(&[b"late"], 0), Sent::Closed);
        let mut all = String::new();
        far.read_to_string(&mut all).await.unwrap();
        let expected: String = (0..100).map(|number| format!("<frame {number}>")).collect();
        assert_eq!(all, expected);
        assert!(matches!(running.await.unwrap(), End::Closed));
    }

    #[tokio::test]
    async fn a_bound_is_kept_and_a_reader_that_left_is_noticed_without_a_frame() {
        let (near, far) = tokio::net::UnixStream::pair().unwrap();
        let outlet = Outlet::new(near);
        let frame = vec![b'x'; 1 << 20];
        assert_eq!(outlet.send(&[&frame], 0), Sent::Yes);
        assert_eq!(outlet.send(&[&frame], 1_000), Sent::Full);
        drop(far);
        let end = tokio::time::timeout(Duration::from_secs(5), outlet.run(|| ())).await.unwrap();
        assert!(matches!(end, End::Broken(_)), "{end:?}");

        let (near, far) = tokio::net::UnixStream::pair().unwrap();
        let outlet = Outlet::new(near);
        outlet.probe();
        let quiet = tokio::time::timeout(Duration::from_millis(20), outlet.run(|| ())).await;
        assert!(quiet.is_err());
        drop(far);
        outlet.probe();
        let end = tokio::time::timeout(Duration::from_secs(5), outlet.run(|| ())).await.unwrap();
        assert!(matches!(end, End::Broken(_)), "{end:?}");
    }

    #[tokio::test]
    async fn half_of_a_connection_closed_by_its_client_is_no_end() {
        let (near, far) = tokio::net::UnixStream::pair().unwrap();
        let outlet = Outlet::new(near);
        let mut far = far;
        tokio::io::AsyncWriteExt::shutdown(&mut far).await.unwrap();
        outlet.probe();
        assert_eq!(outlet.send(&[b"still here"], 0), Sent::Yes);
        let mut bytes = [0; 10];
        far.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"still here");
    }
}
