//! The objects that a server itself creates and maintains: default roles and namespaces, the APIServices of its groups, the
//! service `kubernetes` and its network.

use crate::config::Config;
use crate::{bootstrap, reconcile_roles, runtime_config};
use pintle_engine::{Engine, Repairs};
use pintle_meta::{GroupVersion, Status, Timestamp};
use pintle_value::{Str, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Creates the missing objects of a fresh server.
pub(crate) async fn create_missing(engine: &Arc<Engine>, config: &Config) -> Result<(), Status> {
    create_defaults(engine, config).await?;
    register_versions(engine).await?;
    unregister_versions(engine).await?;
    maintain_service_network(engine, config).await?;
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
/// came back without them, and repairs what only the server sets.
pub(crate) async fn ensure(engine: &Engine, config: &Config) -> Result<(), Status> {
    let cache = engine.storage().cache();
    let has = |prefix: &str, key: &str| cache.resource(prefix).is_some_and(|all| all.get(key).is_some());
    maintain_service_network(engine, config).await?;
    repair_token_tracking(engine).await?;
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

/// Creates the ServiceCIDR of the networks in the flags, adds the second network to one that was created without it, and
/// reports that it is ready.
async fn maintain_service_network(engine: &Engine, config: &Config) -> Result<(), Status> {
    let networks = config.service_ranges.networks.iter().map(|network| Value::from(network.network_text()));
    let cidrs = Value::Array(networks.collect());
    let Some(target) = engine.storage().target("networking.k8s.io", "v1", "servicecidrs", "", "kubernetes")
    else {
        return Ok(());
    };
    let live = engine.reader().object_tree(&target)?;
    match live.as_ref().and_then(|live| live.at(&["spec", "cidrs"])) {
        Some(live_cidrs) if *live_cidrs == cidrs => {}
        Some(live_cidrs) if is_first_of(live_cidrs, &cidrs) => {
            let add = |live: &mut Value| live.set_at(&["spec", "cidrs"], cidrs.clone());
            let manager = bootstrap::manager(&target.kind.group);
            return engine.writer().mutate(&target, Some(manager), add).await;
        }
        // Another server has other flags.
        Some(_) => return Ok(()),
        None => {
            let mut object = Value::object();
            object.set_at(&["kind"], "ServiceCIDR".into());
            object.set_at(&["apiVersion"], "networking.k8s.io/v1".into());
            object.set_at(&["metadata", "name"], "kubernetes".into());
            object.set_at(&["spec", "cidrs"], cidrs);
            engine.writer().ensure(&target, bootstrap::manager(&target.kind.group), object).await?;
        }
    }
    if live.is_some_and(|live| has_state(&live)) {
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

/// Returns whether a list has only the first item of another one, which is longer.
fn is_first_of(one: &Value, more: &Value) -> bool {
    match (one.as_array(), more.as_array()) {
        (Some([one]), Some([first, _, ..])) => one == first,
        _ => false,
    }
}

/// Returns whether a ServiceCIDR is known to be ready or not, or is being deleted.
fn has_state(live: &Value) -> bool {
    let mut conditions = live.items_at(&["status", "conditions"]).iter();
    let ready = conditions.find(|condition| condition.str_at(&["type"]) == "Ready");
    live.at(&["metadata", "deletionTimestamp"]).is_some()
        || ready.is_some_and(|ready| ready.str_at(&["status"]) != "Unknown")
}

/// Sets the day since when the use of legacy tokens is tracked to today, if it is no date.
async fn repair_token_tracking(engine: &Engine) -> Result<(), Status> {
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    let Some(target) = engine.storage().target("", "v1", "configmaps", "kube-system", name) else {
        return Ok(());
    };
    let Some(live) = engine.reader().object_tree(&target)? else { return Ok(()) };
    if is_date(live.str_at(&["data", "since"])) {
        return Ok(());
    }
    let now = engine.storage().now_text();
    let today = now.split('T').next().unwrap_or_default();
    let repair = |live: &mut Value| live.set_at(&["data", "since"], today.into());
    engine.writer().mutate(&target, Some(bootstrap::manager("")), repair).await
}

fn is_date(text: &str) -> bool {
    Timestamp::parse(&format!("{text}T00:00:00Z")).is_ok()
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

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    fn tree(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap().value
    }

    #[test]
    fn a_second_network_is_added_to_the_first_one() {
        for (one, more, expected) in [
            (r#"["10.0.0.0/24"]"#, r#"["10.0.0.0/24","fd00::/112"]"#, true),
            (r#"["10.0.0.0/24"]"#, r#"["10.0.0.0/24"]"#, false),
            (r#"["10.1.0.0/24"]"#, r#"["10.0.0.0/24","fd00::/112"]"#, false),
            (r#"["fd00::/112","10.0.0.0/24"]"#, r#"["10.0.0.0/24","fd00::/112"]"#, false),
        ] {
            assert_eq!(is_first_of(&tree(one), &tree(more)), expected, "{one} {more}");
        }
    }

    #[test]
    fn the_state_of_a_service_cidr_is_known_or_not() {
        let condition = |status: &str| {
            tree(&format!(r#"{{"status":{{"conditions":[{{"type":"Ready","status":"{status}"}}]}}}}"#))
        };
        for (object, expected) in [
            (tree("{}"), false),
            (condition("True"), true),
            (condition("False"), true),
            (condition("Unknown"), false),
            (tree(r#"{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}"#), true),
        ] {
            assert_eq!(has_state(&object), expected, "{object:?}");
        }
    }

    #[test]
    fn dates_are_days_of_the_calendar() {
        for (text, expected) in
            [("2026-02-28", true), ("2026-02-30", false), ("2026-2-3", false), ("", false), ("x", false)]
        {
            assert_eq!(is_date(text), expected, "{text}");
        }
    }
}
