//! Authorization: what is asked, who decides, and the sentence of a refusal.

pub mod rbac;

use crate::UserInfo;
use pintle_meta::{GroupResource, Status};

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
    pub field_selector: String,
    pub label_selector: String,
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
}

/// Decides what may be done.
pub trait Authorizer: Send + Sync {
    /// Says whether this may be done.
    fn authorize(&self, attributes: &Attributes) -> Decision;
}

/// Allows everything.
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize(&self, _attributes: &Attributes) -> Decision {
        Decision::Allow(String::new())
    }
}

/// Allows nothing.
pub struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn authorize(&self, _attributes: &Attributes) -> Decision {
        Decision::NoOpinion("Everything is forbidden.".into())
    }
}

/// Allows everything to one group.
pub struct PrivilegedGroup(pub &'static str);

impl Authorizer for PrivilegedGroup {
    fn authorize(&self, attributes: &Attributes) -> Decision {
        if attributes.user.in_group(self.0) {
            Decision::Allow(String::new())
        } else {
            Decision::NoOpinion(String::new())
        }
    }
}

impl<A: Authorizer + ?Sized> Authorizer for std::sync::Arc<A> {
    fn authorize(&self, attributes: &Attributes) -> Decision {
        (**self).authorize(attributes)
    }
}

/// Asks several authorizers in order; the first opinion counts.
pub struct Union(pub Vec<Box<dyn Authorizer>>);

impl Authorizer for Union {
    fn authorize(&self, attributes: &Attributes) -> Decision {
        let mut reasons = Vec::new();
        for authorizer in &self.0 {
            match authorizer.authorize(attributes) {
                Decision::NoOpinion(reason) if reason.is_empty() => {}
                Decision::NoOpinion(reason) => reasons.push(reason),
                opinion => return opinion,
            }
        }
        Decision::NoOpinion(reasons.join("\n"))
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

    #[test]
    fn the_first_opinion_counts() {
        let union = Union(vec![Box::new(PrivilegedGroup(UserInfo::MASTERS)), Box::new(AlwaysDeny)]);
        let root = Attributes { user: UserInfo::new("root", &[UserInfo::MASTERS]), ..Attributes::default() };
        assert_eq!(union.authorize(&root), Decision::Allow(String::new()));
        assert_eq!(
            union.authorize(&Attributes::default()),
            Decision::NoOpinion("Everything is forbidden.".into())
        );
    }
}
