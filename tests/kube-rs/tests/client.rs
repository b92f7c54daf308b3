//! What operators written with kube-rs do: watch, reflect, apply, finalize, wait.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event as Final, finalizer};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Config, ResourceExt};
use pintle_testkit::Server;
use serde_json::json;

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

async fn start() -> (Server, Client) {
    let server = Server::start_ephemeral().await.unwrap();
    let file = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    (server, Client::try_from(config).unwrap())
}

fn map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": "t"}}, "data": {"k": value}}))
        .unwrap()
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it takes too long")
}

/// What a watcher says next, in short.
async fn next<K: ResourceExt>(
    events: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
) -> String {
    match within(events.try_next()).await.unwrap().expect("the stream goes on") {
        Event::Init => "init".into(),
        Event::InitApply(object) => format!("there {}", object.name_any()),
        Event::InitDone => "done".into(),
        Event::Apply(object) => format!("applied {}", object.name_any()),
        Event::Delete(object) => format!("deleted {}", object.name_any()),
    }
}

#[tokio::test]
async fn watchers_list_or_stream_and_then_follow() {
    let (_server, client) = start().await;
    let metadata_only: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(client.clone(), "default");
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &map(name, "1")).await.unwrap();
    }
    let config = watcher::Config::default().labels("app=t");
    let paged = config.clone().page_size(1);
    for (round, config) in [config.clone(), paged, config.streaming_lists()].into_iter().enumerate() {
        let mut events = pin!(watcher::watcher(maps.clone(), config.clone()));
        let mut metadata = pin!(watcher::watcher(metadata_only.clone(), config));
        for expected in ["init", "there a", "there b", "done"] {
            assert_eq!(next(&mut events).await, expected, "round {round}");
            assert_eq!(next(&mut metadata).await, expected, "round {round}, metadata only");
        }
        maps.create(&PostParams::default(), &map("c", "1")).await.unwrap();
        maps.patch("c", &PatchParams::default(), &Patch::Merge(json!({"data": {"k": "2"}}))).await.unwrap();
        maps.delete("c", &DeleteParams::default()).await.unwrap();
        for expected in ["applied c", "applied c", "deleted c"] {
            assert_eq!(next(&mut events).await, expected, "round {round}");
            assert_eq!(next(&mut metadata).await, expected, "round {round}, metadata only");
        }
    }
}

#[tokio::test]
async fn a_reflector_has_what_the_server_has() {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let (reader, writer) = reflector::store();
    let config = watcher::Config::default().labels("app=t").streaming_lists();
    let stream = reflector::reflector(writer, watcher::watcher(maps.clone(), config)).applied_objects();
    let task = tokio::spawn(stream.for_each(|_| async {}));
    within(reader.wait_until_ready()).await.unwrap();
    for number in 0..50 {
        maps.create(&PostParams::default(), &map(&format!("m{number}"), "1")).await.unwrap();
    }
    let lists = ListParams::default().labels("app=t");
    maps.delete_collection(&DeleteParams::default(), &lists.clone().fields("metadata.name=m7"))
        .await
        .unwrap();
    let wanted: BTreeSet<String> =
        maps.list(&lists.limit(500)).await.unwrap().items.iter().map(ResourceExt::name_any).collect();
    assert_eq!(wanted.len(), 49);
    let settled = async {
        while reader.state().iter().map(|m| m.name_any()).collect::<BTreeSet<_>>() != wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(settled).await;
    assert!(reader.get(&ObjectRef::new("m1").within("default")).is_some());
    assert!(reader.get(&ObjectRef::new("m7").within("default")).is_none());
    task.abort();
}

#[tokio::test]
async fn fields_have_one_owner_unless_forced() {
    let (_server, client) = start().await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let applied = |value: &str| {
        Patch::Apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": value}}),
        )
    };
    maps.patch("m", &PatchParams::apply("one"), &applied("1")).await.unwrap();
    let same = maps.patch("m", &PatchParams::apply("two"), &applied("1")).await.unwrap();
    assert_eq!(same.managed_fields().len(), 2);
    let error = maps.patch("m", &PatchParams::apply("two"), &applied("2")).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert!(status.message.contains("conflict with \"one\": .data.k"), "{}", status.message);
    let forced = maps.patch("m", &PatchParams::apply("two").force(), &applied("2")).await.unwrap();
    let owners: Vec<_> = forced.managed_fields().iter().filter_map(|f| f.manager.clone()).collect();
    assert_eq!(owners, ["two"]);
    let dry = PatchParams { dry_run: true, ..PatchParams::apply("two") };
    maps.patch("m", &dry, &applied("3")).await.unwrap();
    assert_eq!(maps.get("m").await.unwrap().data.unwrap()["k"], "2");
}

