//! The objects that a server itself creates and maintains: default roles and namespaces, the APIServices of its groups, the
//! service `kubernetes` and its network.

use crate::config::Config;
use crate::{bootstrap, reconcile_roles, runtime_config};
use pintle_engine::{Engine, Repairs};
use pintle_meta::{GroupVersion, Status};
use pintle_value::{Str, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Creates the missing objects of a fresh server.
pub(crate) async fn create_missing(engine: &Arc<Engine>, config: &Config) -> Result<(), Status> {
    create_defaults(engine, config).await?;
    register_versions(engine).await?;
    unregister_versions(engine).await?;
    create_service_network(engine, config).await?;
    repair_allocations(engine).await
}

/// Creates the records of addresses and node ports that services lack.
async fn repair_allocations(engine: &Engine) -> Result<(), Status> {
    engine.writer().repair_allocations(&mut Repairs::default()).await.map(drop)
}

/// Creates the missing objects of a fresh server, many concurrently, so that the store syncs them together. Namespaced
/// objects come after the namespaces.
async fn create_defaults(engine: &Arc<Engine>, config: &Config) -> Result<(), Status> {
    let today = engine.storage().now_text();
    let today = today.split('T').next().unwrap_or_default();
    let objects = bootstrap::objects(&config.kubernetes_service(), today, |gate| config.gate(gate));
    let served = served_versions(engine);
    let is_served = |object: &Value| {
        let spec = |key| Str::from(object.str_at(&["spec", key]));
        object.str_at(&["kind"]) != "APIService" || served.contains(&(spec("group"), spec("version")))
    };
    let (cluster, namespaced): (Vec<Value>, Vec<Value>) = objects
        .into_iter()
        .filter(is_served)
        .partition(|object| object.str_at(&["metadata", "namespace"]).is_empty());
    for wave in [cluster, namespaced] {
        let mut tasks = tokio::task::JoinSet::new();
        for object in wave {
            let Some(target) = target_of(engine, &object) else { continue };
            let engine = Arc::clone(engine);
            tasks.spawn(async move { create_or_restore(&engine, &target, object).await });
        }
        while let Some(made) = tasks.join_next().await {
            made.map_err(|e| Status::internal(&e.to_string()))??;
        }
    }
    Ok(())
}

const AGGREGATOR: &str = "apiregistration.k8s.io";
/// The label of APIServices that are restored at start.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Creates one object if it is missing. An APIService of this server's own group is restored, unless its label was
/// removed.
async fn create_or_restore(
    engine: &Engine,
    target: &pintle_engine::Target,
    object: Value,
) -> Result<(), Status> {
    let manager = bootstrap::manager(&target.kind.group);
    let spec = object.get("spec").cloned().unwrap_or_default();
    let is_registration = target.kind.kind == "APIService";
    let expected = object.clone();
    engine.writer().ensure(target, manager, object).await?;
    if target.kind.group == "rbac.authorization.k8s.io" {
        let Some(live) = engine.reader().object_tree(target)? else { return Ok(()) };
        if reconcile_roles::binds_another_role(&expected, &live) {
            let revision = live.str_at(&["metadata", "resourceVersion"]).parse().unwrap_or(0);
            engine.writer().forget(target, revision).await?;
            return engine.writer().ensure(target, manager, expected).await;
        }
        // Most roles are as they should be, and need no write.
        let mut reconciled = live.clone();
        reconcile_roles::reconcile(&expected, &mut reconciled);
        if reconciled == live {
            return Ok(());
        }
        let reconcile = |live: &mut Value| reconcile_roles::reconcile(&expected, live);
        return engine.writer().mutate(target, Some(manager), reconcile).await;
    }
    if !is_registration {
        return Ok(());
    }
    let restore = |live: &mut Value| {
        if live.str_at(&["metadata", "labels", AUTOMANAGED]) == "onstart" {
            live.set_at(&["spec"], spec.clone());
        }
    };
    engine.writer().mutate(target, Some(manager), restore).await
}

/// The group-versions with resources that are served.
fn served_versions(engine: &Engine) -> BTreeSet<(Str, Str)> {
    let kinds = engine.storage().registry().kinds();
    let mut versions = BTreeSet::new();
    for (group, members) in kinds.groups() {
        let own = members.iter().flat_map(|kind| &kind.versions);
        let served = own.filter(|version| version.served && version.group == *group);
        versions.extend(served.map(|version| (group.clone(), version.name.clone())));
    }
    versions
}

/// The APIService of a version.
fn registration(engine: &Engine, group: &str, version: &str) -> Option<pintle_engine::Target> {
    let name = format!("{version}.{group}");
    engine.storage().target(AGGREGATOR, "v1", "apiservices", "", &name)
}

/// Deletes the APIServices of versions that the server no longer serves, unless their label was removed.
async fn unregister_versions(engine: &Engine) -> Result<(), Status> {
    let served = served_versions(engine);
    for (own, _) in pintle_kinds::builtin_versions() {
        let version = (Str::from(own.group.as_str()), Str::from(own.version.as_str()));
        let target = registration(engine, &version.0, &version.1);
        let Some(target) = target.filter(|_| !served.contains(&version)) else { continue };
        let Some(live) = engine.reader().object_tree(&target)? else { continue };
        if live.str_at(&["metadata", "labels", AUTOMANAGED]) == "onstart" {
            let revision = live.str_at(&["metadata", "resourceVersion"]).parse().unwrap_or(0);
            engine.writer().forget(&target, revision).await?;
        }
    }
    Ok(())
}

/// Registers the versions that `--runtime-config` enables and that are not served by default.
async fn register_versions(engine: &Engine) -> Result<(), Status> {
    for (group, version) in served_versions(engine).iter().filter(|(group, _)| group.as_str() != AGGREGATOR) {
        let Some(target) = registration(engine, group, version) else { continue };
        let (group_priority, priority) = runtime_config::priorities(group, version);
        let mut object = Value::object();
        object.set_at(&["apiVersion"], format!("{AGGREGATOR}/v1").into());
        object.set_at(&["kind"], "APIService".into());
        object.set_at(&["metadata", "name"], target.name.as_str().into());
        object.set_at(&["metadata", "labels", AUTOMANAGED], "onstart".into());
        object.set_at(&["spec", "group"], group.as_str().into());
        object.set_at(&["spec", "version"], version.as_str().into());
        object.set_at(&["spec", "groupPriorityMinimum"], Value::Int(group_priority));
        object.set_at(&["spec", "versionPriority"], Value::Int(priority));
        engine.writer().ensure(&target, bootstrap::manager(AGGREGATOR), object).await?;
    }
    Ok(())
}

/// The namespaces that every server has.
const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Recreates the system namespaces, the service `kubernetes` and the ServiceCIDR of the flags if they were deleted, or if etcd
/// came back without them.
pub(crate) async fn ensure(engine: &Engine, config: &Config) -> Result<(), Status> {
    let cache = engine.storage().cache();
    let has = |prefix: &str, key: &str| cache.resource(prefix).is_some_and(|all| all.get(key).is_some());
    if !has("/registry/servicecidrs/", "kubernetes") {
        create_service_network(engine, config).await?;
    }
    if has("/registry/services/specs/", "default/kubernetes")
        && SYSTEM_NAMESPACES.iter().all(|name| has("/registry/namespaces/", name))
    {
        return Ok(());
    }
    let is_system = |object: &Value| matches!(object.str_at(&["kind"]), "Namespace" | "Service");
    let objects = bootstrap::objects(&config.kubernetes_service(), "", |_| false);
    for object in objects.into_iter().filter(is_system) {
        let Some(target) = target_of(engine, &object) else { continue };
        if engine.reader().object_tree(&target)?.is_none() {
            engine.writer().ensure(&target, bootstrap::manager(&target.kind.group), object).await?;
        }
    }
    repair_allocations(engine).await
}

/// Creates the ServiceCIDR of the networks in the flags.
async fn create_service_network(engine: &Engine, config: &Config) -> Result<(), Status> {
    let networks = config.service_ranges.networks.iter().map(|network| Value::from(network.network_text()));
    let mut object = Value::object();
    object.set_at(&["kind"], "ServiceCIDR".into());
    object.set_at(&["apiVersion"], "networking.k8s.io/v1".into());
    object.set_at(&["metadata", "name"], "kubernetes".into());
    object.set_at(&["spec", "cidrs"], Value::Array(networks.collect()));
    let Some(target) = target_of(engine, &object) else { return Ok(()) };
    engine.writer().ensure(&target, bootstrap::manager(&target.kind.group), object).await?;
    let is_ready = |live: &Value| !live.items_at(&["status", "conditions"]).is_empty();
    if engine.reader().object_tree(&target)?.is_none_or(|live| is_ready(&live)) {
        return Ok(());
    }
    // kube-apiserver's controller applies this status with server-side apply.
    let mut ready = Value::object();
    for (key, text) in [
        ("type", "Ready"),
        ("status", "True"),
        ("message", "Kubernetes default Service CIDR is ready"),
        ("lastTransitionTime", &engine.storage().now_text()),
    ] {
        ready.set_at(&[key], text.into());
    }
    let mut status = Value::object();
    status.set_at(&["conditions"], Value::Array(vec![ready]));
    engine.writer().apply_status(&target, "kubernetes-service-cidr-controller", status).await
}

/// The target of an object; `None` if its kind is not served.
fn target_of(engine: &Engine, object: &Value) -> Option<pintle_engine::Target> {
    let version = GroupVersion::parse(object.str_at(&["apiVersion"])).unwrap_or_default();
    let kinds = engine.storage().registry().kinds();
    let (kind, at) = kinds.by_kind(&version, object.str_at(&["kind"]))?;
    Some(pintle_engine::Target {
        kind: kind.clone(),
        version: at,
        namespace: object.str_at(&["metadata", "namespace"]).into(),
        name: object.str_at(&["metadata", "name"]).into(),
        subresource: Default::default(),
    })
}
