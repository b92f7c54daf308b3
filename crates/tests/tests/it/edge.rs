//! The network edge of the server: malformed requests, floods of connections, overflowing time-outs.

use std::time::Duration;

use crate::fight::frames;
use pintle_testkit::server::{ADMIN_TOKEN, Options};
use pintle_testkit::{Client, Request, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create_map(client: &Client) -> u16 {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m-"}});
    client.post(MAPS, &map).await.unwrap().0
}

/// Time-outs that overflow, as in kube-apiserver: they wrap around, or end at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_time_in_a_query_is_too_long() {
    let server = Server::start_ephemeral().await.unwrap();
    let client = server.admin().unwrap();
    for seconds in ["9223372036854775807", "-1", "-9223372036854775808", "18446744073", "9223372037"] {
        let watch = Request::new("GET", &format!("{MAPS}?watch=1&timeoutSeconds={seconds}"));
        let opened = client.open(&watch).await.unwrap();
        assert_eq!(opened.head.status, 200, "{seconds}");
    }
    for query in ["timeout=9223372036s", "limit=9223372036854775807", "timeoutSeconds=9223372036854775807"] {
        assert_eq!(client.get(&format!("{MAPS}?{query}")).await.unwrap().0, 200, "{query}");
    }
    let overflow = Request::new("GET", &format!("{MAPS}?watch=1&timeoutSeconds=9223372036854775807"));
    assert_eq!(client.send(&overflow).await.unwrap().text(), "", "over at once, as a negative time is");
    let gone =
        client.get(&format!("{MAPS}?resourceVersion=900000000&resourceVersionMatch=Exact")).await.unwrap();
    assert_eq!((gone.0, &gone.1["details"]["retryAfterSeconds"]), (504, &json!(1)));
}

/// Sends bytes on a new connection and reads until the server closes it.
async fn exchange(server: &Server, request: &str) -> String {
    let client = server.admin().unwrap();
    let target = client.target();
    let mut connection = target.connect().await.unwrap();
    connection.send(request.as_bytes()).await.unwrap();
    let head = connection.read_head(false).await.unwrap();
    let mut body = Vec::new();
    connection.read_body(&mut body).await.unwrap();
    format!("{} {}", head.status, String::from_utf8_lossy(&body))
}

