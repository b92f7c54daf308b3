//! The Common Expression Language, as cel-go speaks it in Kubernetes: an expression is parsed once, checked against
//! declared types, priced before it runs, and evaluated under a running cost over values that are never cloned.
//!
//! Nothing here knows of Kubernetes but `library::kubernetes`.

pub mod ast;
mod checker;
pub mod cost;
pub mod decl;
pub mod env;
mod eval;
pub mod issue;
pub mod library;
mod number;
pub mod parser;
mod plan;
pub mod program;
pub mod regexp;
pub mod shape;
pub mod time;
pub mod types;
mod validate;
pub mod value;
