//! `pods/binding` and the legacy `bindings`: assigns a pod to a node, once.

use crate::{Target, Writer};
use pintle_meta::field::ErrorKind;
use pintle_meta::{FieldErrors, GroupResource, Status};
use pintle_value::{Path, Value};

/// Refuses a binding without a node or for another pod than the request names.
pub(super) fn check(binding: &Value, name: &str) -> Result<(), Status> {
    if binding.str_at(&["metadata", "name"]) != name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let path = Path::of("target");
    let mut errors = FieldErrors::new();
    let kind = binding.str_at(&["target", "kind"]);
    if !matches!(kind, "" | "Node") {
        let text = pintle_meta::field::quoted(kind);
        errors.push(
            ErrorKind::NotSupported,
            &path.field("kind"),
            Some(&text),
            r#"supported values: "Node", "<empty>""#,
        );
    }
    if binding.str_at(&["target", "name"]).is_empty() {
        errors.required(&path.field("name"), "");
    }
    // kube-apiserver returns these errors without a specific code.
    if errors.is_empty() { Ok(()) } else { Err(Status::unclassified(errors.aggregate_message())) }
}

impl Writer {
    /// Assigns the pod of a binding to its node.
    pub(super) async fn bind(&self, target: &Target, binding: &Value, dry_run: bool) -> Result<(), Status> {
        let name = binding.str_at(&["metadata", "name"]);
        let pods = self.storage.target("", "v1", "pods", &target.namespace, name);
        let pod = pods.ok_or_else(|| Status::internal("there are no pods"))?;
        let now = self.storage.now_text();
        let assign = |tree: &mut Value| {
            check_preconditions(&pod, binding, tree, dry_run)?;
            assign_node(binding, tree, &now)
                .map_err(|why| Status::conflict(&GroupResource::new("", "pods/binding"), name, &why))
        };
        match self.update(&pod, None, dry_run, &assign).await? {
            Some(_) => Ok(()),
            None => Err(Status::not_found(&pod.kind.group_resource(), name)),
        }
    }
}

/// Checks the uid and resourceVersion of a binding, which are preconditions on the pod.
fn check_preconditions(pod: &Target, binding: &Value, tree: &Value, dry_run: bool) -> Result<(), Status> {
    for (key, word) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let wanted = binding.str_at(&["metadata", key]);
        let actual = tree.str_at(&["metadata", key]);
        if wanted.is_empty() || wanted == actual {
            continue;
        }
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {actual}",
            pod.error_key(dry_run)
        );
        return Err(Status::conflict(&pod.kind.group_resource(), &pod.name, &why));
    }
    Ok(())
}

fn assign_node(binding: &Value, pod: &mut Value, now: &str) -> Result<(), String> {
    let name = pod.str_at(&["metadata", "name"]);
    if pod.at(&["metadata", "deletionTimestamp"]).is_some() {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = pod.str_at(&["spec", "nodeName"]);
    if !node.is_empty() {
        return Err(format!("pod {name} is already assigned to node {}", pintle_meta::field::quoted(node)));
    }
    if !pod.items_at(&["spec", "schedulingGates"]).is_empty() {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    pod.set_at(&["spec", "nodeName"], binding.str_at(&["target", "name"]).into());
    pod.remove_at(&["status", "nominatedNodeName"]);
    for kind in ["annotations", "labels"] {
        let given = binding.at(&["metadata", kind]).and_then(Value::as_object);
        for (key, value) in given.into_iter().flat_map(|map| map.iter()) {
            pod.set_at(&["metadata", kind, key], value.clone());
        }
    }
    let mut condition = Value::object();
    condition.set_at(&["type"], "PodScheduled".into());
    condition.set_at(&["status"], "True".into());
    set_condition(pod, condition, now);
    Ok(())
}

/// Sets a condition in the status of a pod. Its transition time only changes with its status.
pub(super) fn set_condition(pod: &mut Value, mut condition: Value, now: &str) {
    let mut all = pod.items_at(&["status", "conditions"]).to_vec();
    let kind = condition.str_at(&["type"]).to_string();
    condition.set_at(&["lastTransitionTime"], now.into());
    match all.iter_mut().find(|c| c.str_at(&["type"]) == kind) {
        Some(old) => {
            if old.str_at(&["status"]) == condition.str_at(&["status"])
                && let Some(time) = old.get("lastTransitionTime")
            {
                condition.set_at(&["lastTransitionTime"], time.clone());
            }
            *old = condition;
        }
        None => all.push(condition),
    }
    pod.set_at(&["status", "conditions"], Value::Array(all));
}
