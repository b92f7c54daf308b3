//! A fuzzer for the whole filter chain: it combines methods, paths, queries, headers and bodies at random. No request may
//! panic, and other requests must be served as before.
//!
//! The seed changes every day and is printed. `FUZZ_SEED` repeats a run, `FUZZ_REQUESTS` makes it longer.

use crate::random::{Random, setting};
use std::time::{Duration, Instant, SystemTime};

use pintle_testkit::{Client, Request, Server};
use serde_json::json;

const REQUESTS: u64 = 4000;
/// The number of concurrent senders.
const SENDERS: u64 = 8;
const SECONDS_PER_DAY: u64 = 24 * 60 * 60;
const METHODS: &[&str] = &["GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "ODD"];
const PATHS: &[&str] = &[
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/a",
    "/api/v1/namespaces/default/configmaps/a/status",
    "/api/v1/watch/namespaces/default/configmaps/a",
    "/api/v1/namespaces/default/pods/a/log",
    "/api/v1/namespaces/default/pods/a/exec",
    "/api/v1/namespaces/default/pods/a/eviction",
    "/api/v1/namespaces/default/serviceaccounts/default/token",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/namespaces/default/deployments/a/scale",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/api/v1/nodes/a/proxy/x",
    "/openapi/v2",
    "/openapi/v3/api/v1",
    "/readyz",
    "/version",
    "/apis",
    "/",
    "//",
    "/api//v1/%2e%2e/pods",
    "/%ff%00/x",
];
const PARAMETERS: &[&str] = &[
    "timeoutSeconds",
    "timeout",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "watch",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "fieldSelector",
    "labelSelector",
    "pretty",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "verbose",
    "exclude",
    "tailLines",
    "sinceSeconds",
    "limitBytes",
    "sinceTime",
    "container",
    "command",
    "hash",
    "ports",
    "export",
];
const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e400",
    "0x10",
    "true",
    "false",
    "%00",
    "%ff%fe",
    "a%3Db",
    "a%2Cb",
    "metadata.name%3Da",
    "metadata.name!%3Da%2Cx",
    "a+in+(b%2Cc)",
    "a+in+(",
    "Exact",
    "NotOlderThan",
    "All",
    "Strict",
    "Foreground",
    "Nope",
    "9999999999h",
    "-1ns",
    "1ns",
    "NaN",
    "%F0%9F%98%80",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiXHUwMDAwIn0",
    "2026-01-01T00:00:00Z",
    "%",
    ";",
];
const HEADERS: &[&str] = &[
    "Accept",
    "Content-Type",
    "Accept-Encoding",
    "If-None-Match",
    "Impersonate-User",
    "Impersonate-Group",
    "Impersonate-Uid",
    "Impersonate-Extra-%zz",
    "Impersonate-Extra-a%2fb",
    "Audit-Id",
    "User-Agent",
    "Expect",
    "Connection",
    "Upgrade",
    "Sec-WebSocket-Protocol",
    "Sec-WebSocket-Key",
    "X-Remote-User",
    "X-Forwarded-For",
    "Origin",
    "Range",
    "Traceparent",
];
const HEADER_VALUES: &[&str] = &[
    "",
    "a",
    "ü",
    "*/*",
    "application/json;q=0.0001",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    ";;;,,,",
    "q=\"",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "application/yaml",
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "gzip, identity;q=0",
    "websocket",
    "Upgrade",
    "base64url.bearer.authorization.k8s.io.%%, x",
    "system:masters",
    "system:node:a",
    "100-continue",
    "bytes=0-18446744073709551615",
    "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-01",
];
const BODIES: &[&str] = &[
    "",
    "{}",
    "[]",
    "null",
    "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"gracePeriodSeconds\":-9223372036854775808}",
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}",
    "[{\"op\":\"test\",\"path\":\"/\"}]",
    "a: &a [*a]",
    "{\"spec\":{\"expirationSeconds\":9223372036854775807}}",
    "{\"metadata\":{\"resourceVersion\":\"18446744073709551615\"}}",
    "k8s\u{0}\u{1}\u{2}",
    "{\"spec\":{\"replicas\":2147483648}}",
];

