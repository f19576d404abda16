//! Speaks to the daemon: HTTP/1.1 over its unix socket, one connection a command.
//!
//! Runs in: client (tokio, one thread).

use std::path::{Path, PathBuf};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, UPGRADE};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::api::place::Place;
use crate::fault::{Fault, Kind};

/// A connection to the daemon.
#[derive(Debug)]
pub(super) struct Client {
    sender: http1::SendRequest<Full<Bytes>>,
}

/// Where the daemon is.
pub(super) fn place(directory: Option<&Path>) -> Result<Place, Fault> {
    Place::find(directory, &super::flags::home()?)
}

/// Runs a command's conversation with the daemon to its end.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Fault::chain(Kind::Host, &error))?;
    let done = runtime.block_on(work);
    // Threads that read the caller's input may never end; the process does.
    runtime.shutdown_background();
    done
}

fn lost(error: &dyn std::error::Error) -> Fault {
    let mut fault = Fault::chain(Kind::Host, error);
    fault.message = format!("client: lost the daemon: {}", fault.message);
    fault
}

/// A connection that ends before the first answer was most likely not admitted.
fn closed(error: &hyper::Error) -> Fault {
    lost(error).hint(
        "a daemon serves its own user's processes in its own user namespace alone, and says nothing to others",
    )
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When no daemon listens.
    pub(super) async fn connect(place: &Place) -> Result<Self, Fault> {
        let path: PathBuf = place.socket();
        let stream = UnixStream::connect(&path).await.map_err(|_| {
            Fault::new(Kind::Host, format!("client: no daemon listens at {}", path.display()))
                .hint("`sandboxd up` starts one with the first session, `sandboxd serve` in the foreground")
        })?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| lost(&error))?;
        tokio::spawn(connection.with_upgrades());
        Ok(Self { sender })
    }

    /// Asks, and reads the answer's JSON.
    pub(super) async fn ask<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Fault> {
        let response = self.send(request(method, path, body, None)?).await?;
        let bytes = whole(response).await?;
        serde_json::from_slice(&bytes).map_err(|error| lost(&error))
    }

    /// Asks for something that has no answer but that it was done.
    pub(super) async fn order(&mut self, method: Method, path: &str) -> Result<(), Fault> {
        self.send(request(method, path, &(), None)?).await.map(drop)
    }

    /// Asks for bytes that come for as long as there are some.
    pub(super) async fn stream(&mut self, path: &str) -> Result<Incoming, Fault> {
        self.send(request(Method::GET, path, &(), None)?).await.map(Response::into_body)
    }

    /// Turns the connection into one of another protocol.
    pub(super) async fn upgrade(
        mut self,
        path: &str,
        body: &impl Serialize,
        protocol: &str,
    ) -> Result<UnixStream, Fault> {
        let response = self.send(request(Method::POST, path, body, Some(protocol))?).await?;
        let upgraded = hyper::upgrade::on(response).await.map_err(|error| lost(&error))?;
        let parts = upgraded.downcast::<TokioIo<UnixStream>>();
        let parts = parts
            .map_err(|_| Fault::new(Kind::Internal, "client: cannot take the connection over"))?;
        Ok(parts.io.into_inner())
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Fault> {
        let response = self.sender.send_request(request).await.map_err(|error| closed(&error))?;
        if response.status().is_success() || response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        let status = response.status();
        let bytes = whole(response).await?;
        Err(serde_json::from_slice(&bytes).unwrap_or_else(|_| {
            Fault::new(Kind::Internal, format!("client: the daemon answered {status}"))
        }))
    }
}

fn request(
    method: Method,
    path: &str,
    body: &impl Serialize,
    protocol: Option<&str>,
) -> Result<Request<Full<Bytes>>, Fault> {
    let internal = |error: &dyn std::error::Error| Fault::chain(Kind::Internal, error);
    let body = if method == Method::POST {
        Bytes::from(serde_json::to_vec(body).map_err(|error| internal(&error))?)
    } else {
        Bytes::new()
    };
    let mut builder = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "sandboxd")
        .header(CONTENT_TYPE, "application/json");
    if let Some(protocol) = protocol {
        builder = builder.header(CONNECTION, "upgrade").header(UPGRADE, protocol);
    }
    builder.body(Full::new(body)).map_err(|error| internal(&error))
}

async fn whole(response: Response<Incoming>) -> Result<Bytes, Fault> {
    let collected = response.into_body().collect().await;
    collected.map(http_body_util::Collected::to_bytes).map_err(|error| lost(&error))
}
