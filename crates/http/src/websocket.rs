//! Watches and logs over WebSocket: the handshake, tokens in subprotocols, and events or pieces of a log as messages.

mod incoming;

use crate::api::ApiResponse;
use crate::body::{Body, Chunks};
use crate::{headers, respond};
use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use incoming::{End, Incoming};
use pintle_proxy::header::is_upgrade;
use pintle_value::base64;
use std::future::poll_fn;
use std::pin::Pin;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The GUID that a server appends to a client's key before hashing it.
const SALT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// A subprotocol that is a bearer token in base64.
const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";
/// The buffer size for a client's frames.
const READ_BYTES: usize = 1024;
/// The longest piece of a log in one message, as in kube-apiserver.
const PIECE_BYTES_MAX: usize = 2048;

/// How much of a message is copied, so that small ones are sent at once with their heads.
const COPIED_BYTES_MAX: usize = 4096;

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const CLOSE: [u8; 4] = [0x88, 2, 0x03, 0xe8];
const CLOSE_PROTOCOL_ERROR: [u8; 4] = [0x88, 2, 0x03, 0xea];

/// Returns whether a request asks for an upgrade to WebSocket: any of its `Connection` headers contains `upgrade`. This
/// decides whether a token among the subprotocols is looked at, so it must not differ from kube-apiserver.
pub(crate) fn asked_for(headers: &HeaderMap) -> bool {
    headers::first(headers, http::header::UPGRADE).eq_ignore_ascii_case("websocket") && is_upgrade(headers)
}

/// The `Authorization` value from a token among the subprotocols. An undecodable token counts as a wrong one; so do
/// two tokens, and a token without another subprotocol that the server could select.
pub(crate) fn authorization(headers: &HeaderMap) -> Option<String> {
    if !asked_for(headers) {
        return None;
    }
    let all = protocols(headers);
    let mut tokens = all.iter().filter_map(|p| p.strip_prefix(TOKEN_PROTOCOL));
    let token = tokens.next()?;
    let is_only_token = tokens.next().is_none();
    // Base64 for URLs without padding.
    let is_standard = token.contains(['+', '/', '=']);
    let mut standard = token.replace('-', "+").replace('_', "/");
    while standard.len() % 4 != 0 {
        standard.push('=');
    }
    let read = base64::decode(&standard).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    // The header must be one word: a token with white space is never valid.
    let is_word = |text: &String| !text.contains(char::is_whitespace);
    let text = read.filter(|text| is_word(text) && is_only_token && all.len() > 1 && !is_standard);
    Some(format!("Bearer {}", text.as_deref().unwrap_or("-")))
}

/// Removes the token from the subprotocols, so that it is never forwarded.
pub(crate) fn remove_token(headers: &mut HeaderMap) {
    let all = protocols(headers);
    let others: Vec<&str> =
        all.iter().map(String::as_str).filter(|protocol| !protocol.starts_with(TOKEN_PROTOCOL)).collect();
    if others.len() == all.len() {
        return;
    }
    match http::HeaderValue::from_bytes(others.join(",").as_bytes()).ok().filter(|_| !others.is_empty()) {
        Some(value) => _ = headers.insert("sec-websocket-protocol", value),
        None => _ = headers.remove("sec-websocket-protocol"),
    }
}

/// The subprotocols that a client offers.
pub(crate) fn protocols(headers: &HeaderMap) -> Vec<String> {
    let all = headers.get_all("sec-websocket-protocol").iter().map(headers::text);
    let texts: Vec<_> = all.collect();
    let each = texts.iter().flat_map(|text| text.split(',')).map(str::trim).filter(|p| !p.is_empty());
    each.map(str::to_string).collect()
}

/// Turns the stream of a watch into the answer to a handshake, and sends its events as messages after the upgrade.
pub(crate) fn switch(headers: &HeaderMap, upgrade: OnUpgrade, answer: ApiResponse) -> ApiResponse {
    let key = match challenge(headers) {
        Ok(key) => key,
        Err(refused) => return refused,
    };
    if headers::first(headers, "origin").is_empty() {
        return refusal(403, "");
    }
    let framing =
        answer.headers.get("content-type").and_then(|v| v.to_str().ok()).map_or(Framing::Whole, Framing::of);
    let protocol = offered(headers).into_iter().next();
    match answer.body {
        Body::Chunks(stream) => send_after_upgrade(upgrade, stream, framing),
        body => return ApiResponse { body, ..answer },
    }
    switching(&key, protocol.as_deref())
}

