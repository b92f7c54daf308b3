//! Changes: both kinds of apply, patch, edit, set, rollout, scale, deletion with dependents.

use std::os::unix::fs::PermissionsExt;

use super::{All, Exactly, Fails, Row, check, start};

const MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","labels":{"set":"p"}},"data":{"a":"1","b":"1"}}"#;
const MAP_2: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","labels":{"set":"p"}},"data":{"a":"2"}}"#;
const OTHER_MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other","labels":{"set":"p"}},"data":{"a":"2"}}"#;
const SSA: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ssa"},"data":{"a":"1"}}"#;
const SSA_2: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"ssa"},"data":{"a":"2"}}"#;
const OWNED: &str = r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"child","ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"d","uid":"UID","controller":true,"blockOwnerDeletion":true}],"labels":{"app":"d"},"annotations":{"deployment.kubernetes.io/revision":"1"}},
"spec":{"replicas":0,"selector":{"matchLabels":{"app":"d"}},"template":{"metadata":{"labels":{"app":"d"}},"spec":{"containers":[{"name":"nginx","image":"nginx:0"}]}}}}"#;

#[rustfmt::skip]
const COMMANDS: &[Row<'_>] = &[
    ("create ns c", "", 0, Exactly("namespace/c created\n")),
    ("config set-context --current --namespace=c", "", 0, All(&["modified"])),
    // Client-side apply: the last configuration decides which fields are removed.
    ("apply -f -", MAP, 0, Exactly("configmap/m created\n")),
    ("apply -f -", MAP, 0, Exactly("configmap/m unchanged\n")),
    ("diff -f -", MAP, 0, Exactly("")),
    ("diff -f -", MAP_2, 0, Fails("")),
    ("patch cm m --type=merge -p {\"data\":{\"live\":\"1\"}}", "", 0, Exactly("configmap/m patched\n")),
    ("apply -f -", MAP_2, 0, Exactly("configmap/m configured\n")),
    ("get cm m -o jsonpath={.data}", "", 0, Exactly("{\"a\":\"2\",\"live\":\"1\"}")),
    ("apply view-last-applied cm m -o json", "", 0, All(&["\"a\": \"2\""])),
    ("apply --prune -l set=p --prune-allowlist=core/v1/ConfigMap -f -", OTHER_MAP, 26, Exactly("configmap/other created\nconfigmap/m pruned\n")),
    ("apply --dry-run=server -f -", MAP, 18, Exactly("configmap/m created (server dry run)\n")),
    ("get cm m", "", 26, Fails("NotFound")),
    // Server-side apply: owners of fields.
    ("apply --server-side -f -", SSA, 0, Exactly("configmap/ssa serverside-applied\n")),
    ("apply --server-side --field-manager=two -f -", SSA_2, 0, Fails("conflict with \"kubectl\": .data.a")),
    ("apply --server-side --field-manager=two --force-conflicts -f -", SSA_2, 0, Exactly("configmap/ssa serverside-applied\n")),
    ("get cm ssa -o jsonpath={.metadata.managedFields[*].manager}", "", 0, Exactly("two")),
    ("apply --server-side --dry-run=server -f -", SSA_2, 0, Exactly("configmap/ssa serverside-applied (server dry run)\n")),
    ("diff --server-side -f -", SSA_2, 18, Exactly("")),
    // Three ways to patch.
    ("create deployment d --image=nginx:1 --replicas=2", "", 0, Exactly("deployment.apps/d created\n")),
    ("patch deployment d -p {\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"nginx\",\"image\":\"nginx:2\"}]}}}}", "", 0, Exactly("deployment.apps/d patched\n")),
    ("patch deployment d --type=json -p [{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":3}]", "", 0, Exactly("deployment.apps/d patched\n")),
    ("patch deployment d --type=merge -p {\"spec\":{\"paused\":false}}", "", 0, Exactly("deployment.apps/d patched (no change)\n")),
    ("patch deployment d --type=json -p [{\"op\":\"test\",\"path\":\"/spec/replicas\",\"value\":4}]", "", 0, Fails("The request is invalid")),
    ("patch deployment d -p {\"spec\":{\"replicas\":-1}}", "", 0, Fails("spec.replicas: Invalid value: -1: must be greater than or equal to 0")),
    ("get deployment d -o jsonpath={.spec.replicas}:{.spec.template.spec.containers[*].image}", "", 0, Exactly("3:nginx:2")),
    // Labels and annotations.
    ("label deployment d a=1", "", 0, Exactly("deployment.apps/d labeled\n")),
    ("label deployment d a=2", "", 0, Fails("--overwrite is false")),
    ("label deployment d a=2 --overwrite", "", 0, Exactly("deployment.apps/d labeled\n")),
    ("label deployment d a-", "", 0, All(&["deployment.apps/d unlabeled"])),
    ("label deployment d 'a=not valid'", "", 0, Fails("a valid label must be")),
    ("annotate deployment d note='many words'", "", 0, All(&["deployment.apps/d annotate"])),
    ("annotate deployment d note-", "", 0, All(&["deployment.apps/d annotate"])),
    // set
    ("set image deployment/d nginx=nginx:3", "", 0, Exactly("deployment.apps/d image updated\n")),
    ("set env deployment/d A=1 B=2", "", 0, Exactly("deployment.apps/d env updated\n")),
    ("set env deployment/d B-", "", 0, Exactly("deployment.apps/d env updated\n")),
    ("set resources deployment/d --limits=cpu=200m,memory=512Mi --requests=cpu=100m", "", 0, Exactly("deployment.apps/d resource requirements updated\n")),
    ("set serviceaccount deployment/d acc", "", 0, Exactly("deployment.apps/d serviceaccount updated\n")),
    ("get deployment d -o jsonpath={.spec.template.spec.containers[0].env},{.spec.template.spec.containers[0].resources.limits.cpu},{.spec.template.spec.serviceAccountName}", "", 0, Exactly("[{\"name\":\"A\",\"value\":\"1\"}],200m,acc")),
    ("create service clusterip s --tcp=80", "", 0, Exactly("service/s created\n")),
    ("set selector service s app=d", "", 0, Exactly("service/s selector updated\n")),
    ("create rolebinding rb --clusterrole=view --user=a", "", 0, All(&["created"])),
    ("set subject rolebinding rb --user=b --group=g --serviceaccount=c:default", "", 0, Exactly("rolebinding.rbac.authorization.k8s.io/rb subjects updated\n")),
    ("get rolebinding rb -o jsonpath={.subjects[*].name}", "", 0, Exactly("a b g default")),
    // rollout; the revisions are those of a replica set that a controller would have created.
    ("rollout pause deployment/d", "", 0, Exactly("deployment.apps/d paused\n")),
    ("rollout restart deployment/d", "", 0, Fails("can't restart paused deployment")),
    ("rollout resume deployment/d", "", 0, Exactly("deployment.apps/d resumed\n")),
    ("rollout restart deployment/d", "", 0, Exactly("deployment.apps/d restarted\n")),
    ("rollout status deployment/d --watch=false", "", 0, Exactly("Waiting for deployment spec update to be observed...\n")),
    ("patch deployment d --subresource=status --type=merge -p {\"status\":{\"observedGeneration\":99,\"replicas\":3,\"updatedReplicas\":3,\"readyReplicas\":3,\"availableReplicas\":3}}", "", 24, Exactly("deployment.apps/d patched\n")),
    ("rollout status deployment/d", "", 24, Exactly("deployment \"d\" successfully rolled out\n")),
    ("wait --for=jsonpath={.status.readyReplicas}=3 deployment/d --timeout=5s", "", 24, Exactly("deployment.apps/d condition met\n")),
    ("wait --for=condition=Available deployment/d --timeout=1s", "", 0, Fails("timed out waiting for the condition")),
    ("wait --for=delete cm/never --timeout=5s", "", 24, Exactly("")),
    ("scale deployment d --replicas=5 --current-replicas=4", "", 0, Fails("Expected replicas to be 4, was 3")),
    ("scale deployment d --replicas=5", "", 0, Exactly("deployment.apps/d scaled\n")),
    ("get deployment d --subresource=scale -o jsonpath={.kind},{.spec.replicas}", "", 24, Exactly("Scale,5")),
    // replace
    ("replace -f -", SSA, 0, Exactly("configmap/ssa replaced\n")),
    ("replace -f -", MAP, 26, Fails("configmaps \"m\" not found")),
    ("replace --force -f -", SSA_2, 0, All(&["configmap \"ssa\" deleted", "configmap/ssa replaced\n"])),
    ("edit cm ssa", "", 0, Exactly("configmap/ssa edited\n")),
    ("get cm ssa -o jsonpath={.data.a}", "", 0, Exactly("edited")),
    ("delete cm -l set=p", "", 0, All(&["deleted"])),
    ("delete cm none", "", 0, Fails("NotFound")),
    ("delete cm none --ignore-not-found", "", 0, Exactly("")),
    ("delete cm --all", "", 0, All(&["configmap \"ssa\" deleted"])),
    ("delete deployment d --dry-run=server", "", 18, All(&["deployment.apps \"d\" deleted", "(server dry run)"])),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changing() {
    let (server, mut kubectl) = start(&[]).await;
    let editor = server.data_dir().join("edit.sh");
    std::fs::write(&editor, "#!/bin/sh\nsed -i 's/a: \"2\"/a: edited/' \"$1\"\n").unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    kubectl.editor = Some(editor);
    check(&kubectl, COMMANDS);
    for (cascade, left) in [("foreground", ""), ("background", ""), ("orphan", "replicaset.apps/child\n")] {
        check(&kubectl, &[("delete deployment d --ignore-not-found", "", 0, All(&[]))]);
        check(
            &kubectl,
            &[("create deployment d --image=nginx:1", "", 0, Exactly("deployment.apps/d created\n"))],
        );
        let uid = kubectl.run("get deployment d -o jsonpath={.metadata.uid}", "").stdout;
        let child = OWNED.replace("UID", &String::from_utf8(uid).unwrap());
        let delete = format!("delete deployment d --cascade={cascade} --timeout=20s");
        check(
            &kubectl,
            &[
                ("create -f -", &child, 0, Exactly("replicaset.apps/child created\n")),
                ("rollout history deployment/d", "", 0, All(&["REVISION  CHANGE-CAUSE\n1         <none>\n"])),
                (
                    "rollout undo deployment/d --to-revision=1",
                    "",
                    0,
                    Exactly("deployment.apps/d rolled back\n"),
                ),
                (
                    "get deployment d -o jsonpath={.spec.template.spec.containers[0].image}",
                    "",
                    0,
                    Exactly("nginx:0"),
                ),
                (&delete, "", 20, All(&["deployment.apps \"d\" deleted"])),
                ("wait --for=delete deployment/d --timeout=20s", "", 0, All(&[])),
            ],
        );
        if left.is_empty() {
            check(&kubectl, &[("wait --for=delete rs/child --timeout=20s", "", 0, All(&[]))]);
        }
        check(
            &kubectl,
            &[("get rs -o name", "", 0, if left.is_empty() { Exactly("") } else { Exactly(left) })],
        );
    }
}
