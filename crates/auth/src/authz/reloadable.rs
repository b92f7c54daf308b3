//! Authorizers that can be replaced as a whole at run time.

use super::{Attributes, Authorizer, Authorizing, RulesFound, Union};
use crate::UserInfo;
use arc_swap::ArcSwap;
use std::sync::Arc;

/// Replaceable authorizers. A decision in progress finishes with those it began with.
pub struct Reloadable(ArcSwap<Union>);

impl Reloadable {
    /// Creates a reloadable union that starts with these authorizers.
    pub fn new(authorizers: Union) -> Self {
        Reloadable(ArcSwap::from_pointee(authorizers))
    }

    /// Replaces the authorizers for all further decisions.
    pub fn set(&self, authorizers: Union) {
        self.0.store(Arc::new(authorizers));
    }
}

impl Authorizer for Reloadable {
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a> {
        if let Authorizing::Ready(decision) = self.0.load().authorize(attributes) {
            return Authorizing::Ready(decision);
        }
        // A webhook must be called, so the authorizers must live that long. Decisions that are available at once are
        // computed again, which costs little compared with the call.
        let current = self.0.load_full();
        Authorizing::Pending(Box::pin(async move { current.authorize(attributes).await }))
    }

    fn rules_for(&self, user: &UserInfo, namespace: &str) -> RulesFound {
        self.0.load().rules_for(user, namespace)
    }
}
