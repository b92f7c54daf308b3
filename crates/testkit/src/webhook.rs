//! A webhook that a server under test calls: HTTPS with a self-signed certificate; a function computes the answers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::backend::self_signed;
use base64::Engine as _;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// The largest allowed request that is read.
const REQUEST_BYTES_MAX: usize = 64 << 20;

/// Computes the answer to a body: a code and a body.
pub type Answers = dyn Fn(Value) -> (u16, Value) + Send + Sync;

/// A running webhook; dropping it ends it.
pub struct Webhook {
    port: u16,
    authority: String,
    calls: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Webhook {
    /// Starts a webhook on 127.0.0.1 that answers with `answers`.
    pub async fn start(
        answers: impl Fn(Value) -> (u16, Value) + Send + Sync + 'static,
    ) -> io::Result<Webhook> {
        let (acceptor, authority) = self_signed(&["127.0.0.1", "localhost", "hook.default.svc"])?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let calls = Arc::new(AtomicUsize::new(0));
        let task = tokio::spawn(serve_calls(listener, acceptor, Arc::new(answers), calls.clone()));
        Ok(Webhook { port, authority, calls, task })
    }

    /// The address of the webhook: `https://127.0.0.1:PORT/convert`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}/convert", self.port)
    }

    /// The port on which the webhook listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The webhook's certificate as a `caBundle`.
    pub fn ca_bundle(&self) -> &str {
        &self.authority
    }

    /// How often the webhook was called.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

/// The part of an admission response that changes the object by these operations of a JSON patch.
pub fn json_patch(operations: &Value) -> Value {
    let patch = base64::engine::general_purpose::STANDARD.encode(operations.to_string());
    serde_json::json!({"patchType": "JSONPatch", "patch": patch})
}

async fn serve_calls(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    answers: Arc<Answers>,
    calls: Arc<AtomicUsize>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, answers, calls) = (acceptor.clone(), answers.clone(), calls.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let mut stream = BufReader::new(stream);
            while let Ok(Some(body)) = read_request(&mut stream).await {
                calls.fetch_add(1, Ordering::Relaxed);
                let (code, answer) = answers(serde_json::from_slice(&body).unwrap_or_default());
                let answer = answer.to_string();
                let head = format!(
                    "HTTP/1.1 {code} -\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    answer.len()
                );
                let written = stream.write_all(&[head.as_bytes(), answer.as_bytes()].concat()).await;
                if written.is_err() || stream.flush().await.is_err() {
                    return;
                }
            }
        });
    }
}

/// The body of the next request; none at the end of the connection.
async fn read_request(
    stream: &mut (impl AsyncBufReadExt + AsyncReadExt + Unpin),
) -> io::Result<Option<Vec<u8>>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse::<usize>().map_err(io::Error::other)?.min(REQUEST_BYTES_MAX);
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(body))
}
