//! Kinds of the core group that have rules of their own.

pub(crate) mod claim;
pub(crate) mod namespace;
pub(crate) mod pod;
pub(crate) mod podspec;
pub(crate) mod podtemplate;
pub(crate) mod replicationcontroller;
