//! Requests that are forwarded: extension servers, kubelets that run real commands, and addresses that must never be
//! reached.

use std::time::Duration;

use pintle_testkit::backend::{Backend, Reply};
use pintle_testkit::server::{ADMIN_TOKEN, ALICE_TOKEN, Options};
use pintle_testkit::{Client, Request, Server};
use serde_json::{Value, json};

const POLL: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(20);

async fn server(flags: &[&str]) -> Server {
    let flags = flags.iter().map(ToString::to_string).collect();
    Server::start_with(Options { ephemeral: true, flags }).await.expect("a server")
}

pub(crate) fn admin(server: &Server) -> Client {
    Client::new(&server.url(), Some(ADMIN_TOKEN)).expect("a client")
}

/// Repeats a request until the answer is as wanted.
pub(crate) async fn until(client: &Client, path: &str, wanted: impl Fn(u16, &Value) -> bool) -> Value {
    let asking = async {
        loop {
            if let Ok((code, body)) = client.get(path).await
                && wanted(code, &body)
            {
                return body;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking)
        .await
        .unwrap_or_else(|_| panic!("{path} does not become as wanted"))
}

/// The code of the answer to a GET.
async fn code(client: &Client, path: &str) -> u16 {
    client.send(&Request::new("GET", path)).await.expect("an answer").status()
}

/// Percent-encodes a query parameter.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn create(client: &Client, path: &str, object: Value) {
    let (code, answer) = client.post(path, &object).await.expect("an answer");
    assert_eq!(code, 201, "{answer}");
}

/// An extension server for `ext.example.com/v1`, registered and available.
async fn extension(client: &Client) -> Backend {
    let backend = Backend::start(&["ext.default.svc"], |received| match received.target.as_str() {
        target if target.ends_with("/away") => Reply {
            headers: vec![("Location", "https://169.254.169.254/latest/".to_owned())],
            ..Reply::new(302, "text/plain", "")
        },
        "/apis/ext.example.com/v1" => {
            let resources = json!([{"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get"]}]);
            let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "ext.example.com/v1", "resources": resources});
            Reply::new(200, "application/json", list.to_string())
        }
        target if target.starts_with("/apis/ext.example.com/v1/") => {
            let headers: Vec<Value> = received.headers.iter().map(|(k, v)| json!([k, v])).collect();
            let echo = json!({"target": target, "headers": headers});
            Reply::new(200, "application/json", echo.to_string())
        }
        _ => Reply::new(404, "text/plain", "not here"),
    })
    .await
    .expect("a backend");
    register(client, "ext.example.com", "v1", &backend).await;
    backend
}

/// Registers a backend whose certificate is for `ext.default.svc` for a group and version, and waits until it is available.
pub(crate) async fn register(client: &Client, group: &str, version: &str, backend: &Backend) {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ext"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}});
    create(client, "/api/v1/namespaces/default/services", service).await;
    let name = format!("{version}.{group}");
    let registration = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 15,
            "service": {"namespace": "default", "name": "ext", "port": backend.port()}, "caBundle": backend.ca_bundle()},
    });
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    create(client, path, registration).await;
    until(client, &format!("{path}/{name}"), |_, body| {
        body.pointer("/status/conditions/0/reason") == Some(&json!("Passed"))
    })
    .await;
}

#[tokio::test]
async fn an_extension_server_answers_for_its_group() {
    let server = server(&[
        "--requestheader-username-headers=X-My-User",
        "--requestheader-extra-headers-prefix=X-My-Extra-",
    ])
    .await;
    let client = admin(&server);
    let backend = extension(&client).await;
    let echo = "/apis/ext.example.com/v1/echo";

    // Clients cannot claim another identity, neither with the default headers nor with those that flags configure.
    let claims = Request::new("GET", echo)
        .header("X-Remote-User", "root")
        .header("X-Remote-Group", "system:masters")
        .header("X-My-User", "root")
        .header("X-My-Extra-Scope", "all")
        .header("X-Mine", "1");
    let (status, answer) = client.send_json(&claims).await.expect("an answer");
    assert_eq!(status, 200, "{answer}");
    let headers = answer["headers"].as_array().cloned().unwrap_or_default();
    let of = |name: &str| -> Vec<&Value> { headers.iter().filter(|h| h[0] == name).map(|h| &h[1]).collect() };
    assert_eq!(of("x-remote-user"), ["admin"]);
    assert_eq!(of("x-remote-group"), ["system:masters", "system:authenticated"]);
    assert_eq!(of("x-mine"), ["1"]);
    for gone in ["authorization", "x-my-user", "x-my-extra-scope"] {
        assert!(of(gone).is_empty(), "{gone} is passed on: {headers:?}");
    }

    // Authorization comes first.
    let alice = client.as_token(Some(ALICE_TOKEN));
    assert_eq!(alice.get(echo).await.expect("an answer").0, 403);

    // CVE-2022-3172: an extension server cannot send clients, and their credentials, elsewhere.
    assert_eq!(code(&client, "/apis/ext.example.com/v1/away").await, 502);

    let groups = until(&client, "/apis", |_, body| {
        body["groups"].as_array().is_some_and(|all| all.iter().any(|g| g["name"] == "ext.example.com"))
    })
    .await;
    assert!(groups["groups"].as_array().is_some_and(|all| all.len() > 10));

    // A missing extension server breaks nothing else.
    drop(backend);
    assert_eq!(code(&client, "/api/v1/namespaces/default").await, 200);
    assert_eq!(code(&client, echo).await, 503);
    assert_eq!(code(&client, "/apis").await, 200);
}

