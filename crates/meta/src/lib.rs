//! What all API objects share: names of kinds and resources, metadata, `Status`, field errors, selectors,
//! quantities and times. Synchronous, no I/O, no clock of its own.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod asn1;
pub mod conditions;
pub mod duration;
pub mod errno;
pub mod field;
pub mod generated;
pub mod go_type;
pub mod gvk;
pub mod names;
pub mod net;
pub mod objectmeta;
pub mod options;
pub mod rv;
pub mod selector;
pub mod status;
pub mod strconv;
pub mod time;

pub use field::{FieldError, FieldErrors};
pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use pintle_value::quantity::{self, Quantity};
pub use selector::{FieldSelector, LabelMatcher, LabelSelector};
pub use status::{Cause, Details, Reason, Status};
pub use time::Timestamp;
