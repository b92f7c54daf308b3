//! Administration of nodes and certificates, and events.

use super::{All, Exactly, Fails, Row, check, start};

const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","labels":{"zone":"a"}}}"#;
const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"on","namespace":"default","labels":{"app":"x"}},"spec":{"nodeName":"n1","serviceAccountName":"default","terminationGracePeriodSeconds":0,"containers":[{"name":"c","image":"i"}]}}"#;
const BUDGET: &str = r#"{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"b","namespace":"default"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"x"}}}}"#;
const EVENT: &str = r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"e.1","namespace":"default"},"involvedObject":{"apiVersion":"v1","kind":"Pod","name":"on","namespace":"default","uid":"u"},"reason":"Started","message":"it started","type":"Warning","count":2,"firstTimestamp":"2026-01-01T00:00:00Z","lastTimestamp":"2026-01-01T00:00:10Z","source":{"component":"test"}}"#;
/// CN=bob, an ECDSA key.
const REQUEST: &str = r#"{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"bob"},"spec":{"signerName":"kubernetes.io/kube-apiserver-client","usages":["client auth"],"request":"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISk1IQUNBUUF3RGpFTU1Bb0dBMVVFQXd3RFltOWlNRmt3RXdZSEtvWkl6ajBDQVFZSUtvWkl6ajBEQVFjRApRZ0FFRXRCUG0xYjZpYkZCSGwraC8yVlBPdUhWQ01Ib3RTMnBRdWJzbGxxa0hBS2pIdjlVU1FnZU03aHNpMDh6CkV2SHM0cmNOQ0RxWnE3TFVLejBwTm00QkU2QUFNQW9HQ0NxR1NNNDlCQU1DQTBrQU1FWUNJUUNjbUpJNTZDdTcKOHgydFN1WXY5TlkxSDhJQzhva2JmWDVYaDZwaTlEdzY2Z0loQU0yNjZybG5CVTlMd2luTm05QVZwdnBSOEVMbgpIWG05MVFYSnF4aGpZK2hPCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo="}}"#;