/// A node with a kubelet, and a pod on it.
pub(crate) async fn kubelet(client: &Client) -> Backend {
    let kubelet = Backend::kubelet().await.expect("a kubelet");
    create(client, "/api/v1/nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}))
        .await;
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port()}}}});
    let path = "/api/v1/nodes/n1/status";
    let (code, _) = client.patch(path, "application/merge-patch+json", &status).await.expect("an answer");
    assert_eq!(code, 200);
    for (name, container) in [("web", "main"), ("gone", "moved")] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeName": "n1", "containers": [{"name": container, "image": "i"}]}});
        create(client, "/api/v1/namespaces/default/pods", pod).await;
    }
    kubelet
}

/// Runs a command over a WebSocket and returns the bytes of each channel.
pub(crate) async fn run(client: &Client, command: &[&str], input: &[u8]) -> Vec<Vec<u8>> {
    let words: Vec<String> = command.iter().map(|word| format!("command={}", encoded(word))).collect();
    let path = format!(
        "/api/v1/namespaces/default/pods/web/exec?stdin=true&stdout=true&stderr=true&{}",
        words.join("&")
    );
    let request = Request::new("GET", &path)
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "AAECAwQFBgcICQoLDA0ODw==")
        .header("Sec-WebSocket-Protocol", "v5.channel.k8s.io");
    let mut connection = client.target().connect().await.expect("a connection");
    connection.send(&client.bytes_of(&request)).await.expect("sent");
    assert_eq!(connection.read_head(false).await.expect("an answer").status, 101);
    let frame = |payload: &[u8]| {
        // A mask of zeros changes nothing.
        let mut out = vec![0x82, 0x80 | u8::try_from(payload.len()).unwrap_or(0), 0, 0, 0, 0];
        out.extend_from_slice(payload);
        out
    };
    connection.send(&frame(&[&[0], input].concat())).await.expect("sent");
    connection.send(&frame(&[255, 0])).await.expect("sent");
    let mut channels = vec![Vec::new(); 5];
    let mut bytes = Vec::new();
    while let Ok(Some(part)) = connection.next_part().await {
        bytes.extend_from_slice(&part);
    }
    let mut rest = &bytes[..];
    while let [opcode, size, after @ ..] = rest {
        let (length, after) = match (size & 0x7f, after) {
            (126, [high, low, after @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), after),
            (short, after) => (usize::from(short), after),
        };
        let (payload, after) = after.split_at(length);
        if opcode & 0x0f == 2
            && let [channel, data @ ..] = payload
        {
            channels[usize::from(*channel)].extend_from_slice(data);
        }
        rest = after;
    }
    channels
}

#[tokio::test]
async fn commands_and_logs_come_from_the_kubelet() {
    let server = server(&[
        "--kubelet-preferred-address-types=InternalIP",
        "--disable-admission-plugins=ServiceAccount",
    ])
    .await;
    let client = admin(&server);
    let _kubelet = kubelet(&client).await;

    let log = client.send(&Request::new("GET", "/api/v1/namespaces/default/pods/web/log?tailLines=3")).await;
    let log = log.expect("an answer");
    assert_eq!(
        (log.status(), log.text()),
        (200, "GET /containerLogs/default/web/main?tailLines=3\n".to_owned())
    );

    let channels =
        run(&client, &["sh", "-c", "read line; echo got $line; echo bad >&2; exit 3"], b"hello\n").await;
    let text = |channel: usize| String::from_utf8_lossy(&channels[channel]).into_owned();
    assert_eq!((text(1), text(2)), ("got hello\n".to_owned(), "bad\n".to_owned()));
    let status: Value = serde_json::from_str(&text(3)).expect("a status");
    assert_eq!(status.pointer("/details/causes/0/message"), Some(&json!("3")));

    let big = run(&client, &["head", "-c", "300000", "/dev/zero"], b"").await;
    assert_eq!(big[1].len(), 300_000);

    // A GET needs the right to create, too.
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "x"},
        "rules": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]});
    create(&client, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", role).await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "x"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}]});
    create(&client, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding).await;
    let alice = client.as_token(Some(ALICE_TOKEN));
    let (code, _) =
        alice.get("/api/v1/namespaces/default/pods/web/exec?command=id").await.expect("an answer");
    assert_eq!(code, 403);
}

