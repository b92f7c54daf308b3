//! Priority: pods get the number of their priority class; there is at most one default class.

use crate::{Attributes, Operation, Plugin, World};
use pintle_meta::Status;
use pintle_value::Value;

pub(crate) struct Priority;

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn mutate(&self, request: &Attributes<'_>, pod: &mut Value, world: &dyn World) -> Result<(), Status> {
        if !request.is("", "pods") || !request.subresource.is_empty() {
            return Ok(());
        }
        match (request.operation, request.old) {
            (Operation::Create, _) => resolve(request, pod, world),
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

    fn validate(
        &self,
        request: &Attributes<'_>,
        object: Option<&Value>,
        world: &dyn World,
        _warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let class = object.filter(|_| request.is("scheduling.k8s.io", "priorityclasses"));
        let Some(class) = class.filter(|c| c.get("globalDefault").and_then(Value::as_bool) == Some(true))
        else {
            return Ok(());
        };
        let Some(default) = default_class(world) else { return Ok(()) };
        let name = default.str_at(&["metadata", "name"]);
        if request.operation == Operation::Create || name != class.str_at(&["metadata", "name"]) {
            let why =
                format!("PriorityClass {name} is already marked as default. Only one default can exist");
            return Err(request.forbidden(Some(class), &why));
        }
        Ok(())
    }
}

fn resolve(request: &Attributes<'_>, pod: &mut Value, world: &dyn World) -> Result<(), Status> {
    let name = pod.str_at(&["spec", "priorityClassName"]).to_string();
    let class = match name.as_str() {
        "" => default_class(world),
        name => {
            let found = world.object("scheduling.k8s.io", "priorityclasses", "", name);
            let why = format!("no PriorityClass with name {name} was found");
            Some(found.ok_or_else(|| request.forbidden(Some(pod), &why))?)
        }
    };
    let priority = class.as_ref().and_then(|c| c.get("value")).and_then(Value::as_int).unwrap_or(0);
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

/// The class of pods that name none; the lowest one, should there be several.
fn default_class(world: &dyn World) -> Option<Value> {
    let all = world.objects("scheduling.k8s.io", "priorityclasses", "");
    let defaults = all.into_iter().filter(|c| c.get("globalDefault").and_then(Value::as_bool) == Some(true));
    defaults.min_by_key(|class| class.get("value").and_then(Value::as_int).unwrap_or(0))
}
