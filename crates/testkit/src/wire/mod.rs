//! HTTP/1.1 on one connection, TLS or plain: sends requests byte for byte, and reads responses.
//!
//! Hand-written because tests send what a well-behaved library refuses to send (ready-made chunks, odd methods) and
//! because the client must cost next to nothing in benches.

mod http2;
mod target;

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};

pub use http2::{Http2, Http2Stream};
use target::Stream;
pub use target::Target;

/// The longest response head.
const HEAD_BYTES_MAX: usize = 256 * 1024;
/// The longest allowed line between two chunks.
const CHUNK_LINE_BYTES_MAX: usize = 4096;
/// How much is read from the socket at once.
const READ_BYTES: usize = 64 * 1024;

/// Why a conversation failed.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The address of the server is not `http[s]://host:port`.
    #[error("not a server address: {0}")]
    Address(String),
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer closed the connection before its response was complete.
    #[error("the connection ended before the answer was complete")]
    Closed,
    /// The response is not HTTP/1.1.
    #[error("malformed answer: {0}")]
    Malformed(&'static str),
    /// The HTTP/2 connection failed.
    #[error(transparent)]
    Http2(#[from] h2::Error),
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The response did not arrive in time.
    #[error("no answer within {0} s")]
    Timeout(u64),
    /// The body is not JSON.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// How the rest of a body is delimited.
enum Framing {
    Done,
    Length(u64),
    Chunk(u64),
    ChunkSize { after_chunk: bool },
    UntilClose,
}

/// Status and headers of a response. Header values are decoded as Latin-1, names are in lower case.
#[derive(Debug, Clone)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// Header names and values in the order of the response.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// All values of a header; `name` must be in lower case.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The first value of a header.
    pub fn get<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).next()
    }
}

/// One connection; one request at a time.
pub struct Connection {
    stream: Stream,
    buffer: BytesMut,
    framing: Framing,
    reusable: bool,
}

impl Connection {
    fn over(stream: Stream) -> Connection {
        Connection { stream, buffer: BytesMut::new(), framing: Framing::Done, reusable: true }
    }

    /// Whether another request may follow: the last response was read completely and the peer has not closed.
    pub async fn is_idle(&mut self) -> bool {
        if !self.reusable || !matches!(self.framing, Framing::Done) || !self.buffer.is_empty() {
            return false;
        }
        let socket = self.stream.socket();
        let quiet = poll_fn(|cx| {
            let mut byte = [0u8; 1];
            Poll::Ready(socket.poll_peek(cx, &mut ReadBuf::new(&mut byte)).is_pending())
        });
        quiet.await
    }

    /// Sends an encoded request.
    pub async fn send(&mut self, request: &[u8]) -> Result<(), WireError> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// Reads a frame of HTTP/2: its kind, its stream and its content.
    pub async fn read_frame(&mut self) -> Result<(u8, u32, Bytes), WireError> {
        loop {
            if let Some(([a, b, c, kind, _, stream @ ..], rest)) = self.buffer.split_first_chunk::<9>() {
                let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                let (kind, stream) = (*kind, u32::from_be_bytes(*stream));
                if rest.len() >= length {
                    let content = self.buffer.split_to(9 + length).freeze().split_off(9);
                    return Ok((kind, stream, content));
                }
            }
            self.fill().await?;
        }
    }

