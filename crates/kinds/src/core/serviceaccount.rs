//! ServiceAccount: references to secrets are reduced to their names.

use crate::{Hooks, Scope, metadata};
use pintle_value::Value;

const MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

pub(crate) struct ServiceAccount;

impl Hooks for ServiceAccount {
    fn prepare_create(&self, object: &mut Value) {
        keep_names(object);
    }

    fn prepare_update(&self, _scope: Scope<'_>, object: &mut Value, _old: &Value) {
        keep_names(object);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let set = |v: &Value| metadata::annotation(v, MOUNTABLE_SECRETS).is_some();
        if old.is_some_and(set) || !set(object) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )]
    }
}

fn keep_names(object: &mut Value) {
    for secret in object.get_mut("secrets").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(reference) = secret {
            reference.retain(|key, _| key == "name");
        }
    }
}
