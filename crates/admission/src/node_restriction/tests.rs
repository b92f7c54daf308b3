//! Tables of requests by nodes and their answers.

use super::*;
use crate::Mutation;
use crate::Options;
use crate::testing::{Objects, kind, tree};
use pintle_auth::authz::AlwaysDeny;

fn cluster() -> Objects {
    Objects::of(&[
        ("", "nodes", r#"{"metadata":{"name":"a","uid":"u1"}}"#),
        (
            "",
            "pods",
            r#"{"metadata":{"name":"mine","uid":"p1"},"spec":{"nodeName":"a","volumes":[{"name":"t","projected":{"sources":[{"serviceAccountToken":{"audience":"vault"}}]}}]}}"#,
        ),
        ("", "pods", r#"{"metadata":{"name":"other","uid":"p2"},"spec":{"nodeName":"b"}}"#),
        (
            "",
            "pods",
            r#"{"metadata":{"name":"driven","uid":"p3"},"spec":{"nodeName":"a","volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{}}},{"name":"w","csi":{"driver":"none"}}]}}"#,
        ),
        (
            "",
            "pods",
            r#"{"metadata":{"name":"lost","uid":"p4"},"spec":{"nodeName":"a","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}},{"name":"w","csi":{"driver":"none"}}]}}"#,
        ),
        ("", "persistentvolumeclaims", r#"{"metadata":{"name":"driven-v"},"spec":{"volumeName":"pv"}}"#),
        ("", "persistentvolumes", r#"{"metadata":{"name":"pv"},"spec":{"csi":{"driver":"disk"}}}"#),
        (
            "storage.k8s.io",
            "csidrivers",
            r#"{"metadata":{"name":"disk"},"spec":{"tokenRequests":[{"audience":"cloud"}]}}"#,
        ),
    ])
}

/// `what` is "operation resource[/subresource] name" of the user `who`.
fn asked(who: &str, what: &str, object: &str, old: &str) -> String {
    let mut words = what.split(' ');
    let (verb, resource, name) =
        (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or_default());
    let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let group = match plural {
        "leases" => "coordination.k8s.io",
        "csinodes" => "storage.k8s.io",
        "resourceslices" => "resource.k8s.io",
        _ => "",
    };
    let kind = kind(group, plural);
    let user = UserInfo::new(who, &[NODES_GROUP]);
    let old = (!old.is_empty()).then(|| tree(old));
    let operation = match verb {
        "create" => Operation::Create,
        "update" => Operation::Update,
        _ => Operation::Delete,
    };
    let request = Attributes {
        operation,
        kind: &kind,
        version: kind.storage_version(),
        namespace: "n",
        name,
        subresource,
        old: old.as_ref(),
        user: &user,
        dry_run: false,
        options: Options::None,
    };
    let plugin = NodeRestriction(Arc::new(AlwaysDeny));
    let object = (!object.is_empty()).then(|| tree(object));
    let answer = match object {
        Some(mut object) => {
            plugin.mutate(Mutation { request: &request, object: &mut object, cluster: &cluster() })
        }
        None => plugin.admit_deletion(&request, &cluster()),
    };
    let text = answer.err().map(|status| status.message).unwrap_or_default();
    text.split_once("is forbidden: ").map_or(text.clone(), |(_, why)| why.to_string())
}

const MIRROR_POD: &str = r#"{"metadata":{"name":"x","annotations":{"kubernetes.io/config.mirror":"h"},"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"a","uid":"u1","controller":true}]},"spec":{"nodeName":"a"}}"#;

/// Answers recorded from kube-apiserver. A reference without a name refers to nothing.
#[test]
fn mirror_pods_refer_to_no_objects() {
    for (spec, answer) in [
        (r#""volumes":[{"name":"v","projected":{"sources":[]}}]"#, ""),
        (r#""volumes":[{"name":"v","projected":{"sources":[{"downwardAPI":{}}]}}]"#, ""),
        (
            r#""volumes":[{"name":"v","projected":{"sources":[{"downwardAPI":{}},{}]}}]"#,
            r#"error checking mirror pod for API references: unknown source for projected volume "v""#,
        ),
        (
            r#""volumes":[{"name":"v"}]"#,
            r#"error checking mirror pod for API references: unknown volume type for volume  "v""#,
        ),
        (
            r#""volumes":[{"name":"v","projected":{"sources":[{"secret":{}}]}}]"#,
            r#"node "a" can not create pods that reference secrets (via projected volumes)"#,
        ),
        (
            r#""volumes":[{"name":"v","configMap":{}}]"#,
            r#"node "a" can not create pods that reference configmaps (via configmap volumes)"#,
        ),
        (
            r#""volumes":[{"name":"v","configMap":{"name":"c"}}]"#,
            r#"node "a" can not create pods that reference configmaps"#,
        ),
        (
            r#""volumes":[{"name":"v","azureFile":{"shareName":"x"}}]"#,
            r#"node "a" can not create pods that reference secrets (via azureFile volumes)"#,
        ),
        (r#""volumes":[{"name":"v","cephfs":{"secretRef":{}}}]"#, ""),
        (
            r#""volumes":[{"name":"v","cephfs":{"secretRef":{"name":"s"}}}]"#,
            r#"node "a" can not create pods that reference secrets"#,
        ),
        (r#""imagePullSecrets":[{"name":""}]"#, ""),
    ] {
        let pod = MIRROR_POD.replace("\"nodeName\":\"a\"", &format!("\"nodeName\":\"a\",{spec}"));
        assert_eq!(asked("system:node:a", "create pods x", &pod, ""), answer, "{spec}");
    }
}

#[test]
fn pods_of_a_node() {
    for (what, object, old, answer) in [
        ("create pods x", MIRROR_POD, "", ""),
        (
            "create pods x",
            r#"{"metadata":{"name":"x"},"spec":{"nodeName":"a"}}"#,
            "",
            r#"pod does not have "kubernetes.io/config.mirror" annotation, node "a" can only create mirror pods"#,
        ),
        (
            "create pods x",
            &MIRROR_POD.replace("\"u1\"", "\"u2\""),
            "",
            "node a UID mismatch: expected u2 got u1",
        ),
        (
            "create pods x",
            &MIRROR_POD.replace("\"nodeName\":\"a\"", "\"nodeName\":\"a\",\"volumes\":[{\"name\":\"v\",\"persistentVolumeClaim\":{\"claimName\":\"c\"}}]"),
            "",
            r#"node "a" can not create pods that reference persistentvolumeclaims"#,
        ),
        (
            "create pods x",
            &MIRROR_POD.replace("\"nodeName\":\"a\"", "\"nodeName\":\"b\""),
            "",
            r#"node "a" can only create pods with spec.nodeName set to itself"#,
        ),
        (
            "update pods mine",
            "{}",
            "{}",
            r#"unexpected operation "UPDATE", node "a" can only create and delete mirror pods"#,
        ),
        ("delete pods mine", "", r#"{"spec":{"nodeName":"a"}}"#, ""),
        (
            "delete pods other",
            "",
            r#"{"spec":{"nodeName":"b"}}"#,
            r#"node "a" can only delete pods with spec.nodeName set to itself"#,
        ),
        ("update pods/status mine", r#"{"spec":{"nodeName":"a"},"status":{"phase":"Running"}}"#, r#"{"spec":{"nodeName":"a"}}"#, ""),
        (
            "update pods/status mine",
            r#"{"metadata":{"labels":{"a":"b"}},"spec":{"nodeName":"a"}}"#,
            r#"{"spec":{"nodeName":"a"}}"#,
            r#"node "a" cannot update labels through pod status"#,
        ),
        ("create pods/eviction mine", "{}", "", ""),
        ("create pods/eviction other", "{}", "", "node a can only evict pods with spec.nodeName set to itself"),
        (
            "create pods/binding mine",
            "{}",
            "",
            r#"unexpected pod subresource "binding", only 'status' and 'eviction' are allowed"#,
        ),
    ] {
        assert_eq!(asked("system:node:a", what, object, old), answer, "{what} {object}");
    }
}

#[test]
fn the_node_itself_and_what_is_named_like_it() {
    for (what, object, old, answer) in [
        (
            "create nodes a",
            r#"{"metadata":{"labels":{"kubernetes.io/os":"linux","own.example/x":"1","x.node.kubernetes.io/y":"1"}}}"#,
            "",
            "",
        ),
        (
            "create nodes a",
            r#"{"metadata":{"labels":{"node-role.kubernetes.io/master":"","node-restriction.kubernetes.io/x":"1"}}}"#,
            "",
            r#"node "a" is not allowed to set the following labels: node-restriction.kubernetes.io/x, node-role.kubernetes.io/master"#,
        ),
        ("create nodes b", "{}", "", r#"node "a" is not allowed to modify node "b""#),
        (
            "update nodes a",
            r#"{"spec":{"taints":[]}}"#,
            r#"{"spec":{"taints":[{"key":"k"}]}}"#,
            r#"node "a" is not allowed to modify taints"#,
        ),
        (
            "update nodes/status a",
            r#"{"metadata":{"labels":{"k8s.io/x":"1"}}}"#,
            "{}",
            "is not allowed to modify labels: k8s.io/x",
        ),
        ("create leases a", "{}", "", r#"can only access leases in the "kube-node-lease" system namespace"#),
        ("create csinodes a", "{}", "", ""),
        ("create csinodes b", "{}", "", "can only access CSINode with the same name as the requesting node"),
        ("create resourceslices s", r#"{"spec":{"nodeName":"a"}}"#, "", ""),
        (
            "delete resourceslices s",
            "",
            r#"{"spec":{"nodeName":"b"}}"#,
            "can only delete ResourceSlice with the same NodeName as the requesting node",
        ),
        ("update persistentvolumeclaims c", "{}", "{}", "may only update PVC status"),
        (
            "update persistentvolumeclaims/status c",
            r#"{"status":{"capacity":{"storage":"1Gi"}}}"#,
            r#"{"status":{}}"#,
            "",
        ),
        (
            "update persistentvolumeclaims/status c",
            r#"{"metadata":{"labels":{"a":"b"}},"status":{}}"#,
            r#"{"status":{}}"#,
            r#"node "a" is not allowed to update fields other than status.quantity and status.conditions"#,
        ),
        ("create configmaps c", "{}", "", ""),
    ] {
        assert_eq!(asked("system:node:a", what, object, old), answer, "{what} {object}");
    }
    assert_eq!(
        asked("system:node:", "create nodes a", "{}", ""),
        r#"could not determine node from user "system:node:""#
    );
    assert_eq!(asked("alice", "create nodes b", "{}", ""), "");
}

#[test]
fn tokens_for_pods_of_the_node() {
    let bound = |name: &str, uid: &str, audience: &str| {
        format!(
            r#"{{"spec":{{"audiences":["{audience}"],"boundObjectRef":{{"apiVersion":"v1","kind":"Pod","name":"{name}","uid":"{uid}"}}}}}}"#
        )
    };
    for (object, answer) in [
        (bound("mine", "p1", "vault"), ""),
        ("{}".to_string(), "node requested token not bound to a pod"),
        (bound("mine", "", "vault"), "node requested token with a pod binding without a uid"),
        (bound("none", "p1", "vault"), r#"pod "none" not found"#),
        (bound("other", "p2", "vault"), "node requested token bound to a pod scheduled on a different node"),
        (bound("driven", "p3", "cloud"), ""),
        (
            bound("driven", "p3", "nope"),
            r#"error validating audience "nope": csidriver.storage.k8s.io "none" not found"#,
        ),
        (
            bound("lost", "p4", "nope"),
            r#"error validating audience "nope": [persistentvolumeclaim "c" not found, csidriver.storage.k8s.io "none" not found]"#,
        ),
        (
            bound("mine", "p1", "nope"),
            r#"audience "nope" not found in pod spec volume, system:node:a is not authorized to request tokens for this audience"#,
        ),
    ] {
        assert_eq!(asked("system:node:a", "create serviceaccounts/token s", &object, ""), answer);
    }
}