/// Turns a log into the answer to a handshake, and sends it in pieces after the upgrade. Unlike a watch, a log needs no
/// `Origin`, and its subprotocol selects the encoding; an unknown one is refused.
pub(crate) fn switch_log(headers: &HeaderMap, upgrade: OnUpgrade, answer: ApiResponse) -> ApiResponse {
    let key = match challenge(headers) {
        Ok(key) => key,
        Err(refused) => return refused,
    };
    let mut protocols = offered(headers);
    if protocols.is_empty() {
        // As in Go, the answer then has an empty header.
        protocols.push(String::new());
    }
    let known = |protocol: String| Framing::of_log(&protocol).map(|framing| (protocol, framing));
    let Some((protocol, framing)) = protocols.into_iter().find_map(known) else { return refusal(403, "") };
    match answer.body {
        Body::Chunks(stream) => send_after_upgrade(upgrade, stream, framing),
        body => return ApiResponse { body, ..answer },
    }
    switching(&key, Some(&protocol))
}

/// The answer to a handshake that selects `protocol`, or a refusal.
pub(crate) fn accept(headers: &HeaderMap, protocol: &str) -> ApiResponse {
    match challenge_key(headers) {
        Ok(key) => switching(&key, Some(protocol).filter(|protocol| !protocol.is_empty())),
        Err(refused) => refused,
    }
}

/// The subprotocols that a client offers, without tokens.
fn offered(headers: &HeaderMap) -> Vec<String> {
    let mut all = protocols(headers);
    all.retain(|protocol| !protocol.starts_with(TOKEN_PROTOCOL));
    all
}

/// The key of a handshake that Go's library would accept, or its refusal.
fn challenge(headers: &HeaderMap) -> Result<String, ApiResponse> {
    // Go's handshake looks at the first header only.
    if !headers::first(headers, "connection").to_ascii_lowercase().contains("upgrade") {
        return Err(refusal(400, "not websocket protocol"));
    }
    challenge_key(headers)
}

fn challenge_key(headers: &HeaderMap) -> Result<String, ApiResponse> {
    let key = headers::first(headers, "sec-websocket-key");
    if key.is_empty() {
        return Err(refusal(400, "mismatch challenge/response"));
    }
    if headers::first(headers, "sec-websocket-version") != "13" {
        let mut refused = refusal(400, "missing or bad WebSocket Version");
        refused.set_header("sec-websocket-version", "13");
        return Err(refused);
    }
    Ok(key.to_string())
}

/// Sends a stream as messages once the connection has switched. The task ends with the stream or the connection.
fn send_after_upgrade(upgrade: OnUpgrade, stream: Pin<Box<dyn Chunks>>, framing: Framing) {
    tokio::spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            send(TokioIo::new(upgraded), stream, framing).await;
        }
    });
}

/// The answer that upgrades the connection.
fn switching(key: &str, protocol: Option<&str>) -> ApiResponse {
    let digest = aws_lc_rs::digest::digest(
        &aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}{SALT}").as_bytes(),
    );
    let mut response = refusal(101, "");
    response.set_header("upgrade", "websocket");
    response.set_header("connection", "Upgrade");
    response.set_header("sec-websocket-accept", &base64::encode(digest.as_ref()));
    if let Some(protocol) = protocol {
        response.set_header("sec-websocket-protocol", protocol);
    }
    response
}

/// A refusal without content type.
fn refusal(code: u16, text: &'static str) -> ApiResponse {
    let mut response = respond::text(code, text);
    response.headers.remove("content-type");
    response.headers.remove("x-content-type-options");
    response.body = text.into();
    response
}

/// How a stream is divided into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// Each line is an event.
    Lines,
    /// A length of four bytes precedes each event.
    Lengths,
    /// There are no delimiters: all bytes that have arrived are one message.
    Whole,
    /// A log: each message has what has arrived, up to `PIECE_BYTES_MAX`.
    Pieces,
    /// The same in base64.
    PiecesInBase64,
}

impl Framing {
    fn of(content_type: &str) -> Self {
        match content_type {
            "application/json" => Framing::Lines,
            t if t.starts_with("application/vnd.kubernetes.protobuf") => Framing::Lengths,
            _ => Framing::Whole,
        }
    }

    /// How a log is sent with this subprotocol; `None` if there is no such protocol.
    fn of_log(protocol: &str) -> Option<Self> {
        match protocol {
            "" | "binary.k8s.io" => Some(Framing::Pieces),
            "base64.binary.k8s.io" => Some(Framing::PiecesInBase64),
            _ => None,
        }
    }

