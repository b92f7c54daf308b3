//! NodeDeclaredFeatureValidator: a pod update may only need features that its node declares.

use crate::{Operation, Plugin, Resources, Validation};
use pintle_meta::Status;
use pintle_meta::field::quoted;
use pintle_value::Value;

const POD_RESIZE: &str = "InPlacePodLevelResourcesVerticalScaling";
const INIT_CONTAINER_RESIZE: &str = "InPlacePodVerticalScalingInitContainers";

pub(crate) struct NodeDeclaredFeatureValidator;

impl Plugin for NodeDeclaredFeatureValidator {
    fn resources(&self) -> Resources {
        &[("", "pods")]
    }

    fn validate(&self, Validation { request, object, cluster, .. }: Validation<'_>) -> Result<(), Status> {
        let ours = request.is("", "pods")
            && request.operation == Operation::Update
            && matches!(request.subresource, "" | "resize");
        let (Some(pod), Some(old)) = (object.filter(|_| ours), request.old) else { return Ok(()) };
        let name = pod.str_at(&["spec", "nodeName"]);
        let generation = |pod: &Value| pod.at(&["metadata", "generation"]).and_then(Value::as_int);
        if name.is_empty() || generation(pod) == generation(old) {
            return Ok(());
        }
        let mut asked = needed_features(pod, old);
        if asked.is_empty() {
            return Ok(());
        }
        let Some(node) = cluster.object("", "nodes", "", name) else {
            return Err(request.forbidden(object, &format!("node {} not found", quoted(name))));
        };
        let declared = node.items_at(&["status", "declaredFeatures"]);
        asked.retain(|feature| !declared.iter().any(|has| has.as_str() == Some(feature)));
        if asked.is_empty() {
            return Ok(());
        }
        let (asked, name) = (asked.join(", "), quoted(name));
        let why = format!("pod update requires features {asked} which are not available on node {name}");
        Err(request.forbidden(object, &why))
    }
}

/// The node features that this update needs.
fn needed_features(pod: &Value, old: &Value) -> Vec<&'static str> {
    let mut out = Vec::new();
    if pod.at(&["spec", "resources"]) != old.at(&["spec", "resources"]) {
        out.push(POD_RESIZE);
    }
    let now = pod.items_at(&["spec", "initContainers"]).iter();
    let resized = now.zip(old.items_at(&["spec", "initContainers"])).any(|(now, old)| {
        old.str_at(&["restartPolicy"]) != "Always" && now.get("resources") != old.get("resources")
    });
    if resized {
        out.push(INIT_CONTAINER_RESIZE);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, kind, tree, with_request};

    #[test]
    fn nodes_are_asked_only_for_what_they_can_do() {
        let cluster = Objects::of(&[
            ("", "nodes", r#"{"metadata":{"name":"old"}}"#),
            (
                "",
                "nodes",
                r#"{"metadata":{"name":"new"},"status":{"declaredFeatures":["InPlacePodLevelResourcesVerticalScaling"]}}"#,
            ),
        ]);
        let pod = |node: &str, generation: u8, cpu: u8, init: u8| {
            tree(&format!(
                r#"{{"metadata":{{"generation":{generation}}},"spec":{{"nodeName":"{node}","resources":{{"limits":{{"cpu":"{cpu}"}}}},"initContainers":[{{"resources":{{"limits":{{"cpu":"{init}"}}}}}}]}}}}"#
            ))
        };
        let pods = kind("", "pods");
        for (node, generation, cpu, init, want) in [
            ("old", 1, 2, 1, ""),
            ("old", 2, 1, 1, ""),
            ("", 2, 2, 1, ""),
            ("new", 2, 2, 1, ""),
            ("none", 2, 2, 1, "node \"none\" not found"),
            (
                "old",
                2,
                2,
                2,
                "pod update requires features InPlacePodLevelResourcesVerticalScaling, \
                 InPlacePodVerticalScalingInitContainers which are not available on node \"old\"",
            ),
            (
                "new",
                2,
                2,
                2,
                "pod update requires features InPlacePodVerticalScalingInitContainers which are not available on node \"new\"",
            ),
        ] {
            let (now, old) = (pod(node, generation, cpu, init), pod(node, 1, 1, 1));
            let refused = with_request(&pods, Some(&old), |request| {
                NodeDeclaredFeatureValidator
                    .validate(Validation {
                        request,
                        object: Some(&now),
                        cluster: &cluster,
                        warnings: &mut Vec::new(),
                    })
                    .err()
            });
            let why = refused.map(|status| status.message).unwrap_or_default();
            assert_eq!(why.trim_start_matches("pods \"x\" is forbidden: "), want);
        }
    }
}
