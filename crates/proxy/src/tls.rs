//! TLS for backends: trusted CAs, the expected name of the certificate, and our client certificate.

use crate::dial::BoxStream;
use crate::verify;
pub use crate::verify::{Identity, Trust};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;

/// The time-out of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The TLS options of connections.
#[derive(Clone)]
pub struct TlsOptions {
    config: Arc<ClientConfig>,
    /// The name that the certificate must have; `None`: the host.
    server_name: Option<String>,
}

impl TlsOptions {
    /// Creates options from trust, a name that differs from the host, and our own certificate. The error is Go's.
    pub fn new(
        trust: Trust<'_>,
        server_name: Option<String>,
        identity: Option<Identity>,
    ) -> Result<Self, String> {
        Ok(TlsOptions { config: Arc::new(verify::config(trust, identity)?), server_name })
    }
}

/// Performs the TLS handshake with `host`. The error is that of Go's TLS.
pub async fn connect(stream: BoxStream, options: &TlsOptions, host: &str) -> Result<BoxStream, String> {
    let name = options.server_name.as_deref().unwrap_or(host);
    let server_name =
        ServerName::try_from(name.to_string()).map_err(|_| format!("tls: invalid server name \"{name}\""))?;
    let stream = Sniffed { stream, first: Vec::new() };
    let handshake = TlsConnector::from(options.config.clone()).connect(server_name, stream).into_fallible();
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err((error, sniffed))) => Err(verify::in_words(&error, name, &sniffed.first)),
        Err(_) => Err("net/http: TLS handshake timeout".to_string()),
    }
}

/// How many of the first bytes are retained: enough to detect a server without TLS.
const FIRST_BYTES: usize = 5;

/// A stream that retains the first bytes of the other side.
struct Sniffed {
    stream: BoxStream,
    first: Vec<u8>,
}

impl AsyncRead for Sniffed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if self.first.len() < FIRST_BYTES {
            let room = FIRST_BYTES.saturating_sub(self.first.len());
            let came = buffer.filled().get(before..).unwrap_or_default();
            self.first.extend(came.iter().take(room));
        }
        polled
    }
}

impl AsyncWrite for Sniffed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
