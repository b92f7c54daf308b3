//! Group apiextensions.k8s.io.

pub mod approval;
mod conversion;
mod defaults;
pub mod definition;
mod formats;
mod names;
mod openapi;
mod props;
pub mod rules;
mod selectable;
mod spec;
mod structural;
mod version;
