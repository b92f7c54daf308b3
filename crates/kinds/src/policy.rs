//! Kinds of the group `policy`.

pub(crate) mod poddisruptionbudget;
