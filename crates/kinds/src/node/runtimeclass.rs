//! RuntimeClass: its handler, the overhead of pods and node scheduling.

use super::labels::deprecation;
use crate::core::podspec::options::Options;
use crate::core::podspec::resources::{self, Claims, ResourcesOwner};
use crate::core::podspec::scheduling;
use crate::error_text::Internal;
use crate::fields::{entries, list, member, text};
use crate::{Hooks, check, facts};
use pintle_meta::FieldErrors;
use pintle_meta::selector::label_validation::validate_labels;
use pintle_value::{Path, Value};

pub(crate) struct RuntimeClass;

impl Hooks for RuntimeClass {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        facts::check(object, "node/v1.RuntimeClass", &Path::ROOT, errors);
        if let Some(overhead) = member(object, "overhead") {
            validate_overhead(overhead, errors);
        }
        if let Some(scheduling) = member(object, "scheduling") {
            let path = Path::of("scheduling");
            let labels = scheduling.get("nodeSelector").and_then(Value::as_object);
            validate_labels(labels, &path.field("nodeSelector"), errors);
            validate_tolerations(list(scheduling, "tolerations"), &path.field("tolerations"), errors);
        }
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let labels = entries(object.at(&["scheduling", "nodeSelector"]));
        labels
            .filter_map(|(label, _)| deprecation(label))
            .map(|advice| format!("scheduling.nodeSelector: {advice}"))
            .collect()
    }
}

/// The overhead is validated like the limits of a container.
fn validate_overhead(overhead: &Value, errors: &mut FieldErrors) {
    let mut limits = Value::object();
    if let Some(fixed) = member(overhead, "podFixed") {
        limits.set_at(&["limits"], fixed.clone());
    }
    let options = Options::default();
    resources::validate(
        &limits,
        ResourcesOwner::Container,
        &Claims::new(),
        &Path::of("overhead"),
        &options,
        errors,
    );
}

fn validate_tolerations(tolerations: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    scheduling::validate_tolerations_with(tolerations, path, &Options::default(), errors);
    let mut seen = check::Unique::default();
    for (i, toleration) in tolerations.iter().enumerate() {
        let key = ["key", "operator", "value", "effect"].map(|field| text(toleration, field));
        seen.check(key, &path.index(i), Internal(Some(toleration), "core/v1.Toleration"), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::created;

    #[test]
    fn overhead_and_tolerations_are_checked() {
        assert_eq!(
            created(
                &RuntimeClass,
                r#"{"handler":"h","overhead":{"podFixed":{"cpu":"-1"}},"scheduling":{"tolerations":[{"key":"k","operator":"Exists","value":"v"},{"key":"z"},{"key":"z"}]}}"#
            ),
            [
                r#"overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0"#,
                r#"scheduling.tolerations[0].operator: Invalid value: "v": value must be empty when `operator` is 'Exists'"#,
                r#"scheduling.tolerations[2]: Duplicate value: {"Key":"z","Operator":"","Value":"","Effect":"","TolerationSeconds":null}"#,
            ]
        );
    }
}
