//! The stand-in for etcd, which test frameworks start beside a kube-apiserver and check for health. It stores nothing;
//! Pintle under the name kube-apiserver detects it and stores its data in memory.

use crate::etcd::EtcdSettings;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io::Write;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

const HELP: &str = "\
Usage:
  etcd [flags]

Pintle under the name of etcd, for tests: it answers /health and stores nothing. A kube-apiserver that is Pintle, too, and is
pointed at it keeps its data in memory. The flags of etcd are accepted; these matter or are looked for:

  --advertise-client-urls 'http://localhost:2379'
    Accepted.
  --data-dir 'default.etcd'
    Accepted; nothing is written there.
  --listen-client-urls 'http://localhost:2379'
    Comma-separated URLs to listen on, with http only.
  --listen-peer-urls 'http://localhost:2380'
    Accepted; there are no peers.
  --unsafe-no-fsync 'false'
    Accepted.
  --version
    Print the version and leave.
";

/// The version of `/version` and `--version`, which tools compare.
const VERSION: &str = "3.6.6";
const DEFAULT_CLIENT_URLS: &str = "http://localhost:2379";
/// The path and the text by which the stand-in identifies itself.
const MARK_PATH: &str = "/pintle/v1/etcd-stand-in";
const MARK: &str = r#"{"program":"pintle","storage":"memory"}"#;
/// The maximum number of concurrent connections; more wait.
const CONNECTIONS_MAX: usize = 256;
/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The smallest buffer that hyper allows.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// The time-out and the size limit of the request that determines whether a server is a stand-in.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: usize = 1 << 10;
/// The interval of attempts to reach an etcd that does not listen yet.
const TRY_EVERY: Duration = Duration::from_millis(50);
/// How often the server logs that it waits for etcd.
const NOTICE_EVERY: Duration = Duration::from_secs(5);

/// Why the stand-in cannot run, in one line.
#[derive(Debug, thiserror::Error)]
enum StandInError {
    #[error("--listen-client-urls: {0:?} must be http://host:port")]
    Url(String),
    #[error("cannot listen on {0}: {1}")]
    Listen(String, std::io::Error),
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
}

/// Runs the program until a signal.
pub(crate) fn run(args: Vec<String>) -> ExitCode {
    let asks_for = |names: [&str; 3]| args.iter().any(|arg| names.contains(&arg.as_str()));
    if asks_for(["--help", "-h", "-help"]) {
        return crate::commands::print(HELP);
    }
    if asks_for(["--version", "-version", "--version=true"]) {
        return crate::commands::print(&format!("etcd Version: {VERSION}\nPintle's stand-in\n"));
    }
    match serve_until_signal(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            _ = writeln!(std::io::stderr(), "etcd (pintle): {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve_until_signal(args: &[String]) -> Result<(), StandInError> {
    let urls = flag(args, "listen-client-urls").unwrap_or(DEFAULT_CLIENT_URLS);
    let places: Result<Vec<String>, _> = urls.split(',').map(place).collect();
    let places = places?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StandInError::Runtime)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(StandInError::Runtime)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(StandInError::Runtime)?;
        let places_free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        for place in places {
            let listening = TcpListener::bind(&place).await;
            let listener = listening.map_err(|error| StandInError::Listen(place.clone(), error))?;
            // The task ends with the runtime.
            tokio::spawn(accept_connections(listener, places_free.clone()));
        }
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}

/// The value of a flag: the last one given, as `--name=value` or `--name value`, with one dash or two.
fn flag<'a>(args: &'a [String], name: &str) -> Option<&'a str> {
    let mut found = None;
    for (index, arg) in args.iter().enumerate() {
        let Some(rest) = arg.strip_prefix('-').map(|rest| rest.strip_prefix('-').unwrap_or(rest)) else {
            continue;
        };
        match rest.strip_prefix(name) {
            Some("") => found = args.get(index.saturating_add(1)).map(String::as_str),
            Some(value) if value.starts_with('=') => found = value.strip_prefix('='),
            _ => {}
        }
    }
    found
}

/// `host:port` of a URL.
fn place(url: &str) -> Result<String, StandInError> {
    let bad = || StandInError::Url(url.to_string());
    let uri: http::Uri = url.trim().parse().map_err(|_| bad())?;
    let is_root = matches!(uri.path(), "" | "/") && uri.query().is_none();
    match (uri.scheme_str(), uri.host(), uri.port_u16()) {
        (Some("http"), Some(host), Some(port)) if is_root => Ok(format!("{host}:{port}")),
        _ => Err(bad()),
    }
}

async fn accept_connections(listener: TcpListener, places_free: Arc<Semaphore>) {
    loop {
        let Ok(place) = places_free.clone().acquire_owned().await else { return };
        // The error concerns one client, or is temporary (no descriptors).
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(TRY_EVERY).await;
            continue;
        };
        tokio::spawn(async move {
            let mut http = server::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
            // Errors of a client's connection are ignored.
            _ = http.serve_connection(TokioIo::new(stream), service_fn(answer_request)).await;
            drop(place);
        });
    }
}

