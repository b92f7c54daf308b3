//! TLS towards backends: who is believed, which name the certificate must have, which certificate we show.

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

/// Longest time for a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How connections are secured.
#[derive(Clone)]
pub struct TlsOptions {
    config: Arc<ClientConfig>,
    /// The name that the certificate must have; `None`: that of the host.
    server_name: Option<String>,
}

impl TlsOptions {
    /// Options from trust, a name that differs from the host's, and our own certificate. The error is in Go's words.
    pub fn new(
        trust: Trust<'_>,
        server_name: Option<String>,
        identity: Option<Identity>,
    ) -> Result<Self, String> {
        Ok(TlsOptions { config: Arc::new(verify::config(trust, identity)?), server_name })
    }
}

/// Secures a connection to `host`. The error is in the words of Go's TLS.
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

/// How many of the first bytes are remembered: enough to know a server that speaks no TLS.
const FIRST_BYTES: usize = 5;

/// A stream that remembers how the other side began.
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
