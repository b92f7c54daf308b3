//! The listener and its connections: accept, handshake, serve, and end gracefully.

use crate::Body;
use crate::chain::{self, Context};
use crate::connection::{self, Shared};
use crate::drain::RequestBody;
use crate::limits::ConnectionLimits;
use crate::peer::Peer;
use crate::respond;
use http::{Method, Request, Response};
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

pub use crate::chain::BODY_BYTES_MAX;
pub use crate::chain::Context as ServerContext;

/// How long to wait when a connection cannot be accepted, such as for want of file descriptors: at first, and at most.
const ACCEPT_PAUSE: Duration = Duration::from_millis(5);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// What a listener is made with.
pub struct ServerConfig {
    /// TLS.
    pub tls: Arc<rustls::ServerConfig>,
    /// Most requests at once on one HTTP/2 connection.
    pub streams_max: u32,
    /// Most connections at once. Clients that have not said who they are get half of them.
    pub connections_max: usize,
    /// How long requests may still take when the server ends.
    pub drain_timeout: Duration,
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

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is over, then lets requests in flight finish.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let limits = Arc::new(ConnectionLimits::new(self.config.connections_max));
        let (stopping, stopped) = watch::channel(false);
        // Every connection holds one end; the other one sees when the last is gone.
        let (alive, mut all_gone) = mpsc::channel::<Infallible>(1);
        let shared = Shared {
            acceptor: TlsAcceptor::from(Arc::clone(&self.config.tls)),
            builder: Arc::new(connection::builder(self.config.streams_max)),
            context: Arc::clone(&self.context),
            stop: stopped,
        };
        let mut stop = std::pin::pin!(stop);
        let mut pause = ACCEPT_PAUSE;
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut stop => break,
            };
            match accepted {
                Ok((stream, address)) => {
                    pause = ACCEPT_PAUSE;
                    let Some(admitted) = limits.admit(address.ip()) else {
                        tracing::debug!(client = %address, "too many connections");
                        continue;
                    };
                    let served = connection::serve(shared.clone(), stream, address, admitted);
                    let alive = alive.clone();
                    tokio::spawn(async move {
                        served.await;
                        drop(alive);
                    });
                }
                Err(e) => {
                    tracing::warn!("cannot accept a connection: {e}");
                    tokio::time::sleep(pause).await;
                    pause = ACCEPT_PAUSE_MAX.min(pause.saturating_mul(2));
                }
            }
        }
        drop(self.listener);
        drop(alive);
        stopping.send_replace(true);
        if tokio::time::timeout(self.config.drain_timeout, all_gone.recv()).await.is_err() {
            tracing::warn!("some requests did not finish in time");
        }
    }
}

/// What only reads ends with its client: nobody waits for a watch any more. A write that has begun is brought to its end.
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
    writing.await.unwrap_or_else(|_| failed("the server is going away"))
}

/// What HTTP itself says about a request, before the API does: a request of HTTP/1.1 names one host, and `OPTIONS *` is
/// about the server as such. The texts are those of Go's server.
fn answer_by_protocol<B>(request: &Request<B>) -> Option<Response<Body>> {
    if request.method() == Method::OPTIONS && request.uri().path() == "*" {
        return Some(Response::new(Body::empty()));
    }
    if request.version() != http::Version::HTTP_11 {
        return None;
    }
    let mut hosts = request.headers().get_all(http::header::HOST).iter();
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(byte);
    let why = match (hosts.next(), hosts.next()) {
        (None, _) => "missing required Host header",
        (Some(_), Some(_)) => "too many Host headers",
        (Some(host), None) if !host.as_bytes().iter().all(is_host) => "malformed Host header",
        (Some(_), None) => return None,
    };
    let mut response = Response::new(format!("400 Bad Request: {why}").into());
    *response.status_mut() = http::StatusCode::BAD_REQUEST;
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(http::header::CONNECTION, http::HeaderValue::from_static("close"));
    Some(response)
}

/// A request whose handling panics is answered 500; the connection and the server go on.
async fn guarded(context: &Context, peer: &Peer, request: Request<RequestBody>) -> Response<Body> {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let handling = AssertUnwindSafe(chain::handle(context, peer, request));
    match CatchUnwind(Box::pin(handling.0)).await {
        Ok(response) => response,
        Err(()) => {
            tracing::error!(%method, %uri, "a request panicked");
            failed("This request caused apiserver to panic. Look in the logs for details.")
        }
    }
}

fn failed(text: &str) -> Response<Body> {
    let answer = respond::text(500, text);
    let mut response = Response::new(answer.body);
    *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
    *response.headers_mut() = answer.headers;
    response
}

/// Turns a panic of a future into an error.
struct CatchUnwind<F>(std::pin::Pin<Box<F>>);

impl<F: Future> Future for CatchUnwind<F> {
    type Output = Result<F::Output, ()>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let inner = self.0.as_mut();
        match std::panic::catch_unwind(AssertUnwindSafe(|| inner.poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => std::task::Poll::Ready(Err(())),
        }
    }
}
