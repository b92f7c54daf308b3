//! The process: start, errors at start, shutdown, and clients that do not read.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pintle_testkit::etcd::Etcd;
use pintle_testkit::server::{ADMIN_TOKEN, Options, binary};
use pintle_testkit::{Client, Request, Server};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Output and exit code of a server that cannot start.
fn refusal(flags: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(binary().unwrap()).arg("serve").args(flags).output().unwrap();
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
}

fn check_refusal(flags: &[&str], says: &str) {
    let (text, code) = refusal(flags);
    // Errors that kube-apiserver logs have klog's prefix.
    let is_one_line = text.lines().count() == 1 && (text.starts_with("pintle: ") || text.starts_with('E'));
    assert!(text.contains(says) && is_one_line, "{flags:?}: {text}");
    assert_eq!(code, Some(1), "{flags:?}");
}

/// AWS-LC aborts the process if a thread generates a key while the process exits, which happened in three of a hundred starts.
#[test]
fn a_server_that_cannot_start_waits_for_its_threads() {
    for _ in 0..60 {
        let (text, code) = refusal(&["--ephemeral", "--encryption-provider-config=x"]);
        assert_eq!(code, Some(1), "{text}");
    }
}

/// The static pod of packaging/ has a read-only root file system, and its image has no folder for temporary files.
#[test]
fn an_ephemeral_server_on_etcd_writes_no_files() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let flags = ["--ephemeral", "--bind-address=127.0.0.1", "--secure-port=0", "--etcd-servers"];
    let mut server = Command::new(binary().unwrap())
        .arg("serve")
        .args(flags)
        .arg(etcd.endpoints())
        .env("TMPDIR", "/nonexistent")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = Vec::new();
    let lines = BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok);
    let is_serving =
        lines.inspect(|line| printed.push(line.clone())).any(|line| line.contains("Serving securely on"));
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(is_serving, "{printed:?}");
}

/// A program that starts the server and is killed does not leave it behind.
#[test]
fn a_server_stops_when_its_input_ends() {
    let mut server = Command::new(binary().unwrap())
        .args(["serve", "--ephemeral", "--stop-with-stdin", "--bind-address=127.0.0.1", "--secure-port=0"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("Serving securely on")));
    assert!(server.try_wait().unwrap().is_none());
    drop(server.stdin.take());
    // Its output ends with the process.
    lines.for_each(drop);
    assert!(server.wait().unwrap().success());
}

/// Damages a file in its middle.
fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let used = bytes.iter().rposition(|b| *b != 0).unwrap();
    bytes[used / 2] ^= 0x55;
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_start_says_why_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    check_refusal(&["--nope"], "unknown flag: --nope");
    check_refusal(&["--secure-port=x"], "strconv.ParseInt: parsing \"x\": invalid syntax");
    check_refusal(&["--ephemeral", "--enable-admission-plugins=Nope"], "is unknown");
    check_refusal(&["--ephemeral", "--authorization-mode=Nope"], "\"Nope\" is not a valid mode");
    check_refusal(
        &["--ephemeral", "--encryption-provider-config=x"],
        "error reading encryption provider configuration file",
    );
    check_refusal(&["--ephemeral", "--token-auth-file=/nope"], "/nope");
    check_refusal(&["--ephemeral", &format!("--secure-port={port}")], "cannot listen on 127.0.0.1");

    let mut server = Server::start().await.unwrap();
    let folder = server.data_dir();
    let data = format!("--data-dir={}", folder.display());
    check_refusal(&[&data, "--secure-port=0"], "in use");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m-"}});
    for _ in 0..20 {
        assert_eq!(server.admin().unwrap().post(MAPS, &map).await.unwrap().0, 201);
    }
    server.kill().unwrap();
    let log = folder.join("store/segment-00000000000000000001");
    damage(&log);
    check_refusal(&[&data, "--secure-port=0"], &log.file_name().unwrap().to_string_lossy());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_end_cleanly_with_the_server() {
    let mut server = Server::start().await.unwrap();
    let client = server.admin().unwrap();
    let mut stream = client.open(&Request::new("GET", &format!("{MAPS}?watch=1"))).await.unwrap();
    let body = tokio::spawn(async move { stream.read_body().await });
    let status = server.terminate().await.unwrap().unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(body.await.unwrap().unwrap(), b"", "the stream has its last chunk");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_the_server_at_once() {
    let flags = vec!["--shutdown-delay-duration=600s".to_owned()];
    let mut server = Server::start_with(Options { ephemeral: true, flags }).await.unwrap();
    let client = server.admin().unwrap();
    server.signal().unwrap();
    let stops = async {
        while client.send(&Request::new("GET", "/readyz")).await.unwrap().status() == 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), stops).await.expect("/readyz fails after the first signal");
    let (status, _) = client.get(MAPS).await.unwrap();
    assert_eq!(status, 200, "requests are still served");
    let began = Instant::now();
    let status = server.terminate().await.unwrap().unwrap();
    assert!(!status.success() && began.elapsed() < Duration::from_secs(5), "{status}");
}

/// A thread that reads a file from a disk that does not answer, or that validates a huge object, does not end with the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_does_not_end_does_not_keep_the_process_alive() {
    let path = std::env::temp_dir().join(format!("pintle-unread-{}.json", std::process::id()));
    let config = r#"{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}"#;
    std::fs::write(&path, config).unwrap();
    let flags = vec![format!("--authentication-config={}", path.display())];
    let mut server = Server::start_with(Options { ephemeral: false, flags }).await.unwrap();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    assert_eq!(server.admin().unwrap().post(MAPS, &map).await.unwrap().0, 201);

    // The server reads the file again every second; now it reads from a pipe into which nobody writes.
    std::fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let opened = tokio::task::spawn_blocking({
        let path = path.clone();
        move || std::fs::OpenOptions::new().write(true).open(path)
    });
    let pipe = tokio::time::timeout(Duration::from_secs(30), opened).await.unwrap().unwrap().unwrap();

    let status = server.terminate().await.unwrap().unwrap();
    assert!(status.success(), "{status}");
    drop(pipe);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, config).unwrap();
    server.restart().await.unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(server.admin().unwrap().get(&format!("{MAPS}/m")).await.unwrap().0, 200);
}

