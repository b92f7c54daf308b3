//! An HTTP/2 client for gRPC on one connection, limited to the features that etcd needs.
//!
//! Waking another task costs more than the calls themselves, so a caller writes its own request, one task reads, and
//! that task handles the messages of a watch.

mod connection;
mod driver;
mod frame;
mod header;
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

/// The number of bytes that etcd may send for one response, and for all, before we enlarge the windows. Received
/// bytes are processed at once, so only incomplete messages accumulate.
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
/// The size of the buffers for reading and writing.
const BUFFER_BYTES: usize = 64 << 10;

/// Receives the messages of a stream until it returns `Break`. It must not block.
pub(crate) type Handler = Box<dyn FnMut(&[u8]) -> ControlFlow<()> + Send>;

/// Opens a connection. `waker` is the waker of the task that will run the driver.
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
