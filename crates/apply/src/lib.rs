//! Applies changes to objects: the three patch formats, and server-side apply with field ownership. Synchronous, no
//! I/O, no clock: the time is an argument.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod fieldset;
pub mod managed;
pub mod patch;
pub mod typed;

pub use fieldset::{FieldPath, Filter, PathElement, Set};
pub use managed::{
    Applied, ApplyError, Comparison, Conflict, Context, Owner, ReplicasPath, Versions, apply,
    check_managed_fields, keep_times, scale_to_parent, scale_to_subresource, update,
};
pub use patch::PatchError;

/// The deepest tree that this crate accepts; its functions recurse. Go's JSON decoder has the same limit. The server's
/// threads have stacks for it.
pub const DEPTH_MAX: usize = 10_000;

#[cfg(test)]
mod testing;
