//! `Transport`: sends requests to backends over pooled connections, with its own dialer and TLS options. Bodies are
//! streamed in both directions.

use crate::dial::{BoxStream, Dialer};
use crate::flaw::CertificateFlaw;
use crate::head::HeadError;
use crate::pace::Paced;
use crate::pool::{Connection, Pool};
use crate::tls::{self, TlsOptions};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// An error while reading a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of a request for a backend.
pub type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

/// The address of a backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Whether it uses TLS.
    pub tls: bool,
    /// Name or IP address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The only addresses that the host may resolve to; empty means any.
    pub checked: Vec<IpAddr>,
}

impl Address {
    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// `host:port`.
    pub fn authority(&self) -> String {
        crate::dial::host_port(&self.host, self.port)
    }
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No connection could be opened.
    #[error("{0}")]
    Dial(String),
    /// The connection ended before the response.
    #[error("{0}")]
    Broken(String),
}

impl SendError {
    /// Whether the backend's certificate was rejected.
    pub fn is_certificate(&self) -> bool {
        matches!(self, SendError::Dial(why) if why.contains("x509:"))
    }
}

/// Sends requests over its own connections.
pub struct Transport {
    dialer: Dialer,
    tls: Option<TlsOptions>,
    pub(crate) pool: Arc<Pool>,
    /// The rate of each upgraded connection.
    bytes_per_second: Option<NonZeroU64>,
}

impl Transport {
    /// Creates a transport; without `tls` it cannot reach backends that use TLS.
    pub fn new(dialer: Dialer, tls: Option<TlsOptions>) -> Self {
        Transport { dialer, tls, pool: Arc::default(), bytes_per_second: None }
    }

    /// Limits the rate of each upgraded connection.
    pub fn with_rate(self, bytes_per_second: Option<NonZeroU64>) -> Self {
        Transport { bytes_per_second, ..self }
    }

    /// The flaws of the certificate that was last accepted without verification.
    pub fn accepted_flaws(&self) -> impl Iterator<Item = CertificateFlaw> + use<> {
        let all = self.tls.as_ref().map(TlsOptions::accepted_flaws);
        all.into_iter().flatten()
    }

    /// Opens a new connection for an upgrade.
    pub(crate) async fn connect_to_upgrade(&self, to: &Address) -> Result<BoxStream, String> {
        let stream = self.connect(to).await?;
        Ok(match self.bytes_per_second {
            Some(rate) => Box::new(Paced::new(stream, rate)),
            None => stream,
        })
    }

    /// Opens a new connection.
    pub async fn connect(&self, to: &Address) -> Result<BoxStream, String> {
        let stream = self.dialer.dial(&to.host, to.port, &to.checked).await?;
        match (&self.tls, to.tls) {
            (_, false) => Ok(stream),
            (Some(options), true) => tls::connect(stream, options, &to.host).await,
            (None, true) => Err("tls: not configured".to_string()),
        }
    }

    /// Sends a request whose URI is path and query. The connection returns to the pool when the body was read.
    pub async fn send(
        &self,
        to: &Address,
        mut request: Request<RequestBody>,
    ) -> Result<Response<BackendBody>, SendError> {
        // A pooled connection may have been closed in the meantime. As in Go, requests without a body are sent again.
        let again = replayable(&request);
        while let Some(mut pooled) = self.pool.take(to) {
            match pooled.send(request).await {
                Ok(response) => return Ok(self.answered(to, pooled, response)),
                Err(mut error) => match (error.take_message(), &again) {
                    (Some(unsent), _) => request = unsent,
                    (None, Some(copy)) => request = copy(),
                    (None, None) => return Err(SendError::Broken(describe(error.error()))),
                },
            }
        }
        let stream = self.connect(to).await.map_err(SendError::Dial)?;
        let broken = |error: &hyper::Error| SendError::Broken(describe(error));
        let mut connection = Connection::new(stream).await.map_err(|error| broken(&error))?;
        let response = connection.send(request).await.map_err(|error| broken(error.error()))?;
        Ok(self.answered(to, connection, response))
    }

    fn answered(
        &self,
        to: &Address,
        connection: Connection,
        response: Response<Incoming>,
    ) -> Response<BackendBody> {
        let lease = Lease { connection, to: to.clone(), pool: Arc::clone(&self.pool) };
        response.map(|incoming| {
            let mut body = BackendBody { incoming, lease: Some(lease) };
            body.return_at_end();
            body
        })
    }
}

/// Returns how to recreate a request that can safely be sent again.
fn replayable(request: &Request<RequestBody>) -> Option<impl Fn() -> Request<RequestBody> + use<>> {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !is_safe || !request.body().is_end_stream() {
        return None;
    }
    let (method, uri, headers) = (request.method().clone(), request.uri().clone(), request.headers().clone());
    Some(move || {
        let mut copy = Request::new(empty_body());
        *copy.method_mut() = method.clone();
        *copy.uri_mut() = uri.clone();
        *copy.headers_mut() = headers.clone();
        copy
    })
}

/// A body without content.
pub fn empty_body() -> RequestBody {
    http_body_util::Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A connection in use, and the pool that it returns to.
struct Lease {
    connection: Connection,
    to: Address,
    pool: Arc<Pool>,
}

/// The body of a response. Dropping it before its end closes the connection.
pub struct BackendBody {
    incoming: Incoming,
    /// `None` once the connection has returned to the pool.
    lease: Option<Lease>,
}

impl BackendBody {
    fn return_at_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.return_connection();
        }
    }

    fn return_connection(&mut self) {
        if let Some(Lease { connection, to, pool }) = self.lease.take() {
            pool.put(to, connection);
        }
    }
}

impl http_body::Body for BackendBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let polled = match &mut this.lease {
            Some(lease) => lease.connection.poll_frame(&mut this.incoming, cx),
            None => Pin::new(&mut this.incoming).poll_frame(cx),
        };
        match &polled {
            Poll::Ready(Some(Ok(_))) => this.return_at_end(),
            Poll::Ready(None) => this.return_connection(),
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// How `net/http` begins its errors about a response that it cannot read.
pub(crate) const BROKEN: &str = "net/http: HTTP/1.x transport connection broken: ";

/// Go's error for a connection that ended before the response.
pub(crate) fn describe(error: &hyper::Error) -> String {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            if io.get_ref().is_some_and(|inner| inner.is::<HeadError>()) {
                return format!("{BROKEN}{io}");
            }
            return match io.kind() {
                std::io::ErrorKind::UnexpectedEof => "EOF".to_string(),
                std::io::ErrorKind::ConnectionReset => "read: connection reset by peer".to_string(),
                std::io::ErrorKind::BrokenPipe => "write: broken pipe".to_string(),
                _ => io.to_string(),
            };
        }
        source = inner.source();
    }
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return "EOF".to_string();
    }
    if error.is_parse() {
        return format!("{BROKEN}malformed HTTP response");
    }
    error.to_string()
}
