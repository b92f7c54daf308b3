//! Kinds of `storage.k8s.io`.
pub(crate) mod csidriver;
pub(crate) mod csinode;
pub(crate) mod csistoragecapacity;
mod parameters;
pub(crate) mod storageclass;
pub(crate) mod volumeattachment;
pub(crate) mod volumeattributesclass;
