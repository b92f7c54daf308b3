//! The object before it is created: what Go writes for a value that nothing was put into.

use pintle_meta::GroupVersionKind;
use pintle_schema::{Schema, typed};
use pintle_value::Value;

/// An empty object of a kind. Custom resources have nothing but their kind.
pub fn zero_object(schema: &Schema, kind: &GroupVersionKind) -> Value {
    let mut object = match typed::zero(schema.arena(), schema.root()) {
        object @ Value::Object(_) => object,
        _ => Value::object(),
    };
    object.set_at(&["apiVersion"], kind.group_version().to_string().into());
    object.set_at(&["kind"], kind.kind.clone().into());
    object
}
