//! The objects that a fresh server creates: default roles and bindings, priority classes, flow control and the
//! APIServices of its own groups. Embedded as one JSON object per line, without fields that the server sets.

use pintle_value::{Value, json};

const OBJECTS: &str = include_str!("../data/bootstrap.jsonl");

/// The objects, in the order of their creation. `address` is that of the `kubernetes` service, `today` the date.
pub(crate) fn objects(address: &str, today: &str) -> impl Iterator<Item = Value> {
    let text = OBJECTS.replace("$SERVICE_ADDRESS", address).replace("$TODAY", today);
    let objects: Vec<Value> = text
        .lines()
        .filter_map(|line| json::parse(line.as_bytes()).ok().map(|parsed| parsed.value))
        .collect();
    objects.into_iter()
}

/// The group of flow schemas and priority levels.
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";

/// The default FlowSchemas and PriorityLevelConfigurations, mandatory ones last.
pub(crate) fn flow_objects() -> Vec<Value> {
    let mut objects: Vec<Value> =
        objects("", "").filter(|object| object.str_at(&["apiVersion"]).starts_with(FLOW_CONTROL)).collect();
    objects.sort_by_key(|object| matches!(object.str_at(&["metadata", "name"]), "exempt" | "catch-all"));
    objects
}

/// The field manager of these objects.
pub(crate) fn manager(group: &str) -> &'static str {
    match group {
        FLOW_CONTROL => "api-priority-and-fairness-config-producer-v1",
        _ => "kube-apiserver",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_an_object() {
        assert_eq!(objects("10.0.0.1", "2026-01-02").count(), OBJECTS.lines().count());
        assert!(objects("10.0.0.1", "2026-01-02").all(|o| !o.str_at(&["metadata", "name"]).is_empty()));
    }
}
