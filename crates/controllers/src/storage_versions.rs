//! Reports in which versions this server stores and serves the built-in resources (feature gate `StorageVersionAPI`):
//! one StorageVersion for each resource, to whose status every server adds an entry. kube-controller-manager removes
//! the entries of servers that are gone.

use pintle_engine::{Engine, Target, decodable_versions, encoding_version};
use pintle_kinds::Kind;
use pintle_meta::Status;
use pintle_value::{Str, Value};
use std::sync::Arc;
use std::time::Duration;

const API_VERSION: &str = "internal.apiserver.k8s.io/v1alpha1";
const MANAGER: &str = "kube-apiserver";
/// How often the objects are corrected, in case something else has changed them.
const CORRECT_EVERY: Duration = Duration::from_secs(600);
const SERVERS: [&str; 2] = ["status", "storageVersions"];
const COMMON: [&str; 2] = ["status", "commonEncodingVersion"];
const CONDITIONS: [&str; 2] = ["status", "conditions"];
const EQUAL: &str = "AllEncodingVersionsEqual";

/// Updates all objects periodically until the cache shuts down. `server` is the identity of this server.
pub async fn run(engine: Arc<Engine>, server: String) {
    loop {
        if engine.storage().cache().closed_within(CORRECT_EVERY).await {
            return;
        }
        report(&engine, &server).await;
    }
}

/// Updates all objects once; failures are logged.
pub async fn report(engine: &Engine, server: &str) {
    if target(engine, "").is_none() {
        tracing::warn!("storage versions need --runtime-config={API_VERSION}=true");
        return;
    }
    let kinds = engine.storage().registry().kinds();
    let stored = kinds.all().filter(|kind| kind.definition.is_empty() && kind.verbs.watch);
    let mut kinds: Vec<Arc<Kind>> = stored.filter(|kind| !served(kind).is_empty()).cloned().collect();
    kinds.sort_by(|a, b| (&a.group, &a.plural).cmp(&(&b.group, &b.plural)));
    for kind in kinds {
        if let Err(status) = update(engine, server, &kind).await {
            let resource = kind.group_resource();
            tracing::warn!(error = %status.message, "failed to update storage version for {resource}");
        }
    }
}

fn target(engine: &Engine, name: &str) -> Option<Target> {
    engine.storage().target("internal.apiserver.k8s.io", "v1alpha1", "storageversions", "", name)
}

async fn update(engine: &Engine, server: &str, kind: &Kind) -> Result<(), Status> {
    // The group must be part of a DNS name.
    let group = if kind.group.is_empty() { "core" } else { &kind.group };
    let name = format!("{group}.{}", kind.plural);
    let Some(target) = target(engine, &name) else { return Ok(()) };
    let mut object = Value::object();
    object.set_at(&["apiVersion"], API_VERSION.into());
    object.set_at(&["kind"], "StorageVersion".into());
    object.set_at(&["metadata", "name"], name.into());
    object.set_at(&["spec"], Value::object());
    engine.writer().ensure(&target, MANAGER, object).await?;
    let entry = entry(server, kind);
    let now = engine.storage().now_text();
    // As in kube-apiserver, the status has no field owner.
    engine.writer().mutate(&target.sub("status"), None, |object| register_server(object, &entry, &now)).await
}

/// The versions of the kind's own group that this server answers requests for.
fn served(kind: &Kind) -> Vec<Str> {
    let own = kind.versions.iter().filter(|version| version.served && version.group == kind.group);
    own.map(|version| pintle_engine::decode::api_version(&version.group, &version.name)).collect()
}

/// The entry of this server.
fn entry(server: &str, kind: &Kind) -> Value {
    let texts = |all: Vec<Str>| Value::Array(all.into_iter().map(Value::String).collect());
    let mut entry = Value::object();
    entry.set_at(&["apiServerID"], server.into());
    entry.set_at(&["encodingVersion"], Value::String(encoding_version(kind)));
    entry.set_at(&["decodableVersions"], texts(decodable_versions(kind)));
    entry.set_at(&["servedVersions"], texts(served(kind)));
    entry
}

/// Puts the entry of a server into an object, and sets what follows from all entries.
fn register_server(object: &mut Value, entry: &Value, now: &str) {
    let mut servers = object.items_at(&SERVERS).to_vec();
    let id = entry.str_at(&["apiServerID"]);
    match servers.iter_mut().find(|known| known.str_at(&["apiServerID"]) == id) {
        Some(known) => *known = entry.clone(),
        None => servers.push(entry.clone()),
    }
    let encodings = servers.iter().map(|server| server.str_at(&["encodingVersion"]));
    let first = entry.str_at(&["encodingVersion"]).to_string();
    let common = encodings.clone().all(|encoding| encoding == first).then_some(first);
    let before = object.at(&COMMON).and_then(Value::as_str).map(str::to_string);
    object.set_at(&SERVERS, Value::Array(servers));
    match &common {
        Some(common) => object.set_at(&COMMON, common.as_str().into()),
        None => _ = object.remove_at(&COMMON),
    }
    let changes = before.is_some() && common.is_some() && before != common;
    set_condition(object, common.is_some(), changes, now);
}

/// Sets the condition that says whether all servers encode in one version. `changes` is true if that version changed.
fn set_condition(object: &mut Value, is_common: bool, changes: bool, now: &str) {
    let (status, reason, message) = if is_common {
        ("True", "CommonEncodingVersionSet", "Common encoding version set")
    } else {
        ("False", "CommonEncodingVersionUnset", "Common encoding version unset")
    };
    let mut conditions = object.items_at(&CONDITIONS).to_vec();
    if !conditions.iter().any(|condition| condition.str_at(&["type"]) == EQUAL) {
        let mut fresh = Value::object();
        fresh.set_at(&["type"], EQUAL.into());
        conditions.push(fresh);
    }
    for condition in conditions.iter_mut().filter(|condition| condition.str_at(&["type"]) == EQUAL) {
        if changes || condition.str_at(&["status"]) != status {
            condition.set_at(&["lastTransitionTime"], now.into());
        }
        for (key, value) in [("status", status), ("reason", reason), ("message", message)] {
            condition.set_at(&[key], value.into());
        }
    }
    object.set_at(&CONDITIONS, Value::Array(conditions));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(server: &str, encoding: &str) -> Value {
        let mut entry = Value::object();
        entry.set_at(&["apiServerID"], server.into());
        entry.set_at(&["encodingVersion"], encoding.into());
        entry
    }

    #[test]
    fn the_common_version_is_that_of_all_servers() {
        let mut object = Value::object();
        let steps = [
            ("a", "v1", "v1", "True", "t0"),
            ("b", "v1", "v1", "True", "t0"),
            ("b", "v2", "", "False", "t2"),
            ("a", "v2", "v2", "True", "t3"),
        ];
        for (at, (server, encoding, common, status, since)) in steps.into_iter().enumerate() {
            register_server(&mut object, &entry(server, encoding), &format!("t{at}"));
            assert_eq!(object.str_at(&COMMON), common);
            let condition = object.items_at(&CONDITIONS).first().unwrap();
            assert_eq!(condition.str_at(&["status"]), status);
            assert_eq!(condition.str_at(&["lastTransitionTime"]), since);
        }
        assert_eq!(object.items_at(&SERVERS).len(), 2);
    }
}
