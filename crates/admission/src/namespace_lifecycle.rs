//! NamespaceLifecycle: refuses creates in a namespace that is missing or terminating, and the deletion of system
//! namespaces.

use crate::{Attributes, ClusterState, Mutation, Operation, Plugin};
use pintle_meta::{Cause, GroupResource, Status};
use pintle_value::Value;

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(crate) struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    fn mutate(&self, Mutation { request, object, cluster }: Mutation<'_>) -> Result<(), Status> {
        let exempt =
            request.is("", "namespaces") || request.is("authorization.k8s.io", "localsubjectaccessreviews");
        if request.namespace.is_empty() || exempt {
            return Ok(());
        }
        let Some(phase) = cluster.namespace_phase(request.namespace) else {
            return Err(Status::not_found(&GroupResource::new("", "namespaces"), request.namespace));
        };
        if request.operation == Operation::Create && phase == "Terminating" {
            return Err(terminating_error(request, object));
        }
        Ok(())
    }

    fn admit_deletion(&self, request: &Attributes<'_>, _cluster: &dyn ClusterState) -> Result<(), Status> {
        if request.is("", "namespaces") && IMMORTAL.contains(&request.name) {
            let resource = request.kind.group_resource();
            return Err(Status::forbidden(&resource, request.name, "this namespace may not be deleted"));
        }
        Ok(())
    }
}

fn terminating_error(request: &Attributes<'_>, object: &Value) -> Status {
    let namespace = request.namespace;
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = request.forbidden(Some(object), &why);
    // Events are one kind in two groups; the error names the group of the request.
    let resource = GroupResource::new(&request.version.group, &request.kind.plural);
    if resource != request.kind.group_resource() {
        status = Status::forbidden(&resource, &status.details.name, &why);
    }
    status.details.causes.push(Cause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".into(),
    });
    status
}
