//! Group apiregistration.k8s.io.

pub(crate) mod apiservice;
