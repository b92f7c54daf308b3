//! Rows of role bindings.

use super::cell::text;
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) fn bound_subjects(object: &Value, _: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| {
        let of_kind =
            object.items_at(&["subjects"]).iter().filter(|subject| subject.str_at(&["kind"]) == kind);
        let names = of_kind.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", subject.str_at(&["namespace"]), subject.str_at(&["name"])),
            _ => subject.str_at(&["name"]).to_string(),
        });
        text(names.collect::<Vec<_>>().join(", "))
    };
    ["User", "Group", "ServiceAccount"].map(subjects).to_vec()
}
