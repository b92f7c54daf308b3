//! Kinds of the core group that have rules of their own.

pub(crate) mod namespace;
