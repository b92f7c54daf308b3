//! Authorizers that at most check a user's group: `AlwaysAllow`, `AlwaysDeny`, and the privileged group.

use super::rbac::Rule;
use super::{Attributes, Authorizer, Authorizing, Decision, RulesFound};
use crate::UserInfo;

/// Allows everything.
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize<'a>(&'a self, _attributes: &'a Attributes) -> Authorizing<'a> {
        Decision::Allow(Default::default()).into()
    }

    fn rules_for(&self, _user: &UserInfo, _namespace: &str) -> RulesFound {
        let all = || vec!["*".to_string()];
        let everything = Rule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            resource_names: Vec::new(),
            non_resource_urls: all(),
        };
        RulesFound { rules: vec![everything], ..RulesFound::default() }
    }
}

/// Allows nothing.
pub struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn authorize<'a>(&'a self, _attributes: &'a Attributes) -> Authorizing<'a> {
        Decision::NoOpinion("Everything is forbidden.".into()).into()
    }

    fn rules_for(&self, _user: &UserInfo, _namespace: &str) -> RulesFound {
        RulesFound::default()
    }
}

/// Allows everything to one group.
pub struct PrivilegedGroup(pub &'static str);

impl Authorizer for PrivilegedGroup {
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a> {
        if attributes.user.in_group(self.0) {
            Decision::Allow(Default::default())
        } else {
            Decision::NoOpinion(String::new())
        }
        .into()
    }

    /// kube-apiserver does not list the rights of this group.
    fn rules_for(&self, _user: &UserInfo, _namespace: &str) -> RulesFound {
        RulesFound::default()
    }
}
