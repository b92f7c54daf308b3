//! Admission webhooks: what they receive, what they may change and reject, and how failing ones affect requests.

use pintle_testkit::{Client, Options, Request, Server, Webhook, json_patch as patch};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

type Seen = Arc<Mutex<Vec<Value>>>;

fn rule(groups: &str, versions: &str, resources: &[&str]) -> Value {
    json!({"operations": ["*"], "apiGroups": [groups], "apiVersions": [versions], "resources": resources})
}

/// A configuration with one webhook; `more` is merged into the webhook.
fn configuration(hook: &Webhook, name: &str, rule: &Value, more: &Value) -> Value {
    let mut webhook = json!({"name": format!("{name}.example.com"), "admissionReviewVersions": ["v1"],
        "sideEffects": "None", "rules": [rule],
        "clientConfig": {"url": hook.url(), "caBundle": hook.ca_bundle()}});
    for (key, value) in more.as_object().into_iter().flatten() {
        webhook[key] = value.clone();
    }
    json!({"metadata": {"name": name}, "webhooks": [webhook]})
}

async fn configure(admin: &Client, path: &str, configuration: &Value) {
    let (code, made) = admin.post(path, configuration).await.unwrap();
    assert_eq!(code, 201, "{made}");
}

fn answer(review: &Value, more: &Value) -> Value {
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    for (key, value) in more.as_object().into_iter().flatten() {
        response[key] = value.clone();
    }
    json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response})
}

