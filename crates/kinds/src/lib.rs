//! The kinds: what a kind is, the embedded tables of the built-in ones, and hooks for the little that no
//! schema can say. A kind without rules of its own has no file.

mod apiextensions;
pub mod builtin;
mod builtin_hooks;
mod builtin_resources;
mod builtin_types;
mod core;
pub mod custom;
pub mod hooks;
pub mod kind;
mod webhook;

pub use apiextensions::{approval, definition};
pub use builtin::{Builtin, Group, GroupVersionEntry, Types, builtin};
pub use hooks::{Hooks, NoHooks, Scope};
pub use kind::{Column, Generation, Kind, KindVersion, Rules, ScalePaths, SelectableField, Subresource, Verbs};
