//! What the CEL rules of a definition may cost, against their limits.

use pintle_value::Value;

/// A rule and its cost.
pub(super) struct RuleCost {
    /// Where the rule stands.
    pub(super) path: String,
    /// What it may cost at most.
    pub(super) estimated: u64,
    /// What it may cost before the definition is refused.
    pub(super) limit: u64,
}

/// The costs of all rules of a definition that was accepted, in the order in which they stand. Rules are not evaluated
/// yet: this is where their estimates go.
pub(super) fn of(_definition: &Value) -> Vec<RuleCost> {
    Vec::new()
}
