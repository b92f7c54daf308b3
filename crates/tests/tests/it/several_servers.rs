//! Several servers on one etcd act as one API server: a write on one takes effect on the others, the controllers run
//! once, and the service `kubernetes` has the addresses of the live ones.

use pintle_testkit::{Certificate, Client, Etcd, Options, Request, Server};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long a write on one server may take to have effect on another.
const IN_FORCE_MAX: Duration = Duration::from_secs(1);
/// How long something with its own timers may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

async fn server(etcd: &Etcd, number: usize) -> Server {
    let flags = vec![
        format!("--etcd-servers={}", etcd.endpoints()),
        format!("--advertise-address=192.0.2.{number}"),
        "--controllers=*,serviceaccount,root-ca-cert-publisher".to_owned(),
    ];
    Server::start_with(Options { flags, ..Options::default() }).await.unwrap()
}

/// Repeats a check until it succeeds, and returns how long that took.
async fn until(limit: Duration, about: &str, mut is: impl AsyncFnMut() -> Result<(), String>) -> Duration {
    let began = Instant::now();
    loop {
        match is().await {
            Ok(()) => return began.elapsed(),
            Err(why) if began.elapsed() > limit => panic!("{about}, after {limit:?}: {why}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn answer(client: &Client, path: &str, body: &Value) -> (u16, Value) {
    client.post(path, body).await.unwrap()
}

/// Waits until a dry-run create on the other server has this code.
async fn in_force(client: &Client, path: &str, body: &Value, wanted: u16, about: &str) {
    let path = format!("{path}?dryRun=All");
    until(IN_FORCE_MAX, about, async || match answer(client, &path, body).await {
        (status, _) if status == wanted => Ok(()),
        (status, body) => Err(format!("{status} {body}")),
    })
    .await;
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_to_one_server_takes_effect_on_the_other() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let (one, two) = (server(&etcd, 1).await, server(&etcd, 2).await);
    let (first, second, alice) = (one.admin().unwrap(), two.admin().unwrap(), two.alice().unwrap());
    let maps = "/api/v1/namespaces/default/configmaps";

    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {"group": "example.org", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(answer(&first, path, &definition).await.0, 201);
    let thing = json!({"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a"}});
    in_force(&second, "/apis/example.org/v1/things", &thing, 201, "a definition").await;

    assert_eq!(answer(&alice, &format!("{maps}?dryRun=All"), &config_map("a")).await.0, 403);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rule = json!({"verbs": ["create"], "apiGroups": [""], "resources": ["configmaps"]});
    let role = json!({"metadata": {"name": "maps"}, "rules": [rule]});
    assert_eq!(answer(&first, &format!("{rbac}/roles"), &role).await.0, 201);
    let binding = json!({"metadata": {"name": "maps"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]});
    assert_eq!(answer(&first, &format!("{rbac}/rolebindings"), &binding).await.0, 201);
    in_force(&alice, maps, &config_map("a"), 201, "a role binding").await;

    let admission = "/apis/admissionregistration.k8s.io/v1";
    let rules = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    let policy = json!({"metadata": {"name": "no-b"}, "spec": {"failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "object.metadata.name != 'b'"}]}});
    let path = format!("{admission}/validatingadmissionpolicies");
    assert_eq!(answer(&first, &path, &policy).await.0, 201);
    let binding =
        json!({"metadata": {"name": "no-b"}, "spec": {"policyName": "no-b", "validationActions": ["Deny"]}});
    let path = format!("{admission}/validatingadmissionpolicybindings");
    assert_eq!(answer(&first, &path, &binding).await.0, 201);
    in_force(&second, maps, &config_map("b"), 422, "a policy").await;

    // Nothing listens there, and the failure policy rejects.
    let webhook = json!({"metadata": {"name": "nobody"}, "webhooks": [{"name": "nobody.example.org",
        "clientConfig": {"url": "https://127.0.0.1:1/"}, "admissionReviewVersions": ["v1"], "rules": rules,
        "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 1}]});
    let path = format!("{admission}/validatingwebhookconfigurations");
    assert_eq!(answer(&first, &path, &webhook).await.0, 201);
    in_force(&second, maps, &config_map("c"), 500, "a webhook").await;
}

async fn holder(client: &Client) -> String {
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/apiserver-controllers";
    let (_, lease) = client.get(path).await.unwrap();
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

/// Creates a namespace, waits for its service account and its root certificate, deletes it and waits until it is gone.
async fn use_controllers(client: &Client, name: &str) {
    let namespace = json!({"metadata": {"name": name}});
    assert_eq!(answer(client, "/api/v1/namespaces", &namespace).await.0, 201);
    let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
    let root_ca = format!("/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt");
    let path = format!("/api/v1/namespaces/{name}");
    for (path, wanted) in [(&account, 200), (&root_ca, 200), (&path, 404)] {
        if wanted == 404 {
            assert_eq!(client.delete(path).await.unwrap().0, 200);
        }
        until(PATIENCE, "the controllers", async || match client.get(path).await.unwrap() {
            (status, _) if status == wanted => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_run_on_one_server_and_are_handed_over() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let mut servers = [server(&etcd, 1).await, server(&etcd, 2).await];
    let survivor = servers[1].admin().unwrap();
    until(PATIENCE, "a leader", async || match holder(&survivor).await {
        holder if holder.is_empty() => Err("nobody".to_owned()),
        _ => Ok(()),
    })
    .await;
    let first = holder(&survivor).await;
    use_controllers(&survivor, "before").await;
    assert_eq!(holder(&survivor).await, first, "a leader that lives stays");

    // The first server holds the Lease, because it started first.
    servers[0].terminate().await.unwrap();
    let handover = until(PATIENCE, "the handover", async || match holder(&survivor).await {
        holder if holder.is_empty() || holder == first => Err(holder),
        _ => Ok(()),
    })
    .await;
    assert!(handover < Duration::from_secs(3), "{handover:?}");
    use_controllers(&survivor, "after").await;
}

fn addresses(endpoints: &Value) -> Vec<String> {
    let entries = endpoints["subsets"][0]["addresses"].as_array().into_iter().flatten();
    entries.map(|entry| entry["ip"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn expect_addresses(client: &Client, wanted: &[&str]) {
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    until(PATIENCE, "the addresses of the service kubernetes", async || {
        let (_, endpoints) = client.get("/api/v1/namespaces/default/endpoints/kubernetes").await.unwrap();
        let (_, slice) = client.get(slices).await.unwrap();
        let of_slice = slice["endpoints"].as_array().into_iter().flatten();
        let of_slice: Vec<&str> = of_slice.filter_map(|entry| entry["addresses"][0].as_str()).collect();
        if addresses(&endpoints) == wanted && of_slice == wanted {
            Ok(())
        } else {
            Err(format!("{:?} {of_slice:?}", addresses(&endpoints)))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_has_the_addresses_of_those_that_live() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let mut one = server(&etcd, 1).await;
    let mut two = server(&etcd, 2).await;
    let three = server(&etcd, 3).await;
    let client = three.admin().unwrap();
    expect_addresses(&client, &["192.0.2.1", "192.0.2.2", "192.0.2.3"]).await;
    let leases = etcd.range("/registry/masterleases/").await.unwrap();
    // kube-apiserver's bytes: Endpoints without a name, whose generation counts the renewals.
    let expected = b"k8s\0\n\x0f\n\x02v1\x12\tEndpoints\x12#\n\x10\n\0\x12\0\x1a\0\"\0*\x002\08\x01B\0\x12\x0f\n\r\n\t192.0.2.1\x1a\0\x1a\0\"\0";
    assert_eq!(leases[0], ("/registry/masterleases/192.0.2.1".to_owned(), expected.to_vec()));
    assert_eq!(etcd.range("/registry/peerserverleases/").await.unwrap().len(), 1, "of one host");

    two.terminate().await.unwrap();
    expect_addresses(&client, &["192.0.2.1", "192.0.2.3"]).await;
    // Its lease is valid for 15 more seconds.
    one.kill().unwrap();
    expect_addresses(&client, &["192.0.2.3"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_go_on_while_etcd_hangs_and_on_another_server() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let (one, two) = (server(&etcd, 1).await, server(&etcd, 2).await);
    let (first, second) = (one.admin().unwrap(), two.admin().unwrap());
    let maps = "/api/v1/namespaces/default/configmaps";
    for name in ["a", "b", "c"] {
        assert_eq!(answer(&first, maps, &config_map(name)).await.0, 201);
    }
    let (_, page) = first.get(&format!("{maps}?limit=1")).await.unwrap();
    let next = format!("{maps}?limit=1&continue={}", page["metadata"]["continue"].as_str().unwrap());
    // The other server has not served a consistent read since, so it may be behind this revision.
    let (status, elsewhere) = second.get(&next).await.unwrap();
    assert_eq!(status, 200, "{elsewhere}");
    etcd.pause(0).unwrap();
    // kube-apiserver also answers from its snapshots, without a call to etcd.
    let (status, here) = first.get(&format!("{next}&timeout=5s")).await.unwrap();
    etcd.resume(0).unwrap();
    assert_eq!((status, &here["items"]), (200, &elsewhere["items"]), "{here}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_outcome_is_unknown_is_not_repeated() {
    let Some(mut etcd) = Etcd::start(3, &[]) else { return };
    let server = server(&etcd, 1).await;
    let client = server.admin().unwrap();
    let maps = "/api/v1/namespaces/default/configmaps";
    assert_eq!(answer(&client, maps, &config_map("a")).await.0, 201);
    etcd.kill(etcd.leader().await.unwrap()).unwrap();

    let began = Instant::now();
    let (path, media) = (format!("{maps}/a"), "application/merge-patch+json");
    let patch = json!({"data": {"k": "v"}});
    let (status, answer) = client.patch(&path, media, &patch).await.unwrap();
    match status {
        // The new leader took it.
        200 => assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed()),
        // kube-apiserver answers the same.
        500 => {
            let message = answer["message"].as_str().unwrap();
            let known = ["etcdserver: request timed out", "rpc error: code = Unavailable desc = "];
            assert!(known.iter().any(|known| message.starts_with(known)), "{answer}");
        }
        _ => panic!("{status} {answer}"),
    }
    assert_eq!(client.patch(&path, media, &patch).await.unwrap().0, 200);
}

/// A server with its own host name that trusts `folder/ca.crt` and shows the certificate `folder/pair.crt` to clients and peers.
async fn peer(etcd: &Etcd, name: &str, folder: &std::path::Path, flags: &[&str]) -> Option<Server> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
    let mut all = vec![
        format!("--etcd-servers={}", etcd.endpoints()),
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        file("tls-cert-file", "pair.crt"),
        file("tls-private-key-file", "pair.key"),
        file("peer-ca-file", "ca.crt"),
        file("proxy-client-cert-file", "pair.crt"),
        file("proxy-client-key-file", "pair.key"),
        file("requestheader-client-ca-file", "ca.crt"),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
    ];
    all.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let options = Options { flags: all, ..Options::default() };
    Some(Server::start_on_host(name, options).await?.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_for_what_only_a_peer_serves_are_forwarded() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let folder = std::env::temp_dir().join(format!("pintle-peers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let pair = Certificate::new(&["kubernetes.default.svc", "127.0.0.1"]).unwrap();
    for (name, text) in
        [("ca.crt", &pair.authority), ("pair.crt", &pair.certificate), ("pair.key", &pair.key)]
    {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let Some(one) = peer(&etcd, "one", &folder, &[]).await else { return };
    let Some(mut two) = peer(&etcd, "two", &folder, &["--runtime-config=api/all=true"]).await else { return };
    let (first, second) = (one.admin().unwrap(), two.admin().unwrap());
    let path = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions";
    let code = async |client: &Client| client.send(&Request::new("GET", path)).await.unwrap().status();
    until(PATIENCE, "a peer", async || match code(&first).await {
        200 => Ok(()),
        status => Err(format!("{status}")),
    })
    .await;
    let object = json!({"metadata": {"name": "a.b"}, "spec": {}});
    assert_eq!(answer(&first, path, &object).await.0, 201);
    assert_eq!(second.get(&format!("{path}/a.b")).await.unwrap().0, 200);
    // The peer knows the user: who has no rights is refused.
    assert_eq!(one.alice().unwrap().get(path).await.unwrap().0, 403);

    let discovery = |profile: &str| {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        Request::new("GET", "/apis").header("Accept", &format!("{accept}{profile}"))
    };
    let merged = first.send(&discovery("")).await.unwrap().json().unwrap();
    assert_eq!(merged, second.send(&discovery("")).await.unwrap().json().unwrap());
    assert_eq!(merged, second.send(&discovery(";profile=nopeer")).await.unwrap().json().unwrap());
    assert_ne!(merged, first.send(&discovery(";profile=nopeer")).await.unwrap().json().unwrap());

    // A request that a peer has forwarded is not forwarded again.
    let marked = Request::new("GET", path).header("X-Kubernetes-Peer-Proxied", "true");
    assert_eq!(first.send(&marked).await.unwrap().status(), 404);
    two.kill().unwrap();
    assert_eq!(code(&first).await, 503);
    std::fs::remove_dir_all(&folder).unwrap();
}
