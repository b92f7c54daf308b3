//! Group resource.k8s.io.

pub(crate) mod claim;
pub(crate) mod deviceclass;
pub(crate) mod names;
pub(crate) mod poolstatus;
mod request;
pub(crate) mod resourceslice;
mod selector;
mod slice_device;
mod status;
pub(crate) mod taintrule;
mod v1beta1;

pub(crate) use claim::{ResourceClaim, ResourceClaimTemplate};
pub(crate) use request::default_beta_request;
