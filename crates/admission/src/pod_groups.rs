//! The plugins of pod groups: PodGroupProtection, PodGroupWorkloadExists and JobValidation.

use crate::storage::add_finalizer;
use crate::{Attributes, Mutation, Operation, Plugin, Resources, Validation};
use pintle_kinds::features;
use pintle_meta::Status;
use pintle_meta::field::quoted;
use pintle_value::Value;

const GROUP: &str = "scheduling.k8s.io";
const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

fn creates_group(request: &Attributes<'_>) -> bool {
    request.is(GROUP, "podgroups")
        && request.subresource.is_empty()
        && request.operation == Operation::Create
        && features::is_enabled("GenericWorkload")
}

/// Adds a finalizer to new groups, so that they are not removed while they have pods.
pub(crate) struct PodGroupProtection;

impl Plugin for PodGroupProtection {
    fn resources(&self) -> Resources {
        &[(GROUP, "podgroups")]
    }

    fn mutate(&self, Mutation { request, object, .. }: Mutation<'_>) -> Result<(), Status> {
        if creates_group(request) {
            add_finalizer(object, FINALIZER);
        }
        Ok(())
    }
}

/// The template that a new group names must exist.
pub(crate) struct PodGroupWorkloadExists;

impl Plugin for PodGroupWorkloadExists {
    fn resources(&self) -> Resources {
        &[(GROUP, "podgroups")]
    }

    fn validate(&self, Validation { request, object, cluster, .. }: Validation<'_>) -> Result<(), Status> {
        let group = object.filter(|_| creates_group(request));
        let reference = group.and_then(|group| group.at(&["spec", "podGroupTemplateRef", "workload"]));
        let Some(reference) = reference.filter(|reference| !reference.is_null()) else { return Ok(()) };
        let (name, template) =
            (reference.str_at(&["workloadName"]), reference.str_at(&["podGroupTemplateName"]));
        let refuse = |why: String| Err(request.forbidden(object, &format!("PodGroup rejected: {why}")));
        let Some(workload) = cluster.object(GROUP, "workloads", request.namespace, name) else {
            return refuse(format!("Workload {} not found", quoted(name)));
        };
        if workload.at(&["metadata", "deletionTimestamp"]).is_some() {
            return refuse(format!("Workload {} is being deleted", quoted(name)));
        }
        let mut templates = workload.items_at(&["spec", "podGroupTemplates"]).iter();
        if templates.any(|known| known.str_at(&["name"]) == template) {
            Ok(())
        } else {
            refuse(format!("PodGroupTemplate {} not found in Workload {}", quoted(template), quoted(name)))
        }
    }
}

/// The parallelism of a job whose pods are scheduled as a gang does not change.
pub(crate) struct JobValidation;

impl Plugin for JobValidation {
    fn resources(&self) -> Resources {
        &[("batch", "jobs")]
    }

    fn validate(&self, Validation { request, object, cluster, .. }: Validation<'_>) -> Result<(), Status> {
        let is_job = request.is("batch", "jobs") && request.subresource.is_empty();
        let updates = is_job && request.operation == Operation::Update;
        let (Some(job), Some(old)) = (object.filter(|_| updates), request.old) else { return Ok(()) };
        let parallelism = |job: &Value| job.at(&["spec", "parallelism"]).and_then(Value::as_int);
        let is_on = ["GenericWorkload", "WorkloadWithJob"].into_iter().any(features::is_enabled);
        if !is_on || parallelism(job) == parallelism(old) {
            return Ok(());
        }
        let named = old.at(&["spec", "template", "spec", "schedulingGroup", "podGroupName"]);
        let groups = match named.and_then(Value::as_str) {
            Some(name) => Vec::from_iter(cluster.object(GROUP, "podgroups", request.namespace, name)),
            None => {
                let all = cluster.objects(GROUP, "podgroups", request.namespace);
                all.into_iter().filter(|group| is_controlled_by(group, old)).collect()
            }
        };
        let is_gang = |group: &&Value| group.at(&["spec", "schedulingPolicy", "gang"]).is_some();
        let Some(gang) = groups.iter().find(is_gang) else { return Ok(()) };
        let name = quoted(gang.str_at(&["metadata", "name"]));
        let why = format!("cannot change parallelism for a Job referencing gang-scheduled PodGroup {name}");
        Err(request.forbidden(object, &why))
    }
}

fn is_controlled_by(object: &Value, owner: &Value) -> bool {
    let mut references = object.items_at(&["metadata", "ownerReferences"]).iter();
    let controller = references.find(|r| r.get("controller").and_then(Value::as_bool) == Some(true));
    controller.is_some_and(|r| r.str_at(&["uid"]) == owner.str_at(&["metadata", "uid"]))
}
