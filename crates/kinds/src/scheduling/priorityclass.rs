//! PriorityClass: values below the system's, immutable.

use crate::fields::{flag, int};
use crate::{Hooks, Scope, facts};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

const PREFIX: &str = "system-";
const USER_MAX: i64 = 1_000_000_000;
/// The system classes and their values.
const SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(crate) struct PriorityClass;

impl Hooks for PriorityClass {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let name = object.str_at(&["metadata", "name"]);
        let value = int(object, "value");
        if name.starts_with(PREFIX) {
            if let Some(complaint) = system_complaint(name, value, flag(object, "globalDefault")) {
                let detail = format!(
                    "priority class names with '{PREFIX}' prefix are reserved for system use only. error: {complaint}"
                );
                errors.forbidden(&Path::of("metadata.name"), &detail);
            }
        } else if value > USER_MAX {
            let detail = format!("maximum allowed value of a user defined priority is {USER_MAX}");
            errors.forbidden(&Path::of("value"), &detail);
        }
        facts::check(object, "scheduling/v1.PriorityClass", &Path::ROOT, errors);
    }

    fn deletion_refusal(&self, name: &str) -> Option<&'static str> {
        let of_the_system = SYSTEM.iter().any(|(known, _)| *known == name);
        of_the_system.then_some("this is a system priority class and cannot be deleted")
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if int(object, "value") != int(old, "value") {
            errors.forbidden(&Path::of("value"), "may not be changed in an update.");
        }
    }
}

fn system_complaint(name: &str, value: i64, default: bool) -> Option<String> {
    let Some((_, wanted)) = SYSTEM.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if value != *wanted {
        return Some(format!("value of {name} PriorityClass must be {wanted}"));
    }
    default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, updated};

    #[test]
    fn values_and_names_of_the_system_are_reserved() {
        for (object, expected) in [
            (
                r#"{"metadata":{"name":"a"},"value":1000000001}"#,
                "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
            ),
            (
                r#"{"metadata":{"name":"system-x"},"value":1}"#,
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class",
            ),
        ] {
            assert_eq!(created(&PriorityClass, object), [expected]);
        }
        assert_eq!(
            updated(&PriorityClass, Scope::Main, r#"{"value":2}"#, r#"{"value":1}"#),
            ["value: Forbidden: may not be changed in an update."]
        );
    }
}
