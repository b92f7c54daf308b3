//! The building blocks of libraries' costs: sizes of nodes before a call, sizes of values after it.

use crate::cost::{CostModel, Node, SizeEstimate};
use crate::value::Value;

/// The cost of an executed call, with the target as the first argument; `None` to use the model's cost.
pub type Tracker = fn(&[Value<'_>], &Value<'_>) -> Option<u64>;

/// Finds the tracker for calls of a function and overload.
pub type Pricing = fn(&str, &str) -> Option<Tracker>;

/// The size of a node: from the expression, from the model, or unknown.
pub(crate) fn size_of(model: &dyn CostModel, node: &Node<'_>) -> SizeEstimate {
    node.computed.or_else(|| model.estimate_size(node)).unwrap_or(SizeEstimate::UNKNOWN)
}
