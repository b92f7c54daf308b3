//! IngressClass: its controller and the reference to parameters.

use crate::fields::{member, opt_text};
use crate::metadata::ResourceScope;
use crate::{Hooks, Scope, check, facts, metadata};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

pub(crate) struct IngressClass;

impl Hooks for IngressClass {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let path = Path::of("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        facts::check(spec, "networking/v1.IngressClassSpec", &path, errors);
        if let Some(parameters) = member(spec, "parameters") {
            validate_parameters(parameters, &path.field("parameters"), errors);
        }
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let keys = ["spec", "controller"];
        if object.str_at(&keys) != old.str_at(&keys) {
            errors.invalid(&Path::of("spec.controller"), object.str_at(&keys), check::IMMUTABLE);
        }
        metadata::validate_core_as_new(self, ResourceScope::Cluster, object, errors);
        self.validate_create(object, errors);
    }
}

/// Checks group, kind and name of a reference.
pub(super) fn validate_reference(reference: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check(reference, "core/v1.TypedLocalObjectReference", path, errors);
}

fn validate_parameters(parameters: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    validate_reference(parameters, path, errors);
    let namespace = opt_text(parameters, "namespace");
    let at = path.field("namespace");
    match (opt_text(parameters, "scope"), namespace) {
        (None, _) => errors.required(&path.field("scope"), ""),
        (Some("Namespace"), None) => errors.required(&at, "`parameters.scope` is set to 'Namespace'"),
        (Some("Namespace"), Some(name)) => check::each(names::dns_label(name, false), &at, name, errors),
        (Some("Cluster"), Some(_)) => errors.forbidden(&at, "`parameters.scope` is set to 'Cluster'"),
        (Some("Cluster"), None) => {}
        (scope, _) => check::supported(&path.field("scope"), scope, &["Cluster", "Namespace"], errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::created;

    #[test]
    fn parameters_are_complete() {
        assert_eq!(
            created(
                &IngressClass,
                r#"{"spec":{"controller":"example.com/c","parameters":{"kind":"","name":"","scope":"Namespace"}}}"#
            ),
            [
                "spec.parameters.kind: Required value",
                "spec.parameters.name: Required value",
                "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
            ]
        );
    }
}
