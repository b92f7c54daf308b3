//! `Transport`: sends requests to backends over pooled connections, with its own dialer and TLS options. Bodies are
//! streamed in both directions.

use crate::connection::{BodyError, Connection};
use crate::dial::{BoxStream, Dialer};
use crate::flaw::CertificateFlaw;
use crate::head::ResponseHead;
use crate::outgoing::Outgoing;
use crate::pace::Paced;
use crate::pool::Pool;
use crate::tls::{self, TlsOptions};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// An error while reading a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of a request for a backend.
pub type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

/// The address of a backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Whether the backend uses TLS.
    pub tls: bool,
    /// Name or IP address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The only addresses that the host may resolve to; empty means any.
    pub checked: Vec<IpAddr>,
}

impl Address {
    /// The scheme of the address: `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// Returns `host:port`.
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
        request: Request<RequestBody>,
    ) -> Result<Response<BackendBody>, SendError> {
        let has_body = request.method() != Method::HEAD;
        let mut request = Box::new(Outgoing::new(request));
        // A pooled connection may have been closed in the meantime.
        while let Some(mut pooled) = self.pool.take(to) {
            match pooled.send(request, has_body).await {
                Ok(head) => return Ok(self.response_with_body(to, pooled, head)),
                Err(error) => request = error.request.ok_or(SendError::Broken(error.why))?,
            }
        }
        let stream = self.connect(to).await.map_err(SendError::Dial)?;
        let mut connection = Connection::new(stream);
        let head = connection.send(request, has_body).await;
        let head = head.map_err(|error| SendError::Broken(error.why))?;
        Ok(self.response_with_body(to, connection, head))
    }

    fn response_with_body(
        &self,
        to: &Address,
        connection: Box<Connection>,
        head: ResponseHead,
    ) -> Response<BackendBody> {
        let lease = Some((to.clone(), Arc::clone(&self.pool)));
        let mut body = BackendBody { connection: Some(connection), lease };
        body.return_at_end();
        head.into_response(body)
    }
}

/// A body without content.
pub fn empty_body() -> RequestBody {
    http_body_util::Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// The body of a response. Dropping it before its end closes the connection.
pub struct BackendBody {
    /// `None` once the body was read to its end.
    connection: Option<Box<Connection>>,
    /// The pool that the connection returns to.
    lease: Option<(Address, Arc<Pool>)>,
}

impl BackendBody {
    /// The body of a response whose connection is not used again.
    pub(crate) fn unpooled(connection: Box<Connection>) -> Self {
        BackendBody { connection: Some(connection), lease: None }
    }

    fn return_at_end(&mut self) {
        if self.is_end_stream()
            && let Some(connection) = self.connection.take()
            && let Some((to, pool)) = self.lease.take()
        {
            pool.put(to, connection);
        }
    }
}

impl http_body::Body for BackendBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
        let polled = ready!(connection.poll_body(cx));
        self.return_at_end();
        Poll::Ready(polled.map(|part| part.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.is_end())
    }

    fn size_hint(&self) -> SizeHint {
        self.connection.as_ref().map_or(SizeHint::with_exact(0), |connection| connection.size_hint())
    }
}