    /// Reads the head of the response. `to_head` is set if the request was a HEAD, whose response has no body.
    pub async fn read_head(&mut self, to_head: bool) -> Result<Head, WireError> {
        loop {
            let end = loop {
                if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                    break end;
                }
                if self.buffer.len() > HEAD_BYTES_MAX {
                    return Err(WireError::Malformed("the head does not end"));
                }
                self.fill().await?;
            };
            let bytes = self.buffer.split_to(end + 4);
            let head = parse_head(&bytes)?;
            if (100..200).contains(&head.status) && head.status != 101 {
                continue;
            }
            self.framing = framing_of(&head, to_head)?;
            let closes = head.all("connection").any(|v| v.eq_ignore_ascii_case("close"));
            if closes || head.status == 101 || matches!(self.framing, Framing::UntilClose) {
                self.reusable = false;
            }
            return Ok(head);
        }
    }

    /// The next piece of the body as it arrives; `None` when it is complete.
    pub async fn next_part(&mut self) -> Result<Option<Bytes>, WireError> {
        loop {
            match self.framing {
                Framing::Done => return Ok(None),
                Framing::Length(left) | Framing::Chunk(left) => {
                    if self.buffer.is_empty() {
                        self.fill().await?;
                    }
                    let take = usize::try_from(left).unwrap_or(usize::MAX).min(self.buffer.len());
                    let left = left - take as u64;
                    self.framing = match (&self.framing, left) {
                        (Framing::Length(_), 0) => Framing::Done,
                        (Framing::Length(_), _) => Framing::Length(left),
                        (_, 0) => Framing::ChunkSize { after_chunk: true },
                        _ => Framing::Chunk(left),
                    };
                    return Ok(Some(self.buffer.split_to(take).freeze()));
                }
                Framing::ChunkSize { after_chunk } => {
                    if after_chunk {
                        self.read_line().await?;
                    }
                    let size = parse_chunk_size(&self.read_line().await?)?;
                    if size > 0 {
                        self.framing = Framing::Chunk(size);
                        continue;
                    }
                    while !self.read_line().await?.is_empty() {}
                    self.framing = Framing::Done;
                }
                Framing::UntilClose => {
                    if self.buffer.is_empty() && !self.fill_or_end().await? {
                        self.framing = Framing::Done;
                        return Ok(None);
                    }
                    return Ok(Some(self.buffer.split().freeze()));
                }
            }
        }
    }

    /// Reads the rest of the body into `out`.
    pub async fn read_body(&mut self, out: &mut Vec<u8>) -> Result<(), WireError> {
        while let Some(part) = self.next_part().await? {
            out.extend_from_slice(&part);
        }
        Ok(())
    }

    /// Reads and drops the rest of the body; returns its length.
    pub async fn skip_body(&mut self) -> Result<u64, WireError> {
        let mut bytes = 0;
        while let Some(part) = self.next_part().await? {
            bytes += part.len() as u64;
        }
        Ok(bytes)
    }

    async fn read_line(&mut self) -> Result<Bytes, WireError> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line = self.buffer.split_to(end).freeze();
                self.buffer.advance(2);
                return Ok(line);
            }
            if self.buffer.len() > CHUNK_LINE_BYTES_MAX {
                return Err(WireError::Malformed("a chunk's size does not end"));
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), WireError> {
        if self.fill_or_end().await? { Ok(()) } else { Err(WireError::Closed) }
    }

    /// Reads more bytes; false at the end of the stream, with or without TLS's close_notify.
    async fn fill_or_end(&mut self) -> Result<bool, WireError> {
        self.buffer.reserve(READ_BYTES);
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(read) => Ok(read > 0),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn parse_chunk_size(line: &[u8]) -> Result<u64, WireError> {
    let digits = line.split(|b| *b == b';').next().unwrap_or_default();
    let text = std::str::from_utf8(digits).map_err(|_| WireError::Malformed("a chunk's size"))?;
    u64::from_str_radix(text.trim(), 16).map_err(|_| WireError::Malformed("a chunk's size"))
}

fn parse_head(bytes: &[u8]) -> Result<Head, WireError> {
    let text: String = bytes.iter().map(|b| char::from(*b)).collect();
    let mut lines = text.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let rest = status_line.strip_prefix("HTTP/1.").ok_or(WireError::Malformed("not HTTP/1"))?;
    let status = rest.split(' ').nth(1).and_then(|s| s.parse().ok());
    let status = status.ok_or(WireError::Malformed("the status line"))?;
    let mut headers = Vec::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(WireError::Malformed("a header"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(Head { status, headers })
}

fn framing_of(head: &Head, to_head: bool) -> Result<Framing, WireError> {
    if head.status == 101 {
        // After an upgrade, the rest is another protocol until one side closes.
        return Ok(Framing::UntilClose);
    }
    if to_head || matches!(head.status, 100..200 | 204 | 304) {
        return Ok(Framing::Done);
    }
    if head.all("transfer-encoding").any(|v| v.eq_ignore_ascii_case("chunked")) {
        return Ok(Framing::ChunkSize { after_chunk: false });
    }
    match head.get("content-length") {
        None => Ok(Framing::UntilClose),
        Some(text) => match text.parse() {
            Ok(0) => Ok(Framing::Done),
            Ok(length) => Ok(Framing::Length(length)),
            Err(_) => Err(WireError::Malformed("content-length")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    async fn answer_of(raw: &'static [u8], to_head: bool) -> Result<(Head, Vec<u8>, bool), WireError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serve = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            // Unread bytes would turn the close into a reset.
            let _ = socket.read(&mut [0; 100]).await.unwrap();
            for piece in raw.chunks(7) {
                socket.write_all(piece).await.unwrap();
                socket.flush().await.unwrap();
                tokio::task::yield_now().await;
            }
            // Drop the connection only if the answer needs its end.
            if !raw.starts_with(b"HTTP/1.0") {
                std::future::pending::<()>().await;
            }
        };
        let ask = async {
            let mut connection = Target::new(&url)?.connect().await?;
            connection.send(b"GET / HTTP/1.1\r\n\r\n").await?;
            let head = connection.read_head(to_head).await?;
            let mut body = Vec::new();
            connection.read_body(&mut body).await?;
            Ok((head, body, connection.is_idle().await))
        };
        tokio::pin!(ask);
        tokio::select! {
            got = &mut ask => got,
            () = serve => ask.await,
        }
    }

    #[tokio::test]
    async fn bodies() {
        let cases: [(&[u8], bool, u16, &str, bool); 6] = [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, 200, "hello", true),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, 200, "", true),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nA: b\r\n\r\n",
                false,
                200,
                "hello!",
                true,
            ),
            (b"HTTP/1.0 404 Not Found\r\n\r\nuntil the end", false, 404, "until the end", false),
            (
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
                false,
                201,
                "",
                true,
            ),
            (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", false, 200, "ok", false),
        ];
        for (raw, to_head, status, body, idle) in cases {
            let (head, got, is_idle) = answer_of(raw, to_head).await.unwrap();
            assert_eq!(
                (head.status, String::from_utf8(got).unwrap().as_str(), is_idle),
                (status, body, idle)
            );
        }
    }

    #[tokio::test]
    async fn refuses_what_is_not_http() {
        let cases: [&[u8]; 3] =
            [b"SSH-2.0\r\n\r\n", b"HTTP/1.1 x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"];
        for raw in cases {
            assert!(matches!(answer_of(raw, false).await, Err(WireError::Malformed(_))));
        }
    }
}
