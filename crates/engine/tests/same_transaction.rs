//! Writes in the same transaction as an object stay consistent under concurrency: addresses, node ports, quotas,
//! evictions.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a check fails where it unwraps"
)]

use pintle_admission::{Chain, ClusterState, Settings};
use pintle_auth::UserInfo;
use pintle_auth::authz::AlwaysAllow;
use pintle_cache::Cache;
use pintle_engine::decode::Media;
use pintle_engine::{Body, Change, Clock, Engine, PatchType, Random, Repairs, Target, WriteRequest, Written};
use pintle_kinds::builtin;
use pintle_kinds::service_allocation::Ranges;
use pintle_meta::options::{DeleteOptions, FieldValidation};
use pintle_meta::{Status, net};
use pintle_store::{Embedded, Options, Store};
use pintle_value::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinSet;

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> (i64, u32) {
        (1_700_000_000, 0)
    }
}

/// A random source whose numbers repeat soon, so that concurrent writers choose the same addresses and ports.
struct RepeatingRandom(AtomicU64);

impl Random for RepeatingRandom {
    fn fill(&self, out: &mut [u8]) {
        let unique = self.0.fetch_add(1, Ordering::Relaxed);
        for (place, byte) in out.iter_mut().zip(unique.to_le_bytes().into_iter().cycle()) {
            *place = byte;
        }
    }

    fn number(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) % 3
    }
}

