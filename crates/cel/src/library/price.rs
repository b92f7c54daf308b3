//! What the libraries' costs are made of: sizes of nodes before a call, of values after it.

use crate::cost::{CostModel, Node, SizeEstimate};
use crate::value::Value;

/// The cost of a call that was made, the target first among the arguments; none to leave it to the model.
pub type Tracker = fn(&[Value<'_>], &Value<'_>) -> Option<u64>;

/// Finds what prices the calls of a function and overload.
pub type Pricing = fn(&str, &str) -> Option<Tracker>;

/// The size of a node: what the expression tells, what the model knows, or anything.
pub(crate) fn size_of(model: &dyn CostModel, node: &Node<'_>) -> SizeEstimate {
    node.computed.or_else(|| model.estimate_size(node)).unwrap_or(SizeEstimate::UNKNOWN)
}
