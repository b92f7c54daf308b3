//! PodNodeSelector: a namespace says on which nodes its pods may run.

use crate::{Attributes, Operation, Plugin, World};
use pintle_meta::{GroupResource, Status};
use pintle_value::Value;
use std::collections::BTreeMap;

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";

pub(crate) struct PodNodeSelector;

impl Plugin for PodNodeSelector {
    fn name(&self) -> &'static str {
        "PodNodeSelector"
    }

    fn mutate(&self, request: &Attributes<'_>, pod: &mut Value, world: &dyn World) -> Result<(), Status> {
        let ours = request.is("", "pods") && request.subresource.is_empty();
        if !ours || request.operation != Operation::Create {
            return Ok(());
        }
        let selector = selector(request, world)?;
        check(request, pod, &selector)?;
        for (key, value) in &selector {
            pod.set_at(&["spec", "nodeSelector", key], value.as_str().into());
        }
        Ok(())
    }

    fn validate(
        &self,
        request: &Attributes<'_>,
        object: Option<&Value>,
        world: &dyn World,
        _warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let ours = request.is("", "pods") && request.subresource.is_empty();
        match object.filter(|_| ours && request.operation == Operation::Create) {
            Some(pod) => check(request, pod, &selector(request, world)?),
            None => Ok(()),
        }
    }
}

fn check(request: &Attributes<'_>, pod: &Value, selector: &BTreeMap<String, String>) -> Result<(), Status> {
    let differs = |(key, value): (&String, &String)| {
        let own = pod.at(&["spec", "nodeSelector", key]).and_then(Value::as_str);
        own.is_some_and(|own| own != value)
    };
    if !selector.iter().any(differs) {
        return Ok(());
    }
    let why = "pod node label selector conflicts with its namespace node label selector";
    Err(Status::forbidden(&request.kind.group_resource(), pod.str_at(&["metadata", "name"]), why))
}

/// What the annotation of the namespace says: `key=value`, comma separated.
fn selector(request: &Attributes<'_>, world: &dyn World) -> Result<BTreeMap<String, String>, Status> {
    let Some(namespace) = world.object("", "namespaces", "", request.namespace) else {
        return Err(Status::not_found(&GroupResource::new("", "namespaces"), request.namespace));
    };
    let text = namespace.str_at(&["metadata", "annotations", ANNOTATION]);
    let labels = text.split(',').filter(|_| !text.is_empty());
    labels
        .map(|label| match label.split('=').collect::<Vec<_>>()[..] {
            [key, value] => Ok((key.trim().to_string(), value.trim().to_string())),
            _ => Err(Status::internal(&format!("invalid selector: [{label}]"))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, admitted, kind, text};

    #[test]
    fn the_namespace_decides() {
        let pods = kind("", "pods");
        let world = Objects::of(&[(
            "",
            "namespaces",
            r#"{"metadata":{"name":"n","annotations":{"scheduler.alpha.kubernetes.io/node-selector":"env=test, zone = a"}}}"#,
        )]);
        let ask = |pod: &str| admitted(&PodNodeSelector, &pods, pod, &world).map(|(pod, _)| text(&pod));
        assert_eq!(
            ask(r#"{"spec":{"nodeSelector":{"disk":"ssd","env":"test"}}}"#).unwrap(),
            r#"{"spec":{"nodeSelector":{"disk":"ssd","env":"test","zone":"a"}}}"#
        );
        assert_eq!(
            ask(r#"{"metadata":{"name":"x"},"spec":{"nodeSelector":{"env":"live"}}}"#),
            Err("pods \"x\" is forbidden: pod node label selector conflicts with its namespace node label selector"
                .to_string())
        );
    }
}
