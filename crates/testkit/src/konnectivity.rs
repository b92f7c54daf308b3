//! A konnectivity server on a unix socket, for servers whose nodes are reached only through it. It connects to the addresses that a
//! test gives it and refuses all others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

/// The number of every connection: each has a call of its own.
const CONNECTION: u8 = 7;

/// The ports on 127.0.0.1 by requested address.
type Routes = BTreeMap<String, u16>;

/// A server, until it is dropped.
pub struct Konnectivity {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl Konnectivity {
    /// Listens at `path`; a connection to an address of `routes` goes to its port on 127.0.0.1.
    pub fn start(path: &Path, routes: &[(String, u16)]) -> std::io::Result<Konnectivity> {
        let listener = UnixListener::bind(path)?;
        let routes: Arc<Routes> = Arc::new(routes.iter().cloned().collect());
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, routes.clone()));
            }
        });
        Ok(Konnectivity { path: path.to_path_buf(), task })
    }
}

impl Drop for Konnectivity {
    fn drop(&mut self) {
        self.task.abort();
        _ = std::fs::remove_file(&self.path);
    }
}

async fn serve(stream: UnixStream, routes: Arc<Routes>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let mut calls = JoinSet::new();
    while let Some(Ok((request, respond))) = connection.accept().await {
        let routes = routes.clone();
        // A client that disconnects during a call does not fail the test.
        calls.spawn(async move { _ = call(request, respond, &routes).await });
    }
}

async fn call(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    routes: &Routes,
) -> Result<(), h2::Error> {
    let mut body = request.into_body();
    let mut buffer = BytesMut::new();
    let Some(dial) = next(&mut body, &mut buffer).await? else { return Ok(()) };
    let response = http::Response::builder().header("content-type", "application/grpc").body(());
    let mut answers = respond.send_response(response.unwrap_or_default(), false)?;
    let dial = field(&dial, 2);
    let (address, random) = (String::from_utf8_lossy(&field(&dial, 2)).into_owned(), tail(&dial));
    let port = routes.get(&address).copied().unwrap_or_default();
    let Ok(socket) = TcpStream::connect(("127.0.0.1", port)).await else {
        let why = format!("no route to {address}");
        let payload = [&bytes_field(1, why.as_bytes())[..], &random].concat();
        return answers.send_data(packet(1, 3, &payload), true);
    };
    answers.send_data(packet(1, 3, &[&[0x10, CONNECTION][..], &random].concat()), false)?;
    let (reader, mut writer) = socket.into_split();
    let (to_client, mut from_socket) = mpsc::channel(4);
    let reading = tokio::spawn(read(reader, to_client));
    loop {
        tokio::select! {
            message = next(&mut body, &mut buffer) => match message? {
                Some(message) if message.starts_with(&[0x08, 4]) => {
                    let data = field(&field(&message, 4), 3);
                    if writer.write_all(&data).await.is_err() {
                        break;
                    }
                }
                _ => break,
            },
            data = from_socket.recv() => match data {
                Some(data) => {
                    let payload = [&[0x08, CONNECTION][..], &bytes_field(3, &data)].concat();
                    answers.send_data(packet(4, 4, &payload), false)?;
                }
                None => break,
            },
        }
    }
    reading.abort();
    answers.send_data(packet(3, 6, &[0x10, CONNECTION]), false)?;
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    answers.send_trailers(trailers)
}

async fn read(mut reader: OwnedReadHalf, to: mpsc::Sender<Vec<u8>>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(size @ 1..) = reader.read(&mut buffer).await {
        if to.send(buffer.get(..size).unwrap_or_default().to_vec()).await.is_err() {
            return;
        }
    }
}

/// The next message of a call. May be cancelled.
async fn next(body: &mut h2::RecvStream, buffer: &mut BytesMut) -> Result<Option<Bytes>, h2::Error> {
    loop {
        if let Some([_, length @ ..]) = buffer.first_chunk::<5>() {
            let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
            if buffer.len() >= length.saturating_add(5) {
                return Ok(Some(buffer.split_to(length.saturating_add(5)).split_off(5).freeze()));
            }
        }
        let Some(part) = body.data().await else { return Ok(None) };
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        buffer.extend_from_slice(&part);
    }
}

/// A packet of this type with its payload in this field, as a gRPC message.
fn packet(kind: u8, number: u8, payload: &[u8]) -> Bytes {
    let message = [&[0x08, kind][..], &bytes_field(number, payload)].concat();
    let mut out = Vec::with_capacity(message.len().saturating_add(5));
    out.put_u8(0);
    out.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    out.put_slice(&message);
    out.into()
}

fn bytes_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap_or(0));
    out.extend_from_slice(bytes);
    out
}

/// The bytes of a field; empty if the message does not have it.
fn field(message: &[u8], number: u8) -> Vec<u8> {
    walk(message).find(|(found, _, _)| *found == number).map_or(Vec::new(), |(_, bytes, _)| bytes.to_vec())
}

/// The last field of a message, with its tag: the random number of a dial.
fn tail(message: &[u8]) -> Vec<u8> {
    walk(message).last().map_or(Vec::new(), |(_, _, whole)| whole.to_vec())
}

/// The fields of a message: number, value and all bytes. Numbers have their own bytes as their value.
fn walk(message: &[u8]) -> impl Iterator<Item = (u8, &[u8], &[u8])> {
    let mut rest = message;
    std::iter::from_fn(move || {
        let whole = rest;
        let (tag, after) = rest.split_first()?;
        let end = after.iter().position(|byte| *byte < 0x80)?.saturating_add(1);
        let (number, after) = after.split_at_checked(end)?;
        let (value, after) = match tag & 7 {
            2 => {
                let length = number.iter().rev().fold(0, |sum, byte| sum << 7 | usize::from(byte & 0x7f));
                after.split_at_checked(length)?
            }
            _ => (number, after),
        };
        rest = after;
        let size = whole.len().saturating_sub(after.len());
        Some((tag >> 3, value, whole.get(..size)?))
    })
}
