//! Attacks with connections and frames: none of them needs a credential.

use std::time::Duration;

use pintle_testkit::Request;
use pintle_testkit::wire::{Connection, WireError};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::frames::{self, opening, push_frame};
use super::{Attack, Attacker, MAPS, sleep_ms};

/// The number of connections that one attack holds. Several attacks run at a time, and the test process has a limited
/// number of descriptors.
const CONNECTIONS: usize = 150;
/// How long the server may leave bytes unread before the attack starts again.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn attacks() -> Vec<(&'static str, Attack)> {
    vec![
        ("silent connections", |attacker| Box::pin(silent_connections(attacker))),
        ("slow heads", |attacker| Box::pin(slow_heads(attacker))),
        ("slow bodies", |attacker| Box::pin(slow_bodies(attacker))),
        ("garbage for TLS", |attacker| Box::pin(garbage_for_tls(attacker))),
        ("garbage for HTTP", |attacker| Box::pin(garbage_for_http(attacker))),
        ("rapid reset", |attacker| Box::pin(flood_frames(attacker, rapid_reset))),
        ("endless continuation", |attacker| Box::pin(flood_frames(attacker, endless_continuation))),
        ("cookie bombs", |attacker| Box::pin(flood_frames(attacker, cookie_bombs))),
        ("pings", |attacker| Box::pin(flood_frames(attacker, pings))),
        ("settings", |attacker| Box::pin(flood_frames(attacker, settings))),
        ("priorities", |attacker| Box::pin(flood_frames(attacker, priorities))),
        ("empty data", |attacker| Box::pin(flood_frames(attacker, empty_data))),
        ("window updates", |attacker| Box::pin(flood_frames(attacker, window_updates))),
        ("unread answers", |attacker| Box::pin(flood_frames(attacker, unread_answers))),
        ("huge heads", |attacker| Box::pin(huge_heads(attacker))),
        ("wrong tokens", |attacker| Box::pin(wrong_tokens(attacker))),
        ("random paths", |attacker| Box::pin(random_paths(attacker))),
    ]
}

async fn silent_connections(attacker: Attacker) {
    loop {
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            match timeout(PATIENCE, TcpStream::connect(&attacker.user.target().authority)).await {
                Ok(Ok(stream)) => open.push(stream),
                _ => sleep_ms(10).await,
            }
        }
        sleep_ms(500).await;
    }
}

/// Opens connections, and sends `first` on each.
async fn open_with(attacker: &Attacker, first: &[u8]) -> Vec<Connection> {
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        if let Ok(Ok(mut connection)) = timeout(PATIENCE, attacker.user.target().connect()).await
            && connection.send(first).await.is_ok()
        {
            open.push(connection);
        }
    }
    open
}

async fn slow_heads(attacker: Attacker) {
    loop {
        let mut open = open_with(&attacker, b"GET /livez HTTP/1.1\r\nHost: x\r\n").await;
        for _ in 0..20 {
            for connection in &mut open {
                _ = connection.send(b"X-A: b\r\n").await;
            }
            sleep_ms(100).await;
        }
        sleep_ms(10).await;
    }
}

async fn slow_bodies(attacker: Attacker) {
    loop {
        let request =
            Request::new("POST", MAPS).body("application/json", "{").header("Content-Length", "3000000");
        let user = attacker.user.bytes_of(&request);
        let mut open = open_with(&attacker, &user).await;
        for _ in 0..20 {
            for connection in &mut open {
                _ = connection.send(&[b' '; 500]).await;
            }
            sleep_ms(100).await;
        }
        sleep_ms(10).await;
    }
}

async fn garbage_for_tls(mut attacker: Attacker) {
    loop {
        let Ok(mut stream) = TcpStream::connect(&attacker.user.target().authority).await else {
            sleep_ms(10).await;
            continue;
        };
        let mut garbage = attacker.random.bytes(2000);
        if attacker.random.below(2) == 0 {
            // The first bytes are those of a handshake record of 16 KiB.
            garbage.splice(0..5, [22, 3, 1, 0x40, 0]);
        }
        _ = timeout(PATIENCE, stream.write_all(&garbage)).await;
    }
}

async fn garbage_for_http(mut attacker: Attacker) {
    loop {
        if let Ok(mut connection) = attacker.user.target().connect().await {
            let length = attacker.random.below(100_000) as usize;
            let garbage = attacker.random.bytes(length);
            _ = timeout(PATIENCE, connection.send(&garbage)).await;
        }
        sleep_ms(1).await;
    }
}

async fn huge_heads(attacker: Attacker) {
    let stranger = attacker.stranger();
    loop {
        let mut request = Request::new("GET", &format!("/livez?{}", "x".repeat(500_000)));
        for number in 0..900 {
            request = request.header(&format!("X-{number}"), &"y".repeat(500));
        }
        _ = timeout(PATIENCE, stranger.send(&request)).await;
        // The same, but it never ends.
        let mut begun = stranger.bytes_of(&request);
        begun.truncate(begun.len() - 2);
        if let Ok(mut connection) = stranger.target().connect().await {
            _ = timeout(PATIENCE, connection.send(&begun)).await;
            sleep_ms(20).await;
        }
    }
}

