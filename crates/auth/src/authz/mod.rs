//! Authorization: attributes, decisions, and the texts of denials.

pub mod abac;
mod always;
pub mod conditions;
pub mod config;
mod counted;
pub mod node;
pub mod rbac;
mod reloadable;
mod union;
mod waiting;
pub mod webhook;

pub use always::{AlwaysAllow, AlwaysDeny, PrivilegedGroup};
pub use counted::Counted;
pub use reloadable::Reloadable;
pub use union::Union;
pub use waiting::with_held;

use crate::UserInfo;
use pintle_meta::selector::{FieldSelector, Requirement};
use pintle_meta::{GroupResource, Status};
use rbac::Rule;
use std::future::{Future, Ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The attributes of a request. For a non-resource path only `verb` and `path` count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct Attributes {
    pub user: Arc<UserInfo>,
    pub verb: String,
    pub resource_request: bool,
    pub path: String,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// The parsed selectors of a list, watch or deletecollection.
    pub field_selector: FieldSelector,
    pub label_selector: Vec<Requirement>,
}

impl Attributes {
    /// The two ways to allow a user a verb on a certificate signer: by its name, and by its domain.
    pub fn for_signer(user: &UserInfo, verb: &str, signer: &str) -> [Attributes; 2] {
        let domain = signer.split('/').next().unwrap_or_default();
        [signer.to_string(), format!("{domain}/*")].map(|name| Attributes {
            user: Arc::new(user.clone()),
            verb: verb.to_string(),
            name,
            group: "certificates.k8s.io".into(),
            version: "*".into(),
            resource: "signers".into(),
            resource_request: true,
            ..Attributes::default()
        })
    }
}

/// The decision of an authorizer, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed. The reason is shared, because only the audit uses it.
    Allow(Arc<str>),
    /// The request is denied, whatever other authorizers say.
    Deny(String),
    /// Other authorizers decide; if none allows it, the request is denied.
    NoOpinion(String),
    /// No authorizer allows it, and one of them failed.
    Failed(Failure),
}

/// The reason why an authorizer failed. It counts as a denial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The error message.
    pub error: String,
    /// Whether the failure itself is a denial, whatever other authorizers say.
    pub denied: bool,
    /// The reasons of the other authorizers.
    pub reason: String,
}

impl Decision {
    /// Returns whether the request is allowed.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allow(_))
    }

    /// The reason of any decision.
    pub fn reason(&self) -> &str {
        match self {
            Decision::Allow(reason) => reason,
            Decision::Deny(reason) | Decision::NoOpinion(reason) => reason,
            Decision::Failed(failure) => &failure.reason,
        }
    }

    /// The error of a failed authorizer.
    pub fn error(&self) -> Option<&str> {
        match self {
            Decision::Failed(failure) => Some(&failure.error),
            _ => None,
        }
    }

    /// Returns `Ok` if allowed, otherwise the 403 of a denial or the 500 of a failed authorizer.
    pub fn permit(self, attributes: &Attributes) -> Result<(), Status> {
        match self {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(forbidden(attributes, &reason)),
            Decision::Failed(failure) => Err(Status::internal(&failure.error)),
        }
    }
}

/// Authorizes requests.
pub trait Authorizer: Send + Sync {
    /// Authorizes a request. A pending decision must have no effect before it is polled: it may be dropped and
    /// requested again.
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a>;

    /// The rules that apply to a user in a namespace, as far as they can be listed.
    fn rules_for(&self, user: &UserInfo, namespace: &str) -> RulesFound;
}

/// The rules of a user that can be listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesFound {
    /// The rules.
    pub rules: Vec<Rule>,
    /// Whether the user may have more rules than these.
    pub incomplete: bool,
    /// Errors during the evaluation, because of which the rules may be incomplete.
    pub errors: Vec<String>,
}

impl RulesFound {
    /// No rules are known, for this reason.
    pub fn unknown(why: &str) -> Self {
        RulesFound { rules: Vec::new(), incomplete: true, errors: vec![why.to_string()] }
    }
}

/// A decision that is available at once, or after a call to a webhook. The former allocates nothing.
pub enum Authorizing<'a> {
    /// The decision is available.
    Ready(Ready<Decision>),
    /// The next authorizer decides.
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

impl<A: Authorizer + ?Sized> Authorizer for Arc<A> {
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a> {
        (**self).authorize(attributes)
    }

    fn rules_for(&self, user: &UserInfo, namespace: &str) -> RulesFound {
        (**self).rules_for(user, namespace)
    }
}

/// The 403 for a denied request.
pub fn forbidden(attributes: &Attributes, reason: &str) -> Status {
    let mut why = html_safe(&forbidden_message(attributes));
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    let resource = GroupResource::new(&attributes.group, &attributes.resource);
    let mut status = Status::forbidden(&resource, &attributes.name, &why);
    status.empty_details = true;
    status
}

/// The message of a 403: which user cannot do what.
fn forbidden_message(a: &Attributes) -> String {
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

/// Escapes a text so that a browser does not render it as HTML.
pub fn html_safe(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_refusals() {
        let alice = Attributes {
            user: UserInfo::new("alice", &[]).into(),
            verb: "list".into(),
            ..Attributes::default()
        };
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
