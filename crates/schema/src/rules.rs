//! `x-kubernetes-validations`: the rules of a custom resource's schema, compiled against the shapes of its data,
//! priced, and run.

mod compile;
mod escape;
pub mod field_path;
mod scope;
mod shape;
#[cfg(test)]
mod tests;
mod validate;

pub use compile::{Compiled, Compiler, Message, Reason, Rule};
pub use escape::escape;
pub use scope::{Scope, has_rules};
pub use shape::{REQUEST_BYTES_MAX, cardinality_max, shape};
pub use validate::{Before, Outcome, validate, validate_strictly};

/// What one evaluation of an expression may cost.
pub const CALL_COST_MAX: u64 = 1_000_000;
/// What all rules may cost for one request.
pub const REQUEST_BUDGET: i64 = 10_000_000;
/// The longest message that an expression may make.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
