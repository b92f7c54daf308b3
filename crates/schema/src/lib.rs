//! Compiled schemas and everything they drive. A built-in type (compiled from embedded tables) and a custom
//! resource (compiled from its definition) are the same thing here. Synchronous, no I/O, no clock.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod correlate;
pub mod model;
pub mod proto;
pub mod rules;
pub mod structural;
pub mod typed;

/// Makes an untyped tree that a client wrote the tree of its schema. Unknown fields are dropped and collected; empty
/// lists and maps of Go types stay, for defaults to see, until the tree is settled.
pub fn decode(
    schema: &Schema,
    tree: pintle_value::Value,
    strict: &mut typed::Strict,
) -> Result<pintle_value::Value, typed::TypeError> {
    if schema.is_go() {
        typed::decode_written(schema, tree, strict)
    } else {
        structural::decode(schema, tree, strict)
    }
}

/// The same of a tree that an apply made. Custom resources keep what their schema does not know and nulls that may
/// not be, for validation to see, until they are coerced.
pub fn decode_applied(
    schema: &Schema,
    tree: pintle_value::Value,
    strict: &mut typed::Strict,
) -> Result<pintle_value::Value, typed::TypeError> {
    match schema.is_go() {
        true => decode(schema, tree, strict),
        false => structural::decode_applied(schema, tree),
    }
}

/// Drops what an apply left in a custom resource that is not kept: unknown fields, and nulls that may not be.
pub fn coerce(schema: &Schema, tree: &mut pintle_value::Value) {
    if !schema.is_go() {
        structural::coerce(schema, tree);
    }
}

pub use model::{
    Arena, Checks, Choice, Field, Inlined, ListKind, MapKind, Member, Node, NodeId, Omit, Other, Patch,
    Schema, Shape, Struct, Wire,
};
