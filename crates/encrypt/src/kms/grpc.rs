//! The gRPC client of a plugin: unary calls over HTTP/2 on a unix socket, each on a connection of its own, since there
//! are few of them.

use super::{Decrypted, KmsService, Sealed, Status, message};
use bytes::{BufMut, Bytes};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream as StdUnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

/// The largest answer of a plugin that is read.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// What comes before a message: a flag and its length.
const FRAME_HEAD: usize = 5;

/// The client of the plugin at `endpoint` (`unix:///path` or `unix:///@name`), which may take `timeout` for a call.
pub fn connect(endpoint: &str, timeout: Duration) -> Result<Arc<dyn KmsService>, String> {
    let path = endpoint.strip_prefix("unix:").ok_or("only unix sockets are supported")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    // A runtime of its own: callers block, and some of them are threads of another runtime.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("kms-client")
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let address = match path.strip_prefix("/@").or_else(|| path.strip_prefix('@')) {
        Some(name) => Address::Abstract(name.to_string()),
        None => Address::Path(PathBuf::from(path)),
    };
    Ok(Arc::new(Client { runtime: Some(runtime), address, timeout }))
}

#[derive(Clone)]
enum Address {
    Path(PathBuf),
    Abstract(String),
}

struct Client {
    /// Taken when the client is dropped.
    runtime: Option<Runtime>,
    address: Address,
    timeout: Duration,
}

impl Drop for Client {
    fn drop(&mut self) {
        // A runtime must not be waited for on a thread of another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl KmsService for Client {
    fn status(&self) -> Result<Status, String> {
        self.call("Status", Vec::new()).and_then(|answer| message::status_response(&answer))
    }

    fn encrypt(&self, plain: &[u8]) -> Result<Sealed, String> {
        let request = message::encrypt_request(plain, &uid()?);
        self.call("Encrypt", request).and_then(|answer| message::encrypt_response(&answer))
    }

    fn decrypt(&self, sealed: &Sealed) -> Result<Decrypted, String> {
        let request = message::decrypt_request(sealed, &uid()?);
        self.call("Decrypt", request).and_then(|answer| message::decrypt_response(&answer))
    }
}

impl Client {
    /// Calls a method and waits for the answer.
    fn call(&self, method: &'static str, request: Vec<u8>) -> Result<Vec<u8>, String> {
        let Some(runtime) = &self.runtime else { return Err("the client is closed".to_string()) };
        let (sender, receiver) = sync_channel(1);
        let (address, timeout) = (self.address.clone(), self.timeout);
        runtime.spawn(async move {
            let answer = tokio::time::timeout(timeout, unary(address, method, request)).await;
            let late = "rpc error: code = DeadlineExceeded desc = context deadline exceeded";
            // Nobody waits for the answer any more if this fails.
            _ = sender.send(answer.unwrap_or_else(|_| Err(late.to_string())));
        });
        receiver.recv().unwrap_or_else(|_| Err("the call was given up".to_string()))
    }
}

async fn unary(address: Address, method: &str, message: Vec<u8>) -> Result<Vec<u8>, String> {
    let unavailable = |error: &dyn std::fmt::Display| {
        format!("rpc error: code = Unavailable desc = connection error: desc = \"{error}\"")
    };
    let stream = match address {
        Address::Path(path) => UnixStream::connect(path).await,
        Address::Abstract(name) => abstract_stream(&name),
    };
    let stream = stream.map_err(|error| unavailable(&error))?;
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| unavailable(&error))?;
    // Ends when the sender is dropped below.
    let connection = tokio::spawn(connection);
    let mut body = Vec::with_capacity(FRAME_HEAD.saturating_add(message.len()));
    body.put_u8(0);
    body.put_u32(u32::try_from(message.len()).map_err(|_| "the request is too large".to_string())?);
    body.put_slice(&message);
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("http://localhost/v2.KeyManagementService/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(|error| unavailable(&error))?;
    let (head, body) = response.into_parts();
    let collected =
        Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|error| unavailable(&error))?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let answer = collected.to_bytes();
    drop(sender);
    connection.abort();
    check_status(&head.headers, &trailers)?;
    unframe(&answer)
}

fn abstract_stream(name: &str) -> std::io::Result<UnixStream> {
    let address = SocketAddr::from_abstract_name(name.as_bytes())?;
    let stream = StdUnixStream::connect_addr(&address)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// The error of a call, which stands in the trailers, or in the headers of an answer without a message.
fn check_status(headers: &HeaderMap, trailers: &HeaderMap) -> Result<(), String> {
    let find = |name: &str| {
        let value = trailers.get(name).or_else(|| headers.get(name))?;
        value.to_str().ok().map(str::to_string)
    };
    match find("grpc-status").as_deref() {
        Some("0") => Ok(()),
        Some(code) => {
            let message = find("grpc-message").unwrap_or_default();
            Err(format!("rpc error: code = {} desc = {message}", code_name(code)))
        }
        None => Err("rpc error: code = Unknown desc = the answer has no status".to_string()),
    }
}

/// The name of a code, as Go prints it.
fn code_name(code: &str) -> &str {
    const NAMES: [&str; 17] = [
        "OK",
        "Canceled",
        "Unknown",
        "InvalidArgument",
        "DeadlineExceeded",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "ResourceExhausted",
        "FailedPrecondition",
        "Aborted",
        "OutOfRange",
        "Unimplemented",
        "Internal",
        "Unavailable",
        "DataLoss",
        "Unauthenticated",
    ];
    code.parse().ok().and_then(|at: usize| NAMES.get(at)).copied().unwrap_or(code)
}

fn unframe(answer: &[u8]) -> Result<Vec<u8>, String> {
    let Some((head, rest)) = answer.split_first_chunk::<FRAME_HEAD>() else {
        return Err("rpc error: code = Internal desc = the answer has no message".to_string());
    };
    let [compressed, a, b, c, d] = *head;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    match rest.get(..length) {
        Some(message) if compressed == 0 => Ok(message.to_vec()),
        _ => Err("rpc error: code = Internal desc = the answer cannot be read".to_string()),
    }
}

/// A random UUID, by which a plugin's log names a call.
fn uid() -> Result<String, String> {
    let mut bytes = [0u8; 16];
    crate::random(&mut bytes).map_err(|error| error.to_string())?;
    let number = u128::from_be_bytes(bytes);
    // Version 4, variant 1.
    let number = number & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{number:032x}");
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default().to_string();
    Ok([part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-"))
}
