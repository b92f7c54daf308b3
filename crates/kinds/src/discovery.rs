//! Kinds of `discovery.k8s.io`.
pub(crate) mod endpointslice;
