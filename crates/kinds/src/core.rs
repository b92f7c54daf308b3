//! Kinds of the core group.
pub(crate) mod configmap;
pub(crate) mod endpoints;
pub(crate) mod namespace;
pub(crate) mod secret;
mod secret_tls;
pub(crate) mod service;
pub(crate) mod serviceaccount;
