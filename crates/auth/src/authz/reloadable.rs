//! Authorizers that can be exchanged as a whole while requests are decided.

use super::{Attributes, Authorizer, Authorizing, RulesFound, Union};
use crate::UserInfo;
use arc_swap::ArcSwap;
use std::sync::Arc;

/// Authorizers that can be exchanged. A request that is being decided ends with those it began with.
pub struct Reloadable(ArcSwap<Union>);

impl Reloadable {
    /// Begins with these.
    pub fn new(authorizers: Union) -> Self {
        Reloadable(ArcSwap::from_pointee(authorizers))
    }

    /// From now on these decide.
    pub fn set(&self, authorizers: Union) {
        self.0.store(Arc::new(authorizers));
    }
}

impl Authorizer for Reloadable {
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a> {
        if let Authorizing::Ready(decision) = self.0.load().authorize(attributes) {
            return Authorizing::Ready(decision);
        }
        // Somebody else must be asked: the authorizers must live as long as that takes. What was decided at once is decided
        // again, which costs little beside a call over the network.
        let current = self.0.load_full();
        Authorizing::Pending(Box::pin(async move { current.authorize(attributes).await }))
    }

    fn rules_for(&self, user: &UserInfo, namespace: &str) -> RulesFound {
        self.0.load().rules_for(user, namespace)
    }
}
