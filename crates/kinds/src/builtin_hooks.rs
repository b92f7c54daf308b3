//! Which built-in kinds have rules of their own.

use crate::{Hooks, NoHooks, apps, autoscaling, batch, core, policy};

/// The hooks of a built-in kind.
pub(crate) fn hooks_for(group: &str, kind: &str) -> &'static dyn Hooks {
    match (group, kind) {
        ("", "Namespace") => &core::namespace::Namespace,
        ("", "Pod") => &core::pod::Pod,
        ("", "PodTemplate") => &core::podtemplate::PodTemplate,
        ("", "ReplicationController") => &core::replicationcontroller::ReplicationController,
        ("apps", "ControllerRevision") => &apps::controllerrevision::ControllerRevision,
        ("apps", "DaemonSet") => &apps::daemonset::DaemonSet,
        ("apps", "Deployment") => &apps::deployment::Deployment,
        ("apps", "ReplicaSet") => &apps::replicaset::ReplicaSet,
        ("apps", "StatefulSet") => &apps::statefulset::StatefulSet,
        ("autoscaling", "HorizontalPodAutoscaler") => &autoscaling::horizontalpodautoscaler::HorizontalPodAutoscaler,
        ("batch", "CronJob") => &batch::cronjob::CronJob,
        ("batch", "Job") => &batch::job::Job,
        ("policy", "PodDisruptionBudget") => &policy::poddisruptionbudget::PodDisruptionBudget,
        _ => &NoHooks,
    }
}
