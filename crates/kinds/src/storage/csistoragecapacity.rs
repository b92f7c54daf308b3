//! CSIStorageCapacity: the available capacity of a class for some nodes.

use crate::fields::{entries, list, member, text};
use crate::node::labels::deprecation;
use crate::{Hooks, Scope, facts};
use pintle_meta::FieldErrors;
use pintle_meta::selector::label_validation::{Leniency, validate_label_selector};
use pintle_value::{Path, Value};

const TOPOLOGY: &str = "nodeTopology";

pub(crate) struct CsiStorageCapacity;

impl Hooks for CsiStorageCapacity {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_capacity(object, Leniency::default(), errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        validate_capacity(object, Leniency::after(old.get(TOPOLOGY)), errors);
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let Some(selector) = member(object, TOPOLOGY) else { return Vec::new() };
        let expressions =
            list(selector, "matchExpressions").iter().enumerate().filter_map(|(i, expression)| {
                let key = text(expression, "key");
                let advice = deprecation(key)?;
                Some(format!("{TOPOLOGY}.matchExpressions[{i}].key: {key} is {advice}"))
            });
        let labels = entries(selector.get("matchLabels")).filter_map(|(label, _)| {
            Some(format!("{TOPOLOGY}.matchLabels.{label}: {}", deprecation(label)?))
        });
        expressions.chain(labels).collect()
    }
}

fn validate_capacity(object: &Value, leniency: Leniency, errors: &mut FieldErrors) {
    validate_label_selector(object.get(TOPOLOGY), leniency, &Path::of(TOPOLOGY), errors);
    facts::check(object, "storage/v1.CSIStorageCapacity", &Path::ROOT, errors);
}
