//! Applies changes to objects: the three patch formats, and server-side apply with field ownership. Synchronous, no
//! I/O, no clock: the time is an argument.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod fieldset;
pub mod managed;
pub mod patch;
pub mod typed;

pub use fieldset::{FieldPath, Filter, PathElement, Set};
pub use managed::{
    Applied, ApplyError, Conflict, Context, Owner, ReplicasPath, Versions, apply, check_managed_fields,
    keep_times, scale_to_parent, scale_to_subresource, update,
};
pub use patch::PatchError;

/// How deep a tree may be for the walks of this crate, which recurse: as deep as JSON that Go reads. The threads of the server have
/// stacks for that.
pub const DEPTH_MAX: usize = 10_000;

#[cfg(test)]
mod testing;
