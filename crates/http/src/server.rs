//! The listener and its connections: accept, handshake, serve, and end gracefully.

use crate::Body;
use crate::chain::{self, Context};
use crate::passthrough::ClientAddress;
use crate::peer::Peer;
use crate::respond;
use crate::stream::ClientStream;
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

pub use crate::chain::BODY_BYTES_MAX;
pub use crate::chain::Context as ServerContext;

/// Longest time for a TLS handshake, and for the headers of a request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);
/// Most bytes of the headers of a request.
const HEADER_BYTES_MAX: usize = 1024 * 1024;
/// How often HTTP/2 connections are probed, and how long an answer may take.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a client may leave a full buffer unread before it is cut off.
const UNREAD_MAX: Duration = Duration::from_secs(15);
/// How long to wait when a connection cannot be accepted, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What a listener is made with.
pub struct ServerConfig {
    /// TLS.
    pub tls: Arc<rustls::ServerConfig>,
    /// Most requests at once on one HTTP/2 connection.
    pub streams_max: u32,
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
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config.tls));
        let builder = Arc::new(connection_builder(self.config.streams_max));
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut stop => break,
            };
            match accepted {
                Ok((stream, address)) => {
                    let connection = connection(
                        stream,
                        address,
                        acceptor.clone(),
                        Arc::clone(&builder),
                        Arc::clone(&self.context),
                        graceful.watcher(),
                    );
                    tokio::spawn(connection);
                }
                Err(e) => {
                    tracing::warn!("cannot accept a connection: {e}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(self.listener);
        if tokio::time::timeout(self.config.drain_timeout, graceful.shutdown()).await.is_err() {
            tracing::warn!("some requests did not finish in time");
        }
    }
}

fn connection_builder(streams_max: u32) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams_max)
        .max_header_list_size(u32::try_from(HEADER_BYTES_MAX).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// One connection from handshake to end.
async fn connection(
    stream: TcpStream,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    builder: Arc<Builder<TokioExecutor>>,
    context: Arc<Context>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Small writes (watch events) go out at once; without this they wait for the other side's acknowledgement.
    if let Err(e) = stream.set_nodelay(true) {
        tracing::debug!("no TCP_NODELAY: {e}");
    }
    let stream = ClientStream::new(stream, UNREAD_MAX);
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(e)) => return tracing::debug!("TLS handshake: {e}"),
        Err(_) => return tracing::debug!("TLS handshake: timeout"),
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = Arc::new(Peer::new(address, chain));
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ClientAddress(address));
        let (context, peer) = (Arc::clone(&context), Arc::clone(&peer));
        async move { Ok::<_, Infallible>(answer(context, peer, request).await) }
    });
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    if let Err(e) = watcher.watch(connection).await {
        tracing::debug!("connection: {e}");
    }
}

/// What only reads ends with its client: nobody waits for a watch any more. A write that has begun is brought to its end.
async fn answer(context: Arc<Context>, peer: Arc<Peer>, request: Request<Incoming>) -> Response<Body> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return guarded(&context, &peer, request).await;
    }
    let writing = tokio::spawn(async move { guarded(&context, &peer, request).await });
    writing.await.unwrap_or_else(|_| failed("the server is going away"))
}

/// A request whose handling panics is answered 500; the connection and the server go on.
async fn guarded(context: &Context, peer: &Peer, request: Request<Incoming>) -> Response<Body> {
    let uri = request.uri().clone();
    let handling = AssertUnwindSafe(chain::handle(context, peer, request));
    match CatchUnwind(Box::pin(handling.0)).await {
        Ok(response) => response,
        Err(()) => {
            tracing::error!(%uri, "a request panicked");
            let why = format!("{uri:?}");
            let text = format!("This request caused apiserver to panic. Look in the logs for details. {why}");
            failed(&text)
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