fn request(random: &mut Random) -> Request {
    let mut path = format!("{}?timeoutSeconds=1", random.pick(PATHS));
    for _ in 0..random.below(4) {
        path.push_str(&format!("&{}={}", random.pick(PARAMETERS), random.pick(VALUES)));
    }
    // The first value counts, so the parameter that ends a watch soon must not always come first.
    if random.below(2) == 0 {
        path = path.replacen("timeoutSeconds=1&", "", 1);
    }
    let mut request = Request::new(random.pick(METHODS), &path);
    for _ in 0..random.below(4) {
        request = request.header(random.pick(HEADERS), random.pick(HEADER_VALUES));
    }
    if random.below(2) == 0 {
        request.body = Some(random.pick(BODIES).as_bytes().to_vec());
    }
    request
}

/// Sends a request and returns its status and body; `None` if the connection was closed without an answer, which is
/// correct for bytes that are not HTTP. A watch does not end, so only the first part of a body is awaited.
async fn send(client: &Client, request: &Request) -> Option<(u16, String)> {
    let opened = tokio::time::timeout(Duration::from_secs(30), client.open(request)).await;
    let mut streaming = opened.expect("every request is answered in time").ok()?;
    let body = tokio::time::timeout(Duration::from_millis(300), streaming.read_body()).await;
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    Some((streaming.head.status, String::from_utf8_lossy(&body).into_owned()))
}

/// Sends `count` random requests and returns how many had no answer.
async fn send_random(client: Client, seed: u64, count: u64) -> u64 {
    let mut random = Random::new(seed);
    let mut unanswered = 0;
    for number in 0..count {
        let request = request(&mut random);
        let Some((status, body)) = send(&client, &request).await else {
            unanswered += 1;
            continue;
        };
        let panicked = body.contains("caused apiserver to panic");
        assert!(!panicked && status < 600, "seed {seed}, request {number}: {status} {body}: {request:?}");
    }
    unanswered
}

async fn requests_in_flight(admin: &Client) -> f64 {
    let metrics = admin.send(&Request::new("GET", "/metrics")).await.unwrap().text();
    let gauges = metrics.lines().filter(|line| line.starts_with("apiserver_current_inflight_requests{"));
    gauges.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_requests_are_answered_and_do_not_affect_others() {
    let today = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() / SECONDS_PER_DAY;
    let seed = setting("FUZZ_SEED").unwrap_or(today);
    let per_sender = setting("FUZZ_REQUESTS").unwrap_or(REQUESTS) / SENDERS;
    println!("FUZZ_SEED={seed}");

    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let before = requests_in_flight(&admin).await;
    let senders = (0..SENDERS).map(|sender| {
        let seed = seed * SENDERS + sender + 1;
        tokio::spawn(send_random(server.admin().unwrap(), seed, per_sender))
    });
    let mut unanswered = 0;
    for sender in senders.collect::<Vec<_>>() {
        unanswered += sender.await.unwrap();
    }

    let sent = per_sender * SENDERS;
    assert!(unanswered * 4 < sent, "{unanswered} of {sent} requests had no answer");
    assert!(!server.log_tail().contains("panicked"), "{}", server.log_tail());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m-"}});
    assert_eq!(admin.post("/api/v1/namespaces/default/configmaps", &map).await.unwrap().0, 201);
    assert_eq!(admin.send(&Request::new("GET", "/readyz")).await.unwrap().status(), 200);
    // The gauge is the maximum of the last second.
    let end = Instant::now() + Duration::from_secs(30);
    while requests_in_flight(&admin).await > before.max(1.0) {
        assert!(Instant::now() < end, "requests stay in flight after they ended");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
