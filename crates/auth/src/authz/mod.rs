//! Authorization: what is asked, who decides, and the sentence of a refusal.

pub mod abac;
mod always;
pub mod conditions;
pub mod config;
mod counted;
pub mod node;
pub mod rbac;
mod reloadable;
mod union;
pub mod webhook;

pub use always::{AlwaysAllow, AlwaysDeny, PrivilegedGroup};
pub use counted::Counted;
pub use reloadable::Reloadable;
pub use union::Union;

use crate::UserInfo;
use pintle_meta::selector::{FieldSelector, Requirement};
use pintle_meta::{GroupResource, Status};
use rbac::Rule;
use std::future::{Future, Ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::{Handle, RuntimeFlavor};

/// What is asked for. Of a path that is no resource only `verb` and `path` count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct Attributes {
    pub user: UserInfo,
    pub verb: String,
    pub resource_request: bool,
    pub path: String,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// What could be read of the selectors of a list, watch or deletion of a collection.
    pub field_selector: FieldSelector,
    pub label_selector: Vec<Requirement>,
}

/// What an authorizer says. The text is its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may be done.
    Allow(String),
    /// It may not be done, whatever others say.
    Deny(String),
    /// Others are to say; if nobody allows it, it may not be done.
    NoOpinion(String),
    /// Nobody allows it, and an authorizer could not be asked.
    Failed(Failure),
}

/// Why an authorizer has no answer. It counts as a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong.
    pub error: String,
    /// Whether the failure itself is a denial, whatever others would say.
    pub denied: bool,
    /// The reasons that the other authorizers gave.
    pub reason: String,
}

impl Decision {
    /// Whether it may be done.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allow(_))
    }

    /// The reason, whatever the decision.
    pub fn reason(&self) -> &str {
        match self {
            Decision::Allow(reason) | Decision::Deny(reason) | Decision::NoOpinion(reason) => reason,
            Decision::Failed(failure) => &failure.reason,
        }
    }

    /// What went wrong, where something did.
    pub fn error(&self) -> Option<&str> {
        match self {
            Decision::Failed(failure) => Some(&failure.error),
            _ => None,
        }
    }

    /// Passes what is allowed; the status is the 403 of a refusal, or the 500 of an authorizer that failed.
    pub fn permit(self, attributes: &Attributes) -> Result<(), Status> {
        match self {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(forbidden(attributes, &reason)),
            Decision::Failed(failure) => Err(Status::internal(&failure.error)),
        }
    }
}

/// Decides what may be done.
pub trait Authorizer: Send + Sync {
    /// Says whether this may be done. A decision that is pending must have no effect before it is polled: it may be dropped
    /// and asked for again.
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a>;

    /// The rules that apply to a user in a namespace, as far as they can be listed.
    fn rules_for(&self, user: &UserInfo, namespace: &str) -> RulesFound;
}

/// What can be listed of a user's rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesFound {
    /// The rules.
    pub rules: Vec<Rule>,
    /// Whether there may be more rights than these.
    pub incomplete: bool,
    /// What went wrong.
    pub errors: Vec<String>,
}

impl RulesFound {
    /// Nothing is known, for this reason.
    pub fn unknown(why: &str) -> Self {
        RulesFound { rules: Vec::new(), incomplete: true, errors: vec![why.to_string()] }
    }
}

/// A decision that is known at once, or after somebody else was asked. Those that are known at once allocate nothing.
pub enum Authorizing<'a> {
    /// It is known.
    Ready(Ready<Decision>),
    /// Somebody else is asked.
    Pending(Pin<Box<dyn Future<Output = Decision> + Send + 'a>>),
}

impl Future for Authorizing<'_> {
    type Output = Decision;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Decision> {
        match self.get_mut() {
            Authorizing::Ready(decision) => Pin::new(decision).poll(context),
            Authorizing::Pending(decision) => decision.as_mut().poll(context),
        }
    }
}

impl From<Decision> for Authorizing<'_> {
    fn from(decision: Decision) -> Self {
        Authorizing::Ready(std::future::ready(decision))
    }
}

impl Authorizing<'_> {
    /// The decision, for code that is not async such as CEL expressions and admission plugins. Where somebody else must be
    /// asked, the thread waits; the runtime hands the other tasks of this thread to another one meanwhile.
    pub fn wait(self) -> Decision {
        match self {
            Authorizing::Ready(decision) => decision.into_inner(),
            Authorizing::Pending(pending) => match Handle::try_current() {
                Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
                    tokio::task::block_in_place(|| runtime.block_on(pending))
                }
                _ => Decision::Failed(Failure {
                    error: "this thread cannot wait for an authorizer".into(),
                    ..Failure::default()
                }),
            },
        }
    }
}

impl<A: Authorizer + ?Sized> Authorizer for Arc<A> {
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a> {
        (**self).authorize(attributes)
    }

    fn rules_for(&self, user: &UserInfo, namespace: &str) -> RulesFound {
        (**self).rules_for(user, namespace)
    }
}

/// The 403 for a request that `reason` does not allow.
pub fn forbidden(attributes: &Attributes, reason: &str) -> Status {
    let mut why = html_safe(&sentence(attributes));
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    let resource = GroupResource::new(&attributes.group, &attributes.resource);
    let mut status = Status::forbidden(&resource, &attributes.name, &why);
    status.empty_details = true;
    status
}

fn sentence(a: &Attributes) -> String {
    let quoted = pintle_meta::field::quoted;
    let user = quoted(&a.user.name);
    if !a.resource_request {
        return format!("User {user} cannot {} path {}", a.verb, quoted(&a.path));
    }
    let resource = match a.subresource.as_str() {
        "" => a.resource.clone(),
        sub => format!("{}/{sub}", a.resource),
    };
    let what = format!(
        "User {user} cannot {} resource {} in API group {}",
        a.verb,
        quoted(&resource),
        quoted(&a.group)
    );
    match a.namespace.as_str() {
        "" => format!("{what} at the cluster scope"),
        namespace => format!("{what} in the namespace {}", quoted(namespace)),
    }
}

/// Keeps a browser from taking an error for a page.
pub fn html_safe(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_refusals() {
        let alice =
            Attributes { user: UserInfo::new("alice", &[]), verb: "list".into(), ..Attributes::default() };
        let pods = Attributes {
            resource_request: true,
            resource: "pods".into(),
            namespace: "x".into(),
            ..alice.clone()
        };
        let status = Attributes {
            verb: "patch".into(),
            group: "apps".into(),
            resource: "deployments".into(),
            subresource: "status".into(),
            name: "d".into(),
            resource_request: true,
            ..alice.clone()
        };
        let path = Attributes { verb: "get".into(), path: "/y?<".into(), ..alice };
        for (attributes, want) in [
            (
                pods,
                "pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"x\"",
            ),
            (
                status,
                "deployments.apps \"d\" is forbidden: User \"alice\" cannot patch resource \"deployments/status\" in API group \"apps\" at the cluster scope",
            ),
            (path, "forbidden: User \"alice\" cannot get path \"/y?&lt;\""),
        ] {
            assert_eq!(forbidden(&attributes, "").message, want);
        }
    }
}
