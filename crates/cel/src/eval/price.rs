//! The actual costs of calls, as in cel-go.

use super::Outcome;
use crate::cost::{REGEX_LENGTH_FACTOR, STRING_TRAVERSAL_FACTOR};
use crate::library::Tracker;
use crate::plan::Call;
use crate::value::Value;

/// How the cost of an overload follows from the sizes of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Price {
    /// One unit.
    One,
    /// The size of the first argument.
    First,
    /// The size of the smaller argument.
    Smaller,
    /// The size of both arguments.
    Both,
    /// The number of elements of the second argument.
    InList,
    /// A regular expression on a string.
    Matches,
    /// A search in a string.
    Contains,
}

impl Price {
    /// The cost rule of an overload.
    pub(crate) fn of(overload: &str) -> Price {
        match overload {
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
            | "strings_quote" | "string_format" => Price::First,
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals" => Price::Smaller,
            "add_string" | "add_bytes" => Price::Both,
            "in_list" => Price::InList,
            "matches_string" => Price::Matches,
            "contains_string" => Price::Contains,
            _ => Price::One,
        }
    }

    /// The cost for arguments of these sizes.
    pub(crate) fn of_sizes(self, first: u64, second: impl FnOnce() -> u64) -> u64 {
        match self {
            Price::One => 1,
            Price::First => traversal(first),
            Price::Smaller => traversal(first.min(second())),
            Price::Both => traversal(first.saturating_add(second())),
            Price::InList => second(),
            Price::Matches => {
                let text = ((1.0 + first as f64) * STRING_TRAVERSAL_FACTOR).ceil() as u64;
                let pattern = (second() as f64 * REGEX_LENGTH_FACTOR).ceil() as u64;
                text.saturating_mul(pattern)
            }
            Price::Contains => traversal(first).saturating_mul(traversal(second())),
        }
    }
}

fn traversal(size: u64) -> u64 {
    (size as f64 * STRING_TRAVERSAL_FACTOR).ceil() as u64
}

/// The cost settings of an evaluation.
pub(crate) struct Prices {
    /// The trackers for equality with values of libraries.
    pub(crate) equality: Vec<Tracker>,
    /// Whether map literals and presence tests follow the specification.
    pub(crate) strict: bool,
    /// Whether `has()` itself has a cost.
    pub(crate) presence_test_has_cost: bool,
}

impl Prices {
    pub(super) fn presence_test(&self) -> u64 {
        u64::from(self.presence_test_has_cost)
    }

    pub(super) fn cost_of_equality(&self, left: &Outcome<'_>, right: &Outcome<'_>) -> u64 {
        if let (Ok(left @ Value::Opaque(_)), Ok(right)) = (left, right) {
            let args = [left.clone(), right.clone()];
            if let Some(cost) = self.equality.iter().find_map(|tracker| tracker(&args, &Value::Null)) {
                return cost;
            }
        }
        let smaller = match (left, right) {
            (Ok(left), Ok(right)) => left.smaller_size(right),
            _ => 1,
        };
        traversal(smaller)
    }

    pub(super) fn call_cost(&self, call: &Call, args: &[Value<'_>], result: &Value<'_>) -> u64 {
        if let Some(cost) = call.trackers.iter().find_map(|tracker| tracker(args, result)) {
            return cost;
        }
        let size = |index: usize| args.get(index).map_or(1, Value::size);
        match call.price {
            Price::One => 1,
            price => price.of_sizes(size(0), || size(1)),
        }
    }
}

impl Value<'_> {
    /// The smaller of two sizes; avoids counting the code points of long strings twice.
    fn smaller_size(&self, other: &Value<'_>) -> u64 {
        match (self, other) {
            (Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Null, other) => {
                1.min(other.size())
            }
            (left, right) => left.size().min(right.size()),
        }
    }
}
