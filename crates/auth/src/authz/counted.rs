//! Counts the decisions of an authorizer, by its type and name.

use super::{Attributes, Authorizer, Authorizing, Decision, RulesFound};
use crate::UserInfo;
use pintle_metrics::{Series, families};
use std::sync::{Arc, OnceLock};

/// An authorizer whose decisions are counted, except for those without an opinion.
pub struct Counted<A> {
    authorizer: A,
    type_: Box<str>,
    name: Box<str>,
    // Created with the first decision, because a series that was never incremented must not be exported.
    allowed: OnceLock<Arc<Series>>,
    denied: OnceLock<Arc<Series>>,
}

impl<A: Authorizer> Counted<A> {
    /// Wraps an authorizer with this type and name.
    pub fn new(type_: &str, name: &str, authorizer: A) -> Self {
        let (allowed, denied) = (OnceLock::new(), OnceLock::new());
        Counted { authorizer, type_: type_.into(), name: name.into(), allowed, denied }
    }

    fn add(&self, counted: &OnceLock<Arc<Series>>, decision: &str) {
        let labels = [decision, &*self.name, &*self.type_];
        counted.get_or_init(|| families::AUTHORIZATION_DECISIONS.with(&labels)).add(1);
    }

    fn count_decision(&self, decision: Decision) -> Decision {
        match &decision {
            Decision::Allow(_) => self.add(&self.allowed, "allowed"),
            Decision::Deny(_) => self.add(&self.denied, "denied"),
            Decision::Failed(failure) if failure.denied => self.add(&self.denied, "denied"),
            Decision::NoOpinion(_) | Decision::Failed(_) => {}
        }
        decision
    }
}

impl<A: Authorizer> Authorizer for Counted<A> {
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a> {
        match self.authorizer.authorize(attributes) {
            Authorizing::Ready(decision) => self.count_decision(decision.into_inner()).into(),
            Authorizing::Pending(pending) => {
                Authorizing::Pending(Box::pin(async move { self.count_decision(pending.await) }))
            }
        }
    }

    fn rules_for(&self, user: &UserInfo, namespace: &str) -> RulesFound {
        self.authorizer.rules_for(user, namespace)
    }
}
