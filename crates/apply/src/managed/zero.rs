//! The object before it is created: Go's encoding of a zero value.

use pintle_meta::GroupVersionKind;
use pintle_schema::{Schema, typed};
use pintle_value::Value;

/// An empty object of a kind. For a custom resource it has only `apiVersion` and `kind`.
pub fn zero_object(schema: &Schema, kind: &GroupVersionKind) -> Value {
    let mut object = match typed::zero(schema.arena(), schema.root()) {
        object @ Value::Object(_) => object,
        _ => Value::object(),
    };
    object.set_at(&["apiVersion"], kind.group_version().to_string().into());
    object.set_at(&["kind"], kind.kind.clone().into());
    object
}
