//! Kinds of the group `batch`.

pub(crate) mod cronjob;
pub(crate) mod job;
