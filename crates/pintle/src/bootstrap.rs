//! The objects that a fresh server makes for itself: default roles and bindings, priority classes, flow control and
//! the registrations of its own groups. Embedded as one JSON object a line, without what the server fills in.

use pintle_auth::authz::rbac::{Policy, PolicyKind};
use pintle_value::{Value, json};

const OBJECTS: &str = include_str!("../data/bootstrap.jsonl");

/// The objects, in the order in which they are made.
pub(crate) fn objects() -> impl Iterator<Item = Value> {
    OBJECTS.lines().filter_map(|line| json::parse(line.as_bytes()).ok().map(|parsed| parsed.value))
}

/// The policy of the default roles and bindings.
pub(crate) fn policy() -> Policy {
    let mut policy = Policy::default();
    for object in objects() {
        let kind = match object.str_at(&["kind"]) {
            "ClusterRole" => PolicyKind::ClusterRole,
            "Role" => PolicyKind::Role,
            "ClusterRoleBinding" => PolicyKind::ClusterRoleBinding,
            "RoleBinding" => PolicyKind::RoleBinding,
            _ => continue,
        };
        policy.insert(kind, &object);
    }
    policy
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_auth::{Attributes, Decision, UserInfo};

    #[test]
    fn every_line_is_an_object() {
        assert_eq!(objects().count(), OBJECTS.lines().count());
        assert!(objects().all(|o| !o.str_at(&["metadata", "name"]).is_empty()));
    }

    #[test]
    fn everybody_may_ask_for_health_and_the_known_for_discovery() {
        let policy = policy();
        let may = |user: UserInfo, path: &str| {
            let attributes = Attributes { user, verb: "get".into(), path: path.into(), ..Attributes::default() };
            matches!(policy.authorize(&attributes), Decision::Allow(_))
        };
        let alice = || UserInfo::new("alice", &[UserInfo::AUTHENTICATED]);
        assert!(may(UserInfo::anonymous(), "/readyz"));
        assert!(!may(UserInfo::anonymous(), "/apis"));
        assert!(may(alice(), "/apis/apps/v1"));
        assert!(!may(alice(), "/metrics"));
    }
}
