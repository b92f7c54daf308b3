//! The drop-in for `KUBEBUILDER_ASSETS`: a control plane started like envtest does, from a folder of `pintle assets`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use pintle_testkit::envtest::{ControlPlane, ControlPlaneOptions, has_flag};
use pintle_testkit::server::binary;
use pintle_testkit::{Client, Etcd};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The time that unoptimised builds on a busy machine may take to stop; optimised ones need a few milliseconds.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// A folder that `pintle assets` made; it is removed when dropped.
struct Assets(PathBuf);

impl Assets {
    fn make(name: &str) -> Assets {
        let folder = std::env::temp_dir().join(format!("pintle-assets-{}-{name}", std::process::id()));
        let made = Command::new(binary().unwrap()).arg("assets").arg(&folder).output().unwrap();
        let text = String::from_utf8(made.stdout).unwrap();
        assert!(made.status.success() && text.starts_with("export KUBEBUILDER_ASSETS='"), "{text}");
        Assets(folder)
    }
}

impl Drop for Assets {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn create_map(client: &Client, name: &str, owner: Option<&Value>) -> Value {
    let owners: Vec<Value> = owner
        .map(|owner| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"]})
        })
        .into_iter()
        .collect();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": owners}});
    let (status, made) = client.post(MAPS, &map).await.unwrap();
    assert_eq!(status, 201, "{made}");
    made
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_plane_of_the_assets_is_a_plain_kube_apiserver() {
    let assets = Assets::make("plain");
    assert!(has_flag(&assets.0.join("etcd"), "unsafe-no-fsync").unwrap());
    assert!(!has_flag(&assets.0.join("kube-apiserver"), "insecure-port").unwrap());
    let mut plane = ControlPlane::start(&assets.0, ControlPlaneOptions::default()).await.unwrap();
    // A second one at the same time has its own data.
    let mut other = ControlPlane::start(&assets.0, ControlPlaneOptions::default()).await.unwrap();
    let client = plane.admin().unwrap();

    let owner = create_map(&client, "owner", None).await;
    create_map(&client, "dependent", Some(&owner)).await;
    assert_eq!(client.delete(&format!("{MAPS}/owner")).await.unwrap().0, 200);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ending"}});
    assert_eq!(client.post("/api/v1/namespaces", &namespace).await.unwrap().0, 201);
    assert_eq!(client.delete("/api/v1/namespaces/ending").await.unwrap().0, 200);
    // Controllers in the process would have handled both within the time of a few more writes.
    for number in 0..20 {
        create_map(&client, &format!("later-{number}"), None).await;
    }
    let (status, mut ending) = client.get("/api/v1/namespaces/ending").await.unwrap();
    assert_eq!((status, ending["status"]["phase"].as_str()), (200, Some("Terminating")));
    assert_eq!(client.get(&format!("{MAPS}/dependent")).await.unwrap().0, 200);
    // Suites finalize namespaces themselves.
    ending["spec"]["finalizers"] = json!([]);
    assert_eq!(client.put("/api/v1/namespaces/ending/finalize", &ending).await.unwrap().0, 200);
    assert_eq!(client.get("/api/v1/namespaces/ending").await.unwrap().0, 404);

    let there = other.admin().unwrap().get(&format!("{MAPS}/dependent")).await.unwrap();
    assert_eq!(there.0, 404, "the other control plane has its own data");
    for plane in [&mut plane, &mut other] {
        assert!(plane.stop().unwrap() < STOP_LIMIT);
        assert_eq!(plane.leftovers().unwrap(), Vec::<PathBuf>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_run_in_a_control_plane_that_asks_for_them() {
    let assets = Assets::make("controllers");
    let variables = vec![("PINTLE_CONTROLLERS".to_owned(), "namespace,garbage-collector".to_owned())];
    let options = ControlPlaneOptions { variables, ..ControlPlaneOptions::default() };
    let plane = ControlPlane::start(&assets.0, options).await.unwrap();
    let client = plane.admin().unwrap();
    let owner = create_map(&client, "owner", None).await;
    create_map(&client, "dependent", Some(&owner)).await;
    assert_eq!(client.delete(&format!("{MAPS}/owner")).await.unwrap().0, 200);
    let collected = async {
        while client.get(&format!("{MAPS}/dependent")).await.unwrap().0 == 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), collected)
        .await
        .expect("the dependent goes with its owner");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_etcd_is_used_as_one() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let assets = Assets::make("etcd");
    let options = || ControlPlaneOptions { etcd: Some(etcd.endpoints()), ..ControlPlaneOptions::default() };
    let mut plane = ControlPlane::start(&assets.0, options()).await.unwrap();
    create_map(&plane.admin().unwrap(), "stored", None).await;
    plane.stop().unwrap();
    assert_eq!(plane.leftovers().unwrap(), Vec::<PathBuf>::new());
    let stored = etcd.range("/registry/configmaps/default/stored").await.unwrap();
    assert_eq!(stored.len(), 1, "the object is in etcd");
    let plane = ControlPlane::start(&assets.0, options()).await.unwrap();
    assert_eq!(plane.admin().unwrap().get(&format!("{MAPS}/stored")).await.unwrap().0, 200);
}
