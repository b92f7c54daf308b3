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
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};

/// How many connections are served at once.
const CONNECTIONS_MAX: usize = 32;
/// How long a client may take to send a request, and to read its answer.
const CLIENT_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a profile may take: a little longer than the longest one that may be requested.
const PROFILE_TIME_MAX: Duration = debug::PROFILE_TIME_MAX.saturating_add(CLIENT_TIME_MAX);
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
            serve_connection(stream, &profiler, CLIENT_TIME_MAX).await;
            drop(permit);
        });
    }
}

/// Serves a connection until the client closes it, or takes longer than `client_time` to send a request or to read its answer.
async fn serve_connection(stream: UnixStream, profiler: &Arc<dyn Profiler>, client_time: Duration) {
    let (limit, limits) = watch::channel(client_time);
    let service = service_fn(|request: Request<Incoming>| {
        let limit = &limit;
        async move {
            // Only profiles take time.
            if request.uri().path().starts_with("/debug/pprof/") {
                limit.send_replace(PROFILE_TIME_MAX);
            }
            let answered = answer_request(profiler, request).await;
            limit.send_replace(client_time);
            answered
        }
    });
    let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        _ = served => {}
        () = expired(limits) => {}
    }
}

/// Returns once the limit that was set last has passed since it was set.
async fn expired(mut limits: watch::Receiver<Duration>) {
    loop {
        let limit = *limits.borrow_and_update();
        if !matches!(tokio::time::timeout(limit, limits.changed()).await, Ok(Ok(()))) {
            return;
        }
    }
}

async fn answer_request(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::BoxFuture;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    struct Slow;

    impl Profiler for Slow {
        fn names(&self) -> &'static [(&'static str, &'static str)] {
            &[]
        }

        fn take<'a>(&'a self, _: &'a str, _: Duration) -> BoxFuture<'a, Option<Result<Vec<u8>, String>>> {
            Box::pin(async {
                tokio::time::sleep(3 * PATIENCE).await;
                Some(Ok(b"profile".to_vec()))
            })
        }
    }

    /// How long clients may take in these tests.
    const PATIENCE: Duration = Duration::from_millis(100);

    /// What a client receives that sends this and then waits.
    async fn received(sent: &str) -> String {
        let (mut client, server) = UnixStream::pair().unwrap();
        let profiler: Arc<dyn Profiler> = Arc::new(Slow);
        let served = tokio::spawn(async move { serve_connection(server, &profiler, PATIENCE).await });
        client.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        served.await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_client_that_waits_is_disconnected() {
        for (sent, code) in [
            ("", ""),
            ("GET /debug/flags HT", ""),
            ("PUT /debug/flags/v HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n", ""),
            ("GET /debug/flags HTTP/1.1\r\nhost: x\r\n\r\n", "HTTP/1.1 200"),
        ] {
            let answer = received(sent).await;
            assert_eq!(answer.get(..12).unwrap_or(""), code, "{sent}");
        }
    }

    #[tokio::test]
    async fn a_long_profile_is_answered() {
        let answer = received("GET /debug/pprof/profile?seconds=600 HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("profile"), "{answer}");
    }
}