    /// Returns whether an empty message precedes the others, so that the client notices the upgrade.
    fn begins_with_empty_message(self) -> bool {
        matches!(self, Framing::Pieces | Framing::PiecesInBase64)
    }

    /// The message for one part of the stream: its beginning, and the rest if it is long. The rest is not copied, because
    /// thousands of watchers may share it.
    fn message(self, part: Bytes) -> (Vec<u8>, Bytes) {
        let (opcode, mut content) = match self {
            Framing::Lines => (TEXT, part),
            Framing::PiecesInBase64 => (TEXT, base64::encode(&part).into_bytes().into()),
            Framing::Lengths | Framing::Whole | Framing::Pieces => (BINARY, part),
        };
        let mut begin = pintle_proxy::websocket_head(opcode, content.len());
        begin.extend_from_slice(&content.split_to(content.len().min(COPIED_BYTES_MAX)));
        (begin, content)
    }

    /// Splits the content of one message off the bytes that have arrived.
    fn split(self, buffer: &mut Bytes) -> Option<Bytes> {
        match self {
            Framing::Lines => {
                let end = memchr::memchr(b'\n', buffer)?;
                Some(buffer.split_to(end.saturating_add(1)))
            }
            Framing::Lengths => {
                let length = u32::from_be_bytes(*buffer.first_chunk()?);
                let length = usize::try_from(length).ok()?;
                if buffer.len() < length.saturating_add(4) {
                    return None;
                }
                buffer.advance(4);
                Some(buffer.split_to(length))
            }
            Framing::Whole => (!buffer.is_empty()).then(|| std::mem::take(buffer)),
            Framing::Pieces | Framing::PiecesInBase64 => {
                let length = buffer.len().min(PIECE_BYTES_MAX);
                (length > 0).then(|| buffer.split_to(length))
            }
        }
    }
}

/// Sends messages until the stream ends or the client closes the connection.
async fn send<I>(io: I, mut stream: Pin<Box<dyn Chunks>>, framing: Framing)
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let (mut reader, mut writer) = tokio::io::split(io);
    let mut received = [0; READ_BYTES];
    let mut incoming = Incoming::default();
    // The part of a message whose end has not arrived yet.
    let mut begun = BytesMut::new();
    if framing.begins_with_empty_message()
        && (write(&mut writer, framing, Bytes::new()).await.is_err() || writer.flush().await.is_err())
    {
        return;
    }
    loop {
        let piece = tokio::select! {
            piece = poll_fn(|cx| stream.as_mut().poll_chunk(cx)) => piece,
            read = reader.read(&mut received) => {
                let Some(bytes) = read.ok().and_then(|length| received.get(..length)) else { return };
                let mut answers = Vec::new();
                let end = match bytes {
                    [] => return,
                    bytes => incoming.take(bytes, &mut answers).err(),
                };
                if end == Some(End::ProtocolError) {
                    answers.extend(CLOSE_PROTOCOL_ERROR);
                }
                if writer.write_all(&answers).await.is_err() || writer.flush().await.is_err() {
                    return;
                }
                match end {
                    Some(_) => break,
                    None => continue,
                }
            }
        };
        let Some(Ok(piece)) = piece else { break };
        let mut rest = piece;
        if !begun.is_empty() {
            begun.extend_from_slice(&rest);
            rest = begun.split().freeze();
        }
        while let Some(part) = framing.split(&mut rest) {
            if write(&mut writer, framing, part).await.is_err() {
                return;
            }
        }
        begun.extend_from_slice(&rest);
        if writer.flush().await.is_err() {
            return;
        }
    }
    // The client may be gone already, so ignore errors.
    _ = writer.write_all(&CLOSE).await;
    _ = writer.shutdown().await;
}

