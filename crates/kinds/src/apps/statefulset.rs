//! StatefulSet.

use crate::core::podspec;
use crate::fill::{absent, items, round_resource_list, zero};
use crate::{Hooks, Scope};
use pintle_value::Value;

pub(crate) struct StatefulSet;

impl Hooks for StatefulSet {
    fn default(&self, _version: &str, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        zero(spec, "podManagementPolicy", "OrderedReady");
        absent(spec, "updateStrategy", Value::object());
        if let Some(strategy) = spec.get_mut("updateStrategy") {
            update_strategy(strategy);
        }
        absent(spec, "persistentVolumeClaimRetentionPolicy", Value::object());
        if let Some(policy) = spec.get_mut("persistentVolumeClaimRetentionPolicy") {
            zero(policy, "whenDeleted", "Retain");
            zero(policy, "whenScaled", "Retain");
        }
        absent(spec, "replicas", 1);
        absent(spec, "revisionHistoryLimit", 10);
        if let Some(template) = spec.get_mut("template") {
            podspec::defaults::template(template);
        }
        items(spec, "volumeClaimTemplates").iter_mut().for_each(claim);
    }

    fn prepare_create(&self, object: &mut Value) {
        super::first_state(object, &["availableReplicas", "replicas"]);
        drop_max_unavailable(object, None);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        super::keep(scope, object, old);
        if scope == Scope::Main {
            drop_max_unavailable(object, Some(old));
        }
    }

    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        object.get("spec") != old.get("spec")
    }
}

fn update_strategy(strategy: &mut Value) {
    if strategy.str_at(&["type"]).is_empty() {
        strategy.set_at(&["type"], "RollingUpdate".into());
        absent(strategy, "rollingUpdate", Value::object());
    }
    if strategy.str_at(&["type"]) == "RollingUpdate"
        && let Some(rolling) = strategy.get_mut("rollingUpdate")
    {
        absent(rolling, "partition", 0);
    }
}

fn claim(claim: &mut Value) {
    claim.set_at(&["apiVersion"], "v1".into());
    claim.set_at(&["kind"], "PersistentVolumeClaim".into());
    if claim.get("status").is_none() {
        claim.set_at(&["status"], Value::object());
    }
    if let Some(status) = claim.get_mut("status") {
        zero(status, "phase", "Pending");
        round_resource_list(status.get_mut("capacity"));
        round_resource_list(status.get_mut("allocatedResources"));
    }
    if let Some(spec) = claim.get_mut("spec") {
        podspec::defaults::claim_spec(spec);
    }
}

/// `maxUnavailable` belongs to a feature that is off.
fn drop_max_unavailable(object: &mut Value, old: Option<&Value>) {
    let path = ["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"];
    if old.is_none_or(|old| old.at(&path).is_none()) {
        object.remove_at(&path);
    }
}