#[rustfmt::skip]
const COMMANDS: &[Row<'_>] = &[
    ("create -f -", NODE, 0, Exactly("node/n1 created\n")),
    ("get nodes", "", 0, All(&["NAME   STATUS    ROLES    AGE", "n1     Unknown   <none>"])),
    ("cordon n1", "", 0, Exactly("node/n1 cordoned\n")),
    ("cordon n1", "", 0, Exactly("node/n1 already cordoned\n")),
    ("get node n1 --no-headers", "", 0, All(&["Unknown,SchedulingDisabled"])),
    ("uncordon n1", "", 0, Exactly("node/n1 uncordoned\n")),
    ("taint nodes n1 key=value:NoSchedule", "", 0, Exactly("node/n1 tainted\n")),
    ("taint nodes n1 key=value:NoSchedule", "", 0, Fails("already has key taint(s) with same effect(s)")),
    ("taint nodes n1 key:NoSchedule-", "", 0, Exactly("node/n1 untainted\n")),
    ("taint nodes n1 key=value:Never", "", 0, Fails("invalid taint effect")),
    ("label node n1 node-role.kubernetes.io/worker=", "", 0, Exactly("node/n1 labeled\n")),
    ("get node n1 --no-headers", "", 0, All(&["worker"])),
    ("create serviceaccount default", "", 0, Exactly("serviceaccount/default created\n")),
    ("create -f -", POD, 0, Exactly("pod/on created\n")),
    ("create -f -", BUDGET, 0, Exactly("poddisruptionbudget.policy/b created\n")),
    ("drain n1 --timeout=1s", "", 0, Fails("declare no controller")),
    ("drain n1 --force --dry-run=server", "", 18, All(&["node/n1 drained (server dry run)"])),
    // A pod that never ran does not count for a disruption budget.
    ("drain n1 --force --timeout=20s", "", 0, All(&["evicting pod default/on", "node/n1 drained"])),
    ("get pods", "", 0, Exactly("")),
    ("create -f -", EVENT, 0, Exactly("event/e.1 created\n")),
    ("get events", "", 0, All(&["LAST SEEN   TYPE      REASON    OBJECT   MESSAGE\n", "Warning   Started   pod/on   it started"])),
    ("events --for pod/on", "", 26, All(&["Started", "Pod/on", "it started"])),
    ("events --types=Normal", "", 26, Exactly("")),
    ("get events --field-selector=involvedObject.name=on,type=Warning -o name", "", 0, Exactly("event/e.1\n")),
    ("get events.events.k8s.io e.1 -o jsonpath={.note},{.regarding.name}", "", 0, Exactly("it started,on")),
    ("create -f -", REQUEST, 0, Exactly("certificatesigningrequest.certificates.k8s.io/bob created\n")),
    ("get csr bob --no-headers", "", 0, All(&["kubernetes.io/kube-apiserver-client", "Pending"])),
    ("certificate approve bob", "", 0, All(&["certificatesigningrequest.certificates.k8s.io/bob approved"])),
    ("get csr bob --no-headers", "", 0, All(&["Approved"])),
    ("delete csr bob", "", 0, All(&["deleted"])),
    ("create -f -", REQUEST, 0, Exactly("certificatesigningrequest.certificates.k8s.io/bob created\n")),
    ("certificate deny bob", "", 0, All(&["certificatesigningrequest.certificates.k8s.io/bob denied"])),
    ("get csr bob -o jsonpath={.status.conditions[0].type},{.status.conditions[0].reason}", "", 0, Exactly("Denied,KubectlDeny")),
    ("delete node n1", "", 0, All(&["node \"n1\" deleted"])),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn administering() {
    let (_server, kubectl) = start(&[]).await;
    check(&kubectl, COMMANDS);
}

/// A kubelet, identified by the name and group that its certificate would have.
macro_rules! kubelet {
    ($line:literal) => {
        concat!($line, " --as=system:node:n1 --as-group=system:nodes --as-group=system:authenticated")
    };
}

#[rustfmt::skip]
const RESTRICTED: &[Row<'_>] = &[
    ("create clusterrolebinding nodes --clusterrole=cluster-admin --group=system:nodes", "", 0, All(&["created"])),
    (kubelet!("create -f -"), NODE, 0, Exactly("node/n1 created\n")),
    (kubelet!("label node n1 kubernetes.io/os=linux"), "", 0, Exactly("node/n1 labeled\n")),
    (kubelet!("label node n1 node-role.kubernetes.io/control-plane="), "", 0, Fails("is not allowed to modify labels: node-role.kubernetes.io/control-plane")),
    (kubelet!("taint node n1 a=b:NoSchedule"), "", 0, Fails("node \"n1\" is not allowed to modify taints")),
    (kubelet!("delete node n2"), "", 0, Fails("not found")),
    ("create serviceaccount default", "", 0, Exactly("serviceaccount/default created\n")),
    (kubelet!("run p --image=i"), "", 0, Fails("node \"n1\" can only create mirror pods")),
    ("run p --image=i:1 --image-pull-policy=Never", "", 0, Exactly("pod/p created\n")),
    ("get pod p -o jsonpath={.spec.containers[0].imagePullPolicy}", "", 0, Exactly("Always")),
    (kubelet!("delete pod p"), "", 0, Fails("node \"n1\" can only delete pods with spec.nodeName set to itself")),
    (kubelet!("create token default"), "", 24, Fails("node requested token not bound to a pod")),
    (kubelet!("create configmap c --from-literal=a=1"), "", 0, Exactly("configmap/c created\n")),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restricted() {
    let (_server, kubectl) = start(&["--enable-admission-plugins=NodeRestriction,AlwaysPullImages"]).await;
    check(&kubectl, RESTRICTED);
}
