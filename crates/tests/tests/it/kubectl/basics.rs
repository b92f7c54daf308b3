//! First steps: create, get, change and delete a few objects.

use super::{All, Exactly, Fails, Row, check, start};

const CONFIG_MAP: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"file"},"data":{"k":"1"}}"#;
const CONFIG_MAP_2: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"file"},"data":{"k":"2"}}"#;

#[rustfmt::skip]
const COMMANDS: &[Row<'_>] = &[
    ("create namespace team", "", 0, Exactly("namespace/team created\n")),
    ("create namespace team", "", 0, Fails("namespaces \"team\" already exists")),
    ("get namespace team -o jsonpath={.status.phase}", "", 0, Exactly("Active")),
    ("create configmap settings --from-literal=a=1 --from-literal=b=2 -n team", "", 0, Exactly("configmap/settings created\n")),
    ("get configmap settings -n team -o name", "", 0, Exactly("configmap/settings\n")),
    ("get cm settings -n team -o jsonpath={.data.a}{.data.b}", "", 0, Exactly("12")),
    ("get configmap settings -n team -o yaml", "", 0, All(&["apiVersion: v1\n", "kind: ConfigMap\n", "  a: \"1\"\n", "  namespace: team\n"])),
    ("get configmap settings -n team -o json", "", 0, All(&["\"kind\": \"ConfigMap\"", "\"a\": \"1\""])),
    ("get configmap settings -n team", "", 0, All(&["NAME       DATA   AGE\n", "settings   2"])),
    ("get configmaps -A", "", 0, All(&["NAMESPACE", "team"])),
    ("get configmap none -n team", "", 0, Fails("configmaps \"none\" not found")),
    ("create secret generic token --from-literal=t=secret -n team", "", 0, Exactly("secret/token created\n")),
    ("get secret token -n team -o jsonpath={.data.t}", "", 0, Exactly("c2VjcmV0")),
    ("create deployment web --image=nginx --replicas=2 -n team", "", 0, Exactly("deployment.apps/web created\n")),
    ("get deployment web -n team -o jsonpath={.spec.replicas},{.spec.strategy.type}", "", 0, Exactly("2,RollingUpdate")),
    ("get deployments -n team", "", 0, All(&["NAME   READY   UP-TO-DATE   AVAILABLE   AGE\n", "web    0/2"])),
    ("scale deployment web --replicas=3 -n team", "", 0, Exactly("deployment.apps/web scaled\n")),
    ("get deployment web -n team -o jsonpath={.spec.replicas}", "", 0, Exactly("3")),
    ("create -f - -n team", CONFIG_MAP, 0, Exactly("configmap/file created\n")),
    ("replace -f - -n team", CONFIG_MAP_2, 0, Exactly("configmap/file replaced\n")),
    ("get configmap file -n team -o jsonpath={.data.k}", "", 0, Exactly("2")),
    ("apply --server-side -f - -n team --force-conflicts", CONFIG_MAP, 0, Exactly("configmap/file serverside-applied\n")),
    ("patch configmap file -n team --type=merge -p {\"data\":{\"k\":\"3\"}}", "", 0, Exactly("configmap/file patched\n")),
    ("label configmap file -n team tier=one", "", 0, All(&["configmap/file labeled\n"])),
    ("get configmaps -n team -l tier=one -o name", "", 0, Exactly("configmap/file\n")),
    ("annotate configmap file -n team note=yes", "", 0, All(&["configmap/file annotate"])),
    ("describe configmap file -n team", "", 0, All(&["Name:         file\n", "Namespace:    team\n"])),
    ("wait --for=jsonpath={.status.phase}=Active namespace/team --timeout=5s", "", 23, Exactly("namespace/team condition met\n")),
    ("api-versions", "", 0, All(&["apps/v1\n", "v1\n", "rbac.authorization.k8s.io/v1\n"])),
    ("api-resources", "", 0, All(&["configmaps", "deployments", "apps/v1", "ConfigMap"])),
    ("explain configmap.data", "", 0, All(&["ConfigMap", "data"])),
    ("explain deployment.spec.replicas", "", 0, All(&["replicas", "<integer>"])),
    ("auth whoami -o jsonpath={.status.userInfo.username}", "", 28, All(&["admin"])),
    ("auth can-i create configmaps -n team", "", 0, Exactly("yes\n")),
    ("version", "", 0, All(&["Server Version"])),
    ("delete configmap file -n team", "", 0, All(&["configmap \"file\" deleted"])),
    ("delete deployment web -n team --wait=false", "", 0, All(&["deployment.apps \"web\" deleted"])),
    ("get configmap file -n team", "", 0, Fails("NotFound")),
    ("delete namespace team --timeout=30s", "", 0, All(&["namespace \"team\" deleted"])),
    ("get namespace team", "", 0, Fails("namespaces \"team\" not found")),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands() {
    let (_server, kubectl) = start(&[]).await;
    check(&kubectl, COMMANDS);
}
