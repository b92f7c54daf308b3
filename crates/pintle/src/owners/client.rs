//! The HTTPS client of the commands: requests to the server of a kubeconfig, one after another.

use super::config::Config;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use pintle_proxy::{Address, Dialer, Identity, SendError, TlsOptions, Transport, Trust, read_whole};
use pintle_value::{Value, json};
use std::time::Duration;

/// The size limit of a response.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The time-out of a request, including connecting.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("{0}")]
    Config(String),
    #[error("cannot reach {0}: {1}")]
    Connect(String, String),
    #[error("{0}")]
    Answer(String),
}

/// Sends requests to one server.
pub(crate) struct Client {
    server: String,
    address: Address,
    token: String,
    transport: Transport,
}

impl Client {
    pub(crate) fn new(config: Config) -> Result<Self, ClientError> {
        let uri: http::Uri =
            config.server.parse().map_err(|e| ClientError::Config(format!("{:?}: {e}", config.server)))?;
        let (tls, default_port) = match uri.scheme_str() {
            Some("https") => (true, 443),
            Some("http") => (false, 80),
            _ => return Err(ClientError::Config(format!("{:?} is not an http(s) URL", config.server))),
        };
        let options = if tls { Some(tls_options(&config).map_err(ClientError::Config)?) } else { None };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_string();
        let port = uri.port_u16().unwrap_or(default_port);
        Ok(Client {
            server: config.server,
            address: Address { tls, host, port, checked: Vec::new() },
            token: config.token,
            transport: Transport::new(Dialer::Direct, options),
        })
    }

    /// Runs `ask` with this client on a runtime of its own.
    pub(crate) fn block_on<T, F>(self, ask: impl FnOnce(Client) -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| ClientError::Config(e.to_string()))?;
        runtime.block_on(ask(self))
    }

    /// Gets the JSON at `path`. A status other than success is an error with the server's message.
    pub(crate) async fn get(&self, path: &str, accept: &str) -> Result<Value, ClientError> {
        let request = http::Request::get(path).header("accept", accept);
        match self.exchange(path, request, Bytes::new()).await? {
            (200..=299, tree) => Ok(tree),
            (_, tree) => Err(ClientError::Answer(tree.str_at(&["message"]).to_string())),
        }
    }

    /// Sends a request and returns code and JSON of the response, also for a status other than success.
    pub(crate) async fn send(
        &self,
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
        self.exchange(path, request, body).await
    }

    /// Returns code and text of the response to a GET.
    pub(crate) async fn text(&self, path: &str) -> Result<(u16, String), ClientError> {
        let (status, body) = self.send_for_bytes(path, http::Request::get(path), Bytes::new()).await?;
        Ok((status.as_u16(), String::from_utf8_lossy(&body).into_owned()))
    }

    async fn exchange(
        &self,
        path: &str,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<(u16, Value), ClientError> {
        let failed = |why: String| ClientError::Answer(format!("{path}: {why}"));
        let (status, body) = self.send_for_bytes(path, request, body).await?;
        match json::parse(&body).map(|parsed| parsed.value) {
            Ok(tree) if status.is_success() => Ok((status.as_u16(), tree)),
            Ok(tree) if !tree.str_at(&["message"]).is_empty() => Ok((status.as_u16(), tree)),
            Ok(_) => Err(failed(status.to_string())),
            Err(error) if status.is_success() => Err(failed(error.to_string())),
            Err(_) => Err(failed(status.to_string())),
        }
    }

    async fn send_for_bytes(
        &self,
        path: &str,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<(http::StatusCode, Bytes), ClientError> {
        let failed = |why: String| ClientError::Answer(format!("{path}: {why}"));
        let mut request = request.header("host", self.address.authority()).header("user-agent", "pintle");
        if !self.token.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
        let request = request.body(body).map_err(|e| failed(e.to_string()))?;
        let exchanged = async {
            let response =
                self.transport.send(&self.address, request).await.map_err(|error| match error {
                    SendError::Dial(why) => ClientError::Connect(self.server.clone(), why),
                    SendError::Broken(why) => failed(why),
                })?;
            let status = response.status();
            let body = read_whole(response.into_body(), ANSWER_BYTES_MAX).await;
            Ok((status, body.map_err(|e| failed(e.to_string()))?))
        };
        let late = |_| ClientError::Answer(format!("{path} took too long"));
        tokio::time::timeout(TIMEOUT, exchanged).await.map_err(late)?
    }
}

fn tls_options(config: &Config) -> Result<TlsOptions, String> {
    let trust = match &config.authority {
        _ if config.insecure => Trust::Anyone,
        Some(pem) => Trust::Bundle(pem),
        None => {
            let why = "give certificate-authority or insecure-skip-tls-verify";
            return Err(format!("the kubeconfig trusts no authority: {why}"));
        }
    };
    let identity = match &config.identity {
        Some((certificate, key)) => Some(Identity::from_pem(certificate, key)?),
        None => None,
    };
    let server_name = Some(config.server_name.clone()).filter(|name| !name.is_empty());
    TlsOptions::new(trust, server_name, identity)
}
