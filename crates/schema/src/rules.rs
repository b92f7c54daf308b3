//! `x-kubernetes-validations`: compiles the rules of a custom resource's schema against the shapes of its data, estimates
//! their cost, and evaluates them.

mod compile;
mod counts;
pub mod field_path;
mod scope;
mod shape;
#[cfg(test)]
mod tests;
mod validate;

pub use compile::{Compiled, Compiler, Message, Reason, Rule};
pub use scope::{Scope, has_rules};
pub use shape::{REQUEST_BYTES_MAX, cardinality_max, object_shape, shape};
pub use validate::{Before, Outcome, validate, validate_strictly};

/// The cost limit of one evaluation of an expression.
pub const CALL_COST_MAX: u64 = 1_000_000;
/// The cost limit of all rules for one request.
pub const REQUEST_BUDGET: i64 = 10_000_000;
/// The longest result of a message expression.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
