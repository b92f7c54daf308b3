//! A small HTTPS client: one connection, one request after another.

use super::config::Config;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use pintle_value::{Value, json};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;

/// The most bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How long connecting or an answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why a server did not answer as hoped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("{0}")]
    Config(String),
    #[error("cannot reach {0}: {1}")]
    Connect(String, String),
    #[error("{0}")]
    Answer(String),
}

/// Asks one server.
pub(crate) struct Client {
    config: Config,
    host: String,
    port: u16,
    tls: Option<Arc<ClientConfig>>,
}

/// A connection that is open.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    token: String,
}

impl Client {
    pub(crate) fn new(config: Config) -> Result<Self, ClientError> {
        let uri: http::Uri =
            config.server.parse().map_err(|e| ClientError::Config(format!("{:?}: {e}", config.server)))?;
        let (secure, default_port) = match uri.scheme_str() {
            Some("https") => (true, 443),
            Some("http") => (false, 80),
            _ => return Err(ClientError::Config(format!("{:?} is no http(s) server", config.server))),
        };
        let tls = if secure { Some(Arc::new(tls(&config)?)) } else { None };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_string();
        Ok(Client { host, port: uri.port_u16().unwrap_or(default_port), tls, config })
    }

    /// Connects and lets `ask` use the connection.
    pub(crate) fn block_on<T, F>(self, ask: impl FnOnce(Connection) -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| ClientError::Config(e.to_string()))?;
        runtime.block_on(async {
            let server = self.config.server.clone();
            let connected = tokio::time::timeout(TIMEOUT, self.connect()).await;
            let connection = connected
                .map_err(|_| ClientError::Connect(server.clone(), "it does not answer".to_string()))?
                .map_err(|why| ClientError::Connect(server, why))?;
            ask(connection).await
        })
    }

    async fn connect(self) -> Result<Connection, String> {
        let said = |e: &dyn std::fmt::Display| e.to_string();
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|e| said(&e))?;
        let sender = match self.tls {
            None => open(TokioIo::new(stream)).await?,
            Some(tls) => {
                let name =
                    if self.config.server_name.is_empty() { &self.host } else { &self.config.server_name };
                let name = ServerName::try_from(name.clone()).map_err(|e| said(&e))?;
                let connector = tokio_rustls::TlsConnector::from(tls);
                open(TokioIo::new(connector.connect(name, stream).await.map_err(|e| said(&e))?)).await?
            }
        };
        Ok(Connection { sender, host: format!("{}:{}", self.host, self.port), token: self.config.token })
    }
}

async fn open<I>(io: I) -> Result<SendRequest<Full<Bytes>>, String>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(io).await.map_err(|e| e.to_string())?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection broke");
        }
    });
    Ok(sender)
}

impl Connection {
    /// The JSON at `path`. What is no success is an error with the server's own message.
    pub(crate) async fn get(&mut self, path: &str, accept: &str) -> Result<Value, ClientError> {
        match tokio::time::timeout(TIMEOUT, self.fetch(path, accept)).await {
            Ok(answer) => answer,
            Err(_) => Err(ClientError::Answer(format!("{path} took too long"))),
        }
    }

    async fn fetch(&mut self, path: &str, accept: &str) -> Result<Value, ClientError> {
        let request = http::Request::get(path).header("accept", accept);
        let (status, tree) = self.exchange(path, request, Bytes::new()).await?;
        match status {
            200..=299 => Ok(tree),
            _ => Err(ClientError::Answer(tree.str_at(&["message"]).to_string())),
        }
    }

    /// Sends a request and returns code and JSON of the answer, also of one that is no success.
    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> Result<(u16, Value), ClientError> {
        let mut request =
            http::Request::builder().method(method).uri(path).header("accept", "application/json");
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        match tokio::time::timeout(TIMEOUT, self.exchange(path, request, body)).await {
            Ok(answer) => answer,
            Err(_) => Err(ClientError::Answer(format!("{path} took too long"))),
        }
    }

    /// Code and text of the answer to a GET.
    pub(crate) async fn text(&mut self, path: &str) -> Result<(u16, String), ClientError> {
        let answer = self.bytes(path, http::Request::get(path), Bytes::new());
        let Ok(answer) = tokio::time::timeout(TIMEOUT, answer).await else {
            return Err(ClientError::Answer(format!("{path} took too long")));
        };
        answer.map(|(status, body)| (status.as_u16(), String::from_utf8_lossy(&body).into_owned()))
    }

    async fn exchange(
        &mut self,
        path: &str,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<(u16, Value), ClientError> {
        let failed = |why: String| ClientError::Answer(format!("{path}: {why}"));
        let (status, body) = self.bytes(path, request, body).await?;
        match json::parse(&body).map(|parsed| parsed.value) {
            Ok(tree) if status.is_success() => Ok((status.as_u16(), tree)),
            Ok(tree) if !tree.str_at(&["message"]).is_empty() => Ok((status.as_u16(), tree)),
            Ok(_) => Err(failed(status.to_string())),
            Err(error) if status.is_success() => Err(failed(error.to_string())),
            Err(_) => Err(failed(status.to_string())),
        }
    }

    async fn bytes(
        &mut self,
        path: &str,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<(http::StatusCode, Bytes), ClientError> {
        let failed = |why: String| ClientError::Answer(format!("{path}: {why}"));
        let mut request = request.header("host", &self.host).header("user-agent", "pintle");
        if !self.token.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        let request = request.body(Full::new(body)).map_err(|e| failed(e.to_string()))?;
        let answer = self.sender.send_request(request).await.map_err(|e| failed(e.to_string()))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        Ok((status, body.map_err(|e| failed(e.to_string()))?.to_bytes()))
    }
}

fn tls(config: &Config) -> Result<ClientConfig, ClientError> {
    let refuse = |what: &str, why: &dyn std::fmt::Display| ClientError::Config(format!("{what}: {why}"));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| refuse("TLS", &e))?;
    let builder = match &config.authority {
        _ if config.insecure => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer { provider }))
        }
        None => {
            let why = "give certificate-authority or insecure-skip-tls-verify";
            return Err(refuse("the kubeconfig trusts no authority", &why));
        }
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|e| refuse("certificate-authority", &e))?;
                roots.add(certificate).map_err(|e| refuse("certificate-authority", &e))?;
            }
            builder.with_root_certificates(roots)
        }
    };
    let Some((certificate, key)) = &config.identity else { return Ok(builder.with_no_client_auth()) };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|e| refuse("client-certificate", &e))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| refuse("client-key", &e))?;
    builder.with_client_auth_cert(chain, key).map_err(|e| refuse("client-certificate", &e))
}

/// Trusts whoever answers, as the kubeconfig asks for.
#[derive(Debug)]
struct AnyServer {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
