//! Group apiextensions.k8s.io.

pub mod approval;
pub mod definition;
