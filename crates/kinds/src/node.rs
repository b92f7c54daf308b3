//! Kinds of `node.k8s.io`.
pub(crate) mod labels;
pub(crate) mod runtimeclass;
