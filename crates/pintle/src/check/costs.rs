//! The estimated costs of a definition's CEL rules, compared with their limits.

use pintle_kinds::definition_rules::{RULE_COST_MAX, VERSION_COST_MAX, rule_costs};
use pintle_value::Value;

/// A rule and its cost.
pub(super) struct RuleCost {
    /// The path of the rule, or the version for the sum of its rules.
    pub(super) path: String,
    /// The estimated maximum cost.
    pub(super) estimated: u64,
    /// The cost limit.
    pub(super) limit: u64,
}

/// The costs of all rules of a definition, in order, and the sum of each version.
pub(super) fn of(definition: &Value) -> Vec<RuleCost> {
    let mut out: Vec<RuleCost> = Vec::new();
    let costs = rule_costs(definition);
    for same_version in costs.chunk_by(|a, b| a.version == b.version) {
        let mut total = 0_u64;
        for rule in same_version {
            total = total.saturating_add(rule.cost);
            let path = format!("{}: {}", rule.version, rule.path);
            out.push(RuleCost { path, estimated: rule.cost, limit: RULE_COST_MAX });
        }
        if let Some(first) = same_version.first() {
            let path = first.version.to_string();
            out.push(RuleCost { path, estimated: total, limit: VERSION_COST_MAX });
        }
    }
    out
}
