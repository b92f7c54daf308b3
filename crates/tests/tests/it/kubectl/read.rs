//! Reads: output formats, chunks, selectors, discovery, documentation of fields.

use super::{All, Exactly, Fails, Row, check, start};

const MAPS: &str = r#"{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"n":"1"}},"data":{"k":"z"}},
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","labels":{"n":"2"}},"data":{"k":"y"}},
{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"n":"3"}},"data":{"k":"x"}}]}"#;
const DEFINITION: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"crontabs.stable.example.com"},
"spec":{"group":"stable.example.com","scope":"Namespaced","names":{"plural":"crontabs","singular":"crontab","kind":"CronTab","shortNames":["ct"],"categories":["all"]},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},
"additionalPrinterColumns":[{"name":"Spec","type":"string","jsonPath":".spec.cronSpec"}],
"schema":{"openAPIV3Schema":{"type":"object","description":"CronTab runs things.","properties":{"spec":{"type":"object","description":"What to run.","properties":{"cronSpec":{"type":"string","description":"When to run."},"replicas":{"type":"integer"}}},"status":{"type":"object","properties":{"replicas":{"type":"integer"}}}}}}}]}}"#;
const CUSTOM: &str = r#"{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"name":"mine"},"spec":{"cronSpec":"* * * * */5","replicas":1}}"#;

