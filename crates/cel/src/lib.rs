//! The Common Expression Language as cel-go implements it in Kubernetes: an expression is parsed once, checked against
//! declared types, its cost is estimated before it runs, and it is evaluated with a cost limit over values that are never
//! cloned.
//!
//! ```
//! use pintle_cel::env::Env;
//! use pintle_cel::types::Type;
//! use pintle_cel::value::Value;
//!
//! let env = Env::standard().with_variable("ports", Type::list(Type::Int));
//! let checked = env.compile("ports.all(p, p > 0 && p < 65536)")?;
//! assert_eq!(checked.output_type(), &Type::Bool);
//!
//! let program = checked.plan()?;
//! let ports = Value::list(vec![Value::Int(80), Value::Int(443)]);
//! let evaluation = program.eval(&[("ports", ports)], Some(1_000));
//! assert!(matches!(evaluation.result, Ok(Value::Bool(true))));
//! assert_eq!(evaluation.cost, 16);
//!
//! let issues = env.compile("ports.size() == '2'").err().map(|issues| issues.to_string());
//! let found = "found no matching overload for '_==_' applied to '(int, string)'";
//! assert!(issues.is_some_and(|text| text.starts_with(&format!("ERROR: <input>:1:14: {found}"))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An expression passes through these stages, each a module with one entry point:
//!
//! | | |
//! | --- | --- |
//! | [`env`] | what expressions may use: variables, functions, macros, types, switches |
//! | [`parser`] | text to [`ast`], macros expanded; errors with cel-go's messages and source excerpts ([`issue`]) |
//! | `checker`, `validate` | a type and a meaning for every node; rules about literals |
//! | [`cost`] | the minimum and maximum cost, from the sizes that a [`shape::Shape`] allows |
//! | `plan`, [`program`] | a tree of steps: slots for variables, resolved overloads, evaluated constants |
//! | `eval` | the steps, over [`value::Value`]s that borrow the tree they come from |
//! | [`library`] | functions as data: cel-go's standard library and extensions, Kubernetes' own |
//!
//! Data is a `pintle_value` tree read through a [`shape::Shape`]: see `examples/rule.rs`. Programs can be shared between
//! threads. Nothing here knows of Kubernetes but `library::kubernetes`, nothing does input or output, and no expression
//! makes it panic or run past its budget.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

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
pub mod words;
