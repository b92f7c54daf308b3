//! Group resource.k8s.io.

pub(crate) mod claim;
pub(crate) mod deviceclass;
mod names;
mod request;
pub(crate) mod resourceslice;
mod selector;
mod shown;
mod slice_device;
mod status;

pub(crate) use claim::{ResourceClaim, ResourceClaimTemplate};
