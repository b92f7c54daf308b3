//! Event, which two groups serve: the core group, whose form is stored, and `events.k8s.io`, which is stricter.
pub(crate) mod event;
mod validate;
