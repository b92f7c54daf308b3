//! The kinds: what a kind is, the embedded tables of the built-in ones, and hooks for the little that no
//! schema can say. A kind without rules of its own has no file.

mod core;
pub mod hooks;
pub mod kind;

pub use hooks::{Hooks, NoHooks, Scope};
pub use kind::{Column, Kind, KindVersion, Rules, SelectableField, Subresource, Verbs};