/// The answers to requests of HTTP/2 with these header blocks, on one connection: their bodies, or the code of a reset stream.
async fn exchange_http2(server: &Server, blocks: &[Vec<u8>]) -> Vec<String> {
    let target = server.admin().unwrap().target().clone().with_http2();
    let mut connection = target.connect().await.unwrap();
    connection.send(&frames::opening()).await.unwrap();
    let mut answers = Vec::new();
    for (stream, block) in (1_u32..).step_by(2).zip(blocks) {
        let mut request = Vec::new();
        let mut parts = block.chunks(16_384).peekable();
        let (mut kind, mut flags) = (frames::HEADERS, frames::END_STREAM);
        while let Some(part) = parts.next() {
            flags |= if parts.peek().is_none() { frames::END_HEADERS } else { 0 };
            frames::push_frame(&mut request, kind, flags, stream, part);
            (kind, flags) = (frames::CONTINUATION, 0);
        }
        connection.send(&request).await.unwrap();
        let answer = loop {
            match connection.read_frame().await.unwrap() {
                (frames::DATA, of, content) if of == stream && !content.is_empty() => break content,
                (frames::RST_STREAM, of, content) if of == stream => {
                    break format!("reset {}", content[3]).into();
                }
                _ => {}
            }
        };
        answers.push(String::from_utf8_lossy(&answer).into_owned());
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_of_http2_may_have_the_bytes_that_go_accepts() {
    let server = Server::start_ephemeral().await.unwrap();
    let get = |form: u8, path: &[u8]| {
        // `:method: GET`, `:scheme: https`, the path, `:authority`, `authorization`.
        let mut block = vec![0x82, 0x87, form];
        frames::push_text(&mut block, path);
        block.extend([0x01, 1, b'a', 0x0f, 23 - 15]);
        frames::push_text(&mut block, format!("Bearer {ADMIN_TOKEN}").as_bytes());
        block
    };
    let (plain, indexed) = (|path: &[u8]| get(0x04, path), |path: &[u8]| get(0x44, path));
    // The newest entry of the dynamic table, and the one before it.
    let (again, before) =
        ([&[0x82, 0x87, 0xbe][..], &plain(b"")[4..]], [&[0x82, 0x87, 0xbf][..], &plain(b"")[4..]]);
    let long = [b"/api/v1/namespaces/x?a=", &[b'<'; 300_000][..]].concat();
    let answers = exchange_http2(
        &server,
        &[
            plain(b"/api/v1/namespaces/<a>"),
            indexed(b"/api/v1/namespaces/b\"`#"),
            again.concat(),
            indexed(b"/api/v1/namespaces/\xc3\xa9\xff"),
            again.concat(),
            before.concat(),
            plain(&long),
            // Go resets the streams of these.
            plain(b"/api/v1/%zz"),
            plain(b"/livez\x7f"),
            plain(b"/livez"),
        ],
    )
    .await;
    let message = |answer: &String| match serde_json::from_str::<Value>(answer) {
        Ok(status) => status["message"].as_str().unwrap().to_string(),
        Err(_) => answer.clone(),
    };
    let messages: Vec<String> = answers.iter().map(message).collect();
    let missing = |name: &str| format!("namespaces {name} not found");
    let quoted = missing(r#""b\"`#""#);
    let odd = missing("\"é\u{fffd}\"");
    let want = [
        &missing("\"<a>\""),
        &quoted,
        &quoted,
        &odd,
        &odd,
        &quoted,
        &missing("\"x\""),
        "reset 1",
        "reset 1",
        "ok",
    ];
    assert_eq!(messages, want);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_is_parsed_as_go_parses_it() {
    let server = Server::start_ephemeral().await.unwrap();
    for (request, expected) in [
        ("GET /livez HTTP/1.1\r\n\r\n", "400 400 Bad Request: missing required Host header"),
        ("GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 400 Bad Request: too many Host headers"),
        ("GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n", "400 400 Bad Request: malformed Host header"),
        ("GET /livez HTTP/1.1\r\nHost:\r\n\r\n", "200 ok"),
        ("GET /livez HTTP/1.0\r\n\r\n", "200 ok"),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "200 "),
        (
            "POST /livez HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "501 Unsupported transfer encoding",
        ),
        (
            "POST /livez HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "501 Unsupported transfer encoding",
        ),
        ("GET /livez\u{1} HTTP/1.1\r\nHost: a\r\n\r\n", "400 400 Bad Request"),
        ("GET /livez? b HTTP/1.1\r\nHost: a\r\n\r\n", "400 400 Bad Request"),
        ("GET /livez%zz HTTP/1.1\r\nHost: a\r\n\r\n", "400 400 Bad Request"),
        ("GET /livez?<>#é HTTP/1.1\r\nHost: a\r\n\r\n", "200 ok"),
    ] {
        assert_eq!(exchange(&server, request).await, expected, "{request:?}");
    }
    let long = |bytes: usize| format!("GET /livez?{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(bytes));
    assert_eq!(exchange(&server, &long(1024 * 1024)).await, "200 ok");
    let too_long = exchange(&server, &long(1024 * 1024 + 4096)).await;
    assert_eq!(too_long, "431 431 Request Header Fields Too Large");
}

/// hyper has room for a hundred headers; the further ones count as much as the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_one_of_many_headers_counts() {
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let groups: Vec<String> = (0..900).map(|n| format!("group-{n}")).collect();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let mut request = Request::new("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews").json(&review);
    for group in &groups {
        request = request.header("Impersonate-Group", group);
    }
    // Without this last header, the request would be the impersonator's own.
    let request = request.header("Impersonate-User", "jane");
    let answer = admin.send(&request).await.unwrap().json().unwrap();
    let user = &answer["status"]["userInfo"];
    assert_eq!(user["username"], "jane", "{answer}");
    let listed: Vec<&str> =
        user["groups"].as_array().unwrap().iter().filter_map(|group| group.as_str()).collect();
    assert_eq!(listed.get(..900).unwrap(), groups);

    let lines = |count: usize| "a: b\r\n".repeat(count);
    let head = |count: usize| format!("GET /livez HTTP/1.1\r\n{}Host: a\r\n\r\n", lines(count));
    assert_eq!(exchange(&server, &head(999)).await, "200 ok");
    assert_eq!(exchange(&server, &head(1000)).await, "431 431 Request Header Fields Too Large");
    let broken = format!("GET /livez HTTP/1.1\r\nHost: a\r\n{}no colon\r\n\r\n", lines(200));
    assert_eq!(exchange(&server, &broken).await, "400 400 Bad Request");
}

/// Request smuggling: bodies are never parsed as requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_on_one_connection_stay_apart() {
    let server = Server::start_ephemeral().await.unwrap();
    let mut connection = server.admin().unwrap().target().connect().await.unwrap();
    let body = "GET /livez< HTTP/1.1\r\n\r\n";
    let first = format!("POST /livez?< HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let second = "GET /livez?x=<&exclude=> HTTP/1.1\r\nHost: a\r\n\r\n";
    connection.send(format!("{first}{second}{second}").as_bytes()).await.unwrap();
    for expected in [(403, None), (200, Some("ok")), (200, Some("ok"))] {
        let head = connection.read_head(false).await.unwrap();
        let mut body = Vec::new();
        connection.read_body(&mut body).await.unwrap();
        assert_eq!(head.status, expected.0);
        assert_eq!(expected.1.map_or_else(|| body.clone(), |text| text.as_bytes().to_vec()), body);
    }
}

/// After a CONNECT request, nobody looks at heads: a URL would be cut at `#`, and its query be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_follows_a_request_that_could_have_become_a_tunnel() {
    let server = Server::start_ephemeral().await.unwrap();
    let cut = "GET /livez#/x?exclude=y HTTP/1.1\r\nHost: a\r\n\r\n";
    for first in [
        "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT /livez HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
    ] {
        let mut connection = server.admin().unwrap().target().connect().await.unwrap();
        connection.send(format!("{first}{cut}").as_bytes()).await.unwrap();
        let head = connection.read_head(false).await.unwrap();
        connection.read_body(&mut Vec::new()).await.unwrap();
        assert!(head.all("connection").any(|value| value == "close"), "{first:?}");
        assert!(connection.read_head(false).await.is_err(), "{first:?}");
    }
    assert_eq!(exchange(&server, cut).await[..4], *"403 ");
}

/// A rejected request is answered although its body is not read, and the connection remains usable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_nobody_reads_do_not_break_the_connection() {
    let server = Server::start_ephemeral().await.unwrap();
    let nobody = server.admin().unwrap().as_token(None);
    for _ in 0..20 {
        let request = Request::new("POST", MAPS).body("application/json", "x".repeat(100_000));
        assert_eq!(nobody.send(&request).await.unwrap().status(), 403);
    }
}

/// Unauthenticated clients that open all connections they can: other clients can write all the time, and no restart is
/// needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_unauthenticated_clients_does_not_block_users() {
    let server = Server::start_with(Options::default()).await.unwrap();
    let admin = server.admin().unwrap();
    assert_eq!(create_map(&admin).await, 201);
    // A far lower limit than at start: accepting fails, but the store has the descriptors that it needs.
    let pid = server.pid().unwrap().to_string();
    let limited = std::process::Command::new("prlimit").args(["--pid", &pid, "--nofile=512:512"]).status();
    if !limited.is_ok_and(|status| status.success()) {
        pintle_testkit::skip("no prlimit");
        return;
    }
    let mut flood = Vec::new();
    for _ in 0..900 {
        // The kernel completes connections that the server has not accepted: those wait.
        let connect = TcpStream::connect(("127.0.0.1", server.port()));
        match tokio::time::timeout(Duration::from_millis(200), connect).await {
            Ok(Ok(stream)) => flood.push(stream),
            _ => break,
        }
    }
    // An existing connection still works. Writes need no new descriptors.
    for _ in 0..20 {
        assert_eq!(create_map(&admin).await, 201, "{}", server.log_tail());
    }
    assert_eq!(admin.get("/readyz?verbose").await.map(|(code, _)| code).unwrap_or(200), 200);
    drop(flood);
    // New connections succeed again, without a restart.
    let mut last = None;
    for _ in 0..100 {
        let client = server.admin().unwrap();
        match client.get("/version").await {
            Ok((200, _)) => return,
            other => last = Some(other),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nobody gets in: {last:?} {}", server.log_tail());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_clients_of_one_address_are_fine() {
    let server = Server::start_ephemeral().await.unwrap();
    let mut clients = JoinSet::new();
    for _ in 0..2000 {
        let client = server.admin().unwrap();
        clients.spawn(async move {
            let (code, _) = client.get(&format!("{MAPS}?limit=1")).await.unwrap();
            (code, client)
        });
    }
    let mut open = Vec::new();
    while let Some(answer) = clients.join_next().await {
        let (code, client) = answer.unwrap();
        assert_eq!(code, 200);
        open.push(client);
    }
    for client in open.iter().step_by(50) {
        assert_eq!(client.get(&format!("{MAPS}?limit=1")).await.unwrap().0, 200);
    }
}

/// A client that opens a connection and sends nothing, or half a request, is disconnected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_instead_of_a_handshake_ends_the_connection() {
    let server = Server::start_ephemeral().await.unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    _ = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.unwrap();
    assert_eq!(server.admin().unwrap().get("/version").await.unwrap().0, 200);
}
