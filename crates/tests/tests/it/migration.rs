//! `pintle migrate`: from a data folder to etcd and back, with every object unchanged and revisions that only grow; and a
//! server on an etcd that is not yet available, is full, or was restored to an earlier state.

use pintle_testkit::{Client, Etcd, Options, Request, Server};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn migrate(direction: &str, data: &Path, etcd: &Etcd) -> String {
    let output = Command::new(pintle_testkit::server::binary().unwrap())
        .args(["migrate", direction, "--data-dir"])
        .arg(data)
        .arg(format!("--etcd-servers={}", etcd.endpoints()))
        .arg("--feature-gates=CBORServingAndStorage=true")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        text(&output.stdout)
    } else {
        panic!("migrate {direction}: {}", text(&output.stderr))
    }
}

const COLLECTIONS: [&str; 7] = [
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/services",
    "/apis/apps/v1/deployments",
    "/apis/example.org/v1/things",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
];

/// All objects of some kinds, and the lowest and highest revision of the lists.
async fn everything(client: &Client) -> (Vec<Value>, u64) {
    let (mut all, mut revision) = (Vec::new(), u64::MAX);
    for path in COLLECTIONS {
        let (status, list) = client.get(path).await.unwrap();
        assert_eq!(status, 200, "{path}: {list}");
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        revision = revision.min(version.parse().unwrap());
        for item in list["items"].as_array().unwrap() {
            let mut item = item.clone();
            item["metadata"]["resourceVersion"].take();
            all.push(item);
        }
    }
    (all, revision)
}

async fn fill(client: &Client) {
    let definition = json!({
        "metadata": {"name": "things.example.org"},
        "spec": {"group": "example.org", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let thing = json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a"},
        "spec": {"text": "<é\u{2028}>", "number": 1.5, "list": [1, null, {"b": true}]}});
    let labels = json!({"app": "a"});
    let container = json!({"name": "c", "image": "i"});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}});
    let service = json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    for (path, object) in [
        (COLLECTIONS[5], definition),
        ("/apis/apps/v1/namespaces/default/deployments", deployment),
        ("/api/v1/namespaces/default/services", service),
        (COLLECTIONS[4], thing),
    ] {
        let (status, answer) = client.post(path, &object).await.unwrap();
        assert_eq!(status, 201, "{path}: {answer}");
    }
    for number in 0..50 {
        let map = json!({"metadata": {"name": format!("m{number}")}, "data": {"n": number.to_string()}});
        let (status, _) = client.post("/api/v1/namespaces/default/configmaps", &map).await.unwrap();
        assert_eq!(status, 201);
    }
    let secret = json!({"metadata": {"name": "s"}, "data": {"key": "AAECAw=="}});
    assert_eq!(client.post("/api/v1/namespaces/default/secrets", &secret).await.unwrap().0, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_move_to_etcd_and_back() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let mut embedded = Server::start().await.unwrap();
    fill(&embedded.admin().unwrap()).await;
    let (before, revision) = everything(&embedded.admin().unwrap()).await;
    embedded.terminate().await.unwrap();

    let report = migrate("to-etcd", &embedded.data_dir(), &etcd);
    assert!(report.contains("objects are in etcd and compared"), "{report}");
    let flags = vec![format!("--etcd-servers={}", etcd.endpoints())];
    let mut on_etcd = Server::start_with(Options { flags, ..Options::default() }).await.unwrap();
    let (moved, moved_revision) = everything(&on_etcd.admin().unwrap()).await;
    assert_eq!(before, moved);
    assert!(moved_revision > revision, "{moved_revision} after {revision}");
    let map = json!({"metadata": {"name": "on-etcd"}});
    let (status, _) =
        on_etcd.admin().unwrap().post("/api/v1/namespaces/default/configmaps", &map).await.unwrap();
    assert_eq!(status, 201);
    let (changed, changed_revision) = everything(&on_etcd.admin().unwrap()).await;
    on_etcd.terminate().await.unwrap();

    std::fs::remove_dir_all(embedded.data_dir().join("store")).unwrap();
    let report = migrate("from-etcd", &embedded.data_dir(), &etcd);
    assert!(report.contains("and compared"), "{report}");
    embedded.restart().await.unwrap();
    let (back, back_revision) = everything(&embedded.admin().unwrap()).await;
    assert_eq!(changed, back);
    assert!(back_revision >= changed_revision, "{back_revision} after {changed_revision}");
}

/// Kinds of versions that are not served by default are moved in their stored form, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_versions_that_are_off_move_as_well() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let flags = vec!["--runtime-config=internal.apiserver.k8s.io/v1alpha1=true".to_owned()];
    let mut embedded = Server::start_with(Options { flags, ..Options::default() }).await.unwrap();
    let path = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions";
    let object = json!({"metadata": {"name": "example.org.things"}, "spec": {}});
    let (status, answer) = embedded.admin().unwrap().post(path, &object).await.unwrap();
    assert_eq!(status, 201, "{answer}");
    embedded.terminate().await.unwrap();
    migrate("to-etcd", &embedded.data_dir(), &etcd);
    let stored = etcd.range("/registry/storageversions/").await.unwrap();
    assert_eq!(stored.len(), 1);
    assert!(stored[0].1.starts_with(b"k8s\0"), "protobuf, as kube-apiserver stores it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_waits_for_etcd_can_be_ended() {
    let flags = vec!["--etcd-servers=http://127.0.0.1:1".to_owned()];
    let mut server = Server::start_waiting(Options { flags, ..Options::default() }).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while !server.log_tail().contains("etcd") && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(server.terminate().await.unwrap().unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_refuses_writes_and_answers_everything_else() {
    const WRITES_MAX: usize = 100;
    let Some(etcd) = Etcd::start(1, &["--quota-backend-bytes=4000000"]) else { return };
    let flags = vec![format!("--etcd-servers={}", etcd.endpoints())];
    let server = Server::start_with(Options { flags, ..Options::default() }).await.unwrap();
    let client = server.admin().unwrap();
    let maps = "/api/v1/namespaces/default/configmaps";
    let large = |number: usize| json!({"metadata": {"name": format!("m{number}")}, "data": {"x": "x".repeat(900_000)}});
    // etcd compares its quota with the size at its last commit to disk, so a few more writes than fit are accepted.
    let mut refused = None;
    for number in 0..WRITES_MAX {
        let (status, answer) = client.post(maps, &large(number)).await.unwrap();
        if status != 201 {
            refused = Some((status, answer["message"].to_string()));
            break;
        }
    }
    assert_eq!(refused, Some((500, r#""etcdserver: mvcc: database space exceeded""#.to_owned())));
    // Whether a deletion is accepted depends on the version of etcd: 3.6 does, 3.5.1 does not beyond the quota.
    for path in ["/readyz", maps] {
        assert_eq!(client.send(&Request::new("GET", path)).await.unwrap().status(), 200, "{path}");
    }
}
