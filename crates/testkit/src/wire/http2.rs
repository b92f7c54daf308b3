//! HTTP/2 on one connection: many concurrent requests and watches, as client-go sends them.

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use tokio::task::JoinHandle;

use super::{Target, WireError};
use crate::client::Request;

/// The flow-control windows per connection and per stream; client-go's values.
const CONNECTION_WINDOW: u32 = 1 << 30;
const STREAM_WINDOW: u32 = 4 << 20;

/// A connection; requests may run concurrently. Dropping it closes the connection.
pub struct Http2 {
    sender: SendRequest<Bytes>,
    driver: JoinHandle<()>,
    authority: String,
    token: Option<String>,
}

/// The body of a response that is read while it arrives.
pub struct Http2Stream(RecvStream);

impl Http2 {
    /// Connects; the target must be one of [`Target::with_http2`].
    pub async fn connect(target: &Target, token: Option<&str>) -> Result<Http2, WireError> {
        let stream = target.connect_stream().await?;
        let mut builder = h2::client::Builder::new();
        builder
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_window_size(STREAM_WINDOW)
            .enable_push(false);
        let (sender, connection) = builder.handshake(stream).await?;
        let driver = tokio::spawn(async move {
            // The caller that waits for a response receives the error too.
            let _ = connection.await;
        });
        Ok(Http2 { sender, driver, authority: target.authority.clone(), token: token.map(str::to_owned) })
    }

    /// Sends a request and reads the whole response: its status and body.
    pub async fn send(&self, request: &Request) -> Result<(u16, Vec<u8>), WireError> {
        let (status, mut stream) = self.open(request).await?;
        let mut body = Vec::new();
        while let Some(part) = stream.next_part().await? {
            body.extend_from_slice(&part);
        }
        Ok((status, body))
    }

    /// Sends a request and returns the status and the body, which is still arriving.
    pub async fn open(&self, request: &Request) -> Result<(u16, Http2Stream), WireError> {
        let uri = format!("https://{}{}", self.authority, request.path);
        let mut head = http::Request::builder().method(request.method.as_str()).uri(uri);
        for (name, value) in &request.headers {
            head = head.header(name, value);
        }
        if let Some(token) = &self.token {
            head = head.header("authorization", format!("Bearer {token}"));
        }
        let head = head.body(()).map_err(|_| WireError::Malformed("request"))?;
        let mut sender = self.sender.clone().ready().await?;
        let (answer, mut body) = sender.send_request(head, request.body.is_none())?;
        if let Some(content) = &request.body {
            body.send_data(Bytes::from(content.clone()), true)?;
        }
        let answer = answer.await?;
        Ok((answer.status().as_u16(), Http2Stream(answer.into_body())))
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Http2Stream {
    /// The next part of the body; `None` at the end.
    pub async fn next_part(&mut self) -> Result<Option<Bytes>, WireError> {
        let Some(part) = self.0.data().await else { return Ok(None) };
        let part = part?;
        self.0.flow_control().release_capacity(part.len())?;
        Ok(Some(part))
    }
}
