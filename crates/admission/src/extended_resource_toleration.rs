//! ExtendedResourceToleration: adds a toleration for the taint of each extended resource that a pod requests.

use crate::{Mutation, Plugin};
use pintle_kinds::is_extended_resource;
use pintle_meta::Status;
use pintle_value::Value;
use std::collections::BTreeSet;

pub(crate) struct ExtendedResourceToleration;

impl Plugin for ExtendedResourceToleration {
    fn mutate(&self, Mutation { request, object: pod, .. }: Mutation<'_>) -> Result<(), Status> {
        if !request.is("", "pods") || !request.subresource.is_empty() {
            return Ok(());
        }
        for name in extended_resources(pod) {
            tolerate(pod, &name);
        }
        Ok(())
    }
}

fn extended_resources(pod: &Value) -> BTreeSet<String> {
    let lists = ["containers", "initContainers"];
    let containers = lists.iter().flat_map(|list| pod.items_at(&["spec", list]));
    let requests = containers.filter_map(|c| c.at(&["resources", "requests"]).and_then(Value::as_object));
    let names = requests.flat_map(|requests| requests.iter().map(|(name, _)| name.as_str()));
    names.filter(|name| is_extended_resource(name)).map(str::to_string).collect()
}

/// Replaces a toleration of the same taint, or appends one.
fn tolerate(pod: &mut Value, key: &str) {
    let mut toleration = Value::object();
    for (field, text) in [("key", key), ("operator", "Exists"), ("effect", "NoSchedule")] {
        toleration.set_at(&[field], text.into());
    }
    let mut all = pod.items_at(&["spec", "tolerations"]).to_vec();
    let alike = |other: &Value| {
        ["key", "operator", "effect", "value"].iter().all(|f| other.str_at(&[f]) == toleration.str_at(&[f]))
    };
    let mut found = false;
    for other in all.iter_mut().filter(|other| alike(other)) {
        *other = toleration.clone();
        found = true;
    }
    if !found {
        all.push(toleration);
    }
    pod.set_at(&["spec", "tolerations"], Value::Array(all));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, admitted, kind, text};

    #[test]
    fn devices_are_tolerated_once() {
        let pods = kind("", "pods");
        let pod = r#"{"spec":{"containers":[{"resources":{"requests":{"cpu":"1","example.com/gpu":"1"}}}],"tolerations":[{"key":"a"}]}}"#;
        let (pod, _) = admitted(&ExtendedResourceToleration, &pods, pod, &Objects::of(&[])).unwrap();
        let wanted = r#"[{"key":"a"},{"effect":"NoSchedule","key":"example.com/gpu","operator":"Exists"}]"#;
        assert_eq!(text(pod.at(&["spec", "tolerations"]).unwrap()), wanted);
        let (pod, _) = admitted(&ExtendedResourceToleration, &pods, &text(&pod), &Objects::of(&[])).unwrap();
        assert_eq!(text(pod.at(&["spec", "tolerations"]).unwrap()), wanted);
    }
}