async fn write<W>(writer: &mut W, framing: Framing, part: Bytes) -> std::io::Result<()>
where
    W: tokio::io::AsyncWrite + Unpin,
{
    let (begin, rest) = framing.message(part);
    writer.write_all(&begin).await?;
    writer.write_all(&rest).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(k, v)| (http::HeaderName::from_static(k), http::HeaderValue::from_static(v)))
            .collect()
    }

    #[test]
    fn tokens_among_subprotocols() {
        let with = |protocols| {
            authorization(&headers(&[
                ("connection", "keep-alive, Upgrade"),
                ("upgrade", "WebSocket"),
                ("sec-websocket-protocol", protocols),
            ]))
        };
        let token = "base64url.bearer.authorization.k8s.io.YWRtaW50b2tlbg, x.example.com";
        assert_eq!(with(token).as_deref(), Some("Bearer admintoken"));
        assert_eq!(with("base64url.bearer.authorization.k8s.io.YWRtaW50b2tlbg").as_deref(), Some("Bearer -"));
        let padded = "base64url.bearer.authorization.k8s.io.YWRtaW50b2tlbg==, x.example.com";
        assert_eq!(with(padded).as_deref(), Some("Bearer -"));
        assert_eq!(with("x.example.com"), None);
    }

    #[test]
    fn any_connection_header_asks_for_an_upgrade() {
        for (connection, upgrade, is_asked_for) in [
            (&["Upgrade"][..], "websocket", true),
            (&["keep-alive, Upgrade"], "WebSocket", true),
            (&["close", "Upgrade"], "websocket", true),
            (&["no-upgrade"], "websocket", true),
            (&["close"], "websocket", false),
            (&["Upgrade"], "websocket, h2c", false),
            (&["Upgrade"], "SPDY/3.1", false),
        ] {
            let mut all = headers(&[("upgrade", upgrade)]);
            for value in connection {
                all.append("connection", http::HeaderValue::from_static(value));
            }
            assert_eq!(asked_for(&all), is_asked_for, "{connection:?} {upgrade}");
        }
    }

    #[test]
    fn events_are_split() {
        let mut buffer = Bytes::from_static(b"{}\n[]\n{");
        let mut split = || Framing::Lines.split(&mut buffer);
        assert_eq!(
            (split().as_deref(), split().as_deref(), split()),
            (Some(&b"{}\n"[..]), Some(&b"[]\n"[..]), None)
        );
        let mut buffer = Bytes::from_static(&[0, 0, 0, 2, 7, 8, 0, 0]);
        let mut split = || Framing::Lengths.split(&mut buffer);
        assert_eq!((split().as_deref(), split()), (Some(&[7, 8][..]), None));
        let head = |length| pintle_proxy::websocket_head(TEXT, length);
        assert_eq!((head(5), head(300)), (vec![0x81, 5], vec![0x81, 126, 1, 44]));
    }

    #[test]
    fn logs_are_sent_in_pieces() {
        let mut buffer = Bytes::from_static(&[b'x'; PIECE_BYTES_MAX + 1]);
        let lengths: Vec<usize> =
            std::iter::from_fn(|| Framing::Pieces.split(&mut buffer)).map(|piece| piece.len()).collect();
        assert_eq!(lengths, [PIECE_BYTES_MAX, 1]);
        for (protocol, wanted) in [
            ("", Some(&[BINARY, 2, b'h', b'i'][..])),
            ("binary.k8s.io", Some(&[BINARY, 2, b'h', b'i'])),
            ("base64.binary.k8s.io", Some(&[TEXT, 4, b'a', b'G', b'k', b'='])),
            ("channel.k8s.io", None),
        ] {
            let message = Framing::of_log(protocol).map(|framing| framing.message("hi".into()).0);
            assert_eq!(message.as_deref(), wanted, "{protocol}");
        }
    }

    #[test]
    fn watchers_share_the_bytes_of_long_messages() {
        let event = Bytes::from(vec![b'x'; 100_000]);
        let (begin, rest) = Framing::Lines.message(event.clone());
        assert_eq!(
            begin,
            [&[TEXT, 127, 0, 0, 0, 0, 0, 1, 0x86, 0xa0][..], &event[..COPIED_BYTES_MAX]].concat()
        );
        assert_eq!(
            (rest.as_ptr(), rest.len()),
            (event[COPIED_BYTES_MAX..].as_ptr(), 100_000 - COPIED_BYTES_MAX)
        );
    }

    /// An event stream that never has an event.
    struct Quiet;

    impl Chunks for Quiet {
        fn poll_chunk(
            self: Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Bytes, crate::body::Aborted>>> {
            std::task::Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_client_is_answered_while_there_are_no_events() {
        for (sent, wanted) in [
            (&b"\x89\x82\x00\x00\x00\x00hi\x88\x80\x00\x00\x00\x00"[..], &b"\x8a\x02hi\x88\x02\x03\xe8"[..]),
            (b"\x81\x01a", b"\x88\x02\x03\xea\x88\x02\x03\xe8"),
        ] {
            let (mut client, server) = tokio::io::duplex(1024);
            let sending = tokio::spawn(send(server, Box::pin(Quiet), Framing::Lines));
            client.write_all(sent).await.unwrap();
            let mut received = Vec::new();
            client.read_to_end(&mut received).await.unwrap();
            assert_eq!(received, wanted, "{sent:?}");
            sending.await.unwrap();
        }
    }
}
