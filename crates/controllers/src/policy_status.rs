//! Maintains `status.typeChecking` of ValidatingAdmissionPolicies: warnings about expressions that do not fit the types
//! that the policy matches. In a cluster, kube-controller-manager does this.

use crate::feed::Feed;
use pintle_admission::policy::type_check::{self, Types, Warning};
use pintle_admission::policy::{GROUP, type_check::custom_schema, type_check::published_schema};
use pintle_cache::{CloseReason, Item};
use pintle_engine::Engine;
use pintle_meta::{GroupVersion, GroupVersionKind, Status};
use pintle_value::{Str, Value};
use std::sync::Arc;

const POLICIES: &str = "/registry/validatingadmissionpolicies/";
const PLURAL: &str = "validatingadmissionpolicies";
/// The name of the controller, which is also the field manager of its updates.
pub(crate) const NAME: &str = "validatingadmissionpolicy-status";

/// Runs until the cache shuts down.
pub(crate) async fn run(engine: Arc<Engine>) {
    loop {
        let mut feed = Feed::new(engine.storage().cache().watch_resources(&[POLICIES]));
        let Some(resource) = engine.storage().cache().resource(POLICIES) else { return };
        let names: Vec<Str> = resource.view().iter().map(|policy| Str::from(policy.name())).collect();
        for name in names {
            report(update_status(&engine, &name).await);
        }
        loop {
            match feed.next().await {
                Some(Item::Event(delivery)) => {
                    report(update_status(&engine, delivery.object().name()).await);
                }
                Some(Item::Closed(CloseReason::Slow)) => break,
                Some(Item::Closed(_)) | None => return,
                Some(Item::InitialEventsEnd(_) | Item::Bookmark(_)) => {}
            }
        }
    }
}

fn report(result: Result<(), Status>) {
    if let Err(status) = result {
        tracing::warn!(error = %status.message, "the status of a ValidatingAdmissionPolicy could not be set");
    }
}

/// Checks a policy whose generation was not checked yet, and applies the result.
async fn update_status(engine: &Arc<Engine>, name: &str) -> Result<(), Status> {
    let Some(target) = engine.storage().target(GROUP, "v1", PLURAL, "", name) else { return Ok(()) };
    let Some(policy) = engine.reader().object_tree(&target)? else { return Ok(()) };
    let generation = policy.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
    let observed = policy.at(&["status", "observedGeneration"]).and_then(Value::as_int).unwrap_or(0);
    if generation <= observed {
        return Ok(());
    }
    let (types, unique) = (Served(Arc::clone(engine)), engine.storage().clock().now().1);
    // A policy may have hundreds of expressions: do not compile them on a thread that serves requests.
    let checked = tokio::task::spawn_blocking(move || type_check::check(&policy, &types, unique)).await;
    let warnings = match checked {
        Ok(warnings) => warnings,
        // The server ends.
        Err(error) if error.is_cancelled() => return Ok(()),
        Err(error) => return Err(Status::internal(&error.to_string())),
    };
    engine.writer().apply_status(&target, NAME, new_status(generation, &warnings)).await
}

fn new_status(generation: i64, warnings: &[Warning]) -> Value {
    let mut status = Value::object();
    status.set_at(&["observedGeneration"], Value::Int(generation));
    status.set_at(&["typeChecking"], Value::object());
    if !warnings.is_empty() {
        let entries = warnings.iter().map(|warning| {
            let mut entry = Value::object();
            entry.set_at(&["fieldRef"], warning.field.as_str().into());
            entry.set_at(&["warning"], warning.text.as_str().into());
            entry
        });
        status.set_at(&["typeChecking", "expressionWarnings"], Value::Array(entries.collect()));
    }
    status
}

/// The kinds that this server serves. kube-controller-manager also finds the kinds of extension servers.
struct Served(Arc<Engine>);

impl Types for Served {
    fn kinds_for(&self, group: &str, version: &str, resource: &str) -> Vec<GroupVersionKind> {
        let resource = resource.to_lowercase();
        let kinds = self.0.storage().registry().kinds();
        let mut found = Vec::new();
        for kind in kinds.all().filter(|kind| kind.plural == *resource || kind.singular == *resource) {
            let serves = |served_group: &str| group.is_empty() || served_group == group;
            let versions = kind.versions.iter().filter(|v| v.served && v.name == version && serves(&v.group));
            found.extend(versions.map(|version| version.gvk(kind)));
        }
        found
    }

    fn schema(&self, gvk: &GroupVersionKind) -> Option<Value> {
        published_schema(gvk).or_else(|| {
            let kinds = self.0.storage().registry().kinds();
            let (kind, _) = kinds.by_kind(&GroupVersion::new(&gvk.group, &gvk.version), &gvk.kind)?;
            let name = format!("{}.{}", kind.plural, kind.group);
            let storage = self.0.storage();
            let target =
                storage.target("apiextensions.k8s.io", "v1", "customresourcedefinitions", "", &name)?;
            let definition = self.0.reader().object_tree(&target).ok()??;
            let mut versions = definition.items_at(&["spec", "versions"]).iter();
            let version = versions.find(|version| version.str_at(&["name"]) == gvk.version)?;
            let served = version.get("served").and_then(Value::as_bool) == Some(true);
            let schema = version.at(&["schema", "openAPIV3Schema"]);
            served.then(|| schema.map_or_else(Value::object, custom_schema))
        })
    }
}
