//! The QoS class of a pod, from its requests and limits.

use super::aggregate::{Amounts, amounts};
use pintle_value::Value;

/// The class of a pod without requests and limits.
pub(crate) const BEST_EFFORT: &str = "BestEffort";
/// The class of a pod whose limits equal its requests.
pub(crate) const GUARANTEED: &str = "Guaranteed";
/// Class of all other pods.
pub(crate) const BURSTABLE: &str = "Burstable";

/// The class that a pod spec is in.
pub fn class(spec: &Value) -> &'static str {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut all_limited = true;
    if let Some(resources) = spec.get("resources") {
        add_compute(&mut requests, resources.get("requests"));
        let limited = add_compute(&mut limits, resources.get("limits"));
        let given = resources.get("limits").and_then(Value::as_object).is_some_and(|m| !m.is_empty());
        all_limited = !given || limited;
    } else {
        for container in spec.items_at(&["containers"]).iter().chain(spec.items_at(&["initContainers"])) {
            add_compute(&mut requests, container.at(&["resources", "requests"]));
            all_limited &= add_compute(&mut limits, container.at(&["resources", "limits"]));
        }
    }
    if requests.is_empty() && limits.is_empty() {
        return BEST_EFFORT;
    }
    let matched = requests.iter().all(|(name, amount)| limits.get(name) == Some(amount));
    if all_limited && matched && requests.len() == limits.len() { GUARANTEED } else { BURSTABLE }
}

/// Adds the CPU and memory of a list; returns whether it has both.
fn add_compute(total: &mut Amounts, list: Option<&Value>) -> bool {
    let mut found = 0_usize;
    for (name, amount) in amounts(list) {
        if !matches!(name.as_str(), "cpu" | "memory") || amount.sign() <= 0 {
            continue;
        }
        found = found.saturating_add(1);
        match total.get_mut(&name) {
            Some(sum) => sum.add(&amount),
            None => _ = total.insert(name, amount),
        }
    }
    found == 2
}

#[cfg(test)]
mod tests {
    use super::class;
    use crate::testing::tree;

    #[test]
    fn classes_follow_from_requests_and_limits() {
        for (resources, expected) in [
            ("{}", "BestEffort"),
            (r#"{"requests":{"cpu":"1"}}"#, "Burstable"),
            (r#"{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"1","memory":"1Gi"}}"#, "Guaranteed"),
            (
                r#"{"requests":{"cpu":"500m","memory":"1Gi"},"limits":{"cpu":"1","memory":"1Gi"}}"#,
                "Burstable",
            ),
            (r#"{"limits":{"example.com/x":"1"}}"#, "BestEffort"),
        ] {
            let spec = tree(&format!(r#"{{"containers":[{{"resources":{resources}}}]}}"#));
            assert_eq!(class(&spec), expected, "{resources}");
        }
    }
}
