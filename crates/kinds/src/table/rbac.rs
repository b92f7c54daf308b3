//! Rows of role bindings.

use super::BuiltinPrinter;
use super::cell::{age, name, text};
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[
    BuiltinPrinter {
        kind: "rbac.authorization.k8s.io/ClusterRoleBinding",
        needs: &["roleRef", "subjects"],
        cells: binding,
    },
    BuiltinPrinter {
        kind: "rbac.authorization.k8s.io/RoleBinding",
        needs: &["roleRef", "subjects"],
        cells: binding,
    },
];

fn binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = |key: &str| object.str_at(&["roleRef", key]);
    let subjects = |kind: &str| {
        let of_kind =
            object.items_at(&["subjects"]).iter().filter(|subject| subject.str_at(&["kind"]) == kind);
        let error_text = of_kind.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", subject.str_at(&["namespace"]), subject.str_at(&["name"])),
            _ => subject.str_at(&["name"]).to_string(),
        });
        text(error_text.collect::<Vec<_>>().join(", "))
    };
    vec![
        name(object),
        text(format!("{}/{}", role("kind"), role("name"))),
        age(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
