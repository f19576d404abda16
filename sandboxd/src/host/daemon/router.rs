//! The routes of the API (docs/API.md).
//!
//! Runs in: host (tokio).

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use policy::ServerName;
use relay::egress::Explanation;
use serde::Deserialize;
use tokio::net::UnixStream;

use super::registry::Registry;
use super::{exec, logs};
use crate::api::{EXEC, ExecRequest, MCP, SessionView, UpRequest};
use crate::fault::{Fault, Kind};

/// A request's body may be this long: a session file with everything in it.
const BODY_LIMIT: usize = 4 * 1024 * 1024;

type Shared = State<Arc<Registry>>;

pub(super) fn router(registry: Arc<Registry>) -> Router {
    Router::new()
        .route("/v1/version", get(version))
        .route("/v1/sessions", get(list).post(up))
        .route("/v1/sessions/{key}", get(inspect).delete(remove))
        .route("/v1/sessions/{key}/exec", post(start_exec))
        .route("/v1/sessions/{key}/logs", get(read_log))
        .route("/v1/sessions/{key}/egress/log", get(read_egress))
        .route("/v1/sessions/{key}/egress/explain", get(explain_egress))
        .route("/v1/sessions/{key}/mcp/{server}", post(start_mcp))
        .with_state(registry)
}

/// A fault as an answer.
impl IntoResponse for Fault {
    fn into_response(self) -> axum::response::Response {
        let status = match self.kind {
            Kind::User => StatusCode::BAD_REQUEST,
            Kind::Policy => StatusCode::FORBIDDEN,
            Kind::Host => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        tracing::info!(id = self.id, message = self.message, "request refused");
        (status, Json(self)).into_response()
    }
}

async fn version() -> Json<serde_json::Value> {
    Json(serde_json::json!({ "version": env!("CARGO_PKG_VERSION"), "pid": std::process::id() }))
}

async fn list(State(registry): Shared) -> Json<Vec<SessionView>> {
    Json(registry.list())
}

async fn up(State(registry): Shared, body: Body) -> Result<Json<SessionView>, Fault> {
    let request: UpRequest = parse(body).await?;
    // A client that goes away does not leave half a session: this runs to its end all the same.
    let made = tokio::spawn(async move { registry.up(request).await }).await;
    made.map_err(|error| Fault::chain(Kind::Internal, &error))?.map(Json)
}

async fn inspect(
    State(registry): Shared,
    Path(key): Path<String>,
) -> Result<Json<SessionView>, Fault> {
    if let Some(view) =
        registry.list().into_iter().find(|view| view.name.as_str() == key || view.id == key)
    {
        return Ok(Json(view));
    }
    registry.find(&key).map(|live| Json(live.view()))
}

async fn remove(State(registry): Shared, Path(key): Path<String>) -> Result<StatusCode, Fault> {
    let removed = tokio::spawn(async move { registry.remove(&key).await }).await;
    removed.map_err(|error| Fault::chain(Kind::Internal, &error))??;
    Ok(StatusCode::NO_CONTENT)
}

async fn parse<T: serde::de::DeserializeOwned>(body: Body) -> Result<T, Fault> {
    let bytes = axum::body::to_bytes(body, BODY_LIMIT).await;
    let bytes = bytes.map_err(|error| Fault::chain(Kind::User, &error))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Fault::new(Kind::User, format!("host: cannot understand the request: {error}"))
    })
}

/// Which log, and whether to wait for more.
#[derive(Debug, Deserialize)]
struct LogQuery {
    server: Option<ServerName>,
    #[serde(default)]
    follow: bool,
}

async fn read_log(
    State(registry): Shared,
    Path(key): Path<String>,
    Query(query): Query<LogQuery>,
) -> Result<Response<Body>, Fault> {
    let (path, live) = logs::find(&registry, &key, query.server.as_ref())?;
    let body = logs::body(path, live.filter(|_| query.follow));
    Ok(Response::new(body))
}

