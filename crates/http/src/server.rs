//! The listener and its connections: accept, handshake, serve, and graceful shutdown.

use crate::Body;
use crate::chain;
use crate::connection::{self, Builders, Shared};
use crate::context::Context;
use crate::drain::RequestBody;
use crate::limits::ConnectionLimits;
use crate::peer::Peer;
use crate::request_line::LongTarget;
use crate::respond;
use arc_swap::ArcSwap;
use http::{Method, Request, Response};
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

pub use crate::context::Context as ServerContext;
pub use crate::dispatch::BODY_BYTES_MAX;

/// The first and the longest pause after a failed accept, for example because of file descriptor exhaustion.
const ACCEPT_PAUSE: Duration = Duration::from_millis(5);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long connections may take to close when nothing is in flight on them.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The configuration of a listener.
pub struct ServerConfig {
    /// The TLS configuration of new connections; it can be replaced at run time.
    pub tls: Arc<ArcSwap<rustls::ServerConfig>>,
    /// The limit of concurrent streams on one HTTP/2 connection.
    pub streams_max: u32,
    /// The limit of concurrent connections. Unauthenticated clients may use half of them.
    pub connections_max: usize,
    /// How long requests in flight may take during shutdown.
    pub drain_timeout: Duration,
    /// How long watches stay open after the other requests are answered.
    pub watch_linger: Duration,
    /// Whether the server continues to listen during shutdown and rejects new requests (`--shutdown-send-retry-after`).
    pub sends_retry_after: bool,
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    config: ServerConfig,
    context: Arc<Context>,
}

impl Server {
    /// Takes over a listener.
    pub fn new(listener: TcpListener, config: ServerConfig, context: Arc<Context>) -> Self {
        Server { listener, config, context }
    }

    /// The address on which the server listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` completes, then waits for requests in flight. `end_watches` is called when only long-running
    /// requests are left and must end them.
    pub async fn run(self, stop: impl Future<Output = ()>, end_watches: impl FnOnce()) {
        let (stopping, stopped) = watch::channel(false);
        // Every connection holds a sender; the receiver notices when the last one is dropped.
        let (alive, mut all_gone) = mpsc::channel::<Infallible>(1);
        let Server { listener, config, context } = self;
        let lifecycle = Arc::clone(&context.lifecycle);
        let mut accepting = Accepting {
            limits: Arc::new(ConnectionLimits::new(config.connections_max)),
            shared: Shared {
                tls: config.tls,
                builders: Arc::new(Builders::new(config.streams_max)),
                context,
                head_budget: Default::default(),
                stop: stopped,
                alive,
            },
            pause: ACCEPT_PAUSE,
        };
        let passes = tokio::spawn(Arc::clone(&accepting.shared.context.turns).run());
        let context = Arc::clone(&accepting.shared.context);
        let watermarks = tokio::spawn(async move { context.flow.update_watermarks().await });
        accepting.serve_until(&listener, stop).await;
        if config.sends_retry_after {
            lifecycle.reject_new_requests();
            let drained = tokio::time::timeout(config.drain_timeout, lifecycle.drained());
            accepting.serve_until(&listener, async { _ = drained.await }).await;
        }
        drop(listener);
        drop(accepting);
        stopping.send_replace(true);
        if tokio::time::timeout(config.drain_timeout, lifecycle.drained()).await.is_err() {
            tracing::warn!("some requests did not finish in time");
        }
        // kube-apiserver keeps watches open for a minute here, so that clients can reconnect elsewhere by themselves.
        if !config.watch_linger.is_zero() {
            _ = tokio::time::timeout(config.watch_linger, all_gone.recv()).await;
        }
        end_watches();
        if tokio::time::timeout(CLOSE_TIMEOUT, all_gone.recv()).await.is_err() {
            tracing::warn!("some connections did not end in time");
        }
        passes.abort();
        watermarks.abort();
    }
}

/// The accept loop, with the state that all connections share.
struct Accepting {
    limits: Arc<ConnectionLimits>,
    shared: Shared,
    /// The pause after the next failure.
    pause: Duration,
}

