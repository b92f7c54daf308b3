//! Counts what an authorizer decides, by its type and name.

use super::{Attributes, Authorizer, Authorizing, Decision, RulesFound};
use crate::UserInfo;
use pintle_metrics::{Series, families};
use std::sync::Arc;

/// An authorizer whose decisions are counted. That it has no opinion does not count.
pub struct Counted<A> {
    authorizer: A,
    allowed: Arc<Series>,
    denied: Arc<Series>,
}

impl<A: Authorizer> Counted<A> {
    /// Counts the decisions of an authorizer of this type and name.
    pub fn new(type_: &str, name: &str, authorizer: A) -> Self {
        let series = |decision| families::AUTHORIZATION_DECISIONS.with(&[decision, name, type_]);
        Counted { authorizer, allowed: series("allowed"), denied: series("denied") }
    }

    fn count(&self, decision: Decision) -> Decision {
        match &decision {
            Decision::Allow(_) => self.allowed.add(1),
            Decision::Deny(_) => self.denied.add(1),
            Decision::Failed(failure) if failure.denied => self.denied.add(1),
            Decision::NoOpinion(_) | Decision::Failed(_) => {}
        }
        decision
    }
}

impl<A: Authorizer> Authorizer for Counted<A> {
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a> {
        match self.authorizer.authorize(attributes) {
            Authorizing::Ready(decision) => self.count(decision.into_inner()).into(),
            Authorizing::Pending(pending) => {
                Authorizing::Pending(Box::pin(async move { self.count(pending.await) }))
            }
        }
    }

    fn rules_for(&self, user: &UserInfo, namespace: &str) -> RulesFound {
        self.authorizer.rules_for(user, namespace)
    }
}
