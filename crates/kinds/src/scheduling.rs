//! Kinds of `scheduling.k8s.io`.
pub(crate) mod podgroup;
pub(crate) mod priorityclass;
pub(crate) mod workload;
