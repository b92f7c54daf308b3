//! TLS for backends: trusted CAs, the expected name of the certificate, and our client certificate.

use crate::dial::BoxStream;
use crate::flaw::{AcceptedFlaws, CertificateFlaw};
use crate::tls_stream::TlsStream;
use crate::verify;
pub use crate::verify::{Identity, Trust};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;

/// The time-out of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The TLS options of connections.
#[derive(Clone)]
pub struct TlsOptions {
    config: Arc<ClientConfig>,
    /// The name that the certificate must have; `None` means the host.
    server_name: Option<String>,
    flaws: Arc<AcceptedFlaws>,
}

impl TlsOptions {
    /// Creates options from trust, a name that differs from the host, and our own certificate. The error is Go's.
    pub fn new(
        trust: Trust<'_>,
        server_name: Option<String>,
        identity: Option<Identity>,
    ) -> Result<Self, String> {
        let flaws = Arc::default();
        Ok(TlsOptions { config: Arc::new(verify::config(trust, identity, &flaws)?), server_name, flaws })
    }

    /// The configuration for rustls.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// The flaws of the certificate that was last accepted without verification.
    pub fn accepted_flaws(&self) -> impl Iterator<Item = CertificateFlaw> + use<> {
        self.flaws.iter()
    }
}

/// Performs the TLS handshake with `host`. The error is that of Go's TLS.
pub async fn connect(stream: BoxStream, options: &TlsOptions, host: &str) -> Result<BoxStream, String> {
    let name = options.server_name.as_deref().unwrap_or(host);
    let server_name =
        ServerName::try_from(name.to_string()).map_err(|_| format!("tls: invalid server name \"{name}\""))?;
    let handshake = TlsStream::connect(options.config(), server_name, stream);
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
        Ok(Ok(stream)) => Ok(Box::new(stream)),
        Ok(Err((error, first))) => {
            Err(verify::handshake_error_text(&error, name, first.get(..5).unwrap_or_default()))
        }
        Err(_) => Err("net/http: TLS handshake timeout".to_string()),
    }
}
