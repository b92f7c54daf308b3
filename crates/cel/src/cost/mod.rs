//! The cost of an expression before it runs: ranges of sizes and costs, and the model that refines them.
//!
//! A cost is a count of abstract units; everything saturates instead of overflowing.

mod estimate;

use std::sync::Arc;

pub(crate) use estimate::estimate;

use crate::ast::Expr;
use crate::shape::{Shape, ShapeKind};
use crate::types::Type;

/// The cost of traversing a string, per unit.
pub const STRING_TRAVERSAL_FACTOR: f64 = 0.1;
/// The cost of a regular expression, per unit of its pattern.
pub const REGEX_LENGTH_FACTOR: f64 = 0.25;
/// The cost of reading a variable or a field.
pub const SELECT: u64 = 1;
/// The cost of creating a list.
pub const LIST_CREATE: u64 = 10;
/// The cost of creating a map.
pub const MAP_CREATE: u64 = 30;
/// The cost of creating an object.
pub const OBJECT_CREATE: u64 = 40;

/// A range of a number of elements, entries or units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeEstimate {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

/// A range of a cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostEstimate {
    /// At least.
    pub min: u64,
    /// At most.
    pub max: u64,
}

/// The cost of a call without its arguments, and the size of its result if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallEstimate {
    /// The cost.
    pub cost: CostEstimate,
    /// The size of the result.
    pub result: Option<SizeEstimate>,
}

/// A part of an expression, for a cost model.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// The path from a variable: its name, then field names, `@items`, `@keys`, `@values`, `@indices`. Empty if the value
    /// does not come from a variable.
    pub path: Vec<Arc<str>>,
    /// The node's type.
    pub ty: Type,
    /// The expression; `None` for a node that a model created.
    pub expr: Option<&'a Expr>,
    /// The node's size, if it follows from the expression itself.
    pub computed: Option<SizeEstimate>,
}

/// Provides sizes and costs that do not follow from the expression.
pub trait CostModel: Send + Sync {
    /// The size of the value of a node.
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

/// A model without information.
pub struct NoModel;

impl CostModel for NoModel {}

/// The largest size of a value at `path` in `root`. The first part of the path is ignored, so that every variable starts
/// at `root`. Keys of maps have size 0, as do scalars and objects whose `max_elements` is 0.
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

/// The estimate of one overload, provided by a library.
pub type Estimator = fn(&dyn CostModel, Option<&Node<'_>>, &[Node<'_>]) -> Option<CallEstimate>;

impl SizeEstimate {
    /// An unknown size.
    pub const UNKNOWN: SizeEstimate = SizeEstimate { min: 0, max: u64::MAX };

    /// Exactly `size`.
    pub const fn fixed(size: u64) -> SizeEstimate {
        SizeEstimate { min: size, max: size }
    }

    /// The sum of both sizes.
    #[must_use]
    pub fn plus(self, other: SizeEstimate) -> SizeEstimate {
        SizeEstimate { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The product of both.
    #[must_use]
    pub fn times(self, other: SizeEstimate) -> SizeEstimate {
        SizeEstimate { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The cost of this many items of `cost`.
    pub fn times_cost(self, cost: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.saturating_mul(cost.min), max: self.max.saturating_mul(cost.max) }
    }

    /// The cost at `factor` per unit, rounded up.
    pub fn times_factor(self, factor: f64) -> CostEstimate {
        CostEstimate { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    /// The smallest range that includes both.
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

    /// The sum of both costs.
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

    /// The smallest range that includes both: one or the other is incurred.
    #[must_use]
    pub fn union(self, other: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl CallEstimate {
    /// A call whose result has no size.
    pub fn of(cost: CostEstimate) -> CallEstimate {
        CallEstimate { cost, result: None }
    }
}

/// `units * factor`, rounded up; saturates.
fn scale(units: u64, factor: f64) -> u64 {
    (units as f64 * factor).ceil() as u64
}
