//! Translates the streams of a command between a WebSocket client (`v5.channel.k8s.io`) and a kubelet with SPDY, and port
//! forwarding whose SPDY bytes are sent in WebSocket messages.

use crate::stall::StallGuard;
use crate::terminal::TerminalSizes;
use crate::{spdy, websocket};
use bytes::Bytes;
use pintle_value::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// The maximum number of queued pings and pongs.
const CONTROL_MAX: usize = 8;
/// The interval of pings to an idle kubelet.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// The size limit in bytes of the final status of a kubelet.
const STATUS_BYTES_MAX: usize = 64 * 1024;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// The channel whose messages close another channel.
const CLOSED: u8 = 255;

/// The streams of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct StreamOptions {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

/// The stream numbers of a command at the kubelet.
struct Numbers {
    error: u32,
    stdin: Option<u32>,
    stdout: Option<u32>,
    stderr: Option<u32>,
    resize: Option<u32>,
}

impl Numbers {
    /// The stream that a message on a channel is for, and whether the message closes it.
    fn addressed(&self, channel: Option<u8>, message: &[u8]) -> (Option<u32>, bool) {
        match (channel, message.first()) {
            (Some(STDIN), _) => (self.stdin, false),
            (Some(RESIZE), _) => (self.resize, false),
            (Some(CLOSED), Some(&STDIN)) => (self.stdin, true),
            (Some(CLOSED), Some(&RESIZE)) => (self.resize, true),
            _ => (None, false),
        }
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The command succeeded.
    Success,
    /// The command exited with this code.
    Exit(u8),
    /// The command could not be run, or its result is unknown.
    Failed(String),
}

/// Sends the empty message with which kube-apiserver greets a client before its command runs.
pub async fn send_greeting(
    client: &mut (impl AsyncWrite + Unpin),
    options: StreamOptions,
) -> std::io::Result<()> {
    let channel = match options {
        StreamOptions { stdout: true, .. } => STDOUT,
        StreamOptions { stderr: true, .. } => STDERR,
        _ => ERROR,
    };
    websocket::write_binary(client, Some(channel), b"").await
}

/// Sends the result of a command to its client, if it waits for one, and closes.
pub async fn finish(client: &mut (impl AsyncWrite + Unpin), status: Option<&[u8]>) {
    // The client may have disconnected; then the result cannot be delivered.
    if let Some(status) = status {
        _ = websocket::write_binary(client, Some(ERROR), status).await;
    }
    _ = websocket::write_close(client).await;
    _ = client.shutdown().await;
}

/// Runs a command: transfers data between client and kubelet until the kubelet reports its end or the client disconnects.
/// `protocol` is the one that the kubelet chose. Returns the client's writing side, and the result; `None` if the client
/// disconnected.
pub async fn run<C, K>(
    client: C,
    kubelet: K,
    options: StreamOptions,
    protocol: &str,
) -> (impl AsyncWrite + Unpin + use<C, K>, Option<Ended>)
where
    C: AsyncRead + AsyncWrite + Unpin,
    K: AsyncRead + AsyncWrite + Unpin,
{
    let (client_reader, mut client_writer) = tokio::io::split(StallGuard::new(client));
    let (kubelet_reader, mut kubelet_writer) = tokio::io::split(StallGuard::new(kubelet));
    let has_resize = options.tty && !matches!(protocol, "" | "channel.k8s.io" | "v2.channel.k8s.io");
    let numbers = match open_streams(&mut kubelet_writer, options, has_resize).await {
        Ok(numbers) => numbers,
        Err(error) => return (client_writer, Some(Ended::Failed(error.to_string()))),
    };
    let (pongs, to_client) = mpsc::channel(CONTROL_MAX);
    let (pings, to_kubelet) = mpsc::channel(CONTROL_MAX);
    let message = {
        let upwards = client_to_kubelet(client_reader, kubelet_writer, &numbers, pongs, to_kubelet);
        let downwards = kubelet_to_client(kubelet_reader, &mut client_writer, &numbers, pings, to_client);
        let mut upwards = std::pin::pin!(upwards);
        let mut downwards = std::pin::pin!(downwards);
        tokio::select! {
            message = &mut downwards => Some(message),
            left = &mut upwards => match left {
                // The client sends nothing more, but still receives.
                InputEnd::Quiet => Some(downwards.await),
                InputEnd::Gone => None,
            },
        }
    };
    let Some(message) = message else { return (client_writer, None) };
    let ended = match message {
        Ok(message) => decode(&message, protocol),
        Err(why) => Ended::Failed(why),
    };
    (client_writer, Some(ended))
}

async fn open_streams(
    kubelet: &mut (impl AsyncWrite + Unpin),
    options: StreamOptions,
    has_resize: bool,
) -> std::io::Result<Numbers> {
    let mut next = 1;
    let mut numbers = Numbers { error: 1, stdin: None, stdout: None, stderr: None, resize: None };
    spdy::open(kubelet, next, &[("streamtype", "error")]).await?;
    for (wanted, name, number) in [
        (options.stdin, "stdin", &mut numbers.stdin),
        (options.stdout, "stdout", &mut numbers.stdout),
        (options.stderr && !options.tty, "stderr", &mut numbers.stderr),
        (has_resize, "resize", &mut numbers.resize),
    ] {
        if wanted {
            next = next.saturating_add(2);
            spdy::open(kubelet, next, &[("streamtype", name)]).await?;
            *number = Some(next);
        }
    }
    Ok(numbers)
}

/// The reason why a client sends nothing more.
enum InputEnd {
    Quiet,
    Gone,
}

/// Reads the client's frames into a channel until the client closes or the receiver is dropped.
async fn send_events(client: impl AsyncRead + Unpin, events: mpsc::Sender<websocket::Event>) {
    let mut reader = websocket::Reader::new(client);
    loop {
        let event = reader.next().await.unwrap_or(websocket::Event::Close);
        let is_end = event == websocket::Event::Close;
        if events.send(event).await.is_err() || is_end {
            return;
        }
    }
}

/// Passes the client's input and terminal sizes to the kubelet's streams.
async fn client_to_kubelet(
    client: impl AsyncRead + Unpin,
    kubelet: impl AsyncWrite + Unpin,
    numbers: &Numbers,
    pongs: mpsc::Sender<Bytes>,
    pings: mpsc::Receiver<u32>,
) -> InputEnd {
    // The client's frames arrive through a channel, because reading a frame must not be cancelled.
    let (events, received) = mpsc::channel(1);
    let read = send_events(client, events);
    tokio::select! {
        end = write_to_kubelet(received, kubelet, numbers, pongs, pings) => end,
        () = async { read.await; std::future::pending::<()>().await } => InputEnd::Gone,
    }
}

/// Writes the client's input to the kubelet, answers the kubelet's pings, and sends pings to it.
async fn write_to_kubelet(
    mut received: mpsc::Receiver<websocket::Event>,
    mut kubelet: impl AsyncWrite + Unpin,
    numbers: &Numbers,
    pongs: mpsc::Sender<Bytes>,
    mut pings: mpsc::Receiver<u32>,
) -> InputEnd {
    let mut channel = None;
    let mut sizes = TerminalSizes::default();
    let mut timer = tokio::time::interval(PING_INTERVAL);
    timer.tick().await;
    let mut number = 1_u32;
    loop {
        let event = tokio::select! {
            event = received.recv() => event,
            Some(answer) = pings.recv() => {
                if spdy::ping(&mut kubelet, answer).await.is_err() {
                    return InputEnd::Quiet;
                }
                continue;
            }
            _ = timer.tick() => {
                if spdy::ping(&mut kubelet, number).await.is_err() {
                    return InputEnd::Quiet;
                }
                number = number.wrapping_add(2);
                continue;
            }
        };
        let mut bytes = match event {
            Some(websocket::Event::Data { bytes, is_first, .. }) => {
                if is_first {
                    channel = None;
                }
                bytes
            }
            Some(websocket::Event::Ping(bytes)) => {
                // If the queue is full, the pong is dropped: the client sends too many pings.
                _ = pongs.try_send(bytes);
                continue;
            }
            Some(websocket::Event::Close) | None => return InputEnd::Gone,
        };
        if channel.is_none() && !bytes.is_empty() {
            channel = bytes.split_to(1).first().copied();
        }
        let (stream, is_last) = numbers.addressed(channel, &bytes);
        let Some(stream) = stream else { continue };
        let is_resize = !is_last && Some(stream) == numbers.resize;
        let sizes = if is_resize { sizes.push(&bytes) } else { Vec::new() };
        let payload = match (is_last, is_resize) {
            (true, _) => &[][..],
            (false, true) => &sizes[..],
            (false, false) => &bytes[..],
        };
        if (is_last || !payload.is_empty())
            && spdy::data(&mut kubelet, stream, payload, is_last).await.is_err()
        {
            return InputEnd::Quiet;
        }
    }
}

/// Passes the kubelet's output to the client. Returns the content of the error stream once all streams have ended.
async fn kubelet_to_client(
    kubelet: impl AsyncRead + Unpin,
    client: &mut (impl AsyncWrite + Unpin),
    numbers: &Numbers,
    pings: mpsc::Sender<u32>,
    pongs: mpsc::Receiver<Bytes>,
) -> Result<Vec<u8>, String> {
    let (events, received) = mpsc::channel(1);
    let read = async move {
        let mut reader = spdy::Reader::new(kubelet);
        loop {
            let event = reader.next().await.unwrap_or(spdy::Event::End);
            let is_end = event == spdy::Event::End;
            if events.send(event).await.is_err() || is_end {
                return;
            }
        }
    };
    tokio::select! {
        message = write_to_client(received, client, numbers, pings, pongs) => message,
        () = async { read.await; std::future::pending::<()>().await } => Ok(Vec::new()),
    }
}

/// Writes the kubelet's output and the pongs to the client. Returns the content of the error stream once all streams have
/// ended.
async fn write_to_client(
    mut received: mpsc::Receiver<spdy::Event>,
    client: &mut (impl AsyncWrite + Unpin),
    numbers: &Numbers,
    pings: mpsc::Sender<u32>,
    mut pongs: mpsc::Receiver<Bytes>,
) -> Result<Vec<u8>, String> {
    let mut open: Vec<u32> =
        [Some(numbers.error), numbers.stdout, numbers.stderr].into_iter().flatten().collect();
    let mut message = Vec::new();
    while !open.is_empty() {
        let event = tokio::select! {
            event = received.recv() => event,
            Some(pong) = pongs.recv() => {
                websocket::write_pong(client, &pong).await.map_err(|error| error.to_string())?;
                continue;
            }
        };
        match event {
            Some(spdy::Event::Data { stream, bytes, is_last }) => {
                let channel = match stream {
                    _ if Some(stream) == numbers.stdout => Some(STDOUT),
                    _ if Some(stream) == numbers.stderr => Some(STDERR),
                    _ => None,
                };
                if stream == numbers.error && message.len().saturating_add(bytes.len()) <= STATUS_BYTES_MAX {
                    message.extend_from_slice(&bytes);
                }
                if let Some(channel) = channel.filter(|_| !bytes.is_empty()) {
                    let written = websocket::write_binary(client, Some(channel), &bytes).await;
                    written.map_err(|error| error.to_string())?;
                }
                if is_last {
                    open.retain(|number| *number != stream);
                }
            }
            Some(spdy::Event::Reset(stream)) => open.retain(|number| *number != stream),
            Some(spdy::Event::Ping(number)) => {
                if number % 2 == 0 {
                    _ = pings.try_send(number);
                }
            }
            // As in client-go, the end of the connection ends its streams.
            Some(spdy::Event::End) | None => break,
        }
    }
    Ok(message)
}

/// Parses the error stream. From version 4 of the protocol on it is a `Status`.
fn decode(message: &[u8], protocol: &str) -> Ended {
    if message.is_empty() {
        return Ended::Success;
    }
    let text = String::from_utf8_lossy(message);
    if !matches!(protocol, "v4.channel.k8s.io" | "v5.channel.k8s.io") {
        return Ended::Failed(format!("error executing remote command: {text}"));
    }
    let Ok(parsed) = json::parse(message) else {
        return Ended::Failed(format!("error stream protocol error: invalid status in {text:?}"));
    };
    let status = parsed.value;
    match status.str_at(&["status"]) {
        "Success" => return Ended::Success,
        "Failure" => {}
        _ => return Ended::Failed("error stream protocol error: unknown error".to_string()),
    }
    if status.str_at(&["reason"]) != "NonZeroExitCode" {
        return Ended::Failed(status.str_at(&["message"]).to_string());
    }
    if status.get("details").is_none_or(Value::is_null) {
        return Ended::Failed("error stream protocol error: details must be set".to_string());
    }
    let causes = status.items_at(&["details", "causes"]);
    let Some(cause) = causes.iter().find(|cause| cause.str_at(&["reason"]) == "ExitCode") else {
        return Ended::Failed("error stream protocol error: no ExitCode cause given".to_string());
    };
    let code = cause.str_at(&["message"]);
    match code.parse() {
        Ok(code) => Ended::Exit(code),
        Err(_) => Ended::Failed(format!("error stream protocol error: invalid exit code value {code:?}")),
    }
}

/// Forwards ports: passes the content of the client's messages to the kubelet, and its bytes back as messages.
pub async fn tunnel<C, K>(client: C, kubelet: K)
where
    C: AsyncRead + AsyncWrite + Unpin,
    K: AsyncRead + AsyncWrite + Unpin,
{
    let (client_reader, mut client_writer) = tokio::io::split(StallGuard::new(client));
    let (mut kubelet_reader, mut kubelet_writer) = tokio::io::split(StallGuard::new(kubelet));
    let (pongs, mut to_client) = mpsc::channel::<Bytes>(CONTROL_MAX);
    let upwards = async move {
        let mut reader = websocket::Reader::new(client_reader);
        loop {
            match reader.next().await {
                Ok(websocket::Event::Data { bytes, is_text: false, .. }) => {
                    let written = kubelet_writer.write_all(&bytes).await;
                    if written.is_err() || kubelet_writer.flush().await.is_err() {
                        return;
                    }
                }
                Ok(websocket::Event::Ping(bytes)) => _ = pongs.try_send(bytes),
                Ok(websocket::Event::Data { .. } | websocket::Event::Close) | Err(_) => return,
            }
        }
    };
    let downwards = async {
        let mut buffer = vec![0; websocket::PIECE_BYTES];
        loop {
            let written = tokio::select! {
                read = tokio::io::AsyncReadExt::read(&mut kubelet_reader, &mut buffer) => match read {
                    Ok(0) | Err(_) => return,
                    Ok(size) => {
                        let bytes = buffer.get(..size).unwrap_or_default();
                        websocket::write_binary(&mut client_writer, None, bytes).await
                    }
                },
                Some(pong) = to_client.recv() => websocket::write_pong(&mut client_writer, &pong).await,
            };
            if written.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = upwards => {}
        () = downwards => {}
    }
    _ = websocket::write_close(&mut client_writer).await;
    _ = client_writer.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_commands() {
        let v4 = "v4.channel.k8s.io";
        for (message, protocol, want) in [
            ("", v4, Ended::Success),
            (r#"{"status":"Success"}"#, v4, Ended::Success),
            (
                r#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#,
                v4,
                Ended::Exit(3),
            ),
            (r#"{"status":"Failure","message":"it broke"}"#, v4, Ended::Failed("it broke".into())),
            ("broken", "", Ended::Failed("error executing remote command: broken".into())),
        ] {
            assert_eq!(decode(message.as_bytes(), protocol), want, "{message}");
        }
    }
}
