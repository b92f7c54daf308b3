//! Authorizers that look at the group of a user at most: `AlwaysAllow`, `AlwaysDeny`, and the group of those who may do anything.

use super::{Attributes, Authorizer, Authorizing, Decision};

/// Allows everything.
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize<'a>(&'a self, _attributes: &'a Attributes) -> Authorizing<'a> {
        Decision::Allow(String::new()).into()
    }
}

/// Allows nothing.
pub struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn authorize<'a>(&'a self, _attributes: &'a Attributes) -> Authorizing<'a> {
        Decision::NoOpinion("Everything is forbidden.".into()).into()
    }
}

/// Allows everything to one group.
pub struct PrivilegedGroup(pub &'static str);

impl Authorizer for PrivilegedGroup {
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a> {
        match attributes.user.in_group(self.0) {
            true => Decision::Allow(String::new()),
            false => Decision::NoOpinion(String::new()),
        }
        .into()
    }
}
