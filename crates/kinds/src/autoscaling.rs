//! Kinds of the group `autoscaling`.

pub(crate) mod horizontalpodautoscaler;
