//! `--etcd-servers-overrides`: some resources are in their own etcd, with its own revisions.

use pintle_testkit::{Client, Etcd, Options, Request, Server};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/namespaces/default/services";

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// The code of a health check.
async fn check(client: &Client, path: &str) -> u16 {
    client.send(&Request::new("GET", path)).await.unwrap().status()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resources_lie_in_the_etcd_that_is_named_for_them() {
    let (Some(main), Some(second)) = (Etcd::start(1, &[]), Etcd::start(1, &[])) else { return };
    let servers = second.endpoints();
    let flags = vec![
        format!("--etcd-servers={}", main.endpoints()),
        format!("--etcd-servers-overrides=/configmaps#{servers},/services#{servers}"),
    ];
    let mut server = Server::start_with(Options { flags, ..Options::default() }).await.unwrap();
    let client = server.admin().unwrap();

    for number in 0..3 {
        let map = json!({"metadata": {"name": format!("m{number}")}});
        assert_eq!(client.post(MAPS, &map).await.unwrap().0, 201);
    }
    let secret = json!({"metadata": {"name": "s"}});
    let (_, secret) = client.post("/api/v1/namespaces/default/secrets", &secret).await.unwrap();
    let (_, listed) = client.get(MAPS).await.unwrap();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(3));
    assert!(revision(&listed) < revision(&secret), "each etcd counts for itself");
    let path = format!("{MAPS}?resourceVersion={}&resourceVersionMatch=Exact", revision(&listed));
    assert_eq!(client.get(&path).await.unwrap().0, 200);
    assert_eq!(main.range("/registry/configmaps/default/").await.unwrap().len(), 0);
    assert_eq!(second.range("/registry/configmaps/default/").await.unwrap().len(), 3);

    // The service is in that etcd, its address in the main one.
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let (status, service) = client.post(SERVICES, &service).await.unwrap();
    assert_eq!(status, 201, "{service}");
    let key = format!("/registry/ipaddresses/{}", service["spec"]["clusterIP"].as_str().unwrap());
    assert_eq!(main.range(&key).await.unwrap().len(), 1);
    assert_eq!(second.range("/registry/services/specs/default/s").await.unwrap().len(), 1);
    assert_eq!(client.delete(&format!("{SERVICES}/s")).await.unwrap().0, 200);
    assert_eq!(main.range(&key).await.unwrap().len(), 0);

    assert_eq!(check(&client, "/readyz/etcd-override-readiness-0").await, 200);
    assert_eq!(check(&client, "/livez/etcd-override-0").await, 200);
    server.restart().await.unwrap();
    let client = server.admin().unwrap();
    let (_, again) = client.get(MAPS).await.unwrap();
    assert_eq!(again["items"], listed["items"]);
    second.pause(0).unwrap();
    // A result is reused for half a time limit.
    let end = Instant::now() + Duration::from_secs(20);
    while check(&client, "/livez/etcd-override-0").await != 500 {
        assert!(Instant::now() < end, "the second etcd hangs and nobody notices");
    }
    assert_eq!(check(&client, "/livez/etcd").await, 200);
    second.resume(0).unwrap();
}