async fn wrong_tokens(mut attacker: Attacker) {
    let header = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ";
    loop {
        let token = format!("{header}.{}.{}", attacker.random.next(), "A".repeat(340));
        let request =
            Request::new("GET", "/api/v1/secrets").header("Authorization", &format!("Bearer {token}"));
        _ = timeout(PATIENCE, attacker.stranger().send(&request)).await;
    }
}

/// Sends paths and methods that were never used before, and scrapes the metrics: their labels must not grow.
async fn random_paths(mut attacker: Attacker) {
    loop {
        let number = attacker.random.next();
        let paths = [
            format!("/{number}"),
            format!("/apis/g{number}/v1/things"),
            format!("/api/v1/namespaces/n{number}/things{number}"),
        ];
        for path in paths {
            _ = attacker.stranger().send(&Request::new(&format!("M{number}"), &path)).await;
            _ = attacker.user.send(&Request::new("GET", &path)).await;
        }
    }
}

/// Sends the bytes that `make` returns on HTTP/2 connections, on a new one whenever the server closes it.
async fn flood_frames(attacker: Attacker, make: fn(u32) -> Vec<u8>) {
    let target = attacker.user.target().clone().with_http2();
    loop {
        if let Ok(mut connection) = target.connect().await {
            _ = flood_connection(&mut connection, make).await;
        }
        sleep_ms(5).await;
    }
}

async fn flood_connection(connection: &mut Connection, make: fn(u32) -> Vec<u8>) -> Result<(), WireError> {
    connection.send(&opening()).await?;
    for part in 0..200 {
        match timeout(PATIENCE, connection.send(&make(part))).await {
            Ok(sent) => sent?,
            // The server has stopped reading, because a limit is reached.
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

/// The ids of 100 streams in a part.
fn streams(part: u32) -> impl Iterator<Item = u32> {
    (0..100).map(move |number| (part * 100 + number) * 2 + 1)
}

fn rapid_reset(part: u32) -> Vec<u8> {
    let block = frames::get_block("/openapi/v2");
    let mut out = Vec::new();
    for stream in streams(part) {
        push_frame(&mut out, frames::HEADERS, frames::END_HEADERS | frames::END_STREAM, stream, &block);
        push_frame(&mut out, frames::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }
    out
}

fn endless_continuation(part: u32) -> Vec<u8> {
    let mut out = Vec::new();
    if part == 0 {
        push_frame(&mut out, frames::HEADERS, frames::END_STREAM, 1, &frames::get_block("/livez"));
    }
    // A literal without indexing: a name of one byte and a value of 100.
    let field = [&[0, 1, b'a', 100][..], &[b'b'; 100]].concat();
    push_frame(&mut out, frames::CONTINUATION, 0, 1, &field.repeat(150));
    out
}

fn cookie_bombs(part: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let block = frames::cookie_bomb(&"c".repeat(3500), 12_000);
    let stream = part * 2 + 1;
    push_frame(&mut out, frames::HEADERS, frames::END_HEADERS | frames::END_STREAM, stream, &block);
    out
}

fn pings(_: u32) -> Vec<u8> {
    let mut out = Vec::new();
    (0..1000).for_each(|_| push_frame(&mut out, frames::PING, 0, 0, &[7; 8]));
    out
}

fn settings(_: u32) -> Vec<u8> {
    let mut out = Vec::new();
    // Change the size of the header table up and down.
    for size in 0..1000_u32 {
        let payload = [&[0, 1][..], &(size * 4).to_be_bytes()].concat();
        push_frame(&mut out, frames::SETTINGS, 0, 0, &payload);
    }
    out
}

fn priorities(part: u32) -> Vec<u8> {
    let mut out = Vec::new();
    streams(part).for_each(|stream| push_frame(&mut out, frames::PRIORITY, 0, stream, &[0, 0, 0, 0, 7]));
    out
}

fn empty_data(part: u32) -> Vec<u8> {
    let mut out = Vec::new();
    if part == 0 {
        push_frame(&mut out, frames::HEADERS, frames::END_HEADERS, 1, &frames::get_block("/livez"));
    }
    (0..1000).for_each(|_| push_frame(&mut out, frames::DATA, 0, 1, &[]));
    out
}

fn window_updates(part: u32) -> Vec<u8> {
    let mut out = Vec::new();
    (0..1000).for_each(|_| push_frame(&mut out, frames::WINDOW_UPDATE, 0, 0, &(1 + part % 2).to_be_bytes()));
    out
}

/// Sends requests whose answers are never read, on streams whose windows stay closed.
fn unread_answers(part: u32) -> Vec<u8> {
    let mut out = Vec::new();
    if part == 0 {
        // The initial window of all streams is 0.
        push_frame(&mut out, frames::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    }
    let block = frames::get_block("/livez?verbose");
    for stream in streams(part) {
        push_frame(&mut out, frames::HEADERS, frames::END_HEADERS | frames::END_STREAM, stream, &block);
    }
    out
}