#[rustfmt::skip]
const COMMANDS: &[Row<'_>] = &[
    ("create ns r", "", 0, Exactly("namespace/r created\n")),
    ("create -n r -f -", MAPS, 0, Exactly("configmap/a created\nconfigmap/b created\nconfigmap/c created\n")),
    ("get cm -n r -o name", "", 0, Exactly("configmap/a\nconfigmap/b\nconfigmap/c\n")),
    ("get cm -n r -o name --chunk-size=1", "", 0, Exactly("configmap/a\nconfigmap/b\nconfigmap/c\n")),
    ("get cm -n r --chunk-size=2", "", 0, All(&["NAME   DATA   AGE\n", "a      1", "b      1", "c      1"])),
    ("get cm -n r --server-print=false", "", 0, All(&["NAME   AGE\n", "a      "])),
    ("get cm -n r -o wide --show-labels", "", 0, All(&["NAME   DATA   AGE   LABELS\n", "n=1"])),
    ("get cm -n r -L n", "", 0, All(&["NAME   DATA   AGE   N\n"])),
    ("get cm -n r --no-headers -o custom-columns=N:.metadata.name,V:.data.k", "", 0, All(&["a     z\n", "c     x\n"])),
    ("get cm -n r --sort-by=.data.k -o name", "", 0, Exactly("configmap/c\nconfigmap/b\nconfigmap/a\n")),
    ("get cm -n r -l 'n in (1,3)' -o name", "", 0, Exactly("configmap/a\nconfigmap/c\n")),
    ("get cm -n r -l n!=2,n -o name", "", 0, Exactly("configmap/a\nconfigmap/c\n")),
    ("get cm -n r --field-selector=metadata.name=b -o name", "", 0, Exactly("configmap/b\n")),
    ("get cm -n r --field-selector=data.k=z", "", 0, Fails("\"data.k\" is not a known field selector")),
    ("get cm a b -n r -o jsonpath={.items[*].data.k}", "", 0, Exactly("z y")),
    ("get cm a nope -n r -o name", "", 0, Fails("configmaps \"nope\" not found")),
    ("get cm nope -n r --ignore-not-found", "", 0, Exactly("")),
    ("get cm a -n r -o yaml --show-managed-fields", "", 21, All(&["managedFields:\n", "manager: kubectl-create\n", "operation: Update\n", "f:k: {}\n"])),
    ("get cm a -n r -o json", "", 0, All(&["\"apiVersion\": \"v1\"", "\"uid\": \""])),
    ("get cm,ns -n r -o name", "", 0, All(&["configmap/a\n", "namespace/r\n"])),
    ("get all -n r", "", 0, Exactly("")),
    ("get nothing", "", 0, Fails("the server doesn't have a resource type \"nothing\"")),
    ("get --raw /api/v1/namespaces/r/configmaps/a", "", 0, All(&["\"kind\":\"ConfigMap\""])),
    ("get --raw /readyz", "", 0, Exactly("ok")),
    ("get --raw '/readyz?verbose'", "", 0, All(&["readyz check passed"])),
    ("get events -n r", "", 0, Exactly("")),
    ("get componentstatuses", "", 0, All(&[""])),
    ("describe ns r", "", 0, All(&["Name:         r\n", "Status:       Active\n"])),
    ("describe cm -n r", "", 0, All(&["Name:         a\n", "Name:         c\n"])),
    ("cluster-info", "", 0, All(&["Kubernetes control plane"])),
    ("api-versions", "", 0, All(&["admissionregistration.k8s.io/v1\n", "apiextensions.k8s.io/v1\n", "batch/v1\n", "events.k8s.io/v1\n", "policy/v1\n", "v1\n"])),
    ("api-resources --api-group=apps -o name", "", 0, Exactly("controllerrevisions.apps\ndaemonsets.apps\ndeployments.apps\nreplicasets.apps\nstatefulsets.apps\n")),
    ("api-resources --namespaced=false --verbs=list -o name", "", 0, All(&["nodes\n", "namespaces\n", "clusterroles.rbac.authorization.k8s.io\n"])),
    ("api-resources --categories=all -o name", "", 26, All(&["pods\n", "services\n", "deployments.apps\n", "cronjobs.batch\n"])),
    ("explain pods", "", 0, All(&["KIND:", "Pod", "VERSION:", "v1", "spec"])),
    ("explain pod.spec.containers.resources.limits", "", 0, All(&["limits"])),
    ("explain deployment --recursive", "", 0, All(&["strategy", "rollingUpdate", "maxSurge", "progressDeadlineSeconds"])),
    ("explain horizontalpodautoscalers --api-version=autoscaling/v1", "", 0, All(&["v1", "HorizontalPodAutoscaler"])),
    ("explain pod.spec.nope", "", 0, Fails("field \"nope\" does not exist")),
    ("explain nope", "", 0, Fails("the server doesn't have a resource type \"nope\"")),
    ("create -f -", DEFINITION, 0, Exactly("customresourcedefinition.apiextensions.k8s.io/crontabs.stable.example.com created\n")),
    ("wait --for=condition=Established crd/crontabs.stable.example.com --timeout=10s", "", 0, Exactly("customresourcedefinition.apiextensions.k8s.io/crontabs.stable.example.com condition met\n")),
    ("create -n r -f -", CUSTOM, 0, Exactly("crontab.stable.example.com/mine created\n")),
    ("get ct -n r", "", 0, Exactly("NAME   SPEC\nmine   * * * * */5\n")),
    ("get all -n r -o name", "", 0, Exactly("crontab.stable.example.com/mine\n")),
    ("explain crontabs.spec.cronSpec", "", 0, All(&["When to run.", "<string>"])),
    ("explain ct --recursive", "", 0, All(&["CronTab runs things.", "cronSpec", "replicas"])),
    ("scale crontab mine --replicas=3 -n r", "", 0, Exactly("crontab.stable.example.com/mine scaled\n")),
    ("get ct mine -n r -o jsonpath={.spec.replicas}", "", 0, Exactly("3")),
    ("patch ct mine -n r --type=strategic -p {\"spec\":{\"replicas\":1}}", "", 0, Fails("is not supported by stable.example.com/v1, Kind=CronTab")),
    ("patch ct mine -n r --subresource=status --type=merge -p {\"status\":{\"replicas\":2}}", "", 24, Exactly("crontab.stable.example.com/mine patched\n")),
    ("get ct mine -n r --subresource=scale -o jsonpath={.status.replicas}", "", 24, Exactly("2")),
    ("create -n r -f -", r#"{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"name":"odd"},"spec":{"cronSpec":1}}"#, 0, Fails("spec.cronSpec")),
    ("create -n r -f -", r#"{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"name":"odd"},"spec":{"nope":1}}"#, 25, Fails("unknown field \"spec.nope\"")),
    ("delete crd crontabs.stable.example.com", "", 0, All(&["deleted"])),
    ("get ct -n r", "", 0, Fails("")),
    ("auth whoami", "", 28, All(&["ATTRIBUTE", "Username", "system:masters"])),
    ("auth can-i '*' '*'", "", 0, Exactly("yes\n")),
    ("auth can-i --list -n r --as=alice", "", 0, All(&["selfsubjectreviews.authentication.k8s.io", "/healthz"])),
    ("auth can-i create pods -n r --as=alice", "", 0, Fails("")),
    ("get pods -n r --as=alice", "", 0, Fails("pods is forbidden: User \"alice\" cannot list resource \"pods\" in API group \"\" in the namespace \"r\"")),
    ("version -o json", "", 0, All(&["\"gitVersion\": \"v1.36", "\"minor\": \"36\""])),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking() {
    let (_server, kubectl) = start(&[]).await;
    check(&kubectl, COMMANDS);
}
