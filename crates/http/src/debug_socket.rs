//! `--debug-socket-path`: profiles and the log verbosity on a unix socket, without authentication. Who may connect is decided by
//! the permissions of the socket.

use crate::Body;
use crate::api::ApiResponse;
use crate::debug::{self, Profiler};
use crate::{query, respond};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::Semaphore;

/// How many connections are served at once.
const CONNECTIONS_MAX: usize = 32;
/// The pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Replaces the socket and serves it until the task ends. The error is kube-apiserver's.
pub async fn serve(path: &Path, profiler: Arc<dyn Profiler>) -> Result<(), String> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(format!("failed to remove ({}): {error}", path.display()));
        }
        _ => {}
    }
    let listener =
        UnixListener::bind(path).map_err(|error| format!("listen error ({}): {error}", path.display()))?;
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return Ok(()) };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let profiler = Arc::clone(&profiler);
        // The task ends with its connection.
        tokio::spawn(async move {
            let service = service_fn(|request| answer(&profiler, request));
            _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
            drop(permit);
        });
    }
}

async fn answer(
    profiler: &Arc<dyn Profiler>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let path = query::unescape(parts.uri.path(), false).unwrap_or_default();
    let answer = if path == "/debug/pprof/cmdline" {
        command_line()
    } else {
        let query = query::parse(parts.uri.query().unwrap_or(""));
        let request = debug::DebugRequest { method: parts.method.as_str(), path: &path, query: &query };
        let found = debug::serve(Some(profiler), &request, body).await;
        found.unwrap_or_else(|| respond::text(404, "404 page not found"))
    };
    let mut response = Response::new(answer.body);
    *response.status_mut() = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = answer.headers;
    Ok(response)
}

/// The arguments of the process, separated by zero bytes.
fn command_line() -> ApiResponse {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut answer = ApiResponse::new(200, "text/plain; charset=utf-8", words.join("\0"));
    answer.set_header("x-content-type-options", "nosniff");
    answer
}
