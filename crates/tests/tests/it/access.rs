//! Access control: headers that claim another identity, every form of path to objects that a user may not see, and
//! definitions that look like built-in kinds.

use std::sync::Arc;
use std::time::Duration;

use pintle_testkit::server::Options;
use pintle_testkit::{Client, Request, Server};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::proxy;

async fn create(admin: &Client, path: &str, object: &Value) {
    let (code, answer) = admin.post(path, object).await.unwrap();
    assert_eq!(code, 201, "{path}: {answer}");
}

fn definition(group: &str, plural: &str, kind: &str, scope: &str, version: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"},
        },
        "spec": {
            "group": group, "scope": scope,
            "names": {"plural": plural, "kind": kind, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn until_established(admin: &Client, name: &str) {
    for _ in 0..500 {
        let (_, found) = admin.get(&format!("{DEFINITIONS}/{name}")).await.unwrap();
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{name} is not established");
}

/// Grants alice `rules` in the whole cluster.
async fn grant(admin: &Client, rules: &Value) {
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "alice"}, "rules": rules});
    create(admin, roles, &role).await;
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "alice"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]});
    create(admin, bindings, &binding).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_impersonation_does_not_use_the_users_own_permissions() {
    let server = Server::start_ephemeral().await.unwrap();
    let (admin, alice) = (server.admin().unwrap(), server.alice().unwrap());
    let secrets = "/api/v1/namespaces/default/secrets";
    grant(&admin, &json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}])).await;
    assert_eq!(alice.get(secrets).await.unwrap().0, 200);
    for (header, value) in [
        ("Impersonate-User", "jürgen"),
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "entwickler-ö"),
        ("Impersonate-Uid", "ü"),
        ("Impersonate-Extra-Key", "ä"),
    ] {
        for (client, who) in [(&alice, "alice"), (&admin, "admin")] {
            let mut request = Request::new("GET", secrets).header(header, value);
            if header != "Impersonate-User" {
                request = request.header("Impersonate-User", "bob");
            }
            let (code, answer) = client.send_json(&request).await.unwrap();
            assert_eq!(code, 403, "{who} {header}: {value}: {answer}");
        }
    }
    // The impersonated user has the rights of exactly that name.
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = Request::new("POST", review).json(&body).header("Impersonate-User", "jürgen");
    let (_, answer) = admin.send_json(&request).await.unwrap();
    assert_eq!(answer["status"]["userInfo"]["username"], "jürgen", "{answer}");
    // A malformed token is an invalid token, not a missing one.
    let request = Request::new("GET", "/version").header("Authorization", "Bearer ünknown");
    assert_eq!(admin.as_token(None).send(&request).await.unwrap().status(), 401);
    let request =
        Request::new("GET", "/version").header("Connection", "Upgrade").header("Upgrade", "websocket");
    let request =
        request.header("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.ü, x.example.com");
    assert_eq!(admin.as_token(None).send(&request).await.unwrap().status(), 401);
}

/// Part of every object that alice must not see.
const HIDDEN: &str = "not-for-alice";

/// Creates two objects in each place; alice may see the one called `seen` in the namespace `open`.
async fn fill(admin: &Client, kind: &(&str, &str, &str, bool)) {
    let (base, plural, name, namespaced) = *kind;
    let places: &[&str] = if namespaced { &["open", "closed"] } else { &[""] };
    let api_version = base.trim_start_matches("/apis/").trim_start_matches("/api/");
    for place in places {
        let scope = if namespaced { format!("namespaces/{place}/") } else { String::new() };
        for object in ["seen", "unseen"] {
            let hidden = object == "unseen" || *place == "closed";
            let note = if hidden { HIDDEN } else { "fine" };
            let body = json!({"apiVersion": api_version, "kind": name,
                "metadata": {"name": object, "annotations": {"note": note}}});
            create(admin, &format!("{base}/{scope}{plural}"), &body).await;
        }
    }
}

