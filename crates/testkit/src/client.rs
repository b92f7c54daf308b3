//! A small client: keep-alive connections, a bearer token, JSON helpers, streaming bodies.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::time::timeout;

use crate::wire::{Connection, Head, Http2, Target, WireError};

/// The maximum number of idle connections.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// How long an answer may take, like the recorder's own socket timeout.
const ANSWER_TIMEOUT_S: u64 = 70;

/// A request; headers are sent unchanged, in this order.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The method, as sent.
    pub method: String,
    /// Path and query, as sent.
    pub path: String,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// The body, if there is one.
    pub body: Option<Vec<u8>>,
}

impl Request {
    /// A request without headers and body.
    pub fn new(method: &str, path: &str) -> Request {
        Request { method: method.to_owned(), path: path.to_owned(), ..Request::default() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body and its content type.
    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Request {
        self.body = Some(body.into());
        self.header("Content-Type", content_type)
    }

    /// Sets a JSON body.
    #[must_use]
    pub fn json(self, body: &Value) -> Request {
        self.body("application/json", body.to_string())
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
    }

    /// The encoded request.
    pub fn to_bytes(&self, authority: &str, token: Option<&str>) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        let mut line = |name: &str, value: &str| {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        };
        if !self.has("host") {
            line("Host", authority);
        }
        if !self.has("accept-encoding") {
            line("Accept-Encoding", "identity");
        }
        if !self.has("user-agent") {
            line("User-Agent", "pintle-testkit/1");
        }
        if let Some(token) = token
            && !self.has("authorization")
        {
            line("Authorization", &format!("Bearer {token}"));
        }
        let length = self.body.as_ref().map_or(0, Vec::len);
        let states_length = self.body.is_some() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        if states_length && !self.has("content-length") && !self.has("transfer-encoding") {
            line("Content-Length", &length.to_string());
        }
        for (name, value) in &self.headers {
            line(name, value);
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }
}

/// A complete response.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status and headers.
    pub head: Head,
    /// The body as sent, with its content encoding.
    pub body: Vec<u8>,
}

impl Answer {
    /// The status code.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The body as JSON; null when it is empty.
    pub fn json(&self) -> Result<Value, WireError> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        Ok(serde_json::from_slice(&self.body)?)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A response whose body is still arriving, on its own connection.
pub struct Streaming {
    /// Status and headers.
    pub head: Head,
    connection: Connection,
}

impl Streaming {
    /// The next part of the body; `None` at its end.
    pub async fn next_part(&mut self) -> Result<Option<Bytes>, WireError> {
        self.connection.next_part().await
    }

