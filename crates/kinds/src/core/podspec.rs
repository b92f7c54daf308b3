//! The pod spec and its template: what all kinds that make pods share.

pub(crate) mod aggregate;
pub(crate) mod defaults;
pub(crate) mod disabled;
pub(crate) mod image;
pub(crate) mod qos;
