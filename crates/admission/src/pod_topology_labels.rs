//! PodTopologyLabels: copies zone and region labels from a node to its pods.

use crate::{Mutation, Operation, Plugin, Resources};
use pintle_meta::Status;

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

pub(crate) struct PodTopologyLabels;

impl Plugin for PodTopologyLabels {
    fn resources(&self) -> Resources {
        &[("", "pods")]
    }

    fn mutate(&self, Mutation { request, object, cluster }: Mutation<'_>) -> Result<(), Status> {
        if !request.is("", "pods") || request.operation != Operation::Create {
            return Ok(());
        }
        let node = match request.subresource {
            "" => object.str_at(&["spec", "nodeName"]),
            // The pod gets the labels from its binding.
            "binding" if object.str_at(&["target", "kind"]) == "Node" => object.str_at(&["target", "name"]),
            _ => return Ok(()),
        };
        let Some(node) = cluster.object("", "nodes", "", node).filter(|_| !node.is_empty()) else {
            return Ok(());
        };
        for label in LABELS {
            if let Some(value) = node.at(&["metadata", "labels", label]) {
                object.set_at(&["metadata", "labels", label], value.clone());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Attributes;
    use crate::testing::{Objects, kind, text, tree, with_request};
    use pintle_value::Value;

    #[test]
    fn pods_are_labelled_with_the_place_of_their_node() {
        let node = r#"{"metadata":{"name":"n","labels":{"topology.kubernetes.io/zone":"z","other":"x"}}}"#;
        let cluster = Objects::of(&[("", "nodes", node)]);
        let pods = kind("", "pods");
        for (subresource, object, want) in [
            ("", r#"{"spec":{"nodeName":"n"}}"#, r#"{"topology.kubernetes.io/zone":"z"}"#),
            (
                "",
                r#"{"metadata":{"labels":{"a":"b","topology.kubernetes.io/zone":"y"}},"spec":{"nodeName":"n"}}"#,
                r#"{"a":"b","topology.kubernetes.io/zone":"z"}"#,
            ),
            ("", r#"{"spec":{"nodeName":"other"}}"#, "null"),
            ("", r#"{"spec":{}}"#, "null"),
            ("binding", r#"{"target":{"kind":"Node","name":"n"}}"#, r#"{"topology.kubernetes.io/zone":"z"}"#),
            ("binding", r#"{"target":{"name":"n"}}"#, "null"),
            ("eviction", r#"{"target":{"kind":"Node","name":"n"}}"#, "null"),
        ] {
            let mut object = tree(object);
            with_request(&pods, None, |request| {
                let request = Attributes { subresource, ..*request };
                PodTopologyLabels
                    .mutate(Mutation { request: &request, object: &mut object, cluster: &cluster })
                    .unwrap();
            });
            assert_eq!(text(object.at(&["metadata", "labels"]).unwrap_or(&Value::Null)), want);
        }
    }
}
