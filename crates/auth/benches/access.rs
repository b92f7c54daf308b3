//! Benchmarks of token verification and authorization decisions: `cargo bench -p pintle-auth`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench prints and may fail loudly"
)]

use pintle_auth::authn::keys::SigningKey;
use pintle_auth::authn::service_account::{
    BoundKind, BoundObject, BoundObjects, ObjectRef, ServiceAccountTokens, SignatureCache, TokenSpec,
};
use pintle_auth::authn::token_keys::TokenKeys;
use pintle_auth::authz::Attributes;
use pintle_auth::authz::node::{GraphKind, NodeAuthorizer, NodeFeatures};
use pintle_auth::authz::rbac::{PolicyKind, Rbac};
use pintle_auth::{Authorizer, UserInfo};
use pintle_value::{Value, json};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

const BINDINGS: usize = 10_000;
const NODES: usize = 10_000;
const PODS: usize = 300_000;
const DECISIONS: usize = 30_000;

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap().value
}

/// Runs `check` for each number and prints the time of one call. Returns how often it returned true.
fn measure(name: &str, mut check: impl FnMut(usize) -> bool) -> usize {
    let began = Instant::now();
    let yes = (0..DECISIONS).filter(|number| check(*number)).count();
    let each = began.elapsed() / u32::try_from(DECISIONS).unwrap();
    println!("{name:<56} {each:>10.2?}");
    yes
}

fn get(user: UserInfo, resource: &str, namespace: String, name: String) -> Attributes {
    Attributes {
        user: user.into(),
        verb: "get".into(),
        resource_request: true,
        version: "v1".into(),
        resource: resource.into(),
        namespace,
        name,
        ..Attributes::default()
    }
}

/// 10,000 bindings of roles: half of them in 100 namespaces, half cluster-wide.
fn rbac() {
    let rbac = Rbac::default();
    rbac.update(|policy| {
        let rules = r#"[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list"]}]"#;
        let role = tree(&format!(r#"{{"metadata":{{"name":"reader"}},"rules":{rules}}}"#));
        policy.insert(PolicyKind::ClusterRole, &role);
        for number in 0..BINDINGS {
            let kind = if number % 2 == 0 { PolicyKind::RoleBinding } else { PolicyKind::ClusterRoleBinding };
            let namespace = if number % 2 == 0 { format!("ns-{}", number % 100) } else { String::new() };
            let binding = tree(&format!(
                r#"{{"metadata":{{"name":"b{number}","namespace":"{namespace}"}},
                "roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"reader"}},
                "subjects":[{{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"user-{number}"}},
                {{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"group-{number}"}}]}}"#
            ));
            policy.insert(kind, &binding);
        }
    });
    let ask = |number: usize, resource: &str| {
        let user = UserInfo::new(&format!("user-{}", number % BINDINGS), &["system:authenticated", "dev"]);
        get(user, resource, format!("ns-{}", number % 100), "one".into())
    };
    let allowed: Vec<Attributes> = (0..DECISIONS).map(|number| ask(number, "configmaps")).collect();
    let denied: Vec<Attributes> = (0..DECISIONS).map(|number| ask(number, "secrets")).collect();
    for (name, questions, expected) in [("allowed", allowed, DECISIONS), ("denied", denied, 0)] {
        let yes = measure(&format!("RBAC, {BINDINGS} bindings, {name}"), |number| {
            questions.get(number).is_some_and(|question| rbac.authorize(question).wait().is_allowed())
        });
        assert_eq!(yes, expected);
    }
}

/// 10,000 nodes with 30 pods each, all of one account, each with a secret of its own.
fn node() {
    let authorizer = NodeAuthorizer::new(NodeFeatures::default());
    for number in 0..PODS {
        let text = format!(
            r#"{{"metadata":{{"name":"p{number}"}},"spec":{{"nodeName":"n{}","serviceAccountName":"default",
            "volumes":[{{"secret":{{"secretName":"s{number}"}}}},{{"configMap":{{"name":"kube-root-ca.crt"}}}}]}}}}"#,
            number % NODES
        );
        authorizer.insert(GraphKind::Pod, &format!("x/p{number}"), &tree(&text));
    }
    for (name, resource, expected) in [
        ("own secret", "secrets", DECISIONS),
        ("config map of all", "configmaps", DECISIONS),
        ("unrelated secret", "secrets", 0),
    ] {
        let questions: Vec<Attributes> = (0..DECISIONS)
            .map(|number| {
                let object = match name {
                    "own secret" => format!("s{}", number % PODS),
                    "config map of all" => "kube-root-ca.crt".to_string(),
                    _ => format!("s{}", (number + 1) % PODS),
                };
                let user = UserInfo::new(&format!("system:node:n{}", number % NODES), &["system:nodes"]);
                get(user, resource, "x".into(), object)
            })
            .collect();
        let yes = measure(&format!("Node, {NODES} nodes, {PODS} pods, {name}"), |number| {
            questions.get(number).is_some_and(|question| authorizer.authorize(question).wait().is_allowed())
        });
        assert_eq!(yes, expected);
    }
}

/// Every account exists.
struct Everything;

impl BoundObjects for Everything {
    fn get(&self, _: BoundKind, _: &str, name: &str) -> Option<BoundObject> {
        Some(BoundObject { uid: format!("{name}-uid"), deleted_at: None })
    }

    fn secret(&self, _: &str, _: &str) -> Option<Value> {
        None
    }

    fn account_names_secret(&self, _: &str, _: &str, _: &str) -> bool {
        false
    }

    fn record_use(&self, _: &str, _: &str, _: &str, _: &str) {}
}

/// Verifies service account tokens whose signatures have been verified before.
fn token() {
    let pair = rcgen::KeyPair::generate().unwrap();
    let signer = SigningKey::from_der(&pair.serialize_der()).unwrap();
    let verifying = vec![signer.verifying.clone()];
    let tokens = ServiceAccountTokens {
        issuers: vec!["https://kubernetes.default.svc".into()],
        audiences: vec!["https://kubernetes.default.svc".into()],
        keys: TokenKeys::local(signer, verifying),
        objects: Some(Arc::new(Everything)),
        lookup: true,
        signatures: SignatureCache::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let now = SystemTime::now();
    let named = |name: &str| ObjectRef { name: name.into(), uid: format!("{name}-uid") };
    let issue = |number: usize| {
        let spec = TokenSpec {
            namespace: "default".into(),
            account: named(&format!("account-{number}")),
            audiences: tokens.audiences.clone(),
            seconds: 3600,
            ..TokenSpec::default()
        };
        runtime.block_on(tokens.issue(&spec, now)).unwrap()
    };
    let texts: Vec<String> = (0..100).map(issue).collect();
    let check = |number: usize| {
        let found = runtime.block_on(tokens.authenticate(&texts[number % texts.len()], None, now));
        found.is_ok_and(|found| found.is_some())
    };
    assert!((0..texts.len()).all(check));
    assert_eq!(measure("service account token, cached", check), DECISIONS);
}

fn main() {
    token();
    rbac();
    node();
}
