//! How tests in Rust use `pintle-testserver`: a server of their own, and a client of kube-rs from its kubeconfig.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use pintle_testserver::TestServer;
use serde_json::json;

/// A server of the built binary, as the other tests of this project find it.
fn start() -> TestServer {
    TestServer::builder().program(pintle_testkit::server::binary().unwrap()).start().unwrap()
}

async fn client_of(server: &TestServer) -> Client {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn each_server_has_its_own_objects() {
    let (one, other) = (start(), start());
    let greeting = json!({"metadata": {"name": "greeting"}, "data": {"hello": "world"}});
    let greeting: ConfigMap = serde_json::from_value(greeting).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client_of(&one).await);
    maps.create(&PostParams::default(), &greeting).await.unwrap();
    assert_eq!(maps.get("greeting").await.unwrap().data, greeting.data);
    let elsewhere: Api<ConfigMap> = Api::default_namespaced(client_of(&other).await);
    assert!(elsewhere.get_opt("greeting").await.unwrap().is_none());
}
