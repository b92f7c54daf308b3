//! Unary gRPC calls to a plugin on a unix socket, calls with messages both ways ([`duplex`]), and the protobuf wire format of their
//! messages. Knows no service: callers name the method and encode the messages.
//!
//! Each call opens a connection: plugins are called a few times a minute.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod duplex;

pub use pintle_protobuf as protobuf;

use bytes::{BufMut, Bytes};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::task::AbortHandle;

/// The largest response that is read from a plugin.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The bytes before a message: a flag and its length.
const FRAME_HEAD: usize = 5;
/// The pause between attempts to connect, for a call that waits for its plugin.
const CONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// The socket of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket in the file system.
    Path(PathBuf),
    /// A name in the abstract namespace of Linux.
    Abstract(String),
}

impl Endpoint {
    /// The endpoint of a path; `@name` is abstract.
    pub fn new(path: &str) -> Self {
        match path.strip_prefix('@') {
            Some(name) => Endpoint::Abstract(name.to_string()),
            None => Endpoint::Path(PathBuf::from(path)),
        }
    }

    async fn connect(&self) -> std::io::Result<UnixStream> {
        match self {
            Endpoint::Path(path) => UnixStream::connect(path).await,
            // Tokio, like the system, marks an abstract name by a NUL.
            Endpoint::Abstract(name) => UnixStream::connect(format!("\0{name}")).await,
        }
    }
}

/// A call failed. The text is that of Go's client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rpc error: code = {code} desc = {message}")]
pub struct RpcError {
    /// The name of the code, such as `Unavailable`.
    pub code: String,
    /// The plugin's message, or why it cannot be reached.
    pub message: String,
}

impl RpcError {
    fn new(code: &str, message: impl Into<String>) -> Self {
        RpcError { code: code.to_string(), message: message.into() }
    }
}

/// Whether a call waits until the plugin listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitForReady {
    /// The call fails with `Unavailable`.
    No,
    /// The call is retried until the time-out.
    Yes,
}

/// Calls `method` (`/package.Service/Method`) with an encoded message, and returns the encoded response.
pub async fn call(
    endpoint: &Endpoint,
    method: &str,
    message: &[u8],
    timeout: Duration,
    wait: WaitForReady,
) -> Result<Vec<u8>, RpcError> {
    let mut connected = false;
    let attempt = async {
        let stream = loop {
            match endpoint.connect().await {
                Ok(stream) => break stream,
                Err(error) if wait == WaitForReady::No => return Err(unavailable(&error)),
                Err(_) => tokio::time::sleep(CONNECT_INTERVAL).await,
            }
        };
        connected = true;
        call_unary(stream, method, message).await
    };
    match tokio::time::timeout(timeout, attempt).await {
        Ok(outcome) => outcome,
        Err(_) if connected => Err(RpcError::new("DeadlineExceeded", "context deadline exceeded")),
        Err(_) => {
            let why = "context deadline exceeded while waiting for connections to become ready";
            Err(RpcError::new("DeadlineExceeded", why))
        }
    }
}

fn unavailable(error: &dyn std::fmt::Display) -> RpcError {
    RpcError::new("Unavailable", format!("connection error: desc = \"{error}\""))
}

/// Aborts the task of a connection when the call ends or is cancelled.
struct EndOnDrop(AbortHandle);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn call_unary(stream: UnixStream, method: &str, message: &[u8]) -> Result<Vec<u8>, RpcError> {
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| unavailable(&error))?;
    let _connection = EndOnDrop(tokio::spawn(connection).abort_handle());
    let request = new_request(method, Full::new(frame(message)?))?;
    let response = sender.send_request(request).await.map_err(|error| unavailable(&error))?;
    let (head, body) = response.into_parts();
    let collected =
        Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|error| unavailable(&error))?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let answer = collected.to_bytes();
    check_status(&head.headers, &trailers)?;
    message_of_answer(&answer)
}

fn new_request<B>(method: &str, body: B) -> Result<Request<B>, RpcError> {
    Request::builder()
        .method(Method::POST)
        .uri(format!("http://localhost{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(body)
        .map_err(|error| RpcError::new("Internal", error.to_string()))
}

/// A message as it is sent: a flag, its length, its bytes.
fn frame(message: &[u8]) -> Result<Bytes, RpcError> {
    let length = u32::try_from(message.len());
    let length = length.map_err(|_| RpcError::new("ResourceExhausted", "the request is too large"))?;
    let mut out = Vec::with_capacity(FRAME_HEAD.saturating_add(message.len()));
    out.put_u8(0);
    out.put_u32(length);
    out.put_slice(message);
    Ok(Bytes::from(out))
}

/// Returns the error of a call from the trailers, or from the headers of a response without a message.
fn check_status(headers: &HeaderMap, trailers: &HeaderMap) -> Result<(), RpcError> {
    let find = |name: &str| {
        let value = trailers.get(name).or_else(|| headers.get(name))?;
        value.to_str().ok().map(str::to_string)
    };
    match find("grpc-status").as_deref() {
        Some("0") => Ok(()),
        Some(code) => {
            let message = find("grpc-message").unwrap_or_default();
            Err(RpcError::new(code_name(code), percent_decoded(&message)))
        }
        None => Err(RpcError::new("Unknown", "the answer has no status")),
    }
}

/// Decodes the `%XX` escapes of an error message.
fn percent_decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let digits = (*byte == b'%').then(|| after.first_chunk::<2>()).flatten();
        let decoded = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match decoded.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
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

fn message_of_answer(answer: &[u8]) -> Result<Vec<u8>, RpcError> {
    let Some((head, rest)) = answer.split_first_chunk::<FRAME_HEAD>() else {
        return Err(RpcError::new("Internal", "the answer has no message"));
    };
    let [compressed, a, b, c, d] = *head;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    match rest.get(..length) {
        Some(message) if compressed == 0 => Ok(message.to_vec()),
        _ => Err(RpcError::new("Internal", "the answer cannot be read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_texts_of_go() {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "7".parse().unwrap());
        trailers.insert("grpc-message", "not%20for you: 100%".parse().unwrap());
        let error = check_status(&HeaderMap::new(), &trailers).unwrap_err();
        assert_eq!(error.to_string(), "rpc error: code = PermissionDenied desc = not for you: 100%");
        trailers.insert("grpc-status", "0".parse().unwrap());
        assert_eq!(check_status(&HeaderMap::new(), &trailers), Ok(()));
        assert_eq!(check_status(&HeaderMap::new(), &HeaderMap::new()).unwrap_err().code, "Unknown");
    }

    #[tokio::test]
    async fn abstract_names_are_connected_to() {
        let name = format!("pintle-grpc-{}", std::process::id());
        let _listener = tokio::net::UnixListener::bind(format!("\0{name}")).unwrap();
        assert!(Endpoint::new(&format!("@{name}")).connect().await.is_ok());
        assert!(Endpoint::new("@pintle-grpc-nobody").connect().await.is_err());
    }

    #[test]
    fn answers_that_are_cut_off_are_errors() {
        for (answer, expected) in [
            (&b"\0\0\0\0\x02ab"[..], Some(b"ab".to_vec())),
            (b"\0\0\0\0\0", Some(vec![])),
            (b"\0\0\0\0\x03ab", None),
            (b"\x01\0\0\0\x02ab", None),
            (b"\0\0", None),
        ] {
            assert_eq!(message_of_answer(answer).ok(), expected, "{answer:?}");
        }
    }
}
