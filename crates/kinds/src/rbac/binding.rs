//! RoleBinding and ClusterRoleBinding: the subjects of a role. The role reference is immutable.

use super::GROUP;
use crate::error_text::Internal;
use crate::{Hooks, Scope, check, fields};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

pub(crate) struct Binding {
    pub(crate) namespaced: bool,
}

impl Hooks for Binding {
    fn name_errors(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment_name(name, false)
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let kinds: &[&str] = if self.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        validate_role_ref(object, kinds, errors);
        let subjects = Path::of("subjects");
        for (at, subject) in fields::list(object, "subjects").iter().enumerate() {
            validate_subject(subject, self.namespaced, &subjects.index(at), errors);
        }
    }

    fn validate_against_old(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let role = object.get("roleRef");
        if role != old.get("roleRef") {
            errors.invalid(&Path::of("roleRef"), Internal(role, "rbac/v1.RoleRef"), "cannot change roleRef");
        }
    }
}

fn validate_role_ref(object: &Value, kinds: &[&str], errors: &mut FieldErrors) {
    let text = |key: &str| object.str_at(&["roleRef", key]);
    let path = Path::of("roleRef");
    if text("apiGroup") != GROUP {
        errors.not_supported(&path.field("apiGroup"), text("apiGroup"), &[GROUP]);
    }
    if !kinds.contains(&text("kind")) {
        errors.not_supported(&path.field("kind"), text("kind"), kinds);
    }
    let at = path.field("name");
    if text("name").is_empty() {
        errors.required(&at, "");
    } else {
        check::each(names::path_segment_name(text("name"), false), &at, text("name"), errors);
    }
}

fn validate_subject(subject: &Value, namespaced: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    let text = |key: &str| fields::text(subject, key);
    if text("name").is_empty() {
        errors.required(&path.field("name"), "");
    }
    match text("kind") {
        "ServiceAccount" => {
            if !text("name").is_empty() {
                check::dns_subdomain(&path.field("name"), text("name"), errors);
            }
            if !text("apiGroup").is_empty() {
                errors.not_supported(&path.field("apiGroup"), text("apiGroup"), &[""]);
            }
            if !namespaced && text("namespace").is_empty() {
                errors.required(&path.field("namespace"), "");
            }
        }
        "User" | "Group" => {
            if text("apiGroup") != GROUP {
                errors.not_supported(&path.field("apiGroup"), text("apiGroup"), &[GROUP]);
            }
        }
        other => errors.not_supported(&path.field("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, updated};

    #[test]
    fn bindings_name_a_role_and_subjects() {
        let hooks = Binding { namespaced: false };
        let object = r#"{"roleRef":{"apiGroup":"a","kind":"Role","name":""},"subjects":[{"kind":"ServiceAccount","name":"x"}]}"#;
        assert_eq!(
            created(&hooks, object),
            [
                "roleRef.apiGroup: Unsupported value: \"a\": supported values: \"rbac.authorization.k8s.io\"",
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
                "roleRef.name: Required value",
                "subjects[0].namespace: Required value",
            ]
        );
        let (old, new) = ("a", "b");
        let with = |name: &str| {
            format!(
                r#"{{"metadata":{{"name":"n"}},"roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"{name}"}}}}"#
            )
        };
        let error_text = r#"{"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"b"}"#;
        assert_eq!(
            updated(&hooks, Scope::Main, &with(new), &with(old)),
            [format!("roleRef: Invalid value: {error_text}: cannot change roleRef")]
        );
    }
}
