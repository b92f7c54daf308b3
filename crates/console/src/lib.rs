//! The web console, without HTTP: the files of the page, the codes and sessions behind one-time links, and the
//! evaluation of expressions for the workbench. `http::console` serves them.
//!
//! The page reads and writes objects through the public API with the credentials of its user. Nothing here sees an
//! object of the cluster.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod evaluate;
pub mod files;
pub mod sessions;

pub use sessions::Sessions;