/// A webhook that records its reviews and answers with `more`.
async fn recorder(more: Value) -> (Webhook, Seen) {
    let seen = Seen::default();
    let kept = seen.clone();
    let hook = Webhook::start(move |review| {
        kept.lock().unwrap().push(review["request"].clone());
        (200, answer(&review, &more))
    });
    (hook.await.unwrap(), seen)
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_change_and_refuse_objects() {
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let (changes, asked) =
        recorder(patch(&json!([{"op": "add", "path": "/data/added", "value": "x"}]))).await;
    let first =
        Webhook::start(|review| (200, answer(&review, &json!({"warnings": ["told"]})))).await.unwrap();
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let maps = rule("", "v1", &["configmaps"]);
    configure(&admin, MUTATING, &configuration(&first, "a", &maps, &again)).await;
    configure(&admin, MUTATING, &configuration(&changes, "b", &maps, &Value::Null)).await;
    let judge = Webhook::start(|review| {
        let bad = review["request"]["object"]["metadata"]["name"] == "bad";
        let status = json!({"code": 418, "reason": "Teapot", "message": "no tea"});
        (200, answer(&review, &json!({"allowed": !bad, "status": status})))
    });
    let judge = judge.await.unwrap();
    configure(&admin, VALIDATING, &configuration(&judge, "judge", &maps, &Value::Null)).await;

    let answered = admin.send(&Request::new("POST", CONFIGMAPS).json(&config_map("good"))).await.unwrap();
    assert_eq!(answered.head.all("warning").collect::<Vec<_>>(), ["299 - \"told\""]);
    let made = answered.json().unwrap();
    assert_eq!(made["data"], json!({"k": "v", "added": "x"}));
    // The first one is called again, because the second changed the object after it.
    assert_eq!((first.calls(), changes.calls(), judge.calls()), (2, 1, 1));
    let request = asked.lock().unwrap().pop().unwrap();
    assert_eq!(
        (&request["operation"], &request["options"]["kind"]),
        (&json!("CREATE"), &json!("CreateOptions"))
    );
    assert_eq!((&request["dryRun"], &request["oldObject"]), (&json!(false), &Value::Null));

    let (code, refused) = admin.post(CONFIGMAPS, &config_map("bad")).await.unwrap();
    assert_eq!((code, &refused["reason"]), (418, &json!("Teapot")), "{refused}");
    assert_eq!(refused["message"], "admission webhook \"judge.example.com\" denied the request: no tea");
    // Configurations take effect, and end, with the answer to their write.
    assert_eq!(admin.delete(&format!("{VALIDATING}/judge")).await.unwrap().0, 200);
    assert_eq!(admin.post(CONFIGMAPS, &config_map("bad")).await.unwrap().0, 201);

    let (_, metrics) =
        admin.send(&Request::new("GET", "/metrics")).await.map(|a| (a.status(), a.text())).unwrap();
    for line in [
        "apiserver_admission_webhook_request_total{code=\"418\",name=\"judge.example.com\",operation=\"CREATE\",rejected=\"true\",type=\"validating\"} 1",
        "apiserver_admission_webhook_rejection_count{error_type=\"no_error\",name=\"judge.example.com\",operation=\"CREATE\",rejection_code=\"418\",type=\"validating\"} 1",
        "apiserver_admission_webhook_admission_duration_seconds_count{name=\"b.example.com\",operation=\"CREATE\",rejected=\"false\",type=\"admit\"}",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_ways_to_write_are_told() {
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let (hook, seen) = recorder(Value::Null).await;
    let rules = rule("*", "*", &["configmaps", "pods", "pods/*", "deployments/scale"]);
    configure(&admin, MUTATING, &configuration(&hook, "all", &rules, &Value::Null)).await;
    let path = |name: &str| format!("{CONFIGMAPS}/{name}");
    admin.post(&format!("{CONFIGMAPS}?dryRun=All&fieldManager=me"), &config_map("a")).await.unwrap();
    admin.post(CONFIGMAPS, &json!({"metadata": {"generateName": "g-"}})).await.unwrap();
    admin.post(CONFIGMAPS, &config_map("a")).await.unwrap();
    admin.patch(&path("a"), "application/merge-patch+json", &json!({"data": {"x": "y"}})).await.unwrap();
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}});
    admin
        .patch(&format!("{}?fieldManager=m", path("b")), "application/apply-patch+yaml", &applied)
        .await
        .unwrap();
    admin.delete(&path("a")).await.unwrap();
    admin.delete(CONFIGMAPS).await.unwrap();
    let exec = Request::new("GET", "/api/v1/namespaces/default/pods/none/exec?command=ls&stdin=true");
    assert_eq!(admin.send_json(&exec).await.unwrap().0, 404);
    let calls: Vec<String> = seen
        .lock()
        .unwrap()
        .iter()
        .map(|request| {
            let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            let has = |key: &'static str| if request[key].is_null() { "" } else { key };
            let parts = ["operation", "name", "subResource"].map(|key| text(&request[key]));
            format!(
                "{} {} {} {}",
                parts.join(" "),
                text(&request["options"]["kind"]),
                has("object"),
                has("oldObject")
            )
        })
        .collect();
    let expected = [
        "CREATE a - CreateOptions object ",
        "CREATE - - CreateOptions object ",
        "CREATE a - CreateOptions object ",
        "UPDATE a - UpdateOptions object oldObject",
        "CREATE b - CreateOptions object ",
        "DELETE a - DeleteOptions  oldObject",
        "DELETE - - DeleteOptions  oldObject",
    ];
    assert_eq!(calls[..expected.len()], expected);
    assert_eq!(calls.last().unwrap(), "CONNECT none exec - object ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_that_fail_stop_requests_or_do_not() {
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let wrong = Webhook::start(|review| (200, answer(&review, &json!({"uid": "other"})))).await.unwrap();
    let broken = Webhook::start(|_| (500, json!({}))).await.unwrap();
    let bad_patch = patch(&json!([{"op": "remove", "path": "/data/none"}]));
    let bad_patch = Webhook::start(move |review| (200, answer(&review, &bad_patch))).await.unwrap();
    let invalid = patch(&json!([{"op": "add", "path": "/data/not~1valid", "value": "x"}]));
    let invalid = Webhook::start(move |review| (200, answer(&review, &invalid))).await.unwrap();
    let failed = |name: &str, why: &str| format!("failed calling webhook \"{name}.example.com\": {why}");
    for (name, hook, url, ignorable, says) in [
        (
            "uid",
            &wrong,
            wrong.url(),
            true,
            failed("uid", "received invalid webhook response: expected response.uid="),
        ),
        (
            "code",
            &broken,
            broken.url(),
            true,
            failed("code", "failed to call webhook: an error on the server (\"unknown\")"),
        ),
        (
            "closed",
            &broken,
            "https://127.0.0.1:1/".to_owned(),
            true,
            failed(
                "closed",
                "failed to call webhook: Post \"https://127.0.0.1:1/?timeout=10s\": dial tcp 127.0.0.1:1: connect: connection refused",
            ),
        ),
        ("patch", &bad_patch, bad_patch.url(), false, "error in remove for path: '/data/none'".to_owned()),
        ("invalid", &invalid, invalid.url(), false, "data[not/valid]: Invalid value".to_owned()),
    ] {
        for policy in ["Fail", "Ignore"] {
            let place = json!({"url": url, "caBundle": hook.ca_bundle()});
            let more = json!({"clientConfig": place, "failurePolicy": policy});
            let maps = rule("", "v1", &["configmaps"]);
            configure(&admin, MUTATING, &configuration(hook, name, &maps, &more)).await;
            let (code, answered) =
                admin.post(&format!("{CONFIGMAPS}?dryRun=All"), &config_map("a")).await.unwrap();
            if ignorable && policy == "Ignore" {
                assert_eq!(code, 201, "{name}: {answered}");
            } else {
                assert!(answered["message"].as_str().unwrap().contains(&says), "{name}: {answered}");
            }
            admin.delete(&format!("{MUTATING}/{name}")).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_come_in_the_version_that_was_asked_for() {
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let (hook, seen) = recorder(patch(&json!([
        {"op": "add", "path": "/spec/targetCPUUtilizationPercentage", "value": 7}])))
    .await;
    let autoscalers = rule("autoscaling", "v1", &["horizontalpodautoscalers"]);
    configure(&admin, MUTATING, &configuration(&hook, "v1", &autoscalers, &Value::Null)).await;
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let body = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}});
    let (code, made) = admin.post(path, &body).await.unwrap();
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 7, "{made}");
    let request = seen.lock().unwrap().pop().unwrap();
    assert_eq!(request["object"]["apiVersion"], "autoscaling/v1");
    let versions =
        ["kind", "resource", "requestKind", "requestResource"].map(|key| request[key]["version"].clone());
    assert_eq!(versions, [json!("v1"), json!("v1"), json!("v2"), json!("v2")]);

    // A scale is admitted as a Scale and may be changed as one.
    let (hook, seen) =
        recorder(patch(&json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]))).await;
    let scales = rule("apps", "v1", &["deployments/scale"]);
    configure(&admin, MUTATING, &configuration(&hook, "scale", &scales, &Value::Null)).await;
    let labels = json!({"a": "b"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    admin.post(deployments, &json!({"metadata": {"name": "d"}, "spec": spec})).await.unwrap();
    let scale = json!({"metadata": {"name": "d"}, "spec": {"replicas": 3}});
    let (code, scaled) = admin.put(&format!("{deployments}/d/scale"), &scale).await.unwrap();
    assert_eq!((code, &scaled["spec"]["replicas"]), (200, &json!(5)), "{scaled}");
    let request = seen.lock().unwrap().pop().unwrap();
    assert_eq!(
        (&request["object"]["kind"], &request["object"]["spec"]["replicas"]),
        (&json!("Scale"), &json!(3))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_can_be_turned_off_and_are_not_asked_about_themselves() {
    let refusal = || Webhook::start(|review| (200, answer(&review, &json!({"allowed": false}))));
    let everything = rule("*", "*", &["*"]);
    let server = Server::start_ephemeral().await.unwrap();
    let (admin, hook) = (server.admin().unwrap(), refusal().await.unwrap());
    configure(&admin, VALIDATING, &configuration(&hook, "all", &everything, &Value::Null)).await;
    assert_eq!(admin.post(CONFIGMAPS, &config_map("a")).await.unwrap().0, 400);
    // Reviews are admitted like other requests; the configuration of admission is exempt.
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let (code, _) =
        admin.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await.unwrap();
    assert_eq!(code, 400);
    assert_eq!(admin.delete(&format!("{VALIDATING}/all")).await.unwrap().0, 200);

    let flags =
        vec!["--disable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook".to_owned()];
    let server = Server::start_with(Options { ephemeral: true, flags }).await.unwrap();
    let (admin, hook) = (server.admin().unwrap(), refusal().await.unwrap());
    for path in [MUTATING, VALIDATING] {
        configure(&admin, path, &configuration(&hook, "all", &everything, &Value::Null)).await;
    }
    assert_eq!(admin.post(CONFIGMAPS, &config_map("a")).await.unwrap().0, 201);
    assert_eq!(hook.calls(), 0);
}

/// A deletion with grace period 0 marks the pod and then removes it, and admission runs before both. A request that removes
/// the pod between the two does not fail the deletion: kube-apiserver ignores that the object is gone then.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deletion_that_another_one_overtakes_succeeds() {
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let path = "/api/v1/namespaces/default/pods/raced";
    let at_once = format!("{path}?gracePeriodSeconds=0");
    let (reviews, overtaking) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(None)));
    let (counted, overtaken, other) = (reviews.clone(), overtaking.clone(), server.admin().unwrap());
    let hook = Webhook::start(move |review| {
        let is_second = {
            let mut count = counted.lock().unwrap();
            *count += 1;
            *count == 2
        };
        if is_second {
            let (other, at_once) = (other.clone(), at_once.clone());
            // The answer is awaited here, on a thread of its own, so that the deletion overtakes the one under review.
            let deleting = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let deletion = Request::new("DELETE", &at_once)
                    .header("Impersonate-User", "other")
                    .header("Impersonate-Group", "system:masters");
                runtime.block_on(other.send(&deletion)).unwrap().status()
            });
            *overtaken.lock().unwrap() = Some(deleting.join().unwrap());
        }
        (200, answer(&review, &Value::Null))
    });
    let hook = hook.await.unwrap();
    let pods =
        json!({"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
    // The other deletion is not reviewed: the webhook is still busy with the first one.
    let of_admin =
        json!({"matchConditions": [{"name": "admin", "expression": "request.userInfo.username == 'admin'"}]});
    configure(&admin, VALIDATING, &configuration(&hook, "slow", &pods, &of_admin)).await;
    // A controller makes it, perhaps later.
    let account = json!({"metadata": {"name": "default"}});
    admin.post("/api/v1/namespaces/default/serviceaccounts", &account).await.unwrap();
    let pod = json!({"metadata": {"name": "raced"}, "spec": {"nodeName": "n", "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "i"}]}});
    let (code, made) = admin.post("/api/v1/namespaces/default/pods", &pod).await.unwrap();
    assert_eq!(code, 201, "{made}");

    let (code, answered) = admin.delete(&format!("{path}?gracePeriodSeconds=0")).await.unwrap();
    assert_eq!(*overtaking.lock().unwrap(), Some(200), "the other deletion did not come in between");
    assert_eq!((code, &answered["metadata"]["name"]), (200, &json!("raced")), "{answered}");
    assert_eq!(*reviews.lock().unwrap(), 2);
    assert_eq!(admin.get(path).await.unwrap().0, 404);
}

#[tokio::test]
async fn an_apply_to_the_status_of_an_absent_policy_creates_it() {
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/absent";
    let policy = |status: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "absent"}, "status": status,
            "spec": {
                "matchConstraints": {"resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
                ]},
                "validations": [{"expression": "true"}],
            },
        })
    };
    let status = format!("{path}/status");
    assert_eq!(admin.put(&status, &policy(json!({}))).await.unwrap().0, 404, "an update creates nothing");
    let apply = format!("{status}?fieldManager=m");
    let configuration = policy(json!({"observedGeneration": 7}));
    let applied = admin.patch(&apply, "application/apply-patch+yaml", &configuration);
    let (code, created) = applied.await.unwrap();
    assert_eq!((code, &created["metadata"]["generation"]), (201, &json!(1)), "{created}");
    assert_eq!(created["status"], json!({}), "a new policy has no status");
    assert_eq!(admin.get(path).await.unwrap().0, 200);
}
