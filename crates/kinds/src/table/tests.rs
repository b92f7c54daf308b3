use super::*;
use crate::builtin;

fn printed(kind: &str, object: &str) -> String {
    let printer = Printer::builtin(kind);
    let now = Timestamp::parse("2026-01-02T00:00:00Z").unwrap();
    // The picked fields must give the same cells as the whole object.
    let whole = json::parse(object.as_bytes()).unwrap().value;
    let compact = json::bytes(&whole);
    let picked = printer.read(&compact, 7).unwrap();
    let row = printer.row(&picked, now);
    assert_eq!(row, printer.row(&whole, now), "{kind}");
    let mut cells: Vec<String> = row.cells.iter().map(cell_text).collect();
    for condition in &row.conditions {
        cells.push(format!("[{} {}]", condition.str_at(&["type"]), condition.str_at(&["reason"])));
    }
    cells.join("|")
}

fn cell_text(cell: &Value) -> String {
    match cell {
        Value::String(text) => text.to_string(),
        other => json::text(other),
    }
}

const META: &str = r#""metadata":{"name":"x","creationTimestamp":"2026-01-01T00:00:00Z"}"#;

fn check(kind: &str, members: &str, expected: &str) {
    let comma = if members.is_empty() { "" } else { "," };
    assert_eq!(printed(kind, &format!("{{{META}{comma}{members}}}")), expected, "{kind} {members}");
}

#[test]
fn every_printer_has_as_many_cells_as_columns() {
    let empty = Value::object();
    for kind in cells::kinds() {
        let columns = columns::of(kind).len();
        let cells = Printer::builtin(kind).row(&empty, Timestamp::from_seconds(0)).cells.len();
        // Addresses have a cell more than columns.
        let more = usize::from(kind == "networking.k8s.io/IPAddress");
        assert_eq!(cells, columns + more, "{kind}");
    }
}

#[test]
fn every_kind_with_columns_is_built_in_and_the_rest_is_plain() {
    let builtin = builtin();
    let mut plain = Vec::new();
    for kind in builtin.kinds.iter().filter(|kind| kind.verbs.get) {
        let printer = Printer::of(kind, kind.storage_version());
        if printer.is_plain() {
            plain.push(kind.kind.as_str());
        }
    }
    plain.sort_unstable();
    assert_eq!(
        plain,
        ["CSIStorageCapacity", "ClusterRole", "CustomResourceDefinition", "LimitRange", "Role"]
    );
    let autoscaler = builtin.kinds.iter().find(|kind| kind.kind == "HorizontalPodAutoscaler").unwrap();
    assert_eq!(autoscaler.storage_version().name, "v2");
}

#[test]
fn objects_without_anything_have_rows_too() {
    assert_eq!(printed("ConfigMap", "{}"), "|0|<unknown>");
    assert_eq!(printed("Role", "{}"), "|0001-01-01T00:00:00Z");
    assert_eq!(printed("apps/Deployment", "{}"), "|0/0|0|0|<unknown>|||");
    assert_eq!(printed("Pod", "{}"), "|0/0||0|<unknown>|<none>|<none>|<none>|<none>");
}

