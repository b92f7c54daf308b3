//! Kinds of `scheduling.k8s.io`.
pub(crate) mod priorityclass;