async fn read_egress(
    State(registry): Shared,
    Path(key): Path<String>,
    Query(query): Query<LogQuery>,
) -> Result<Response<Body>, Fault> {
    let (path, live) = logs::find(&registry, &key, None)?;
    let body = logs::body(path.with_file_name(logs::EGRESS), live.filter(|_| query.follow));
    Ok(Response::new(body))
}

/// What is to be explained.
#[derive(Debug, Deserialize)]
struct ExplainQuery {
    host: String,
    port: u16,
    server: Option<ServerName>,
}

async fn explain_egress(
    State(registry): Shared,
    Path(key): Path<String>,
    Query(query): Query<ExplainQuery>,
) -> Result<Json<Explanation>, Fault> {
    let live = registry.find(&key)?;
    live.explain(query.server.as_ref(), &query.host, query.port).map(Json)
}

async fn start_exec(
    State(registry): Shared,
    Path(key): Path<String>,
    mut request: Request<Body>,
) -> Result<Response<Body>, Fault> {
    let live = registry.find(&key)?;
    let upgrade = upgrade(&mut request, EXEC)?;
    let wanted: ExecRequest = parse(request.into_body()).await?;
    if wanted.argv.is_empty() || wanted.argv.iter().any(|word| word.contains('\0')) {
        let message = "host: expected a command, whose words have no NUL in them";
        return Err(Fault::new(Kind::User, message).field("argv"));
    }
    tokio::spawn(async move {
        let Some(stream) = upgraded(upgrade).await else { return };
        // A client that is gone needs no answer.
        if let Err(error) = exec::serve(live, wanted, stream).await {
            tracing::debug!(%error, "exec connection lost");
        }
    });
    switching(EXEC)
}

async fn start_mcp(
    State(registry): Shared,
    Path((key, server)): Path<(String, String)>,
    mut request: Request<Body>,
) -> Result<Response<Body>, Fault> {
    let live = registry.find(&key)?;
    let unknown = || {
        let known: Vec<_> = live.server_names().map(ToString::to_string).collect();
        Fault::new(Kind::User, format!("host: the session {key} has no MCP server {server:?}"))
            .hint(format!("its servers: {}", known.join(", ")))
    };
    let name: ServerName = server.parse().map_err(|_| unknown())?;
    let relay = live.server(&name).cloned().ok_or_else(unknown)?;
    let upgrade = upgrade(&mut request, MCP)?;
    tokio::spawn(async move {
        let Some(stream) = upgraded(upgrade).await else { return };
        if let Err(error) = relay.serve(stream).await {
            tracing::debug!(%error, "MCP connection lost");
        }
    });
    switching(MCP)
}

/// Checks that the client asks for the protocol, and takes the promise of the connection.
fn upgrade(request: &mut Request<Body>, protocol: &str) -> Result<OnUpgrade, Fault> {
    let asks = |headers: &HeaderMap| {
        headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes() == protocol.as_bytes())
    };
    let taken = request.extensions_mut().remove::<OnUpgrade>();
    taken.filter(|_| asks(request.headers())).ok_or_else(|| {
        Fault::new(Kind::User, format!("host: expected a connection upgrade to {protocol}"))
    })
}

fn switching(protocol: &str) -> Result<Response<Body>, Fault> {
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, protocol)
        .body(Body::empty())
        .map_err(|error| Fault::chain(Kind::Internal, &error))
}

/// Takes the plain socket out of the upgraded connection.
///
/// A client waits for the 101 before it sends: bytes that came with the request would have lost the
/// descriptors that rode along, so such a connection is dropped.
async fn upgraded(upgrade: OnUpgrade) -> Option<UnixStream> {
    let upgraded = upgrade.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<UnixStream>>().ok()?;
    parts.read_buf.is_empty().then(|| parts.io.into_inner())
}