async fn answer_request(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, path) => match known_answer(path) {
            Some(text) => (StatusCode::OK, text),
            None => (StatusCode::NOT_FOUND, "404 page not found\n".to_string()),
        },
        _ => (StatusCode::NOT_IMPLEMENTED, "Pintle's stand-in for etcd stores nothing\n".to_string()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    Ok(response)
}

fn known_answer(path: &str) -> Option<String> {
    match path {
        "/health" => Some(r#"{"health":"true","reason":""}"#.to_string()),
        "/livez" | "/readyz" => Some("ok\n".to_string()),
        "/version" => {
            Some(format!(r#"{{"etcdserver":"{VERSION}","etcdcluster":"3.6.0","storage":"3.6.0"}}"#))
        }
        MARK_PATH => Some(MARK.to_string()),
        _ => None,
    }
}

/// Whether the etcd of `settings` is a stand-in. Only a single endpoint on this machine without TLS can be one: a server
/// with an etcd elsewhere must never store its data in memory because of an answer from that address. Waits until
/// something listens there; anything that does not identify itself at once is treated as an etcd.
pub(crate) async fn is_at(settings: &EtcdSettings) -> bool {
    let Some((host, port)) = settings.only_plain_endpoint() else { return false };
    if !is_loopback(host) {
        return false;
    }
    let mut notice_at = tokio::time::Instant::now();
    loop {
        match TcpStream::connect((host, port)).await {
            Ok(stream) => {
                let said = tokio::time::timeout(ASK_TIMEOUT, is_stand_in(stream, host, port)).await;
                return matches!(said, Ok(Some(true)));
            }
            Err(error) if notice_at.elapsed() >= NOTICE_EVERY => {
                tracing::warn!(%error, "waiting for etcd at {host}:{port}");
                notice_at = tokio::time::Instant::now();
            }
            Err(_) => {}
        }
        tokio::time::sleep(TRY_EVERY).await;
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Asks the server of a connection whether it is a stand-in; `None` if it does not answer with HTTP.
async fn is_stand_in(stream: TcpStream, host: &str, port: u16) -> Option<bool> {
    let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await.ok()?;
    let exchange = async {
        let request = Request::get(MARK_PATH).header("host", format!("{host}:{port}"));
        let response = sender.send_request(request.body(Empty::<Bytes>::new()).ok()?).await.ok()?;
        let is_good = response.status() == StatusCode::OK;
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.ok()?.to_bytes();
        Some(is_good && body == MARK.as_bytes())
    };
    tokio::select! {
        said = exchange => said,
        // The connection ended; the answer was read before that.
        Err(_) = connection => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_the_forms_of_go() {
        let args: Vec<String> =
            ["--data-dir=/d", "-listen-client-urls", "http://a:1", "--listen-client-urls-x=no", "--x"]
                .map(str::to_string)
                .to_vec();
        for (name, want) in
            [("data-dir", Some("/d")), ("listen-client-urls", Some("http://a:1")), ("x", None), ("y", None)]
        {
            assert_eq!(flag(&args, name), want, "{name}");
        }
    }

    #[test]
    fn only_plain_urls_can_be_listened_on() {
        for (url, want) in [
            ("http://127.0.0.1:2379", Some("127.0.0.1:2379")),
            (" http://[::1]:2379/", Some("[::1]:2379")),
            ("https://127.0.0.1:2379", None),
            ("http://127.0.0.1", None),
            ("unix://x", None),
            ("", None),
        ] {
            assert_eq!(place(url).ok().as_deref(), want, "{url}");
        }
    }

    #[test]
    fn only_this_machine_can_have_a_stand_in() {
        for (host, want) in [
            ("localhost", true),
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("10.0.0.1", false),
            ("etcd", false),
            ("localhost.example.com", false),
        ] {
            assert_eq!(is_loopback(host), want, "{host}");
        }
    }

    /// The result of `ask` for a server that answers every request with `text`.
    async fn asked(text: &'static str) -> Option<bool> {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 1024];
            _ = stream.read(&mut head).await;
            _ = stream.write_all(text.as_bytes()).await;
        });
        is_stand_in(TcpStream::connect(address).await.unwrap(), "127.0.0.1", address.port()).await
    }

    #[tokio::test]
    async fn what_says_something_else_is_no_stand_in() {
        let long = "HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n";
        for (text, want) in [
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 39\r\n\r\n{\"program\":\"pintle\",\"storage\":\"memory\"}",
                Some(true),
            ),
            ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", Some(false)),
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", Some(false)),
            (long, None),
            ("", None),
            ("SSH-2.0-x\r\n", None),
        ] {
            assert_eq!(asked(text).await, want, "{text}");
        }
    }
}