#[test]
fn core_kinds() {
    check("ConfigMap", r#""data":{"a":"1","b":"2"},"binaryData":{"c":""}"#, "x|3|24h");
    check("Secret", r#""type":"Opaque","data":{"a":""}"#, "x|Opaque|1|24h");
    check("Role", "", "x|2026-01-01T00:00:00Z");
    check("ServiceAccount", "", "x|24h");
    check("Namespace", r#""status":{"phase":"Active"}"#, "x|Active|24h");
    check(
        "ComponentStatus",
        r#""conditions":[{"type":"Healthy","status":"False","message":"m","error":"e"}]"#,
        "x|Unhealthy|m|e",
    );
    check(
        "Event",
        r#""involvedObject":{"kind":"Pod","name":"p","fieldPath":"spec"},"reason":"R","message":" m\n","type":"Normal","source":{"component":"c"},"reportingInstance":"i","firstTimestamp":"2026-01-01T23:59:00Z","count":0"#,
        "60s|Normal|R|pod/p|spec|c, i|m|60s|1|x",
    );
    check(
        "Event",
        r#""involvedObject":{"kind":"Node"},"eventTime":"2026-01-01T23:59:00.000000Z","series":{"count":3,"lastObservedTime":"2026-01-01T23:59:50.000000Z"}"#,
        "10s|||node||||60s|3|x",
    );
    check(
        "Node",
        r#""spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"True"}],"addresses":[{"type":"InternalIP","address":"10.0.0.1"}],"nodeInfo":{"kubeletVersion":"v1","kernelVersion":"6","architecture":"arm64"}}"#,
        "x|Ready,SchedulingDisabled|<none>|24h|v1|10.0.0.1|<none>|<unknown>|6 (arm64)|<unknown>",
    );
    let labels = r#"{"metadata":{"name":"n","labels":{"node-role.kubernetes.io/b":"","node-role.kubernetes.io/":"","kubernetes.io/role":"a"}}}"#;
    assert!(printed("Node", labels).starts_with("n|Unknown|a,b|<unknown>|"));
    check(
        "ResourceQuota",
        r#""status":{"hard":{"limits.cpu":"2","pods":"5","cpu":"1"},"used":{"pods":"1"}}"#,
        "x|cpu: 0/1, pods: 1/5|limits.cpu: 0/2|24h",
    );
    check(
        "ReplicationController",
        r#""spec":{"replicas":2,"selector":{"a":"b","c":"d"},"template":{"spec":{"containers":[{"name":"c","image":"i"},{"name":"d","image":"j"}]}}},"status":{"replicas":1}"#,
        "x|2|1|0|24h|c,d|i,j|a=b,c=d",
    );
    check(
        "PodTemplate",
        r#""template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
        "x|c|i|a=b",
    );
    check(
        "PersistentVolume",
        r#""spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteMany","ReadWriteOnce"],"persistentVolumeReclaimPolicy":"Retain","claimRef":{"namespace":"n","name":"c"},"storageClassName":"s","volumeMode":"Block"},"status":{"phase":"Bound"}"#,
        "x|1Gi|RWO,RWX|Retain|Bound|n/c|s|<unset>||24h|Block",
    );
    check(
        "PersistentVolumeClaim",
        r#""spec":{"volumeName":"v"},"status":{"phase":"Bound","accessModes":["ReadWriteOncePod"],"capacity":{"storage":"2Gi"}}"#,
        "x|Bound|v|2Gi|RWOP||<unset>|24h|<unset>",
    );
    check(
        "PersistentVolumeClaim",
        r#""spec":{"storageClassName":"s"},"status":{"phase":"Pending"}"#,
        "x|Pending||||s|<unset>|24h|<unset>",
    );
}

#[test]
fn services_and_endpoints() {
    check(
        "Service",
        r#""spec":{"type":"NodePort","clusterIPs":["10.0.0.9"],"ports":[{"port":80,"nodePort":30080,"protocol":"TCP"},{"port":53,"protocol":"UDP"}],"selector":{"a":"b"}}"#,
        "x|NodePort|10.0.0.9|<none>|80:30080/TCP,53/UDP|24h|a=b",
    );
    check(
        "Service",
        r#""spec":{"type":"LoadBalancer"}"#,
        "x|LoadBalancer|<none>|<pending>|<none>|24h|<none>",
    );
    check(
        "Service",
        r#""spec":{"type":"LoadBalancer","externalIPs":["1.1.1.1"]},"status":{"loadBalancer":{"ingress":[{"hostname":"b.example"},{"ip":"2.2.2.2"},{"ip":"2.2.2.2"}]}}"#,
        "x|LoadBalancer|<none>|2.2.2.2,b.example,1.1.1.1|<none>|24h|<none>",
    );
    check(
        "Service",
        r#""spec":{"type":"ExternalName","externalName":"e"}"#,
        "x|ExternalName|<none>|e|<none>|24h|<none>",
    );
    check("Endpoints", "", "x|<none>|24h");
    check(
        "Endpoints",
        r#""subsets":[{"addresses":[{"ip":"1.1.1.1"},{"ip":"::1"}],"ports":[{"port":80},{"port":81}]},{"addresses":[{"ip":"2.2.2.2"}]}]"#,
        "x|1.1.1.1:80,[::1]:80,1.1.1.1:81 + 2 more...|24h",
    );
    check(
        "discovery.k8s.io/EndpointSlice",
        r#""addressType":"IPv4","ports":[{"name":"a"},{"port":80},{}],"endpoints":[{"addresses":["1","2"]},{"addresses":["3","4"]}]"#,
        "x|IPv4|a,80,*|1,2,3 + 1 more...|24h",
    );
    check("discovery.k8s.io/EndpointSlice", "", "x||<unset>|<unset>|24h");
}

#[test]
fn pods() {
    let pod = |members: &str, expected: &str| check("Pod", members, expected);
    pod(
        r#""spec":{"containers":[{"name":"c"}],"nodeName":"n"},"status":{"phase":"Running","podIPs":[{"ip":"1.2.3.4"}],"containerStatuses":[{"ready":true,"restartCount":2,"state":{"running":{}},"lastState":{"terminated":{"finishedAt":"2026-01-01T23:59:00Z"}}}]}"#,
        "x|1/1|Running|2 (60s ago)|24h|1.2.3.4|n|<none>|<none>",
    );
    pod(
        r#""spec":{"containers":[{},{}]},"status":{"phase":"Pending","containerStatuses":[{"state":{"waiting":{"reason":"ImagePullBackOff"}}}]}"#,
        "x|0/2|ImagePullBackOff|0|24h|<none>|<none>|<none>|<none>",
    );
    pod(
        r#""status":{"phase":"Pending","conditions":[{"type":"PodScheduled","reason":"SchedulingGated"}]}"#,
        "x|0/0|SchedulingGated|0|24h|<none>|<none>|<none>|<none>",
    );
    pod(
        r#""spec":{"containers":[{}],"initContainers":[{"name":"a"},{"name":"b"}]},"status":{"phase":"Pending","initContainerStatuses":[{"name":"a","state":{"terminated":{"exitCode":0}}},{"name":"b","restartCount":3,"state":{"running":{}}}]}"#,
        "x|0/1|Init:1/2|3|24h|<none>|<none>|<none>|<none>",
    );
    pod(
        r#""spec":{"containers":[{}],"initContainers":[{"name":"a"}]},"status":{"phase":"Pending","initContainerStatuses":[{"name":"a","state":{"terminated":{"exitCode":2}}}]}"#,
        "x|0/1|Init:ExitCode:2|0|24h|<none>|<none>|<none>|<none>",
    );
    pod(
        r#""spec":{"containers":[{}],"initContainers":[{"name":"a","restartPolicy":"Always"}]},"status":{"phase":"Running","initContainerStatuses":[{"name":"a","started":true,"ready":true,"restartCount":1,"state":{"running":{}}}],"containerStatuses":[{"ready":true,"state":{"running":{}}}]}"#,
        "x|2/2|Running|1|24h|<none>|<none>|<none>|<none>",
    );
    pod(
        r#""spec":{"containers":[{}]},"status":{"phase":"Succeeded","containerStatuses":[{"state":{"terminated":{"exitCode":0,"reason":"Completed"}}}]}"#,
        "x|0/1|Completed|0|24h|<none>|<none>|<none>|<none>|[Completed Succeeded]",
    );
    pod(
        r#""spec":{"containers":[{},{}]},"status":{"phase":"Failed","containerStatuses":[{"state":{"terminated":{"exitCode":0,"reason":"Completed"}}},{"state":{"terminated":{"exitCode":137,"signal":9}}}]}"#,
        "x|0/2|Signal:9|0|24h|<none>|<none>|<none>|<none>|[Completed Failed]",
    );
    pod(
        r#""spec":{"readinessGates":[{"conditionType":"a"},{"conditionType":"b"}]},"status":{"reason":"Evicted","nominatedNodeName":"m","conditions":[{"type":"a","status":"True"}]}"#,
        "x|0/0|Evicted|0|24h|<none>|<none>|m|1/2",
    );
    let going = r#"{"metadata":{"name":"x","deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Running","reason":"REASON"}}"#;
    assert!(printed("Pod", going).starts_with("x|0/0|Terminating|"));
    assert!(printed("Pod", &going.replace("REASON", "NodeLost")).starts_with("x|0/0|Unknown|"));
}

#[test]
fn workloads() {
    let spec = r#""spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"In","values":["z","y"]}]},"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}},"status":{"replicas":2,"readyReplicas":1,"updatedReplicas":2,"availableReplicas":1}"#;
    check("apps/Deployment", spec, "x|1/2|2|1|24h|c|i|a=b,c in (y,z)");
    check("apps/ReplicaSet", spec, "x|2|2|1|24h|c|i|a=b,c in (y,z)");
    check("apps/StatefulSet", spec, "x|1/2|24h|c|i");
    check(
        "apps/DaemonSet",
        r#""spec":{"template":{"spec":{"nodeSelector":{"d":"e"}}}},"status":{"numberReady":1}"#,
        "x|0|0|1|0|0|d=e|24h|||<none>",
    );
    check("apps/ControllerRevision", r#""revision":3"#, "x|<none>|3|24h");
    let owned = r#"{"metadata":{"name":"r","ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"S","controller":true}]},"revision":1}"#;
    assert_eq!(printed("apps/ControllerRevision", owned), "r|statefulset.apps/S|1|<unknown>");
    check("autoscaling/Scale", r#""spec":{"replicas":3},"status":{"replicas":2}"#, "x|3|2|24h");
    check(
        "batch/Job",
        r#""spec":{"completions":3},"status":{"succeeded":1,"startTime":"2026-01-01T23:58:00Z"}"#,
        "x|Running|1/3|2m|24h|||<none>",
    );
    check(
        "batch/Job",
        r#""spec":{"parallelism":2},"status":{"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:00:05Z","conditions":[{"type":"Suspended","status":"False"},{"type":"Complete","status":"True"}]}"#,
        "x|Complete|0/1 of 2|5s|24h|||<none>",
    );
    check("batch/Job", "", "x|Running|0/1||24h|||<none>");
    check(
        "batch/CronJob",
        r#""spec":{"schedule":"@daily","suspend":false},"status":{"active":[{},{}]}"#,
        "x|@daily|<none>|False|2|<none>|24h|||<none>",
    );
    check(
        "policy/PodDisruptionBudget",
        r#""spec":{"minAvailable":"50%"},"status":{"disruptionsAllowed":1}"#,
        "x|50%|N/A|1|24h",
    );
}

#[test]
fn autoscalers() {
    let check = |specs: &str, statuses: &str, expected: &str| {
        let members = format!(
            r#""spec":{{"scaleTargetRef":{{"kind":"Deployment","name":"d"}},"maxReplicas":5,"metrics":[{specs}]}},"status":{{"currentMetrics":[{statuses}]}}"#
        );
        check(
            "autoscaling/HorizontalPodAutoscaler",
            &members,
            &format!("x|Deployment/d|{expected}|<unset>|5|0|24h"),
        );
    };
    let cpu = r#"{"type":"Resource","resource":{"name":"cpu","target":{"averageUtilization":80}}}"#;
    let memory = r#"{"type":"Resource","resource":{"name":"memory","target":{"averageValue":"1Gi"}}}"#;
    check("", "", "<none>");
    check(cpu, "", "cpu: <unknown>/80%");
    check(cpu, r#"{"resource":{"current":{"averageUtilization":7}}}"#, "cpu: 7%/80%");
    check(
        &format!("{cpu},{memory},{cpu}"),
        r#"{},{"resource":{"current":{"averageValue":"5"}}}"#,
        "cpu: <unknown>/80%, memory: 5/1Gi + 1 more...",
    );
    check(
        r#"{"type":"Pods","pods":{"target":{"averageValue":"10"}}}"#,
        r#"{"pods":{"current":{"averageValue":"3"}}}"#,
        "3/10",
    );
    check(r#"{"type":"External","external":{"target":{"value":"10"}}}"#, "", "<unknown>/10");
    check(
        r#"{"type":"Object","object":{"target":{"averageValue":"10"}}}"#,
        r#"{"object":{"current":{"value":"1"}}}"#,
        "<unknown>/10 (avg)",
    );
    check(r#"{"type":"New"}"#, "", "<unknown type>");
}

#[test]
fn other_groups() {
    check(
        "apiregistration.k8s.io/APIService",
        r#""status":{"conditions":[{"type":"Available","status":"True","reason":"Local"}]}"#,
        "x|Local|True|24h",
    );
    check(
        "apiregistration.k8s.io/APIService",
        r#""spec":{"service":{"namespace":"n","name":"s"}},"status":{"conditions":[{"type":"Available","status":"False","reason":"Gone"}]}"#,
        "x|n/s|False (Gone)|24h",
    );
    check(
        "certificates.k8s.io/CertificateSigningRequest",
        r#""spec":{"signerName":"s","username":"u","expirationSeconds":3600},"status":{"conditions":[{"type":"Approved"}],"certificate":"eA=="}"#,
        "x|24h|s|u|60m|Approved,Issued",
    );
    check("coordination.k8s.io/Lease", r#""spec":{"holderIdentity":"h"}"#, "x|h|24h");
    check(
        "coordination.k8s.io/LeaseCandidate",
        r#""spec":{"leaseName":"l","binaryVersion":"1.2.3"}"#,
        "x|l|1.2.3||24h",
    );
    check(
        "networking.k8s.io/IPAddress",
        r#""spec":{"parentRef":{"group":"G","resource":"services","namespace":"n","name":"s"}}"#,
        "x|services.g/n/s|24h",
    );
    check(
        "networking.k8s.io/Ingress",
        r#""spec":{"rules":[{"host":"a"},{},{"host":"b"},{"host":"c"},{"host":"d"}],"tls":[{}]}"#,
        "x|<none>|a,b,c + 2 more...||80, 443|24h",
    );
    check("networking.k8s.io/Ingress", r#""spec":{"ingressClassName":"n"}"#, "x|n|*||80|24h");
    check(
        "networking.k8s.io/IngressClass",
        r#""spec":{"controller":"c","parameters":{"apiGroup":"g","kind":"K","name":"n"}}"#,
        "x|c|K.g/n|24h",
    );
    check("networking.k8s.io/NetworkPolicy", r#""spec":{"podSelector":{}}"#, "x|<none>|24h");
    check(
        "networking.k8s.io/ServiceCIDR",
        r#""spec":{"cidrs":["10.0.0.0/24","fd00::/112"]}"#,
        "x|10.0.0.0/24,fd00::/112|24h",
    );
    check(
        "rbac.authorization.k8s.io/RoleBinding",
        r#""roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"u"},{"kind":"User","name":"v"},{"kind":"ServiceAccount","namespace":"n","name":"s"}]"#,
        "x|Role/r|24h|u, v||n/s",
    );
    check(
        "resource.k8s.io/ResourceClaim",
        r#""status":{"allocation":{"a":1},"reservedFor":[{}]}"#,
        "x|allocated,reserved|24h",
    );
    check("resource.k8s.io/ResourceClaim", "", "x|pending|24h");
    check(
        "scheduling.k8s.io/PriorityClass",
        r#""value":7,"globalDefault":true,"preemptionPolicy":"Never""#,
        "x|7|true|24h|Never",
    );
    check(
        "storage.k8s.io/CSIDriver",
        r#""spec":{"attachRequired":false,"tokenRequests":[{"audience":"a"}],"volumeLifecycleModes":["Persistent","Ephemeral"]}"#,
        "x|false|false|false|a|false|Persistent,Ephemeral|24h",
    );
    check("storage.k8s.io/StorageClass", r#""provisioner":"p""#, "x|p|Delete|Immediate|false|24h");
    let class = r#"{"metadata":{"name":"c","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"p"}"#;
    assert!(printed("storage.k8s.io/StorageClass", class).starts_with("c (default)|p|"));
    check(
        "flowcontrol.apiserver.k8s.io/FlowSchema",
        r#""spec":{"priorityLevelConfiguration":{"name":"p"},"matchingPrecedence":9,"distinguisherMethod":{"type":"ByUser"}},"status":{"conditions":[{"type":"Dangling","status":"False"}]}"#,
        "x|p|9|ByUser|24h|False",
    );
    check(
        "flowcontrol.apiserver.k8s.io/PriorityLevelConfiguration",
        r#""spec":{"type":"Limited","limited":{"nominalConcurrencyShares":30,"limitResponse":{"type":"Reject"}}}"#,
        "x|Limited|30|<none>|<none>|<none>|24h",
    );
    check(
        "admissionregistration.k8s.io/ValidatingAdmissionPolicy",
        r#""spec":{"validations":[{},{}],"paramKind":{"apiVersion":"v1","kind":"K"}}"#,
        "x|2|v1/K|24h",
    );
    check(
        "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding",
        r#""spec":{"policyName":"p","paramRef":{"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In","values":["v","w"]}]}}}"#,
        "x|p|&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[v w],},},}|24h",
    );
    check(
        "admissionregistration.k8s.io/MutatingAdmissionPolicyBinding",
        r#""spec":{"policyName":"p","paramRef":{"name":"n"}}"#,
        "x|p|*/n|24h",
    );
    check("admissionregistration.k8s.io/MutatingWebhookConfiguration", r#""webhooks":[{},{}]"#, "x|2|24h");
}

#[test]
fn columns_of_definitions() {
    let column = |name: &str, type_: &str, path: &str| Column {
        path: path.into(),
        ..columns::make_column(name, type_, "".into())
    };
    let printer = Printer::custom(&[
        column("Size", "integer", ".spec.size"),
        column("Version", "string", ".metadata.resourceVersion"),
        column("Broken", "string", ".spec[["),
        column("After", "string", ".spec.size"),
    ]);
    let names: Vec<&str> = printer.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["Name", "Size", "Version"]);
    assert_eq!(
        printer.columns()[1].description,
        "Custom resource definition column (in JSONPath format): .spec.size"
    );
    let object = printer.read(br#"{"metadata":{"name":"a"},"spec":{"size":4,"rest":"x"}}"#, 12).unwrap();
    let cells: Vec<String> =
        printer.row(&object, Timestamp::from_seconds(0)).cells.iter().map(cell_text).collect();
    assert_eq!(cells, ["a", "4", "12"]);
    let default = Printer::custom(&[]);
    assert_eq!((default.columns()[1].name.as_str(), default.columns()[1].type_.as_str()), ("Age", "date"));
}
