//! PodResizeValidator: a resized pod must fit on its node.

use crate::{Operation, Plugin, Resources, Validation, resources};
use pintle_meta::field::quoted;
use pintle_meta::quantity::Format;
use pintle_meta::{Cause, Quantity, Status};
use pintle_value::Value;

pub(crate) struct PodResizeValidator;

impl Plugin for PodResizeValidator {
    fn resources(&self) -> Resources {
        &[("", "pods")]
    }

    fn validate(&self, Validation { request, object, cluster, .. }: Validation<'_>) -> Result<(), Status> {
        let ours = request.is("", "pods")
            && request.subresource == "resize"
            && request.operation == Operation::Update;
        let (Some(pod), Some(old)) = (object.filter(|_| ours), request.old) else { return Ok(()) };
        let name = pod.str_at(&["spec", "nodeName"]);
        let generation = |pod: &Value| pod.at(&["metadata", "generation"]).and_then(Value::as_int);
        if name.is_empty() || generation(pod) == generation(old) {
            return Ok(());
        }
        let Some(node) = cluster.object("", "nodes", "", name) else {
            return Err(request.forbidden(object, &format!("node {} not found", quoted(name))));
        };
        let refuse = |why: String, reason: &str| {
            let mut status = request.forbidden(object, &why);
            status.details.causes.push(Cause { reason: reason.into(), ..Cause::default() });
            Err(status)
        };
        let system = node.str_at(&["metadata", "labels", "kubernetes.io/os"]);
        if !matches!(system, "" | "linux") {
            let (name, system) = (quoted(name), quoted(system));
            let why = format!("pod resize is only supported on linux nodes, node {name} is {system}");
            return refuse(why, "UnsupportedPlatform");
        }
        match excess_requests(pod, &node) {
            Some(what) => {
                refuse(format!("node didn't have enough allocatable resources: {what}"), "NodeCapacity")
            }
            None => Ok(()),
        }
    }
}

/// Returns what a pod requests beyond its node's allocatable resources.
fn excess_requests(pod: &Value, node: &Value) -> Option<String> {
    let mut requests = resources::of_pod(
        pod,
        "requests",
        |container| resources::of(container, "requests"),
        resources::is_pod_level,
    );
    resources::add(&mut requests, &resources::list(pod.at(&["spec", "overhead"])));
    let allocatable = resources::list(node.at(&["status", "allocatable"]));
    let zero = Quantity::new(0, Format::DecimalSI);
    let mut out = Vec::new();
    for (name, number_of) in
        [("cpu", Quantity::milli_value as fn(&Quantity) -> i64), ("memory", Quantity::value)]
    {
        let (wanted, has) = (requests.get(name).unwrap_or(&zero), allocatable.get(name).unwrap_or(&zero));
        if wanted > has {
            out.push(format!("{name}, requested: {}, allocatable: {}", number_of(wanted), number_of(has)));
        }
    }
    if out.is_empty() { None } else { Some(out.join("; ")) }
}
