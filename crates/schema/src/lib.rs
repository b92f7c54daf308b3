//! Compiled schemas and everything they drive. A built-in type (compiled from embedded tables) and a custom
//! resource (compiled from its definition) are the same thing here. Synchronous, no I/O, no clock.

pub mod model;
pub mod proto;
pub mod structural;
pub mod typed;

pub use model::{
    Arena, Checks, Choice, Field, Inlined, ListKind, MapKind, Member, Node, NodeId, Omit, Other, Patch, Schema,
    Shape, Struct, Wire,
};