    /// Reads the rest of the body.
    pub async fn read_body(&mut self) -> Result<Vec<u8>, WireError> {
        let mut body = Vec::new();
        within_timeout(self.connection.read_body(&mut body)).await?;
        Ok(body)
    }
}

/// A client of one server; clones share their idle connections.
#[derive(Clone)]
pub struct Client {
    target: Target,
    token: Option<String>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Client {
    /// Creates a client of the server at `https://host:port`.
    pub fn new(url: &str, token: Option<&str>) -> Result<Client, WireError> {
        Ok(Client::of(Target::new(url)?, token))
    }

    /// Creates a client of a target.
    pub fn of(target: Target, token: Option<&str>) -> Client {
        Client { target, token: token.map(str::to_owned), idle: Arc::default() }
    }

    /// Opens a connection of HTTP/2 with this client's token.
    pub async fn connect_http2(&self) -> Result<Http2, WireError> {
        Http2::connect(&self.target.clone().with_http2(), self.token.as_deref()).await
    }

    /// A client of the same server with another token; `None` sends no token.
    #[must_use]
    pub fn as_token(&self, token: Option<&str>) -> Client {
        Client { token: token.map(str::to_owned), ..self.clone() }
    }

    /// The server to which the client connects.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The encoded request, with this client's address and token.
    pub fn bytes_of(&self, request: &Request) -> Vec<u8> {
        request.to_bytes(&self.target.authority, self.token.as_deref())
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(&self, request: &Request) -> Result<Answer, WireError> {
        let mut streaming = self.open(request).await?;
        let body = streaming.read_body().await?;
        let head = streaming.head.clone();
        self.give_back(streaming).await;
        Ok(Answer { head, body })
    }

    /// Returns the connection of a response that has been read, for the next request.
    pub async fn give_back(&self, streaming: Streaming) {
        let mut connection = streaming.connection;
        if connection.is_idle().await {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE_CONNECTIONS_MAX {
                idle.push(connection);
            }
        }
    }

    /// Sends a request and returns its response before the body is read.
    pub async fn open(&self, request: &Request) -> Result<Streaming, WireError> {
        let bytes = self.bytes_of(request);
        let mut connection = match self.take_idle().await {
            Some(connection) => connection,
            None => within_timeout(self.target.connect()).await?,
        };
        // A server may answer and close the connection before it has read a large body: then the answer is the result.
        let sent = within_timeout(connection.send(&bytes)).await;
        match within_timeout(connection.read_head(request.method == "HEAD")).await {
            Ok(head) => Ok(Streaming { head, connection }),
            Err(unread) => Err(sent.err().unwrap_or(unread)),
        }
    }

    async fn take_idle(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if connection.is_idle().await {
                return Some(connection);
            }
        }
    }

    /// GET, the answer as JSON.
    pub async fn get(&self, path: &str) -> Result<(u16, Value), WireError> {
        self.send_json(&Request::new("GET", path)).await
    }

    /// POST of a JSON body.
    pub async fn post(&self, path: &str, body: &Value) -> Result<(u16, Value), WireError> {
        self.send_json(&Request::new("POST", path).json(body)).await
    }

    /// PUT of a JSON body.
    pub async fn put(&self, path: &str, body: &Value) -> Result<(u16, Value), WireError> {
        self.send_json(&Request::new("PUT", path).json(body)).await
    }

    /// PATCH with a patch of the given media type.
    pub async fn patch(&self, path: &str, media: &str, body: &Value) -> Result<(u16, Value), WireError> {
        self.send_json(&Request::new("PATCH", path).body(media, body.to_string())).await
    }

    /// DELETE without options.
    pub async fn delete(&self, path: &str) -> Result<(u16, Value), WireError> {
        self.send_json(&Request::new("DELETE", path)).await
    }

    /// Sends a request and parses the JSON of the answer.
    pub async fn send_json(&self, request: &Request) -> Result<(u16, Value), WireError> {
        let answer = self.send(request).await?;
        Ok((answer.status(), answer.json()?))
    }
}

async fn within_timeout<T>(work: impl Future<Output = Result<T, WireError>>) -> Result<T, WireError> {
    match timeout(Duration::from_secs(ANSWER_TIMEOUT_S), work).await {
        Ok(result) => result,
        Err(_) => Err(WireError::Timeout(ANSWER_TIMEOUT_S)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_on_the_wire() {
        let text = |request: Request, token| {
            String::from_utf8(request.to_bytes("h:1", token)).unwrap().replace("\r\n", "|")
        };
        let fixed = "Host: h:1|Accept-Encoding: identity|User-Agent: pintle-testkit/1|";
        let cases = [
            (Request::new("GET", "/a"), None, format!("GET /a HTTP/1.1|{fixed}|")),
            (Request::new("POST", "/a"), None, format!("POST /a HTTP/1.1|{fixed}Content-Length: 0||")),
            (
                Request::new("DELETE", "/a"),
                Some("t"),
                format!("DELETE /a HTTP/1.1|{fixed}Authorization: Bearer t||"),
            ),
            (
                Request::new("GET", "/a").header("authorization", "Basic x"),
                Some("t"),
                format!("GET /a HTTP/1.1|{fixed}authorization: Basic x||"),
            ),
            (
                Request::new("PUT", "/a").header("Transfer-Encoding", "chunked").body("x/y", "0\r\n\r\n"),
                None,
                format!("PUT /a HTTP/1.1|{fixed}Transfer-Encoding: chunked|Content-Type: x/y||0||"),
            ),
        ];
        for (request, token, want) in cases {
            assert_eq!(text(request, token), want);
        }
    }
}
