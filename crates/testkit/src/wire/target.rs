//! The address of a server, and connections to it: TCP, optionally with TLS that verifies nothing.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Connection, WireError};

/// The address of a server, and how to connect to it.
#[derive(Clone)]
pub struct Target {
    /// `host:port`, as in the Host header.
    pub authority: String,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    receive_buffer: Option<u32>,
}

impl Target {
    /// A target from `https://host:port` or `http://host:port`; certificates are not verified.
    pub fn new(url: &str) -> Result<Target, WireError> {
        Target::with_identity(url, None)
    }

    /// A target to which the client authenticates with a certificate.
    pub fn with_identity(
        url: &str,
        identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    ) -> Result<Target, WireError> {
        let wrong = || WireError::Address(url.to_owned());
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let authority = rest.split('/').next().unwrap_or_default();
        let default_port = if scheme == "https" { 443 } else { 80 };
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:{default_port}") };
        let tls = match scheme {
            "http" => None,
            "https" => {
                let host = authority.rsplit_once(':').map_or("", |(host, _)| host);
                let host = host.trim_matches(['[', ']']).to_owned();
                let name = ServerName::try_from(host).map_err(|_| wrong())?;
                Some((Arc::new(tls_config(identity)?), name))
            }
            _ => return Err(wrong()),
        };
        Ok(Target { authority, tls, receive_buffer: None })
    }

    /// This target with a small receive buffer, so that unread data soon stays with the server: the kernel never grows a
    /// buffer whose size was set.
    #[must_use]
    pub fn with_receive_buffer(mut self, bytes: u32) -> Target {
        self.receive_buffer = Some(bytes);
        self
    }

    /// This target for [`super::Http2`].
    #[must_use]
    pub fn with_http2(mut self) -> Target {
        if let Some((config, _)) = &mut self.tls {
            Arc::make_mut(config).alpn_protocols = vec![b"h2".to_vec()];
        }
        self
    }

    async fn socket(&self) -> io::Result<TcpStream> {
        let Some(bytes) = self.receive_buffer else { return TcpStream::connect(&self.authority).await };
        let address = lookup_host(&self.authority).await?.next().ok_or(ErrorKind::NotFound)?;
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_recv_buffer_size(bytes)?;
        socket.connect(address).await
    }

    /// Opens a connection.
    pub async fn connect(&self) -> Result<Connection, WireError> {
        Ok(Connection::over(self.connect_stream().await?))
    }

    pub(super) async fn connect_stream(&self) -> Result<Stream, WireError> {
        let socket = self.socket().await?;
        socket.set_nodelay(true)?;
        Ok(match &self.tls {
            None => Stream::Plain(socket),
            Some((config, name)) => {
                let connector = TlsConnector::from(config.clone());
                Stream::Tls(Box::new(connector.connect(name.clone(), socket).await?))
            }
        })
    }
}

fn tls_config(
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
) -> Result<ClientConfig, WireError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)));
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Accepts every certificate: test servers have self-signed certificates.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(tls) => tls.get_ref().0,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for url in ["https://127.0.0.1:6443", "http://localhost:80/x", "https://[::1]:6443", "https://host"] {
            assert!(Target::new(url).is_ok(), "{url}");
        }
        for url in ["127.0.0.1:6443", "ftp://x:1"] {
            assert!(Target::new(url).is_err(), "{url}");
        }
    }
}
