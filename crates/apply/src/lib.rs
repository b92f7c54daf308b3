//! How changes meet an object: the three patch formats, and the ownership of fields that server-side apply
//! keeps. Synchronous, no I/O, no clock: the time is an argument.

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

/// How deep a tree may be for the walks of this crate, which recurse.
pub const DEPTH_MAX: usize = 1_000;

#[cfg(test)]
mod testing;