fn sockets(server: &Server) -> usize {
    let folder = format!("/proc/{}/fd", server.pid().unwrap());
    let links =
        std::fs::read_dir(folder).unwrap().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_forgotten_after_a_while() {
    let flags = vec!["--event-ttl=1s".to_owned()];
    let server = Server::start_with(Options { ephemeral: true, flags }).await.unwrap();
    let client = server.admin().unwrap();
    let events = "/api/v1/namespaces/default/events";
    let event: Value = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "Test"});
    assert_eq!(client.post(events, &event).await.unwrap().0, 201);
    let deadline = Instant::now() + Duration::from_secs(30);
    while client.get(&format!("{events}/e")).await.unwrap().0 == 200 {
        assert!(Instant::now() < deadline, "the event is still there");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_of_the_kubernetes_service_are_corrected_whenever_they_are_wrong() {
    let flags = vec!["--advertise-address=192.0.2.7".to_owned()];
    let server = Server::start_with(Options { ephemeral: true, flags }).await.unwrap();
    let client = server.admin().unwrap();
    let endpoints = "/api/v1/namespaces/default/endpoints/kubernetes";
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    let (wrong_subsets, wrong_endpoints) =
        (json!([{"addresses": [{"ip": "192.0.2.8"}]}]), json!([{"addresses": ["192.0.2.8"]}]));
    let address =
        |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str) == Some("192.0.2.7");
    for _ in 0..2 {
        for (path, field, wrong, pointer) in [
            (endpoints, "subsets", &wrong_subsets, "/subsets/0/addresses/0/ip"),
            (slice, "endpoints", &wrong_endpoints, "/endpoints/0/addresses/0"),
        ] {
            let (status, mut object) = client.get(path).await.unwrap();
            assert!(status == 200 && address(&object, pointer), "{object}");
            object[field] = wrong.clone();
            assert_eq!(client.put(path, &object).await.unwrap().0, 200);
            let deadline = Instant::now() + Duration::from_secs(30);
            while !address(&client.get(path).await.unwrap().1, pointer) {
                assert!(Instant::now() < deadline, "{path} is still wrong");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_of_the_kubernetes_service_have_the_servers_address() {
    for (flag, expected) in [("--advertise-address=192.0.2.7", 200), ("--endpoint-reconciler-type=none", 404)]
    {
        let flags = vec![flag.to_owned()];
        let server = Server::start_with(Options { ephemeral: true, flags }).await.unwrap();
        let client = server.admin().unwrap();
        let endpoints = "/api/v1/namespaces/default/endpoints/kubernetes";
        let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
        for (path, address) in [(endpoints, "/subsets/0/addresses/0/ip"), (slice, "/endpoints/0/addresses/0")]
        {
            let (status, found) = client.get(path).await.unwrap();
            assert_eq!(status, expected, "{path} with {flag}");
            let address_found = found.pointer(address).and_then(Value::as_str);
            assert_eq!(address_found, (status == 200).then_some("192.0.2.7"), "{path} with {flag}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_ends_when_its_client_leaves() {
    let server = Server::start_ephemeral().await.unwrap();
    let before = sockets(&server);
    let watch = Request::new("GET", &format!("{MAPS}?watch=1"));
    drop(server.admin().unwrap().open(&watch).await.unwrap());
    until_left(&server, before).await;
}

/// Waits until the new connections are closed.
async fn until_left(server: &Server, before: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while sockets(server) > before {
        assert!(Instant::now() < deadline, "the connection is still there");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Watches the names of new objects until there are `count`; returns the longest pause between two.
async fn follow(client: Client, count: usize) -> Duration {
    let path = format!("{MAPS}?watch=1&resourceVersion=0");
    let mut stream = client.open(&Request::new("GET", &path)).await.unwrap();
    let (mut lines, mut longest, mut last) = (0, Duration::ZERO, Instant::now());
    while lines < count {
        let part = stream.next_part().await.unwrap().expect("the watch goes on");
        lines += part.iter().filter(|b| **b == b'\n').count();
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    longest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_disconnected_and_does_not_delay_others() {
    // Objects of 0.9 MB: far more than the kernel buffers for a client with a small receive buffer.
    const OBJECTS: usize = 40;
    const RECEIVE_BUFFER: u32 = 64 * 1024;
    let server = Server::start_ephemeral().await.unwrap();
    let client = server.admin().unwrap();
    let before = sockets(&server);
    // A watch and a list that are answered and never read.
    let deaf = Request::new("GET", &format!("{MAPS}?watch=1"));
    let target = client.target().clone().with_receive_buffer(RECEIVE_BUFFER);
    let _unread = Client::of(target, Some(ADMIN_TOKEN)).open(&deaf).await.unwrap();
    let reader = tokio::spawn(follow(server.admin().unwrap(), OBJECTS));
    let text = "x".repeat(900_000);
    for number in 0..OBJECTS {
        let map: Value = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("m{number}")}, "data": {"text": text}});
        assert_eq!(client.post(MAPS, &map).await.unwrap().0, 201);
    }
    let longest = reader.await.unwrap();
    assert!(longest < Duration::from_secs(10), "another watcher waited {longest:?}");
    drop(client);
    until_left(&server, before).await;
}
