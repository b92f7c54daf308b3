//! `--egress-selector-config-file` with a konnectivity server: nodes whose addresses exist only behind it.

use crate::proxy::{admin, kubelet, run};
use pintle_testkit::server::Options;
use pintle_testkit::{Konnectivity, Request, Server};
use serde_json::json;

#[tokio::test]
async fn nodes_behind_a_konnectivity_server() {
    let folder = std::env::temp_dir().join(format!("pintle-egress-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, socket) = (folder.join("egress.json"), folder.join("konnectivity.sock"));
    let selection = json!({"name": "cluster", "connection": {"proxyProtocol": "GRPC",
        "transport": {"uds": {"udsName": socket}}}});
    let config = json!({"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration",
        "egressSelections": [selection]});
    std::fs::write(&file, config.to_string()).unwrap();
    let flags = vec![
        format!("--egress-selector-config-file={}", file.display()),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
    ];
    let server = Server::start_with(Options { ephemeral: true, flags }).await.expect("a server");
    let client = admin(&server);
    let kubelet = kubelet(&client).await;
    let move_to = async |address: &str| {
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}});
        let path = "/api/v1/nodes/n1/status";
        let (code, _) = client.patch(path, "application/merge-patch+json", &status).await.expect("an answer");
        assert_eq!(code, 200);
    };
    let route = (format!("10.9.9.9:{}", kubelet.port()), kubelet.port());
    let _konnectivity = Konnectivity::start(&socket, &[route]).expect("a konnectivity server");

    move_to("10.9.9.9").await;
    let log = Request::new("GET", "/api/v1/namespaces/default/pods/web/log");
    let answer = client.send(&log).await.expect("an answer");
    assert_eq!(answer.text(), "GET /containerLogs/default/web/main\n");
    let channels = run(&client, &["sh", "-c", "read line; echo got $line"], b"hello\n").await;
    assert_eq!(channels[1], b"got hello\n");
    let big = run(&client, &["head", "-c", "3000000", "/dev/zero"], b"").await;
    assert_eq!(big[1].len(), 3_000_000);

    move_to("10.9.9.8").await;
    let (code, answer) = client.send_json(&log).await.expect("an answer");
    let path = format!("10.9.9.8:{}", kubelet.port());
    let why = format!("Get \"https://{path}/containerLogs/default/web/main\": no route to {path}");
    assert_eq!((code, &answer["message"]), (500, &json!(why)));
    _ = std::fs::remove_dir_all(&folder);
}
