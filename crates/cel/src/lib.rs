//! The Common Expression Language, as cel-go speaks it in Kubernetes: an expression is parsed once, checked against
//! declared types, priced before it runs, and evaluated under a running cost over values that are never cloned.
//!
//! Nothing here knows of Kubernetes but `library::kubernetes`.

pub mod ast;
pub mod decl;
mod number;
pub mod regexp;
pub mod shape;
pub mod time;
pub mod types;
pub mod value;