impl Accepting {
    /// Accepts and serves connections until `stop` completes.
    async fn serve_until(&mut self, listener: &TcpListener, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut stop => return,
            };
            match accepted {
                Ok((stream, address)) => self.spawn_connection(stream, address),
                Err(e) => {
                    tracing::warn!("cannot accept a connection: {e}");
                    tokio::time::sleep(self.pause).await;
                    self.pause = ACCEPT_PAUSE_MAX.min(self.pause.saturating_mul(2));
                }
            }
        }
    }

    fn spawn_connection(&mut self, stream: TcpStream, address: SocketAddr) {
        self.pause = ACCEPT_PAUSE;
        let Some(admitted) = self.limits.admit(address.ip()) else {
            return tracing::debug!(client = %address, "too many connections");
        };
        tokio::spawn(connection::serve(self.shared.clone(), stream, address, admitted));
    }
}

/// A read is cancelled when its client disconnects, because its result is not needed. A write that has begun is completed.
pub(crate) async fn answer(
    context: Arc<Context>,
    peer: Arc<Peer>,
    request: Request<RequestBody>,
) -> Response<Body> {
    if let Some(answer) = answer_by_protocol(&request) {
        return answer;
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return guarded(&context, &peer, request).await;
    }
    let writing = tokio::spawn(async move { guarded(&context, &peer, request).await });
    writing.await.unwrap_or_else(|_| failed_response("the server is going away"))
}

/// Answers that HTTP itself requires before the API: an HTTP/1.1 request must have one Host and no transfer encoding but
/// `chunked`, and `OPTIONS *` is about the server as a whole. The texts are those of Go's server.
fn answer_by_protocol<B>(request: &Request<B>) -> Option<Response<Body>> {
    if request.method() == Method::OPTIONS && request.uri().path() == "*" {
        return Some(Response::new(Body::empty()));
    }
    if request.version() != http::Version::HTTP_11 {
        return None;
    }
    let mut encodings = request.headers().get_all(http::header::TRANSFER_ENCODING).iter();
    if let Some(first) = encodings.next()
        && (encodings.next().is_some() || !first.as_bytes().eq_ignore_ascii_case(b"chunked"))
    {
        return Some(refuse(http::StatusCode::NOT_IMPLEMENTED, "Unsupported transfer encoding".into()));
    }
    let mut hosts = request.headers().get_all(http::header::HOST).iter();
    let why = match (hosts.next(), hosts.next()) {
        (None, _) => "missing required Host header",
        (Some(_), Some(_)) => "too many Host headers",
        (Some(host), None) if !host.as_bytes().iter().all(|byte| is_host(*byte)) => "malformed Host header",
        (Some(_), None) => return None,
    };
    Some(refuse(http::StatusCode::BAD_REQUEST, format!("400 Bad Request: {why}")))
}

/// The bytes that Go's server accepts in a Host.
fn is_host(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9')
        || matches!(byte, b'!' | b'$' | b'%' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b'-' | b'.')
        || matches!(byte, b':' | b';' | b'=' | b'[' | b']' | b'_' | b'~')
}

/// The answer of Go's server to a head that it cannot read.
pub(crate) fn bad_request(code: u16) -> Response<Body> {
    let code = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::BAD_REQUEST);
    refuse(code, code.to_string())
}

/// Answers with plain text and ends the connection.
fn refuse(code: http::StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(text.into());
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(http::header::CONNECTION, http::HeaderValue::from_static("close"));
    response
}

/// Answers 500 if handling a request panics; the connection and the server continue.
async fn guarded(context: &Context, peer: &Arc<Peer>, request: Request<RequestBody>) -> Response<Body> {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let is_long = request.extensions().get::<LongTarget>().is_some();
    // Boxed here, so that the future of which it is a part is small: that one is copied when it is made.
    let mut handling = Box::pin(chain::handle(context, peer, request));
    let handling = std::future::poll_fn(|cx| {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx)));
        polled.map_or(Poll::Ready(Err(())), |polled| polled.map(Ok))
    });
    // A long URL takes a while to read, and anyone can send one.
    let handled =
        if is_long { context.offload.run(peer.turns.key(), handling).await } else { handling.await };
    match handled {
        Ok(response) => response,
        Err(()) => {
            tracing::error!(%method, %uri, "a request panicked");
            failed_response("This request caused apiserver to panic. Look in the logs for details.")
        }
    }
}

fn failed_response(text: &str) -> Response<Body> {
    let answer = respond::text(500, text);
    let mut response = Response::new(answer.body);
    *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
    *response.headers_mut() = answer.headers;
    response
}