fn definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}},
                    "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                }}},
            }],
        },
    }))
    .unwrap()
}

#[tokio::test]
async fn custom_resources_are_finalized_and_waited_for() {
    let (_server, client) = start().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition()).await.unwrap();
    let established =
        await_condition(definitions.clone(), "widgets.example.com", conditions::is_crd_established());
    within(established).await.unwrap();

    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
    let widget = DynamicObject::new("w", &kind).data(json!({"spec": {}}));
    let made = widgets.create(&PostParams::default(), &widget).await.unwrap();
    assert_eq!(made.data["spec"]["size"], 1, "defaults are there");

    const NAME: &str = "example.com/cleanup";
    let reconcile = |object: DynamicObject| {
        finalizer(&widgets, NAME, Arc::new(object), |event| async move {
            match event {
                Final::Apply(_) => Ok::<_, std::io::Error>(Action::await_change()),
                Final::Cleanup(_) => Ok(Action::requeue(Duration::from_secs(1))),
            }
        })
    };
    reconcile(made.clone()).await.unwrap();
    let held = widgets.get("w").await.unwrap();
    assert_eq!(held.finalizers(), [NAME]);

    let status = Patch::Merge(json!({"status": {"ready": true}}));
    widgets.patch_status("w", &PatchParams::default(), &status).await.unwrap();
    let ready = |object: Option<&DynamicObject>| object.is_some_and(|o| o.data["status"]["ready"] == true);
    within(await_condition(widgets.clone(), "w", ready)).await.unwrap();

    let delete =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..DeleteParams::default() };
    let ending = widgets.delete("w", &delete).await.unwrap().left().expect("it is held");
    assert!(ending.metadata.deletion_timestamp.is_some());
    let uid = held.uid().unwrap();
    let gone = tokio::spawn(await_condition(
        widgets.clone(),
        "w",
        conditions::is_deleted::<DynamicObject>(uid.leak()),
    ));
    reconcile(widgets.get("w").await.unwrap()).await.unwrap();
    within(gone).await.unwrap().unwrap();
}

#[tokio::test]
async fn discovery_and_namespaces() {
    let (_server, client) = start().await;
    let discovery = kube::Discovery::new(client.clone()).run_aggregated().await.unwrap();
    let apps = discovery.get("apps").expect("the group apps");
    let names: BTreeSet<String> = apps.recommended_resources().into_iter().map(|(r, _)| r.plural).collect();
    assert!(names.contains("deployments"), "{names:?}");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let made = namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, "n");
    maps.create(&PostParams::default(), &map("m", "1")).await.unwrap();
    assert_eq!(maps.get_metadata("m").await.unwrap().labels()["app"], "t");
    namespaces.delete("n", &DeleteParams::default()).await.unwrap();
    let uid = made.uid().unwrap();
    within(await_condition(namespaces, "n", conditions::is_deleted(&uid))).await.unwrap();
    let missing = maps.get("m").await.unwrap_err();
    assert!(matches!(missing, kube::Error::Api(status) if status.code == 404));
}