/// Every form of path, in every scope, with every query that selects.
fn shapes(base: &str, plural: &str) -> Vec<String> {
    let mut out = Vec::new();
    for prefix in ["", "watch/", "proxy/", "/", "watch//"] {
        for scope in ["", "namespaces/open/", "namespaces/closed/", "namespaces//", "namespaces/open//"] {
            for name in [
                "",
                "/",
                "/seen",
                "/unseen",
                "/seen/",
                "/seen/status",
                "//unseen",
                "/seen/../unseen",
                "/seen%2f..%2funseen",
                "/%73een",
            ] {
                for query in [
                    "",
                    "watch=1",
                    "watch=",
                    "fieldSelector=metadata.name%3Dseen",
                    "fieldSelector=metadata.name%3Dunseen",
                    "fieldSelector=metadata.name%3Dseen&fieldSelector=",
                    "fieldSelector=metadata.name!%3Dseen",
                    "watch=1&fieldSelector=metadata.name%3Dseen",
                    "watch=1&fieldSelector=metadata.name%3D%3Dseen,metadata.namespace%3Dclosed",
                    "watch=1&fieldSelector=metadata.name%3Dseen,metadata.name%3Dunseen",
                    "watch=0&fieldSelector=;&watch=1",
                    "resourceVersion=0&watch=true&watch=false",
                ] {
                    out.push(format!("{base}/{prefix}{scope}{plural}{name}?timeoutSeconds=1&{query}"));
                }
            }
        }
    }
    out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_authorized_request_is_the_executed_one() {
    let server = Server::start_ephemeral().await.unwrap();
    let (admin, alice) = (server.admin().unwrap(), server.alice().unwrap());
    for namespace in ["open", "closed"] {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        create(&admin, "/api/v1/namespaces", &body).await;
    }
    let group = "shapes.example.com";
    for (plural, kind, scope) in [("widgets", "Widget", "Namespaced"), ("gadgets", "Gadget", "Cluster")] {
        create(&admin, DEFINITIONS, &definition(group, plural, kind, scope, "v1")).await;
        until_established(&admin, &format!("{plural}.{group}")).await;
    }
    let kinds = [
        ("/api/v1", "configmaps", "ConfigMap", true),
        ("/apis/scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", false),
        ("/apis/shapes.example.com/v1", "widgets", "Widget", true),
        ("/apis/shapes.example.com/v1", "gadgets", "Gadget", false),
    ];
    for kind in &kinds {
        fill(&admin, kind).await;
    }
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "seen"}, "rules": [{"apiGroups": ["", group], "resources": ["configmaps", "widgets"],
        "verbs": ["get", "list", "watch", "proxy"], "resourceNames": ["seen"]}]});
    create(&admin, "/apis/rbac.authorization.k8s.io/v1/namespaces/open/roles", &role).await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "seen"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "seen"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]});
    create(&admin, "/apis/rbac.authorization.k8s.io/v1/namespaces/open/rolebindings", &binding).await;
    grant(
        &admin,
        &json!([{"apiGroups": ["scheduling.k8s.io", group], "resources": ["priorityclasses", "gadgets"],
            "verbs": ["get", "list", "watch", "proxy"], "resourceNames": ["seen"]}]),
    )
    .await;

    let at_once = Arc::new(Semaphore::new(64));
    let mut requests = JoinSet::new();
    for (base, plural, _, _) in kinds {
        for path in shapes(base, plural) {
            let (alice, at_once) = (alice.clone(), at_once.clone());
            requests.spawn(async move {
                let _permit = at_once.acquire_owned().await.unwrap();
                let answer = alice.send(&Request::new("GET", &path)).await.unwrap();
                let text = answer.text();
                assert!(!text.contains(HIDDEN), "{path}: {} {text}", answer.status());
                answer.status() == 200 && text.contains("fine")
            });
        }
    }
    let mut seen = 0;
    while let Some(answer) = requests.join_next().await {
        seen += usize::from(answer.unwrap());
    }
    // Alice must see the objects that she may read; otherwise the test would prove nothing.
    assert!(seen > 50, "only {seen} answers showed anything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_do_not_touch_built_in_kinds() {
    let mut server = Server::start().await.unwrap();
    let admin = server.admin().unwrap();
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-maps"}, "spec": {"failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["configmaps"]}]},
        "validations": [{"expression": "object.metadata.name != 'forbidden'"}]}});
    create(&admin, policies, &policy).await;
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-maps"}, "spec": {"policyName": "no-maps", "validationActions": ["Deny"]}});
    create(&admin, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", &binding).await;
    let shadows = [
        (
            "admissionregistration.k8s.io",
            "validatingadmissionpolicies",
            "ValidatingAdmissionPolicy",
            "Cluster",
        ),
        ("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", "Cluster"),
        ("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", "Cluster"),
        ("apiregistration.k8s.io", "apiservices", "APIService", "Cluster"),
        ("networking.k8s.io", "others", "NetworkPolicy", "Namespaced"),
    ];
    for (group, plural, kind, scope) in shadows {
        create(&admin, DEFINITIONS, &definition(group, plural, kind, scope, "v2")).await;
        until_established(&admin, &format!("{plural}.{group}")).await;
    }
    check_built_in(&admin, &shadows).await;
    server.restart().await.unwrap();
    let admin = server.admin().unwrap();
    check_built_in(&admin, &shadows).await;
    // Their deletion removes nothing else.
    for (group, plural, _, _) in shadows {
        assert_eq!(admin.delete(&format!("{DEFINITIONS}/{plural}.{group}")).await.unwrap().0, 200);
    }
    check_built_in(&admin, &shadows).await;
    assert_eq!(admin.get(&format!("{policies}/no-maps")).await.unwrap().0, 200);
}

