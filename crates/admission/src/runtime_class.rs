//! RuntimeClass: sets the overhead and scheduling constraints of a pod's runtime class.

use crate::tolerations::{Toleration, merge};
use crate::{Attributes, ClusterState, Mutation, Operation, Plugin, Resources, Validation};
use pintle_meta::field::quoted;
use pintle_meta::{Quantity, Status, names};
use pintle_value::Value;

const DIFFERS: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

const NOT_DEFINED: &str =
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

pub(crate) struct RuntimeClass;

impl Plugin for RuntimeClass {
    fn resources(&self) -> Resources {
        &[("", "pods")]
    }

    fn mutate(&self, Mutation { request, object: pod, cluster }: Mutation<'_>) -> Result<(), Status> {
        if !is_ours(request) {
            return Ok(());
        }
        let Some(class) = class_of(request, pod, cluster)? else {
            return refuse_empty_overhead(request, pod);
        };
        if let Some(overhead) = class.get("overhead") {
            let fixed = overhead.get("podFixed");
            let given = pod.at(&["spec", "overhead"]);
            if given.is_some_and(|g| !is_empty(g)) && !same_quantities(fixed, given) {
                return Err(request.forbidden(Some(pod), DIFFERS));
            }
            match fixed {
                Some(fixed) => pod.set_at(&["spec", "overhead"], fixed.clone()),
                None => _ = pod.remove_at(&["spec", "overhead"]),
            }
        }
        if class.get("overhead").is_none() {
            refuse_empty_overhead(request, pod)?;
        }
        match class.get("scheduling") {
            Some(scheduling) => merge_scheduling(request, pod, scheduling),
            None => Ok(()),
        }
    }

    fn validate(&self, Validation { request, object, cluster, .. }: Validation<'_>) -> Result<(), Status> {
        let Some(pod) = object.filter(|_| is_ours(request)) else { return Ok(()) };
        let class = class_of(request, pod, cluster)?;
        let given = pod.at(&["spec", "overhead"]);
        match class.as_ref().and_then(|c| c.get("overhead")) {
            Some(overhead) if !same_quantities(overhead.get("podFixed"), given) => {
                Err(request.forbidden(Some(pod), DIFFERS))
            }
            None if given.is_some() => Err(request.forbidden(Some(pod), NOT_DEFINED)),
            _ => Ok(()),
        }
    }
}

/// kube-apiserver refuses an empty overhead, too. It is refused here because `validate` does not see it any more.
fn refuse_empty_overhead(request: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
    match pod.at(&["spec", "overhead"]) {
        Some(given) if !given.is_null() && is_empty(given) => Err(request.forbidden(Some(pod), NOT_DEFINED)),
        _ => Ok(()),
    }
}

fn is_ours(request: &Attributes<'_>) -> bool {
    request.is("", "pods") && request.subresource.is_empty() && request.operation == Operation::Create
}

fn class_of(
    request: &Attributes<'_>,
    pod: &Value,
    cluster: &dyn ClusterState,
) -> Result<Option<Value>, Status> {
    let Some(name) = pod.at(&["spec", "runtimeClassName"]).and_then(Value::as_str) else { return Ok(None) };
    let class = cluster.object("node.k8s.io", "runtimeclasses", "", name);
    let missing = || match names::client_lookup_error(name) {
        Some(why) => Status::unclassified(why),
        None => {
            request.forbidden(Some(pod), &format!("pod rejected: RuntimeClass {} not found", quoted(name)))
        }
    };
    class.map(Some).ok_or_else(missing)
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_none_or(|map| map.is_empty())
}

/// Returns whether two resource lists have equal amounts.
fn same_quantities(a: Option<&Value>, b: Option<&Value>) -> bool {
    let parsed = |value: Option<&Value>| -> Vec<(String, Option<Quantity>)> {
        let map = value.and_then(Value::as_object);
        map.into_iter()
            .flat_map(|m| m.iter())
            .map(|(k, v)| (k.to_string(), Quantity::from_value(v).ok()))
            .collect()
    };
    parsed(a) == parsed(b)
}

fn merge_scheduling(request: &Attributes<'_>, pod: &mut Value, scheduling: &Value) -> Result<(), Status> {
    let wanted = scheduling.get("nodeSelector").and_then(Value::as_object);
    for (key, value) in wanted.into_iter().flat_map(|map| map.iter()) {
        if let Some(given) = pod.at(&["spec", "nodeSelector", key]).filter(|given| *given != value) {
            let (given, value) = (given.as_str().unwrap_or(""), value.as_str().unwrap_or(""));
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {given}"
            );
            return Err(request.forbidden(Some(pod), &why));
        }
        pod.set_at(&["spec", "nodeSelector", key], value.clone());
    }
    let of_pod = pod.items_at(&["spec", "tolerations"]);
    let all = of_pod.iter().chain(scheduling.items_at(&["tolerations"])).map(Toleration::of);
    let merged: Vec<Value> = merge(all.collect()).iter().map(Toleration::to_value).collect();
    if !merged.is_empty() {
        pod.set_at(&["spec", "tolerations"], Value::Array(merged));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, admitted, kind, text};

    #[test]
    fn pods_get_the_scheduling_of_their_class() {
        let pods = kind("", "pods");
        let cluster = Objects::of(&[(
            "node.k8s.io",
            "runtimeclasses",
            r#"{"metadata":{"name":"r"},"overhead":{"podFixed":{"cpu":"1"}},"scheduling":{"nodeSelector":{"a":"b"},"tolerations":[{"key":"k","operator":"Exists"}]}}"#,
        )]);
        let pod = r#"{"spec":{"runtimeClassName":"r","tolerations":[{"key":"k","operator":"Exists","effect":"NoSchedule"}]}}"#;
        let (pod, _) = admitted(&RuntimeClass, &pods, pod, &cluster).unwrap();
        assert_eq!(
            text(pod.get("spec").unwrap()),
            r#"{"nodeSelector":{"a":"b"},"overhead":{"cpu":"1"},"runtimeClassName":"r","tolerations":[{"key":"k","operator":"Exists"}]}"#
        );
        for (pod, why) in [
            (r#"{"spec":{"runtimeClassName":"none"}}"#, r#"pod rejected: RuntimeClass "none" not found"#),
            (r#"{"spec":{"runtimeClassName":"r","overhead":{"cpu":"2"}}}"#, DIFFERS),
            (
                r#"{"spec":{"overhead":{"cpu":"2"}}}"#,
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            ),
            (
                r#"{"spec":{"runtimeClassName":"r","nodeSelector":{"a":"c"}}}"#,
                "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c",
            ),
        ] {
            let refusal = admitted(&RuntimeClass, &pods, pod, &cluster).unwrap_err();
            assert_eq!(refusal, format!("pods \"x\" is forbidden: {why}"));
        }
        let unfit = r#"{"spec":{"runtimeClassName":"a%"}}"#;
        let refusal = admitted(&RuntimeClass, &pods, unfit, &cluster).unwrap_err();
        assert_eq!(refusal, r#"invalid resource name "a%": [may not contain '%']"#);
    }
}
