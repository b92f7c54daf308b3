//! Connections through a konnectivity server: each is a call of its `ProxyService` on a unix socket. `DIAL_REQ`
//! requests a connection, `DATA` carries bytes both ways, `CLOSE_REQ` ends it.

use crate::dial::{Attempt, BoxStream, cause_text};
use bytes::Bytes;
use pintle_grpc::duplex::{self, Receiver, Sender};
use pintle_grpc::protobuf::{Field, Fields, put_bytes, put_number, text};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

const METHOD: &str = "/ProxyService/Proxy";
/// How long the server's socket may take, how long the server may take to connect, and the pause between attempts to reach it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_PAUSE: Duration = Duration::from_secs(1);
/// How long the server may take to confirm that a connection is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The size of the buffer of each direction.
const BUFFER_BYTES: usize = 16 * 1024;

/// Numbers of packet types; the field number of a packet's payload is the number of its type plus two.
const DIAL_REQ: u64 = 0;
const DIAL_RSP: u64 = 1;
const CLOSE_REQ: u64 = 2;
const CLOSE_RSP: u64 = 3;
const DATA: u64 = 4;
const DIAL_CLS: u64 = 5;
const FIELD_OF_TYPE: [u64; 6] = [2, 3, 5, 6, 4, 7];

/// Connects to `address` through the server at `socket`. `dial` is a random number with which the server
/// distinguishes its dials.
pub(crate) async fn dial(socket: &Path, address: &str, dial: i64) -> Result<BoxStream, String> {
    let mut attempt = Attempt::begin("grpc", "uds");
    let stream = connect(socket).await?;
    attempt.reached_proxy();
    let request = packet(DIAL_REQ, |out| {
        put_bytes(1, b"tcp", out);
        put_bytes(2, address.as_bytes(), out);
        put_number(3, dial.cast_unsigned(), out);
    });
    let answered = async {
        let (sender, mut receiver) =
            duplex::open(stream, METHOD, &request).await.map_err(|error| error.to_string())?;
        let connection = accepted(&mut receiver, dial).await?;
        Ok::<_, String>((sender, receiver, connection))
    };
    let late = |_| "dial timeout, backstop".to_string();
    let (sender, receiver, connection) = timeout(DIAL_TIMEOUT, answered).await.map_err(late)??;
    attempt.record_success();
    let (near, far) = tokio::io::duplex(BUFFER_BYTES);
    // The task ends when the caller drops its end, or with the call.
    tokio::spawn(carry(far, sender, receiver, connection));
    Ok(Box::new(near))
}

/// Opens the socket; waits for a server that is not there yet, as Go's client does.
async fn connect(socket: &Path) -> Result<UnixStream, String> {
    let mut why = String::new();
    let attempts = async {
        loop {
            match UnixStream::connect(socket).await {
                Ok(stream) => return stream,
                Err(error) => {
                    why = format!("dial unix {}: connect: {}", socket.display(), cause_text(&error))
                }
            }
            sleep(CONNECT_PAUSE).await;
        }
    };
    let opened = timeout(CONNECT_TIMEOUT, attempts).await;
    opened.map_err(|_| {
        format!(
            "context deadline exceeded: connection error: desc = \"transport: error while dialing: {why}\""
        )
    })
}

/// Waits for the answer to the dial and returns the connection's number.
async fn accepted(receiver: &mut Receiver, dial: i64) -> Result<i64, String> {
    loop {
        let message = receiver.receive().await.map_err(|error| error.to_string())?;
        let message = message.ok_or("tunnel closed")?;
        let packet = Packet::parse(&message)?;
        match packet.kind {
            DIAL_RSP if packet.dial == dial && packet.error.is_empty() => return Ok(packet.connection),
            DIAL_RSP if packet.dial == dial => return Err(packet.error),
            DIAL_RSP => return Err("tunnel closed".to_string()),
            DIAL_CLS => return Err("dial closed".to_string()),
            _ => {}
        }
    }
}

