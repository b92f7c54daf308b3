//! The price of an expression before it runs: ranges of sizes and costs, and the model that refines them.
//!
//! A cost is a count of abstract units; everything saturates instead of overflowing.

mod estimate;

use std::sync::Arc;

pub(crate) use estimate::estimate;

use crate::ast::Expr;
use crate::shape::{Shape, ShapeKind};
use crate::types::Type;

/// What touching every unit of a string costs, per unit.
pub const STRING_TRAVERSAL_FACTOR: f64 = 0.1;
/// What a regular expression costs, per unit of its pattern.
pub const REGEX_LENGTH_FACTOR: f64 = 0.25;
/// Reading a variable or a field.
pub const SELECT: u64 = 1;
/// Making a list.
pub const LIST_CREATE: u64 = 10;
/// Making a map.
pub const MAP_CREATE: u64 = 30;
/// Making an object.
pub const OBJECT_CREATE: u64 = 40;

/// How many elements, entries or units something has: at least and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeEstimate {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

/// What something costs: at least and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostEstimate {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

/// What a call costs, without its arguments, and how large its result is where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEstimate {
    /// The cost.
    pub cost: CostEstimate,
    /// The size of the result.
    pub result: Option<SizeEstimate>,
}

/// A part of an expression as a cost model sees it.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// The way to it from a variable: the variable's name, then field names, `@items`, `@keys`, `@values`, `@indices`.
    /// Empty where the value does not come from a variable.
    pub path: Vec<Arc<str>>,
    /// Its type.
    pub of: Type,
    /// The expression; none for a node that a model made up.
    pub expr: Option<&'a Expr>,
    /// Its size where the expression itself tells.
    pub computed: Option<SizeEstimate>,
}

/// Knows more about sizes and costs than the expression tells.
pub trait CostModel: Send + Sync {
    /// The size of what `node` reads.
    fn estimate_size(&self, _node: &Node<'_>) -> Option<SizeEstimate> {
        None
    }

    /// The cost of a call, without its arguments.
    fn estimate_call(
        &self,
        _function: &str,
        _overload: &str,
        _target: Option<&Node<'_>>,
        _args: &[Node<'_>],
    ) -> Option<CallEstimate> {
        None
    }
}

/// The model that knows nothing.
pub struct NoModel;

impl CostModel for NoModel {}

/// The most that a value on `path` of `root` can hold. The path's first part is left out: whatever the variable, the way
/// begins at `root`. Keys of maps count nothing, as scalars and objects do whose `max_elements` is 0.
pub fn size_on_path(root: &Shape, path: &[Arc<str>]) -> Option<SizeEstimate> {
    let mut max = root.max_elements;
    let mut shape = Some(root);
    for part in path.get(1..)? {
        let next = match (&**part, &shape?.kind) {
            ("@items" | "@values", ShapeKind::List { element, .. }) => Some(element),
            ("@items" | "@values", ShapeKind::Map { value }) => Some(value),
            ("@keys", ShapeKind::Map { .. }) => None,
            (field, ShapeKind::Object(object)) => Some(&object.fields.get(field)?.shape),
            _ => return None,
        };
        shape = next.map(|next| &**next);
        max = shape.map_or(0, |shape| shape.max_elements);
    }
    Some(SizeEstimate { min: 0, max })
}

/// The estimate of one overload, which a library brings along.
pub type Estimator = fn(&dyn CostModel, Option<&Node<'_>>, &[Node<'_>]) -> Option<CallEstimate>;

impl SizeEstimate {
    /// Nothing is known.
    pub const UNKNOWN: SizeEstimate = SizeEstimate { min: 0, max: u64::MAX };

    /// Exactly `size`.
    pub const fn fixed(size: u64) -> SizeEstimate {
        SizeEstimate { min: size, max: size }
    }

    /// The size of both together.
    #[must_use]
    pub fn plus(self, other: SizeEstimate) -> SizeEstimate {
        SizeEstimate { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The product of both.
    #[must_use]
    pub fn times(self, other: SizeEstimate) -> SizeEstimate {
        SizeEstimate { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// What this many of `cost` cost.
    pub fn times_cost(self, cost: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.saturating_mul(cost.min), max: self.max.saturating_mul(cost.max) }
    }

    /// What it costs at `factor` per unit, rounded up.
    pub fn times_factor(self, factor: f64) -> CostEstimate {
        CostEstimate { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    /// The range that holds both.
    #[must_use]
    pub fn union(self, other: SizeEstimate) -> SizeEstimate {
        SizeEstimate { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl CostEstimate {
    /// Exactly `cost`.
    pub const fn fixed(cost: u64) -> CostEstimate {
        CostEstimate { min: cost, max: cost }
    }

    /// One after the other.
    #[must_use]
    pub fn plus(self, other: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The product of both.
    #[must_use]
    pub fn times(self, other: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Scaled by `factor`, rounded up.
    #[must_use]
    pub fn times_factor(self, factor: f64) -> CostEstimate {
        CostEstimate { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    /// The range that holds both: one or the other.
    #[must_use]
    pub fn union(self, other: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl CallEstimate {
    /// A call whose result has no size of its own.
    pub fn of(cost: CostEstimate) -> CallEstimate {
        CallEstimate { cost, result: None }
    }
}

/// `units * factor`, rounded up; a float that is too large saturates.
fn scale(units: u64, factor: f64) -> u64 {
    (units as f64 * factor).ceil() as u64
}
