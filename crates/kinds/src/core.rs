//! The kinds of the core group that have hooks.

pub(crate) mod claim;
pub(crate) mod configmap;
pub(crate) mod endpoints;
pub(crate) mod limitrange;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod persistentvolume;
pub(crate) mod persistentvolumeclaim;
pub(crate) mod pod;
pub(crate) mod podspec;
pub(crate) mod podtemplate;
pub(crate) mod replicationcontroller;
pub(crate) mod resourcequota;
pub(crate) mod resources;
pub(crate) mod secret;
mod secret_tls;
pub(crate) mod service;
pub(crate) mod serviceaccount;