async fn engine(networks: &[&str]) -> Arc<Engine> {
    let store: Arc<dyn Store> = Arc::new(Embedded::ephemeral(Options::default()).unwrap());
    let cache = Cache::new(pintle_cache::Options::default());
    let builtin = builtin();
    let admission = Chain::new(Settings::new(Arc::new(AlwaysAllow)));
    let webhooks = Arc::new(pintle_webhook::Client::default());
    let engine = Arc::new(Engine::new(pintle_engine::Options {
        store: store.clone(),
        codec: None,
        cache: cache.clone(),
        clock: Arc::new(Fixed),
        random: Arc::new(RepeatingRandom(AtomicU64::new(1))),
        types: builtin.types.clone(),
        metadata_schema: builtin.types.by_go("meta/v1.ObjectMeta").unwrap(),
        plugins: admission.unwrap(),
        hooks: pintle_engine::Hooks::new(webhooks.clone(), webhooks.clone()),
        webhooks,
        authorizer: Arc::new(AlwaysAllow),
        access_objects: Default::default(),
        service_ranges: Ranges {
            networks: networks.iter().map(|n| net::parse_cidr_sloppy(n).unwrap()).collect(),
            node_ports: 30000..=32767,
        },
        unsafe_deletion: false,
        deletion_workers: 1,
        garbage_collection: true,
        granular_claim_status: true,
        routes_to_endpoints: false,
    }));
    engine.storage().install_all(builtin.kinds.into_iter().map(Arc::new));
    cache.attach(&*store);
    tokio::spawn(cache.run());
    create(&engine, "namespaces", "", r#"{"metadata":{"name":"n"}}"#, false).await.unwrap();
    engine
}

fn request(engine: &Engine, plural: &str, namespace: &str, name: &str, change: Change) -> WriteRequest {
    WriteRequest {
        target: engine.storage().target("", "v1", plural, namespace, name).unwrap(),
        change,
        dry_run: false,
        field_manager: "test".into(),
        user_agent: String::new(),
        validation: Some(FieldValidation::Strict),
        user: UserInfo::new("admin", &[UserInfo::MASTERS]).into(),
    }
}

fn body(text: &str) -> Body {
    Body { bytes: text.to_string().into(), media: Media::Json }
}

async fn create(
    engine: &Engine,
    plural: &str,
    namespace: &str,
    text: &str,
    dry_run: bool,
) -> Result<Written, Status> {
    let request =
        WriteRequest { dry_run, ..request(engine, plural, namespace, "", Change::Create(body(text))) };
    engine.writer().write(&request).await
}

async fn patch(engine: &Engine, name: &str, text: &str) -> Result<Written, Status> {
    let change = Change::Patch(PatchType::Merge, text.to_string().into());
    engine.writer().write(&request(engine, "services", "n", name, change)).await
}

fn names(engine: &Engine, group: &str, plural: &str) -> BTreeSet<String> {
    engine
        .storage()
        .objects(group, plural, "")
        .iter()
        .map(|o| o.str_at(&["metadata", "name"]).to_string())
        .collect()
}

/// The bits of the allocation of node ports.
fn taken_ports(engine: &Engine) -> Vec<u32> {
    let state = engine.storage().store().snapshot_state();
    let Some(entry) = state.get("/registry/ranges/servicenodeports") else { return Vec::new() };
    let tree = pintle_value::json::parse(&entry.value).unwrap().value;
    let bits = pintle_value::base64::decode(tree.str_at(&["data"])).unwrap();
    let places = bits.iter().rev().enumerate().flat_map(|(at, byte)| {
        (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| at as u32 * 8 + bit)
    });
    places.collect()
}

fn service(name: &str, kind: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"type":"{kind}","ports":[{{"port":80}}]}}}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn services_made_at_once_share_neither_address_nor_port() {
    let engine = engine(&["10.0.0.0/24"]).await;
    let mut tasks = JoinSet::new();
    for at in 0..60 {
        let engine = engine.clone();
        tasks.spawn(async move {
            create(&engine, "services", "n", &service(&format!("s{at}"), "NodePort"), false).await.map(|_| ())
        });
    }
    while let Some(made) = tasks.join_next().await {
        made.unwrap().unwrap();
    }
    let services = engine.storage().objects("", "services", "n");
    let ips: BTreeSet<&str> = services.iter().map(|s| s.str_at(&["spec", "clusterIP"])).collect();
    let ports: BTreeSet<i64> = services
        .iter()
        .filter_map(|s| s.items_at(&["spec", "ports"]).first()?.get("nodePort").and_then(Value::as_int))
        .collect();
    assert_eq!((services.len(), ips.len(), ports.len()), (60, 60, 60));
    assert_eq!(names(&engine, "networking.k8s.io", "ipaddresses").len(), 60);
    assert_eq!(taken_ports(&engine).len(), 60);
    for service in &services {
        let target = engine
            .storage()
            .target("", "v1", "services", "n", service.str_at(&["metadata", "name"]))
            .unwrap();
        engine
            .writer()
            .delete(&target, &DeleteOptions::default(), &engine.storage().system_user(), &mut Vec::new())
            .await
            .unwrap();
    }
    assert!(names(&engine, "networking.k8s.io", "ipaddresses").is_empty());
    assert!(taken_ports(&engine).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_a_service_no_longer_needs_are_released() {
    let engine = engine(&["10.0.0.0/24"]).await;
    create(&engine, "services", "n", &service("a", "NodePort"), false).await.unwrap();
    assert_eq!(taken_ports(&engine).len(), 1);
    patch(&engine, "a", r#"{"spec":{"type":"ClusterIP"}}"#).await.unwrap();
    assert!(taken_ports(&engine).is_empty());
    assert_eq!(names(&engine, "networking.k8s.io", "ipaddresses").len(), 1);
    let external = r#"{"spec":{"type":"ExternalName","externalName":"x.example.com","clusterIP":null,"clusterIPs":null}}"#;
    patch(&engine, "a", external).await.unwrap();
    assert!(names(&engine, "networking.k8s.io", "ipaddresses").is_empty());
    create(&engine, "services", "n", &service("b", "NodePort"), true).await.unwrap();
    assert!(taken_ports(&engine).is_empty() && names(&engine, "networking.k8s.io", "ipaddresses").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_whose_last_finalizer_a_controller_removes_releases_its_allocations() {
    let engine = engine(&["10.0.0.0/24"]).await;
    create(&engine, "services", "n", &service("a", "NodePort"), false).await.unwrap();
    patch(&engine, "a", r#"{"metadata":{"finalizers":["example.com/held"]}}"#).await.unwrap();
    let target = engine.storage().target("", "v1", "services", "n", "a").unwrap();
    let user = engine.storage().system_user();
    engine.writer().delete(&target, &DeleteOptions::default(), &user, &mut Vec::new()).await.unwrap();
    assert_eq!(names(&engine, "networking.k8s.io", "ipaddresses").len(), 1);
    let release = |tree: &mut Value| _ = tree.remove_at(&["metadata", "finalizers"]);
    engine.writer().mutate(&target, None, release).await.unwrap();
    assert!(engine.reader().object_tree(&target).unwrap().is_none());
    assert!(taken_ports(&engine).is_empty() && names(&engine, "networking.k8s.io", "ipaddresses").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_had_once_and_repaired_when_it_is_lost() {
    let engine = engine(&["10.0.0.0/24"]).await;
    let wants = |name: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"clusterIP":"10.0.0.7","ports":[{{"port":80}}]}}}}"#
        )
    };
    create(&engine, "services", "n", &wants("a"), false).await.unwrap();
    let refused = create(&engine, "services", "n", &wants("b"), false).await.map(|_| ()).unwrap_err();
    let expected = r#"Service "b" is invalid: spec.clusterIPs: Invalid value: ["10.0.0.7"]: failed to allocate IP 10.0.0.7: provided IP is already allocated"#;
    assert_eq!(refused.message, expected);
    let address = engine.storage().target("networking.k8s.io", "v1", "ipaddresses", "", "10.0.0.7").unwrap();
    engine
        .writer()
        .delete(&address, &DeleteOptions::default(), &engine.storage().system_user(), &mut Vec::new())
        .await
        .unwrap();
    engine.writer().repair_allocations(&mut Repairs::default()).await.unwrap();
    assert_eq!(names(&engine, "networking.k8s.io", "ipaddresses"), BTreeSet::from(["10.0.0.7".to_string()]));
}

/// Creates an IPAddress as the allocator does, with the given parent (resource and name).
async fn create_address(engine: &Engine, name: &str, parent: (&str, &str)) {
    let labels = r#""ipaddress.kubernetes.io/ip-family":"IPv4","ipaddress.kubernetes.io/managed-by":"ipallocator.k8s.io""#;
    let (resource, parent) = parent;
    let text = format!(
        r#"{{"metadata":{{"name":"{name}","labels":{{{labels}}}}},"spec":{{"parentRef":{{"resource":"{resource}","namespace":"n","name":"{parent}"}}}}}}"#
    );
    create_in(engine, "networking.k8s.io", "ipaddresses", "", &text).await;
}

async fn create_in(engine: &Engine, group: &str, plural: &str, namespace: &str, text: &str) {
    let target = engine.storage().target(group, "v1", plural, namespace, "").unwrap();
    let request = WriteRequest { target, ..request(engine, "services", "n", "", Change::Create(body(text))) };
    engine.writer().write(&request).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_no_service_has_are_deleted() {
    let engine = engine(&["10.0.0.0/24"]).await;
    create(&engine, "services", "n", &service("a", "NodePort"), false).await.unwrap();
    let (own, ports) = (names(&engine, "networking.k8s.io", "ipaddresses"), taken_ports(&engine));
    create_address(&engine, "10.0.0.7", ("services", "a")).await;
    create_address(&engine, "10.0.0.8", ("pods", "a")).await;
    create_address(&engine, "10.0.0.9", ("services", "gone")).await;
    let mut repairs = Repairs::default();
    let findings = engine.writer().repair_allocations(&mut repairs).await.unwrap();
    let mut notes: Vec<&str> = findings.iter().map(|finding| finding.note.as_str()).collect();
    notes.sort_unstable();
    assert_eq!(
        notes,
        [
            "IPAddress 10.0.0.8 appears to have been modified, not referencing a Service &ParentReference{Group:,Resource:pods,Namespace:n,Name:a,}: cleaning up",
            "IPAddress: 10.0.0.7 for Service n/a has a wrong reference; cleaning up",
        ]
    );
    // The service of the third one may be about to be stored.
    let left: BTreeSet<String> = own.iter().cloned().chain(["10.0.0.9".to_string()]).collect();
    assert_eq!((names(&engine, "networking.k8s.io", "ipaddresses"), taken_ports(&engine)), (left, ports));
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_are_allocated_from_the_networks_of_service_cidrs() {
    let engine = engine(&["10.0.0.0/24"]).await;
    let wants = r#"{"metadata":{"name":"a"},"spec":{"clusterIP":"10.9.0.5","ports":[{"port":80}]}}"#;
    let refused = create(&engine, "services", "n", wants, false).await.map(|_| ()).unwrap_err();
    assert!(refused.message.ends_with("the provided network does not match the current range"));
    let cidr = r#"{"metadata":{"name":"more"},"spec":{"cidrs":["10.9.0.0/24"]}}"#;
    create_in(&engine, "networking.k8s.io", "servicecidrs", "", cidr).await;
    create(&engine, "services", "n", wants, false).await.unwrap();
    assert!(names(&engine, "networking.k8s.io", "ipaddresses").contains("10.9.0.5"));
    // Services outside of all networks are reported.
    let cidrs = engine.storage().target("networking.k8s.io", "v1", "servicecidrs", "", "more").unwrap();
    let user = engine.storage().system_user();
    engine.writer().delete(&cidrs, &DeleteOptions::default(), &user, &mut Vec::new()).await.unwrap();
    let findings = engine.writer().repair_allocations(&mut Repairs::default()).await.unwrap();
    let notes: Vec<&str> = findings.iter().map(|finding| finding.note.as_str()).collect();
    assert_eq!(
        notes,
        ["Cluster IP [IPv4]: 10.9.0.5 is not within any configured Service CIDR; please recreate service"]
    );
}

/// Creates a quota for config maps, and tasks that each create one. Returns the quota and the tasks.
async fn create_under_quota(
    engine: &Arc<Engine>,
    hard: u32,
    tasks: u32,
) -> (Target, JoinSet<Result<(), Status>>) {
    let quota = format!(r#"{{"metadata":{{"name":"q"}},"spec":{{"hard":{{"count/configmaps":"{hard}"}}}}}}"#);
    create(engine, "resourcequotas", "n", &quota, false).await.unwrap();
    let target = engine.storage().target("", "v1", "resourcequotas", "n", "q").unwrap();
    let set_status = |quota: &mut Value| {
        quota.set_at(&["status", "hard", "count/configmaps"], hard.to_string().into());
        quota.set_at(&["status", "used", "count/configmaps"], "0".into());
    };
    engine.writer().mutate(&target, None, set_status).await.unwrap();
    let mut running = JoinSet::new();
    for at in 0..tasks {
        let engine = engine.clone();
        let text = format!(r#"{{"metadata":{{"name":"c{at}"}}}}"#);
        running.spawn(async move { create(&engine, "configmaps", "n", &text, false).await.map(|_| ()) });
    }
    (target, running)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_admits_exactly_its_limit() {
    let engine = engine(&["10.0.0.0/24"]).await;
    let (target, mut tasks) = create_under_quota(&engine, 5, 20).await;
    let mut passed = 0;
    while let Some(made) = tasks.join_next().await {
        match made.unwrap() {
            Ok(()) => passed += 1,
            Err(status) => assert!(
                status.message.contains("exceeded quota: q, requested: count/configmaps=1"),
                "{}",
                status.message
            ),
        }
    }
    let quota = engine.reader().object_tree(&target).unwrap().unwrap();
    assert_eq!((passed, quota.str_at(&["status", "used", "count/configmaps"])), (5, "5"));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_under_one_quota_all_succeed() {
    let engine = engine(&["10.0.0.0/24"]).await;
    let (target, mut tasks) = create_under_quota(&engine, 1000, 300).await;
    while let Some(made) = tasks.join_next().await {
        made.unwrap().unwrap();
    }
    let quota = engine.reader().object_tree(&target).unwrap().unwrap();
    assert_eq!(quota.str_at(&["status", "used", "count/configmaps"]), "300");
}