async fn check_built_in(admin: &Client, shadows: &[(&str, &str, &str, &str)]) {
    for (group, plural, _, _) in shadows {
        let (code, _) = admin.get(&format!("/apis/{group}/v2/{plural}")).await.unwrap();
        assert_eq!(code, 404, "{group} {plural}");
        if *plural != "others" {
            let (code, list) = admin.get(&format!("/apis/{group}/v1/{plural}")).await.unwrap();
            assert!(code == 200, "{group} {plural}: {list}");
        }
    }
    // Policies still apply. A new one takes a moment, so both answers are awaited.
    let maps = "/api/v1/namespaces/default/configmaps?dryRun=All";
    let body = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let mut last = 0;
    for _ in 0..500 {
        (last, _) = admin.post(maps, &body("forbidden")).await.unwrap();
        if last == 422 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(last, 422, "the policy is not enforced");
    assert_eq!(admin.post(maps, &body("allowed")).await.unwrap().0, 201);
}

/// Without a kube-controller-manager, the server itself fills the default roles `admin`, `edit` and `view`, and follows the
/// roles that they select.
#[tokio::test]
async fn aggregated_roles_have_the_rules_of_the_roles_that_they_select() {
    let flags = vec!["--controllers=*,clusterrole-aggregation".to_owned()];
    let server = Server::start_with(Options { ephemeral: true, flags }).await.unwrap();
    let admin = server.admin().unwrap();
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let (view, edit) = (format!("{roles}/view"), format!("{roles}/edit"));
    let allows = |role: &Value, resource: &str| {
        let rules = role["rules"].as_array().cloned().unwrap_or_default();
        rules.iter().any(|rule| rule["resources"] == json!([resource]))
    };
    let filled = proxy::until(&admin, &edit, |_, role| role["rules"][0].is_object()).await;
    let manager = &filled["metadata"]["managedFields"];
    let manager = manager.as_array().unwrap().iter().find(|entry| entry["operation"] == "Apply").unwrap();
    assert_eq!(manager["manager"], "clusterrole-aggregation-controller");
    assert_eq!(manager["fieldsV1"], json!({"f:rules": {}}));
    let widgets = json!({"metadata": {"name": "widgets", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]}]});
    create(&admin, roles, &widgets).await;
    // `edit` selects `view`.
    proxy::until(&admin, &edit, |_, role| allows(role, "widgets")).await;
    assert_eq!(admin.delete(&format!("{roles}/widgets")).await.unwrap().0, 200);
    proxy::until(&admin, &edit, |_, role| !allows(role, "widgets")).await;
    assert!(!allows(&admin.get(&view).await.unwrap().1, "widgets"));
    // A role that is deleted stays so.
    let count = |role: &Value| role["rules"].as_array().map_or(0, Vec::len);
    let before = count(&admin.get(&edit).await.unwrap().1);
    assert_eq!(admin.delete(&view).await.unwrap().0, 200);
    proxy::until(&admin, &edit, |_, role| count(role) < before).await;
    assert_eq!(admin.get(&view).await.unwrap().0, 404);
}
