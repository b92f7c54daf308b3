//! Decisions of kube-apiserver v1.36.4 about generated users, roles, pods and requests: ours must be the same.
//!
//! `decisions/*.jsonl` hold the objects, then SubjectAccessReviews with the status that kube-apiserver gave. Which of several
//! bindings allows a request is random there, so the reasons of RBAC are not compared.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed unwrap is a failed test")]

use pintle_auth::authz::abac::Abac;
use pintle_auth::authz::node::{GraphKind, NodeAuthorizer, NodeFeatures};
use pintle_auth::authz::rbac::{PolicyKind, Rbac};
use pintle_auth::authz::{Attributes, Union};
use pintle_auth::{Authorizer, UserInfo};
use pintle_meta::selector::FieldSelector;
use pintle_meta::selector::field::Term;
use pintle_value::{Value, json};
use std::sync::Arc;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| json::parse(line.as_bytes()).unwrap().value).collect()
}

fn attributes(spec: &Value) -> Attributes {
    let texts = |items: &[Value]| items.iter().filter_map(Value::as_str).map(str::to_string).collect();
    let user = UserInfo {
        name: spec.str_at(&["user"]).to_string(),
        groups: texts(spec.items_at(&["groups"])),
        ..UserInfo::default()
    };
    let Some(resource) = spec.get("resourceAttributes") else {
        return Attributes {
            user: user.into(),
            verb: spec.str_at(&["nonResourceAttributes", "verb"]).to_string(),
            path: spec.str_at(&["nonResourceAttributes", "path"]).to_string(),
            ..Attributes::default()
        };
    };
    let text = |key: &str| resource.str_at(&[key]).to_string();
    let raw = FieldSelector::parse(resource.str_at(&["fieldSelector", "rawSelector"])).unwrap();
    let terms = resource.items_at(&["fieldSelector", "requirements"]).iter().map(|requirement| Term {
        field: requirement.str_at(&["key"]).into(),
        equal: requirement.str_at(&["operator"]) == "In",
        value: requirement.items_at(&["values"])[0].as_str().unwrap().into(),
    });
    Attributes {
        user: user.into(),
        verb: text("verb"),
        resource_request: true,
        group: text("group"),
        version: text("version"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
        field_selector: raw.and(FieldSelector::of(terms.collect())),
        ..Attributes::default()
    }
}

fn without_rbac_reasons(reason: &str) -> String {
    reason.lines().filter(|line| !line.starts_with("RBAC:")).collect::<Vec<_>>().join("\n")
}

fn compare(authorizer: &dyn Authorizer, reviews: &[Value]) {
    let mut allowed = 0;
    for review in reviews {
        let attributes = attributes(review.get("spec").unwrap());
        let decision = authorizer.authorize(&attributes).wait();
        let wanted = review.at(&["status", "allowed"]).and_then(Value::as_bool) == Some(true);
        assert_eq!(decision.is_allowed(), wanted, "{review:?}");
        let reason = without_rbac_reasons(review.str_at(&["status", "reason"]));
        assert_eq!(without_rbac_reasons(decision.reason()), reason, "{review:?}");
        allowed += usize::from(wanted);
    }
    // The test would prove little if every request were refused.
    assert!(allowed > reviews.len() / 10, "{allowed} of {}", reviews.len());
}

#[test]
fn nodes_and_roles() {
    let all = lines(include_str!("decisions/node_rbac.jsonl"));
    let features = NodeFeatures { pod_certificates: true, credential_providers: true, trust_bundles: false };
    let (node, rbac) = (Arc::new(NodeAuthorizer::new(features)), Arc::new(Rbac::default()));
    for object in all.iter().filter_map(|line| line.get("object")) {
        let (namespace, name) =
            (object.str_at(&["metadata", "namespace"]), object.str_at(&["metadata", "name"]));
        let key = if namespace.is_empty() { name.to_string() } else { format!("{namespace}/{name}") };
        let insert = |kind| rbac.update(|policy| policy.insert(kind, object));
        match object.str_at(&["kind"]) {
            "ClusterRole" => insert(PolicyKind::ClusterRole),
            "Role" => insert(PolicyKind::Role),
            "ClusterRoleBinding" => insert(PolicyKind::ClusterRoleBinding),
            "RoleBinding" => insert(PolicyKind::RoleBinding),
            "Pod" => node.insert(GraphKind::Pod, &key, object),
            "PersistentVolume" => node.insert(GraphKind::PersistentVolume, &key, object),
            "VolumeAttachment" => node.insert(GraphKind::VolumeAttachment, &key, object),
            "ResourceSlice" => node.insert(GraphKind::ResourceSlice, &key, object),
            other => panic!("{other}"),
        }
    }
    let reviews: Vec<Value> = all.into_iter().filter(|line| line.get("spec").is_some()).collect();
    assert_eq!(reviews.len(), 750);
    compare(&Union(vec![Box::new(node), Box::new(rbac)]), &reviews);
}

#[test]
fn policy_files() {
    let abac = Abac::parse(include_str!("decisions/policy.jsonl")).unwrap();
    let reviews = lines(include_str!("decisions/abac.jsonl"));
    assert_eq!(reviews.len(), 250);
    compare(&abac, &reviews);
}
