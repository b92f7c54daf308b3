//! Group rbac.authorization.k8s.io.

mod binding;
mod role;

pub(crate) use binding::Binding;
pub(crate) use role::Role;

/// The group's name, which role references contain.
const GROUP: &str = "rbac.authorization.k8s.io";
