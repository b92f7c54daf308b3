//! `/metrics` under attack: paths, methods and queries of unauthenticated clients create only few series.

use pintle_testkit::{Request, Server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_of_requests_never_becomes_a_label() {
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let lines = || async { admin.send(&Request::new("GET", "/metrics")).await.unwrap().text() };
    lines().await;
    let before = lines().await.lines().count();
    for n in 0..300 {
        let evil = format!("x{n}%22%7D%201%0Aevil_metric%7Ba=%22{}", "y".repeat(500));
        for path in [
            format!("/api/v1/{evil}"),
            format!("/api/v1/namespaces/default/{evil}/{evil}/{evil}"),
            format!("/apis/{evil}/v1/pods"),
            format!("/api/v1/namespaces/{evil}/configmaps/{evil}?dryRun={evil}"),
            format!("/healthz/{evil}"),
        ] {
            admin.send(&Request::new("GET", &path)).await.unwrap();
        }
    }
    let text = lines().await;
    assert!(!text.contains("evil_metric") && !text.contains("yyyy"), "a label holds what a client wrote");
    // Gets of config maps with an invalid dry run: a handful of histograms. Requests that no route answers have no series.
    assert!(text.lines().count() < before + 250, "{before} lines became {}", text.lines().count());
    assert!(text.contains("resource=\"configmaps\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_flight_fall_when_clients_go_away() {
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let gauge = || async {
        let text = admin.send(&Request::new("GET", "/metrics")).await.unwrap().text();
        let line = text
            .lines()
            .find(|l| l.starts_with("apiserver_longrunning_requests{") && l.contains("configmaps"));
        line.and_then(|l| l.rsplit(' ').next()).map(str::to_string)
    };
    let watch = Request::new("GET", "/api/v1/configmaps?watch=1&timeoutSeconds=1");
    admin.send(&watch).await.unwrap();
    assert_eq!(gauge().await.as_deref(), Some("0"));
}