#[tokio::test]
async fn forbidden_destinations_are_not_reached() {
    let server = server(&[
        "--kubelet-preferred-address-types=InternalIP",
        "--disable-admission-plugins=ServiceAccount",
    ])
    .await;
    let client = admin(&server);
    let _kubelet = kubelet(&client).await;

    // CVE-2020-8559: a kubelet cannot send the server elsewhere.
    let (code, answer) = client.get("/api/v1/namespaces/default/pods/gone/log").await.expect("an answer");
    assert_eq!(
        (code, &answer["message"]),
        (500, &json!("Get \"https://169.254.169.254/\": redirects forbidden"))
    );

    // CVE-2020-8555, CVE-2022-3294: requests to nodes and pods must not reach this machine or its link, by address or
    // by name.
    let (code, answer) = client.get("/api/v1/nodes/n1/proxy/metrics").await.expect("an answer");
    assert_eq!((code, &answer["message"]), (400, &json!("address not allowed")));
    let named = json!({"status": {"addresses": [{"type": "InternalIP", "address": "localhost"}]}});
    client.patch("/api/v1/nodes/n1/status", "application/merge-patch+json", &named).await.expect("an answer");
    let (code, answer) = client.get("/api/v1/nodes/n1/proxy/metrics").await.expect("an answer");
    assert_eq!((code, &answer["message"]), (400, &json!("address not allowed")));
    for address in ["127.0.0.1", "169.254.169.254", "::1", "fe80::1", "0.0.0.0"] {
        let status = json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}});
        let path = "/api/v1/namespaces/default/pods/web/status";
        client.patch(path, "application/merge-patch+json", &status).await.expect("an answer");
        let (code, answer) =
            client.get("/api/v1/namespaces/default/pods/web/proxy/x").await.expect("an answer");
        assert_eq!((code, &answer["message"]), (400, &json!("address not allowed")), "{address}");
    }

    // CVE-2018-1002105: after an upgrade that failed, the connection is an ordinary one to this server again.
    let alice = client.as_token(Some(ALICE_TOKEN));
    let request = Request::new("GET", "/api/v1/namespaces/default/pods/web/exec?command=id")
        .header("Connection", "Upgrade")
        .header("Upgrade", "SPDY/3.1");
    let mut connection = alice.target().connect().await.expect("a connection");
    connection.send(&alice.bytes_of(&request)).await.expect("sent");
    assert_eq!(connection.read_head(false).await.expect("an answer").status, 403);
    connection.skip_body().await.expect("a body");
    connection.send(&alice.bytes_of(&Request::new("GET", "/api/v1/nodes"))).await.expect("sent");
    assert_eq!(connection.read_head(false).await.expect("an answer").status, 403);
}

/// A check of an APIService that is overtaken by a change of its spec says nothing about the new spec.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_of_an_earlier_spec_does_not_count() {
    // The time-out of a check, and some more.
    const CHECK: Duration = Duration::from_secs(7);
    let server = server(&[]).await;
    let client = admin(&server);
    let backend = extension(&client).await;
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    let (_, list) = client.get(path).await.expect("an answer");
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let query = format!("watch=1&resourceVersion={version}&fieldSelector=metadata.name%3Dv1.ext.example.com");
    let mut watch = client.open(&Request::new("GET", &format!("{path}?{query}"))).await.expect("a watch");

    // This server accepts connections and never answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let silent_port = silent.local_addr().expect("an address").port();
    let point_at = async |port: u16| {
        let patch = json!({"spec": {"service": {"port": port}}});
        let service = format!("{path}/v1.ext.example.com");
        let (code, answer) =
            client.patch(&service, "application/merge-patch+json", &patch).await.expect("an answer");
        assert_eq!(code, 200, "{answer}");
    };
    point_at(silent_port).await;
    let (_asked, _) = silent.accept().await.expect("a check");
    point_at(backend.port()).await;
    tokio::time::sleep(CHECK).await;
    let done = json!({"metadata": {"annotations": {"done": ""}}});
    let service = format!("{path}/v1.ext.example.com");
    client.patch(&service, "application/merge-patch+json", &done).await.expect("an answer");

    let mut events = String::new();
    while !events.contains("\"done\"") {
        let part = watch.next_part().await.expect("an event").expect("an event");
        events.push_str(&String::from_utf8_lossy(&part));
    }
    assert!(!events.contains("FailedDiscoveryCheck"), "{events}");
}
