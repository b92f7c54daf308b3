//! CustomResourceDefinition: its names, the versions it stores, its end in two phases.

use crate::{Hooks, Scope, hooks};
use pintle_value::{Str, Value};

/// The finalizer that waits for all custom resources to go.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The port of a webhook's service that names none.
const SERVICE_PORT: i64 = 443;

pub(crate) struct Definition;

impl Hooks for Definition {
    fn default(&self, _version: &str, object: &mut Value) {
        default_names(object);
        if object.at(&["spec", "conversion"]).is_none_or(Value::is_null) {
            object.set_at(&["spec", "conversion", "strategy"], "None".into());
        }
        let service = object.at_mut(&["spec", "conversion", "webhook", "clientConfig", "service"]);
        if let Some(service) = service.filter(|service| service.as_object().is_some() && service.get("port").is_none()) {
            service.set_at(&["port"], Value::Int(SERVICE_PORT));
        }
        if object.items_at(&["status", "storedVersions"]).is_empty() {
            store_version(object);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object.set_at(&["status"], Value::object());
        store_version(object);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        match scope {
            Scope::Main => {
                hooks::take(object, old, &["status"]);
                store_version(object);
            }
            Scope::Sub(_) => hooks::take(object, old, &["spec"]),
        }
    }

    fn begin_deletion(&self, object: &mut Value, now: &str) -> bool {
        let mut finalizers = object.items_at(&["metadata", "finalizers"]).to_vec();
        if !finalizers.iter().any(|f| f.as_str() == Some(CLEANUP_FINALIZER)) {
            finalizers.push(CLEANUP_FINALIZER.into());
        }
        object.set_at(&["metadata", "finalizers"], Value::Array(finalizers));
        let pending = Condition {
            kind: "Terminating",
            status: "True",
            reason: "InstanceDeletionPending",
            message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        };
        pending.set(object, now);
        true
    }
}

/// A condition of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
    /// `Established`, …
    pub kind: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// One word.
    pub reason: &'a str,
    /// A sentence.
    pub message: &'a str,
}

impl<'a> Condition<'a> {
    /// The condition of this kind that a definition has.
    pub fn of(definition: &'a Value, kind: &'a str) -> Option<Condition<'a>> {
        let conditions = definition.items_at(&["status", "conditions"]);
        let found = conditions.iter().find(|c| c.str_at(&["type"]) == kind)?;
        let text = |key: &str| found.str_at(&[key]);
        Some(Condition { kind, status: text("status"), reason: text("reason"), message: text("message") })
    }

    /// Whether a definition has this condition and it is true.
    pub fn is_true(definition: &Value, kind: &str) -> bool {
        Condition::of(definition, kind).is_some_and(|c| c.status == "True")
    }

    /// Sets the condition; its time moves only with its status.
    pub fn set(&self, definition: &mut Value, now: &str) {
        let mut conditions = definition.items_at(&["status", "conditions"]).to_vec();
        let at = conditions.iter().position(|c| c.str_at(&["type"]) == self.kind).unwrap_or(conditions.len());
        let mut condition = conditions.get(at).cloned().unwrap_or_else(Value::object);
        if condition.str_at(&["status"]) != self.status || condition.get("lastTransitionTime").is_none_or(Value::is_null) {
            condition.set_at(&["lastTransitionTime"], now.into());
        }
        let texts = [("type", self.kind), ("status", self.status), ("reason", self.reason), ("message", self.message)];
        for (key, text) in texts {
            condition.set_at(&[key], text.into());
        }
        match conditions.get_mut(at) {
            Some(place) => *place = condition,
            None => conditions.push(condition),
        }
        definition.set_at(&["status", "conditions"], Value::Array(conditions));
    }
}

fn default_names(object: &mut Value) {
    let kind = Str::from(object.str_at(&["spec", "names", "kind"]));
    if kind.is_empty() {
        return;
    }
    if object.str_at(&["spec", "names", "singular"]).is_empty() {
        object.set_at(&["spec", "names", "singular"], kind.to_lowercase().into());
    }
    if object.str_at(&["spec", "names", "listKind"]).is_empty() {
        object.set_at(&["spec", "names", "listKind"], format!("{kind}List").into());
    }
}

/// Notes that objects may be stored in the version that is stored now.
fn store_version(object: &mut Value) {
    let versions = object.items_at(&["spec", "versions"]);
    let stored = versions.iter().find(|v| v.get("storage").and_then(Value::as_bool) == Some(true));
    let Some(name) = stored.and_then(|v| v.get("name")).cloned() else { return };
    let mut all = object.items_at(&["status", "storedVersions"]).to_vec();
    if !all.contains(&name) {
        all.push(name);
        object.set_at(&["status", "storedVersions"], Value::Array(all));
    }
}
