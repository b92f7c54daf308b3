//! Group resource.k8s.io. What expressions say is looked at elsewhere; here it is their form.

pub(crate) mod claim;
pub(crate) mod deviceclass;
mod names;
mod request;
pub(crate) mod resourceslice;
mod shown;
mod slice_device;
mod status;

pub(crate) use claim::{ResourceClaim, ResourceClaimTemplate};
