//! Kinds of the core group.
pub(crate) mod claim;
pub(crate) mod configmap;
pub(crate) mod endpoints;
pub(crate) mod limitrange;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod persistentvolumeclaim;
pub(crate) mod resourcequota;
pub(crate) mod resources;
pub(crate) mod secret;
mod secret_tls;
pub(crate) mod service;
pub(crate) mod serviceaccount;