/// Carries bytes between the caller's end and the server until one of them ends the connection.
async fn carry(end: DuplexStream, sender: Sender, mut receiver: Receiver, connection: i64) {
    let (reader, writer) = tokio::io::split(end);
    let is_open = tokio::select! {
        () = send_to_server(reader, &sender, connection) => true,
        () = receive_from_server(writer, &mut receiver, connection) => false,
    };
    let request = packet(CLOSE_REQ, |out| put_number(1, connection.cast_unsigned(), out));
    if is_open && sender.send(&request).await.is_ok() {
        let closed = async {
            while let Ok(Some(message)) = receiver.receive().await {
                if Packet::parse(&message).is_ok_and(|packet| packet.kind == CLOSE_RSP) {
                    return;
                }
            }
        };
        // The connection is closed even if the server does not confirm it.
        _ = timeout(CLOSE_TIMEOUT, closed).await;
    }
}

async fn send_to_server(mut reader: ReadHalf<DuplexStream>, sender: &Sender, connection: i64) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(size) = reader.read(&mut buffer).await {
        let bytes = buffer.get(..size).unwrap_or_default();
        let data = packet(DATA, |out| {
            put_number(1, connection.cast_unsigned(), out);
            put_bytes(3, bytes, out);
        });
        if bytes.is_empty() || sender.send(&data).await.is_err() {
            return;
        }
    }
}

async fn receive_from_server(mut writer: WriteHalf<DuplexStream>, receiver: &mut Receiver, connection: i64) {
    while let Ok(Some(message)) = receiver.receive().await {
        let Ok(packet) = Packet::parse(&message) else { return };
        let is_over = match packet.kind {
            _ if packet.connection != connection => false,
            DATA => writer.write_all(packet.data).await.is_err(),
            kind => kind == CLOSE_RSP,
        };
        if is_over {
            return;
        }
    }
}

/// A packet of this type; `payload` appends the fields of its payload.
fn packet(kind: u64, payload: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut inner = Vec::new();
    payload(&mut inner);
    let mut out = Vec::with_capacity(inner.len().saturating_add(16));
    put_number(1, kind, &mut out);
    let field = usize::try_from(kind).ok().and_then(|kind| FIELD_OF_TYPE.get(kind)).copied();
    put_bytes(field.unwrap_or_default(), &inner, &mut out);
    out
}

/// A packet of the server, as far as a client needs it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Packet<'b> {
    kind: u64,
    connection: i64,
    dial: i64,
    error: String,
    data: &'b [u8],
}

impl<'b> Packet<'b> {
    fn parse(message: &'b Bytes) -> Result<Self, String> {
        let mut packet = Packet::default();
        let mut payloads = Vec::new();
        for field in Fields(message) {
            match field? {
                (1, Field::Number(kind)) => packet.kind = kind,
                (number, Field::Bytes(payload)) => payloads.push((number, payload)),
                _ => {}
            }
        }
        let wanted = usize::try_from(packet.kind).ok().and_then(|kind| FIELD_OF_TYPE.get(kind));
        for (_, payload) in payloads.into_iter().filter(|(number, _)| Some(number) == wanted) {
            for field in Fields(payload) {
                packet.set(field?);
            }
        }
        Ok(packet)
    }

    fn set(&mut self, field: (u64, Field<'b>)) {
        match (self.kind, field) {
            (DIAL_RSP, (1, Field::Bytes(error))) | (CLOSE_RSP, (1, Field::Bytes(error))) => {
                self.error = text(error);
            }
            (DIAL_RSP | CLOSE_RSP, (2, Field::Number(number))) | (DATA, (1, Field::Number(number))) => {
                self.connection = number.cast_signed();
            }
            (DIAL_RSP, (3, Field::Number(number))) | (DIAL_CLS, (1, Field::Number(number))) => {
                self.dial = number.cast_signed();
            }
            (DATA, (3, Field::Bytes(data))) => self.data = data,
            _ => {}
        }
    }
}
