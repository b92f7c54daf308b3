//! Priority: resolves the priority class of pods to a number, and allows only one default class.

use crate::{Attributes, ClusterState, Mutation, Operation, Plugin, Resources, Validation};
use pintle_kinds::features;
use pintle_meta::Status;
use pintle_value::Value;

pub(crate) struct Priority;

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn resources(&self) -> Resources {
        &[("", "pods"), ("scheduling.k8s.io", "podgroups"), ("scheduling.k8s.io", "priorityclasses")]
    }

    fn mutate(&self, Mutation { request, object: pod, cluster }: Mutation<'_>) -> Result<(), Status> {
        if !request.subresource.is_empty() {
            return Ok(());
        }
        if request.is("scheduling.k8s.io", "podgroups") && request.operation == Operation::Create {
            return resolve_of_group(request, pod, cluster);
        }
        if !request.is("", "pods") {
            return Ok(());
        }
        match (request.operation, request.old) {
            (Operation::Create, _) => resolve_priority(request, pod, cluster),
            (Operation::Update, Some(old)) => {
                for key in ["priority", "preemptionPolicy"] {
                    if pod.at(&["spec", key]).is_none()
                        && let Some(value) = old.at(&["spec", key])
                    {
                        pod.set_at(&["spec", key], value.clone());
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn validate(&self, Validation { request, object, cluster, .. }: Validation<'_>) -> Result<(), Status> {
        let classes = request.is("scheduling.k8s.io", "priorityclasses");
        let class = object.filter(|_| classes);
        let Some(class) = class.filter(|c| c.get("globalDefault").and_then(Value::as_bool) == Some(true))
        else {
            return Ok(());
        };
        let Some(default) = default_class(cluster) else { return Ok(()) };
        let name = default.str_at(&["metadata", "name"]);
        if request.operation == Operation::Create || name != class.str_at(&["metadata", "name"]) {
            let why =
                format!("PriorityClass {name} is already marked as default. Only one default can exist");
            return Err(request.forbidden(Some(class), &why));
        }
        Ok(())
    }
}

/// The class that an object names, or the default class.
fn class_of(
    request: &Attributes<'_>,
    object: &Value,
    cluster: &dyn ClusterState,
) -> Result<Option<Value>, Status> {
    let name = object.str_at(&["spec", "priorityClassName"]);
    if name.is_empty() {
        return Ok(default_class(cluster));
    }
    let found = cluster.object("scheduling.k8s.io", "priorityclasses", "", name);
    let why = format!("no PriorityClass with name {name} was found");
    found.map(Some).ok_or_else(|| request.forbidden(Some(object), &why))
}

fn priority_of(class: Option<&Value>) -> i64 {
    class.and_then(|c| c.get("value")).and_then(Value::as_int).unwrap_or(0)
}

/// Sets the priority of a pod group.
fn resolve_of_group(
    request: &Attributes<'_>,
    group: &mut Value,
    cluster: &dyn ClusterState,
) -> Result<(), Status> {
    if !features::is_enabled("WorkloadAwarePreemption") {
        return Ok(());
    }
    let class = class_of(request, group, cluster)?;
    let priority = priority_of(class.as_ref());
    if let Some(given) = group.at(&["spec", "priority"]).and_then(Value::as_int).filter(|p| *p != priority) {
        let why = format!(
            "priority set in the pod group ({given}) must match the priority computed ({priority}) based on the \
             priority class set in the spec"
        );
        return Err(request.forbidden(Some(group), &why));
    }
    group.set_at(&["spec", "priority"], Value::Int(priority));
    if let Some(class) = class {
        group.set_at(&["spec", "priorityClassName"], class.str_at(&["metadata", "name"]).into());
    }
    Ok(())
}

fn resolve_priority(
    request: &Attributes<'_>,
    pod: &mut Value,
    cluster: &dyn ClusterState,
) -> Result<(), Status> {
    let name = pod.str_at(&["spec", "priorityClassName"]).to_string();
    let class = class_of(request, pod, cluster)?;
    let priority = priority_of(class.as_ref());
    let policy = match &class {
        Some(class) => class.get("preemptionPolicy").and_then(Value::as_str).unwrap_or("").to_string(),
        None => "PreemptLowerPriority".to_string(),
    };
    if let Some(class) = class.filter(|_| name.is_empty()) {
        pod.set_at(&["spec", "priorityClassName"], class.str_at(&["metadata", "name"]).into());
    }
    let computed = "priority admission controller computed";
    if let Some(given) =
        pod.at(&["spec", "priority"]).and_then(Value::as_int).filter(|given| *given != priority)
    {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; {computed} {priority} \
             from the given PriorityClass name"
        );
        return Err(request.forbidden(Some(pod), &why));
    }
    pod.set_at(&["spec", "priority"], Value::Int(priority));
    if policy.is_empty() {
        return Ok(());
    }
    let given = pod.str_at(&["spec", "preemptionPolicy"]);
    if !given.is_empty() && given != policy {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; {computed} {policy} \
             from the given PriorityClass name"
        );
        return Err(request.forbidden(Some(pod), &why));
    }
    pod.set_at(&["spec", "preemptionPolicy"], policy.into());
    Ok(())
}

/// The default class for pods without one; the one with the lowest value if there are several.
fn default_class(cluster: &dyn ClusterState) -> Option<Value> {
    let marked =
        cluster.objects_containing("scheduling.k8s.io", "priorityclasses", r#""globalDefault":true"#);
    let defaults =
        marked.into_iter().filter(|c| c.get("globalDefault").and_then(Value::as_bool) == Some(true));
    defaults.min_by_key(|class| class.get("value").and_then(Value::as_int).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, admitted, kind};

    #[test]
    fn pods_get_the_number_of_their_class() {
        let pods = kind("", "pods");
        let classes = Objects::of(&[
            (
                "scheduling.k8s.io",
                "priorityclasses",
                r#"{"metadata":{"name":"high"},"value":9,"preemptionPolicy":"Never"}"#,
            ),
            (
                "scheduling.k8s.io",
                "priorityclasses",
                r#"{"metadata":{"name":"usual"},"value":3,"globalDefault":true}"#,
            ),
        ]);
        let number = |pod: &str, cluster: &Objects| {
            let (pod, _) = admitted(&Priority, &pods, pod, cluster)?;
            Ok((
                pod.str_at(&["spec", "priorityClassName"]).to_string(),
                pod.at(&["spec", "priority"]).and_then(Value::as_int),
            ))
        };
        assert_eq!(number(r#"{"spec":{}}"#, &Objects(Vec::new())), Ok((String::new(), Some(0))));
        assert_eq!(number(r#"{"spec":{}}"#, &classes), Ok(("usual".to_string(), Some(3))));
        assert_eq!(
            number(r#"{"spec":{"priorityClassName":"high"}}"#, &classes),
            Ok(("high".to_string(), Some(9)))
        );
        for (pod, why) in [
            (r#"{"spec":{"priorityClassName":"none"}}"#, "no PriorityClass with name none was found"),
            (
                r#"{"spec":{"priorityClassName":"high","priority":1}}"#,
                "the integer value of priority (1) must not be provided in pod spec; priority admission controller computed 9 from the given PriorityClass name",
            ),
        ] {
            assert_eq!(number(pod, &classes), Err(format!("pods \"x\" is forbidden: {why}")));
        }
    }
}
