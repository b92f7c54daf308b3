//! Compiled schemas and the operations on them. A built-in type (compiled from embedded tables) and a custom resource
//! (compiled from its definition) are treated alike. Synchronous, no I/O, no clock.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod correlate;
pub mod model;
pub mod proto;
pub mod rules;
pub mod structural;
pub mod typed;

/// Converts an untyped tree from a client to a tree of the schema. Unknown fields are dropped and collected. Empty lists
/// and maps of Go types remain until the tree is normalized, so that defaulting sees them.
pub fn decode(
    schema: &Schema,
    tree: pintle_value::Value,
    strict: &mut typed::Strict,
) -> Result<pintle_value::Value, typed::TypeError> {
    if schema.decodes_into_go_struct() {
        typed::decode_written(schema, tree, strict)
    } else {
        structural::decode(schema, tree, strict)
    }
}

/// Like `decode`, for the result of an apply. Custom resources retain unknown fields and disallowed nulls for validation,
/// until they are coerced.
pub fn decode_applied(
    schema: &Schema,
    tree: pintle_value::Value,
    strict: &mut typed::Strict,
) -> Result<pintle_value::Value, typed::TypeError> {
    if schema.decodes_into_go_struct() {
        decode(schema, tree, strict)
    } else {
        structural::decode_applied(schema, tree)
    }
}

pub use model::{
    Arena, Checks, Choice, Field, Inlined, ListKind, MapKind, Member, Node, NodeId, Omit, Other, Patch,
    Schema, Shape, Struct, Wire,
};
