//! Reads a log for a client, and goes on reading while the session lives.
//!
//! Runs in: host (tokio).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use policy::ServerName;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use super::live::{Live, log_path};
use super::registry::Registry;
use crate::fault::{Fault, Kind};

/// The record of what went out and what was refused.
pub(super) const EGRESS: &str = "egress.jsonl";

/// Finds a log; that of a lost session too.
pub(super) fn find(
    registry: &Registry,
    key: &str,
    server: Option<&ServerName>,
) -> Result<(PathBuf, Option<Arc<Live>>), Fault> {
    let live = match registry.find(key) {
        Ok(live) => live,
        Err(fault) => {
            let lost = registry
                .list()
                .into_iter()
                .find(|view| view.name.as_str() == key || view.id == key);
            let lost = lost.ok_or(fault)?;
            return Ok((log_path(&registry.sessions().join(lost.id), server), None));
        }
    };
    match server {
        Some(name) if live.server(name).is_none() => {
            let known: Vec<_> = live.server_names().map(ToString::to_string).collect();
            Err(Fault::new(Kind::User, format!("host: the session {key} has no MCP server {name}"))
                .hint(format!("its servers: {}", known.join(", "))))
        }
        server => Ok((live.log_path(server), Some(live))),
    }
}

/// Streams a log; with a session, until that ends.
pub(super) fn body(path: PathBuf, follow: Option<Arc<Live>>) -> Body {
    let (to, from) = mpsc::channel::<Result<Bytes, std::io::Error>>(4);
    tokio::spawn(async move {
        // Ignored: a client that is gone needs no log, and a log that is not there is empty.
        let _ = copy(path, follow, to).await;
    });
    Body::new(http_body_util::StreamBody::new(Frames(from)))
}

/// How often a followed log is looked at.
const PACE: Duration = Duration::from_millis(100);

async fn copy(
    path: PathBuf,
    follow: Option<Arc<Live>>,
    to: mpsc::Sender<Result<Bytes, std::io::Error>>,
) -> Option<()> {
    // What was there before the log was rotated comes first.
    let mut rotated = path.clone().into_os_string();
    rotated.push(".1");
    for old in [PathBuf::from(rotated)] {
        if let Ok(bytes) = tokio::fs::read(old).await {
            to.send(Ok(bytes.into())).await.ok()?;
        }
    }
    let mut offset = 0;
    loop {
        offset = copy_from(&path, offset, &to).await?;
        let live = follow.as_ref()?;
        tokio::select! {
            () = live.session.ended() => {
                copy_from(&path, offset, &to).await?;
                return None;
            }
            () = to.closed() => return None,
            () = tokio::time::sleep(PACE) => {}
        }
    }
}

/// Sends what a file has beyond an offset, and returns the new one; a shorter file was rotated.
async fn copy_from(
    path: &std::path::Path,
    offset: u64,
    to: &mpsc::Sender<Result<Bytes, std::io::Error>>,
) -> Option<u64> {
    use tokio::io::AsyncSeekExt;
    let Ok(mut file) = tokio::fs::File::open(path).await else { return Some(offset) };
    let length = file.metadata().await.ok()?.len();
    let mut offset = if length < offset { 0 } else { offset };
    file.seek(std::io::SeekFrom::Start(offset)).await.ok()?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut buffer).await.ok()?;
        if count == 0 {
            return Some(offset);
        }
        offset += count as u64;
        to.send(Ok(Bytes::copy_from_slice(&buffer[..count]))).await.ok()?;
    }
}

struct Frames(mpsc::Receiver<Result<Bytes, std::io::Error>>);

impl futures_core::Stream for Frames {
    type Item = Result<hyper::body::Frame<Bytes>, std::io::Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|item| item.map(|bytes| bytes.map(hyper::body::Frame::data)))
    }
}
