//! Kinds of the group `batch`.

pub(crate) mod cronjob;
mod indexes;
pub(crate) mod job;
mod job_spec;
mod job_status;
mod schedule;
mod timezone;
