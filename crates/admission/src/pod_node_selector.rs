//! PodNodeSelector: restricts the nodes of pods by namespace annotation or cluster configuration.

use crate::config::PluginConfig;
use crate::{Attributes, ClusterState, Mutation, Operation, Plugin, Validation};
use pintle_meta::{FieldErrors, GroupResource, Status, names};
use pintle_value::{Path, Value};
use std::collections::BTreeMap;

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
/// The configuration key for namespaces without annotation.
const CLUSTER_DEFAULT: &str = "clusterDefaultNodeSelector";

/// The allowed node selectors by namespace, and the default for namespaces without annotation.
#[derive(Default)]
pub(crate) struct PodNodeSelector(BTreeMap<String, String>);

impl PodNodeSelector {
    /// Parses the configuration. kube-apiserver ignores parts that it cannot parse.
    pub(crate) fn new(config: Option<&PluginConfig>) -> Self {
        let tree = config.and_then(|config| config.tree().ok());
        let entries = tree.and_then(Value::as_object).into_iter().flat_map(|map| map.iter());
        // Go's decoder ignores the case of this name.
        let listed = entries.filter(|(key, _)| key.eq_ignore_ascii_case("podNodeSelectorPluginConfig"));
        let pairs = listed.filter_map(|(_, value)| value.as_object()).flat_map(|map| map.iter());
        let text =
            |(key, value): (&pintle_value::Str, &Value)| Some((key.to_string(), value.as_str()?.to_string()));
        PodNodeSelector(pairs.filter_map(text).collect())
    }

    fn listed(&self, name: &str) -> Result<BTreeMap<String, String>, Status> {
        parse(self.0.get(name).map_or("", String::as_str))
    }

    /// The node selector from the namespace's annotation, or else from the configuration.
    fn selector(
        &self,
        request: &Attributes<'_>,
        cluster: &dyn ClusterState,
    ) -> Result<BTreeMap<String, String>, Status> {
        let Some(namespace) = cluster.object("", "namespaces", "", request.namespace) else {
            return Err(Status::not_found(&GroupResource::new("", "namespaces"), request.namespace));
        };
        match namespace.at(&["metadata", "annotations", ANNOTATION]).and_then(Value::as_str) {
            Some(text) => parse(text),
            None => self.listed(CLUSTER_DEFAULT),
        }
    }

    fn check_listed(&self, request: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
        let allowed = self.listed(request.namespace)?;
        let own = pod.at(&["spec", "nodeSelector"]).and_then(Value::as_object);
        let mut own = own.into_iter().flat_map(|map| map.iter());
        let is_listed = |(key, value): (&pintle_value::Str, &Value)| {
            allowed.get(key.as_str()).map(String::as_str) == value.as_str()
        };
        if allowed.is_empty() || own.all(is_listed) {
            return Ok(());
        }
        let why = "pod node label selector labels conflict with its namespace whitelist";
        Err(Status::forbidden(&request.kind.group_resource(), pod.str_at(&["metadata", "name"]), why))
    }
}

impl Plugin for PodNodeSelector {
    fn mutate(&self, Mutation { request, object: pod, cluster }: Mutation<'_>) -> Result<(), Status> {
        let ours = request.is("", "pods") && request.subresource.is_empty();
        if !ours || request.operation != Operation::Create {
            return Ok(());
        }
        let selector = self.selector(request, cluster)?;
        check(request, pod, &selector)?;
        for (key, value) in &selector {
            pod.set_at(&["spec", "nodeSelector", key], value.as_str().into());
        }
        self.check_listed(request, pod)
    }

    fn validate(&self, Validation { request, object, cluster, .. }: Validation<'_>) -> Result<(), Status> {
        let ours = request.is("", "pods") && request.subresource.is_empty();
        let Some(pod) = object.filter(|_| ours && request.operation == Operation::Create) else {
            return Ok(());
        };
        check(request, pod, &self.selector(request, cluster)?)?;
        self.check_listed(request, pod)
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

/// Labels: `key=value`, comma separated.
fn parse(text: &str) -> Result<BTreeMap<String, String>, Status> {
    let mut out = BTreeMap::new();
    for label in text.split(',').filter(|_| !text.is_empty()) {
        let parts: Vec<&str> = label.split('=').collect();
        let [key, value] = parts.as_slice() else {
            return Err(Status::unclassified(format!("invalid selector: [{}]", parts.join(" "))));
        };
        let (key, value) = (key.trim(), value.trim());
        let mut errors = FieldErrors::new();
        let complaints = names::is_qualified_name(key);
        if !complaints.is_empty() {
            errors.invalid(&Path::of("<nil>"), key, &complaints.join("; "));
        }
        let complaints = names::is_label_value(value);
        if errors.is_empty() && !complaints.is_empty() {
            errors.invalid(&Path::of(&format!("[{key}]")), value, &complaints.join("; "));
        }
        if !errors.is_empty() {
            return Err(Status::unclassified(errors.aggregate_message()));
        }
        out.insert(key.to_string(), value.to_string());
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, admitted, kind, text};

    #[test]
    fn the_namespace_decides() {
        let pods = kind("", "pods");
        let cluster = Objects::of(&[(
            "",
            "namespaces",
            r#"{"metadata":{"name":"n","annotations":{"scheduler.alpha.kubernetes.io/node-selector":"env=test, zone = a"}}}"#,
        )]);
        let ask = |pod: &str| {
            admitted(&PodNodeSelector::default(), &pods, pod, &cluster).map(|(pod, _)| text(&pod))
        };
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
