//! Runs plans.
pub(crate) mod operator;
