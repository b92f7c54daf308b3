//! One connection from handshake to end: connection limits, idle time-outs, and when it is closed.

use crate::context::Context;
use crate::drain::RequestBody;
use crate::head_budget::HeadBudget;
use crate::head_stream::HeadStream;
use crate::http2_heads::ReplacedUrls;
use crate::idle_timer::IdleTimer;
use crate::limits::{Admitted, Stage};
use crate::peer::Peer;
use crate::request_line::{HeadTarget, RequestExtras};
use crate::server::{answer, bad_request};
use crate::stream::{ClientStream, UnreadLimit};
use crate::turns::ClientTurns;
use arc_swap::ArcSwap;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pintle_metrics::families;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The longest time for a TLS handshake and for the head of the first request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(32);
/// How long a connection may be idle between two requests, until the head of the next one is complete. kube-apiserver
/// allows 90 s, which its clients rely on.
const IDLE_TIMEOUT: Duration = Duration::from_secs(95);
/// The size limit in bytes of the head of a request as hyper reads it, which is after URLs have been percent-encoded
/// where necessary.
const HEAD_BYTES_MAX: usize = crate::request_line::HEAD_BYTES_MAX + 128 * 1024;
/// How many streams a client may reset before they are handled, and how many we reset because of its errors, before the
/// connection is closed (CVE-2023-44487 and similar).
const RESETS_PENDING_MAX: usize = 20;
const LOCAL_RESETS_MAX: usize = 256;
/// How often HTTP/2 connections are pinged, and how long the answer may take.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a client may leave a full buffer unread before the connection is closed: while it receives answers, and
/// after an upgrade to a stream (exec, attach, port-forward), whose reader may be a person with a pager.
const UNREAD_MAX: Duration = Duration::from_secs(15);
const UNREAD_UPGRADED_MAX: Duration = Duration::from_secs(5 * 60);

/// How long a connection of an unauthenticated client exists after its last request was accepted: it must read its answers within this time.
const STRANGER_CLOSE_TIMEOUT: Duration = Duration::from_secs(15);
/// How many requests of an unauthenticated HTTP/2 connection are answered, once it accepts no more. The others were sent at the
/// same time; their streams are reset.
const STRANGER_ANSWERS_MAX: usize = 16;
/// How many bytes of a body a client may send in HTTP/2 before the request reads them, which is not before its credentials are
/// known and flow control admits it: on one stream, and on all streams of a connection.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 128 * 1024;

/// State that all connections of a listener share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) tls: Arc<ArcSwap<rustls::ServerConfig>>,
    pub(crate) builders: Arc<Builders>,
    pub(crate) context: Arc<Context>,
    pub(crate) head_budget: HeadBudget,
    /// True once the server ends.
    pub(crate) stop: watch::Receiver<bool>,
    /// Dropped with the connection: the server ends when the last one is gone.
    pub(crate) alive: mpsc::Sender<Infallible>,
}

