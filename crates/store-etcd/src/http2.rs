//! An HTTP/2 client for gRPC on one connection: what etcd needs and no more.
//!
//! Waking another task costs more than the calls themselves, so a caller writes its own request, one task reads, and the
//! messages of a watch are handled by that task.

mod connection;
mod driver;
mod frame;
mod header;
mod huffman;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use connection::Connection;
pub(crate) use driver::Driver;

use bytes::Bytes;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Waker;
use tokio::io::{AsyncRead, AsyncWrite};

/// How much of one answer, and of all, etcd may send before we enlarge the windows. What is received is handled at once, so
/// nothing accumulates but incomplete messages.
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
/// The memory for what is read or written at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Receives the messages of a stream, until it breaks. It must not block.
pub(crate) type Handler = Box<dyn FnMut(&[u8]) -> ControlFlow<()> + Send>;

/// Begins a connection. `waker` is that of the task that will run the driver.
pub(crate) fn begin(
    reader: Box<dyn AsyncRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    waker: Waker,
) -> (Arc<Connection>, Driver) {
    let connection = Arc::new(Connection::new(writer, waker));
    let driver = Driver::new(connection.clone(), reader);
    (connection, driver)
}

/// Encodes the headers of all requests for `path`.
pub(crate) fn request_headers(is_tls: bool, authority: &str, path: &str, requires_leader: bool) -> Bytes {
    header::encode(is_tls, authority, path, requires_leader)
}
