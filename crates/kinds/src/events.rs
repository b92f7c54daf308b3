//! Event, which two groups serve: the core group, whose form is kept, and `events.k8s.io`, which is stricter.
pub(crate) mod event;
mod validate;