/// How connections are served. The TLS handshake decides about the protocol, as in Go's server: finding it out from the
/// first bytes would leave each HTTP/1.1 connection with a read buffer of twice the size.
pub(crate) struct Builders {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl Builders {
    pub(crate) fn new(streams_max: u32) -> Builders {
        let mut http1 = http1::Builder::new();
        http1.header_read_timeout(IDLE_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(streams_max)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
            .max_local_error_reset_streams(LOCAL_RESETS_MAX)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        Builders { http1, http2 }
    }
}

fn handshake_failed(address: SocketAddr, why: &dyn std::fmt::Display) {
    families::TLS_HANDSHAKE_ERRORS.inc(&[]);
    tracing::debug!("http: TLS handshake error from {address}: {why}");
}

/// A connection after its handshake, which runs until it ends.
type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves one connection until it ends.
pub(crate) async fn serve(shared: Shared, stream: TcpStream, address: SocketAddr, admitted: Admitted) {
    // Both futures are boxed so that each takes memory only while it runs: the handshake is over soon, and most connections
    // wait for their next request or event most of the time.
    let Some(connection) = Box::pin(accept(shared, stream, address, admitted)).await else { return };
    connection.await;
}

/// Performs the handshake.
async fn accept(
    shared: Shared,
    stream: TcpStream,
    address: SocketAddr,
    admitted: Admitted,
) -> Option<Running> {
    // Send small writes such as watch events at once; otherwise they wait for the other side's acknowledgement.
    if let Err(e) = stream.set_nodelay(true) {
        tracing::debug!("no TCP_NODELAY: {e}");
    }
    let turns = &shared.context.turns;
    let unread_limit = Arc::new(UnreadLimit::new(UNREAD_MAX, UNREAD_UPGRADED_MAX));
    let client_turns = Arc::new(ClientTurns::new(Arc::clone(turns), address.ip()));
    let handshake = async {
        let mut stream = stream;
        if crate::tls::greeting(&mut stream).await? {
            admitted.reached(Stage::Greeted);
        } else {
            // Connections that do not send TLS wait in a queue of their own, so that they do not delay handshakes
            // from the same address.
            client_turns.set_not_tls(address.ip());
        }
        turns.turn_for_refusal(client_turns.key()).next().await;
        let stream = ClientStream::new(stream, Arc::clone(&client_turns), Arc::clone(&unread_limit));
        TlsAcceptor::from(shared.tls.load_full()).accept(stream).await
    };
    let stream = tokio::select! {
        accepted = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake) => match accepted {
            Ok(Ok(stream)) => stream,
            Ok(Err(e)) => {
                handshake_failed(address, &e);
                return None;
            }
            Err(_) => {
                handshake_failed(address, &"timeout");
                return None;
            }
        },
        () = admitted.signalled() => return None,
    };
    admitted.reached(Stage::Secured);
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = Arc::new(Peer::new(address, chain, admitted, client_turns));
    Some(connection(shared, stream, peer, unread_limit))
}

/// Lets hyper serve a connection.
fn connection(
    shared: Shared,
    stream: TlsStream<ClientStream>,
    peer: Arc<Peer>,
    unread_limit: Arc<UnreadLimit>,
) -> Running {
    let Shared { tls: _, builders, context, head_budget, stop, alive } = shared;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let urls = is_http2.then(|| ReplacedUrls::new(&head_budget));
    let stream = HeadStream::new(stream, urls.clone(), &head_budget);
    let pending_extras = stream.pending_extras();
    let of_requests = Arc::clone(&peer);
    let service = service_fn(move |mut request: Request<Incoming>| {
        of_requests.received_request();
        let (context, peer) = (Arc::clone(&context), Arc::clone(&of_requests));
        let unread_limit = Arc::clone(&unread_limit);
        let RequestExtras { target, headers, is_last } = match &urls {
            Some(urls) => urls.extras(request.uri().path()),
            None => pending_extras.next(),
        };
        for (name, value) in headers {
            request.headers_mut().append(name, value);
        }
        let refusal = match target {
            HeadTarget::Plain => None,
            HeadTarget::Refused(code) => Some(bad_request(code)),
            HeadTarget::Long(target) => {
                request.extensions_mut().insert(target);
                None
            }
        };
        Box::pin(async move {
            if let Some(refusal) = refusal {
                return Ok(refusal);
            }
            let running = peer.run();
            let mut response = answer(context, Arc::clone(&peer), RequestBody::of(request)).await;
            drop(running);
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                unread_limit.set_upgraded();
            } else if is_last {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            if is_http2 && peer.is_unknown_and_closing() && peer.count_answer() > STRANGER_ANSWERS_MAX {
                return Err(TooManyAnswers);
            }
            Ok(response)
        })
    });
    let stream = TokioIo::new(stream);
    if is_http2 {
        let connection = Box::pin(builders.http2.serve_connection(stream, service));
        Box::pin(drive(connection, http2::Connection::graceful_shutdown, peer, stop, alive))
    } else {
        let mut builder = builders.http1.clone();
        builder.timer(IdleTimer::default());
        let connection = Box::pin(builder.serve_connection(stream, service).with_upgrades());
        Box::pin(drive(connection, http1::UpgradeableConnection::graceful_shutdown, peer, stop, alive))
    }
}

/// An unauthenticated client sent more requests at once than are answered.
#[derive(Debug, thiserror::Error)]
#[error("too many requests without credentials on one connection")]
struct TooManyAnswers;

/// Runs a connection until it ends, the server ends, or it is closed to free a slot for others.
async fn drive<C: Future<Output = hyper::Result<()>>>(
    mut connection: Pin<Box<C>>,
    shut_down: impl Fn(Pin<&mut C>),
    peer: Arc<Peer>,
    mut stop: watch::Receiver<bool>,
    _alive: mpsc::Sender<Infallible>,
) {
    // Runs while `Peer::is_timed`.
    let mut timer = std::pin::pin!(tokio::time::sleep(FIRST_REQUEST_TIMEOUT));
    let mut ending = false;
    loop {
        let time_is_up = std::future::poll_fn(|cx| match peer.is_timed() {
            true => timer.as_mut().poll(cx),
            false => Poll::Pending,
        });
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                return ended.unwrap_or_else(|e| tracing::debug!("connection: {e}"));
            }
            () = peer.admitted.signalled() => {
                if peer.is_cut_off() {
                    return;
                }
                if !peer.is_closing() {
                    return tracing::debug!(client = %peer.address, "connection gave way to others");
                }
                if let Some(end) = Instant::now().checked_add(STRANGER_CLOSE_TIMEOUT).filter(|_| !ending) {
                    timer.as_mut().reset(end);
                }
                ending = true;
                shut_down(connection.as_mut());
            }
            _ = stop.wait_for(|stopped| *stopped), if !ending => {
                ending = true;
                shut_down(connection.as_mut());
            }
            () = time_is_up => {
                if !peer.has_sent_requests() || peer.is_closing() {
                    return tracing::debug!(client = %peer.address, "no request came, or an answer was not read");
                }
                // The client loaded the console and did not sign in: it may still read what it requested.
                peer.close_after_answers();
            }
        }
    }
}
