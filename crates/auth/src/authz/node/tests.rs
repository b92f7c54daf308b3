//! The rights of nodes as a table, and the cost of a decision with many pods.

use super::*;
use pintle_meta::selector::FieldSelector;
use pintle_value::json;

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap().value
}

/// A request of node `n1`: verb, `group/resource[/subresource]` of the core group without a group, `namespace/name`.
fn request(verb: &str, what: &str, key: &str) -> Attributes {
    let (group, path) = match what.split_once(':') {
        Some((group, path)) => (group, path),
        None => ("", what),
    };
    let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    Attributes {
        user: UserInfo::new("system:node:n1", &[NODES]).into(),
        verb: verb.into(),
        resource_request: true,
        group: group.into(),
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: namespace.into(),
        name: name.into(),
        ..Attributes::default()
    }
}

fn authorizer() -> NodeAuthorizer {
    let all = NodeFeatures { trust_bundles: false, credential_providers: true, pod_certificates: true };
    let authorizer = NodeAuthorizer::new(all);
    let pod = r#"{"metadata":{"name":"p"},"spec":{"nodeName":"n1","serviceAccountName":"a","volumes":[{"secret":{"secretName":"s"}},
        {"persistentVolumeClaim":{"claimName":"c"}}]}}"#;
    authorizer.insert(GraphKind::Pod, "x/p", &tree(pod));
    let volume = r#"{"spec":{"claimRef":{"namespace":"x","name":"c"},"csi":{"nodeStageSecretRef":{"namespace":"y","name":"v"}}}}"#;
    authorizer.insert(GraphKind::PersistentVolume, "pv", &tree(volume));
    for (kind, key) in [
        (GraphKind::VolumeAttachment, "va"),
        (GraphKind::ResourceSlice, "slice"),
        (GraphKind::PodCertificateRequest, "x/pcr"),
    ] {
        authorizer.insert(kind, key, &tree(r#"{"spec":{"nodeName":"n1"}}"#));
    }
    authorizer
}

#[test]
fn nodes_may_only_access_related_objects() {
    const UNRELATED: &str = "no relationship found between node 'n1' and this object";
    let authorizer = authorizer();
    for (verb, what, key, want) in [
        ("get", "secrets", "x/s", None),
        ("list", "secrets", "x/s", None),
        ("get", "secrets", "y/v", None),
        ("get", "secrets", "x/other", Some(UNRELATED)),
        ("list", "secrets", "x/", Some("No Object name found")),
        ("list", "secrets", "", Some("can only read namespaced object of this type")),
        ("update", "secrets", "x/s", Some("can only read resources of this type")),
        ("get", "secrets/x", "x/s", Some("cannot read subresource")),
        ("get", "persistentvolumes", "pv", None),
        ("list", "persistentvolumes", "pv", Some("can only get individual resources of this type")),
        ("get", "persistentvolumeclaims", "x/c", None),
        ("patch", "persistentvolumeclaims/status", "x/c", None),
        ("get", "persistentvolumeclaims/status", "x/c", Some("can only get/update/patch this type")),
        ("get", "storage.k8s.io:volumeattachments", "va", None),
        ("get", "serviceaccounts", "x/a", None),
        ("create", "serviceaccounts/token", "x/a", None),
        ("create", "serviceaccounts/token", "x/b", Some(UNRELATED)),
        ("create", "serviceaccounts", "x/a", Some("can only create token subresource of serviceaccount")),
        ("delete", "serviceaccounts", "x/a", Some("can only create tokens for individual service accounts")),
        ("get", "coordination.k8s.io:leases", "kube-node-lease/n1", None),
        ("create", "coordination.k8s.io:leases", "kube-node-lease/", None),
        (
            "get",
            "coordination.k8s.io:leases",
            "kube-node-lease/n2",
            Some("can only access node lease with the same name as the requesting node"),
        ),
        (
            "get",
            "coordination.k8s.io:leases",
            "x/n1",
            Some("can only access leases in the \"kube-node-lease\" system namespace"),
        ),
        ("get", "resource.k8s.io:resourceslices", "slice", None),
        ("delete", "resource.k8s.io:resourceslices", "other", Some(UNRELATED)),
        (
            "list",
            "resource.k8s.io:resourceslices",
            "",
            Some("can only list/watch/deletecollection resourceslices with nodeName field selector"),
        ),
        ("get", "certificates.k8s.io:podcertificaterequests", "x/pcr", None),
        (
            "delete",
            "certificates.k8s.io:podcertificaterequests",
            "x/pcr",
            Some("nodes may not delete podcertificaterequests"),
        ),
        ("get", "nodes", "n1", None),
        ("get", "nodes", "n2", Some("node 'n1' cannot read 'n2', only its own Node object")),
        ("list", "nodes", "", Some("node 'n1' cannot read all nodes, only its own Node object")),
        ("delete", "nodes", "n1", Some("")),
        ("patch", "nodes/status", "n2", None),
        ("get", "pods", "x/p", None),
        ("get", "pods", "x/q", Some(UNRELATED)),
        ("get", "pods/log", "x/p", Some("")),
        ("list", "pods", "", Some("can only list/watch pods with spec.nodeName field selector")),
        ("watch", "pods", "x/p", None),
        ("create", "pods/eviction", "x/q", None),
        ("list", "services", "", None),
        ("delete", "services", "x/s", Some("")),
        ("list", "certificates.k8s.io:clustertrustbundles", "", Some("")),
    ] {
        let attributes = request(verb, what, key);
        let decision = authorizer.authorize(&attributes).wait();
        let want = want.map_or(Decision::Allow(Default::default()), |why| Decision::NoOpinion(why.into()));
        assert_eq!(decision, want, "{verb} {what} {key}");
    }
    let mut own = request("list", "pods", "");
    own.field_selector = FieldSelector::parse("spec.nodeName=n1").unwrap();
    assert!(authorizer.authorize(&own).wait().is_allowed());
    own.field_selector = FieldSelector::parse("spec.nodeName!=n1").unwrap();
    assert!(!authorizer.authorize(&own).wait().is_allowed());
}

#[test]
fn only_nodes_are_judged() {
    let authorizer = authorizer();
    for (name, groups, want) in [
        ("system:node:n1", &[][..], ""),
        ("n1", &[NODES], ""),
        ("system:node:", &[NODES], "unknown node for user \"system:node:\""),
    ] {
        let attributes =
            Attributes { user: UserInfo::new(name, groups).into(), ..request("get", "secrets", "x/s") };
        assert_eq!(authorizer.authorize(&attributes).wait(), Decision::NoOpinion(want.into()), "{name}");
    }
}

/// 10,000 nodes and 300,000 pods in one namespace, all with the same account: `cargo nextest run --run-ignored only`.
#[test]
#[ignore = "measures; takes seconds and prints what a decision costs"]
fn cost_of_a_decision() {
    let authorizer = NodeAuthorizer::new(NodeFeatures::default());
    let begin = std::time::Instant::now();
    for index in 0..300_000 {
        let text = format!(
            r#"{{"metadata":{{"name":"p{index}"}},"spec":{{"nodeName":"n{}","serviceAccountName":"default","volumes":[{{"secret":{{"secretName":"s{index}"}}}},{{"configMap":{{"name":"kube-root-ca.crt"}}}}]}}}}"#,
            index % 10_000
        );
        authorizer.insert(GraphKind::Pod, &format!("x/p{index}"), &tree(&text));
    }
    println!("{:?} for all pods", begin.elapsed());
    let questions: Vec<Attributes> = (0..10_000)
        .map(|index| Attributes {
            user: UserInfo::new(&format!("system:node:n{index}"), &[NODES]).into(),
            ..match index % 3 {
                0 => request("get", "secrets", &format!("x/s{index}")),
                1 => request("get", "configmaps", "x/kube-root-ca.crt"),
                _ => request("get", "secrets", "x/none"),
            }
        })
        .collect();
    let begin = std::time::Instant::now();
    let allowed = questions.iter().filter(|q| authorizer.authorize(q).wait().is_allowed()).count();
    let each = begin.elapsed() / 10_000;
    println!("{each:?} per decision, {allowed} allowed");
    assert!(each < std::time::Duration::from_micros(10));
}
