//! Several authorizers in order: the first opinion decides.

use super::{Attributes, Authorizer, Authorizing, Decision, Failure, RulesFound};
use crate::{UserInfo, aggregate};

/// Calls several authorizers in order; the first opinion decides. Without one, all reasons and errors are collected.
pub struct Union(pub Vec<Box<dyn Authorizer>>);

impl Authorizer for Union {
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a> {
        let mut collected = Collected::default();
        let mut rest = self.0.iter();
        // Immediate decisions need no future.
        while let Some(authorizer) = rest.next() {
            match authorizer.authorize(attributes) {
                Authorizing::Ready(decision) => {
                    if let Some(opinion) = collected.add(decision.into_inner()) {
                        return opinion.into();
                    }
                }
                Authorizing::Pending(pending) => {
                    return Authorizing::Pending(Box::pin(async move {
                        if let Some(opinion) = collected.add(pending.await) {
                            return opinion;
                        }
                        for authorizer in rest {
                            if let Some(opinion) = collected.add(authorizer.authorize(attributes).await) {
                                return opinion;
                            }
                        }
                        collected.decision()
                    }));
                }
            }
        }
        collected.decision().into()
    }

    fn rules_for(&self, user: &UserInfo, namespace: &str) -> RulesFound {
        let mut all = RulesFound::default();
        for authorizer in &self.0 {
            let RulesFound { rules, incomplete, errors } = authorizer.rules_for(user, namespace);
            all.rules.extend(rules);
            all.incomplete |= incomplete;
            all.errors.extend(errors);
        }
        all
    }
}

/// The reasons and errors of authorizers without an opinion.
#[derive(Default)]
struct Collected {
    reasons: Vec<String>,
    errors: Vec<String>,
}

impl Collected {
    /// Returns the decision if it is an opinion; otherwise collects it.
    fn add(&mut self, decision: Decision) -> Option<Decision> {
        match decision {
            Decision::NoOpinion(reason) => {
                self.reasons.extend(Some(reason).filter(|reason| !reason.is_empty()));
                None
            }
            Decision::Failed(failure) if !failure.denied => {
                self.reasons.extend(Some(failure.reason).filter(|reason| !reason.is_empty()));
                self.errors.push(failure.error);
                None
            }
            opinion => Some(opinion),
        }
    }

    fn decision(self) -> Decision {
        let reason = self.reasons.join("\n");
        if self.errors.is_empty() {
            Decision::NoOpinion(reason)
        } else {
            Decision::Failed(Failure { error: aggregate(self.errors), denied: false, reason })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AlwaysDeny, PrivilegedGroup};
    use super::*;

    /// An authorizer that always returns the same decision, after it was polled once.
    struct Later(Decision);

    impl Authorizer for Later {
        fn authorize<'a>(&'a self, _attributes: &'a Attributes) -> Authorizing<'a> {
            Authorizing::Pending(Box::pin(async { self.0.clone() }))
        }

        fn rules_for(&self, _user: &UserInfo, _namespace: &str) -> RulesFound {
            RulesFound::unknown("later")
        }
    }

    fn failure(error: &str, denied: bool, reason: &str) -> Decision {
        Decision::Failed(Failure { error: error.into(), denied, reason: reason.into() })
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_first_opinion_counts() {
        let boxed = |decision: Decision| -> Box<dyn Authorizer> { Box::new(Later(decision)) };
        let root =
            Attributes { user: UserInfo::new("root", &[UserInfo::MASTERS]).into(), ..Attributes::default() };
        let nobody = Attributes::default();
        let masters = || -> Box<dyn Authorizer> { Box::new(PrivilegedGroup(UserInfo::MASTERS)) };
        let allow = || Decision::Allow("ok".into());
        for (attributes, all, want) in [
            (&root, vec![masters(), Box::new(AlwaysDeny)], Decision::Allow(Default::default())),
            (
                &nobody,
                vec![masters(), Box::new(AlwaysDeny)],
                Decision::NoOpinion("Everything is forbidden.".into()),
            ),
            (&nobody, vec![boxed(failure("down", false, "")), boxed(allow())], allow()),
            (&nobody, vec![boxed(failure("down", true, "")), boxed(allow())], failure("down", true, "")),
            (
                &nobody,
                vec![boxed(failure("a", false, "")), Box::new(AlwaysDeny), boxed(failure("b", false, "r"))],
                failure("[a, b]", false, "Everything is forbidden.\nr"),
            ),
        ] {
            let union = Union(all);
            assert_eq!(union.authorize(attributes).await, want);
            assert_eq!(union.authorize(attributes).wait(), want);
        }
    }
}
