//! Defaults of pods and pod specs.

use super::{aggregate, image};
use crate::fill::{absent, items, round_requirements, round_resource_list, zero};
use pintle_value::Value;

/// The container lists of a pod spec.
pub(crate) const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
/// The default permission bits of files in volumes.
const FILE_MODE: i64 = 0o644;
/// Legacy annotations for init containers.
const INIT_CONTAINER_ANNOTATIONS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// Applies the defaults of a pod, which has a few more than a template.
pub(crate) fn pod(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec") {
        for list in ["containers", "initContainers"] {
            items(spec, list).iter_mut().for_each(requests_from_limits);
        }
        aggregate::default_pod_limits(spec);
        aggregate::default_pod_requests(spec);
        absent(spec, "enableServiceLinks", true);
        if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
            for list in ["containers", "initContainers"] {
                items(spec, list).iter_mut().for_each(host_ports);
            }
        }
        pod_spec(spec);
        if spec.get("terminationGracePeriodSeconds").and_then(Value::as_int).is_some_and(|s| s < 0) {
            spec.set_at(&["terminationGracePeriodSeconds"], 1.into());
        }
    }
    if let Some(status) = object.get_mut("status") {
        pod_status(status);
    }
    drop_init_container_annotations(object);
}

/// Applies the defaults of a workload's `template`.
pub(crate) fn template(template: &mut Value) {
    if let Some(spec) = template.get_mut("spec") {
        pod_spec(spec);
    }
    drop_init_container_annotations(template);
}

fn pod_spec(spec: &mut Value) {
    zero(spec, "dnsPolicy", "ClusterFirst");
    zero(spec, "restartPolicy", "Always");
    absent(spec, "securityContext", Value::object());
    absent(spec, "terminationGracePeriodSeconds", 30);
    zero(spec, "schedulerName", "default-scheduler");
    items(spec, "volumes").iter_mut().for_each(volume);
    for list in CONTAINER_LISTS {
        items(spec, list).iter_mut().for_each(container);
    }
    round_resource_list(spec.get_mut("overhead"));
    round_requirements(spec, "resources");
    same_service_account(spec);
}

/// Keeps the deprecated `serviceAccount` equal to `serviceAccountName`.
fn same_service_account(spec: &mut Value) {
    let name = match spec.str_at(&["serviceAccountName"]) {
        "" => spec.str_at(&["serviceAccount"]),
        name => name,
    };
    let name = Value::from(name);
    spec.set_at(&["serviceAccountName"], name.clone());
    spec.set_at(&["serviceAccount"], name);
}

fn drop_init_container_annotations(object: &mut Value) {
    let Some(Value::Object(annotations)) = object.at_mut(&["metadata", "annotations"]) else { return };
    annotations.retain(|key, _| !INIT_CONTAINER_ANNOTATIONS.contains(&key));
}

fn requests_from_limits(container: &mut Value) {
    let Some(Value::Object(limits)) = container.at(&["resources", "limits"]) else { return };
    let limits = limits.clone();
    for (name, value) in limits.iter() {
        if container.at(&["resources", "requests", name]).is_none() {
            container.set_at(&["resources", "requests", name], value.clone());
        }
    }
}

fn host_ports(container: &mut Value) {
    for port in items(container, "ports") {
        let number = port.get("containerPort").and_then(Value::as_int).unwrap_or(0);
        zero(port, "hostPort", number);
    }
}

fn container(container: &mut Value) {
    zero(container, "imagePullPolicy", pull_policy(container.str_at(&["image"])));
    zero(container, "terminationMessagePath", "/dev/termination-log");
    zero(container, "terminationMessagePolicy", "File");
    for port in items(container, "ports") {
        zero(port, "protocol", "TCP");
    }
    for env in items(container, "env") {
        field_ref(env.at_mut(&["valueFrom", "fieldRef"]));
        if let Some(file) = env.at_mut(&["valueFrom", "fileKeyRef"]) {
            absent(file, "optional", false);
        }
    }
    round_requirements(container, "resources");
    for name in PROBES {
        if let Some(handler) = container.get_mut(name) {
            probe(handler);
        }
    }
    for name in ["postStart", "preStop"] {
        http_get(container.at_mut(&["lifecycle", name, "httpGet"]));
    }
}

fn pull_policy(reference: &str) -> &'static str {
    if image::tag(reference) == "latest" { "Always" } else { "IfNotPresent" }
}

fn probe(probe: &mut Value) {
    zero(probe, "timeoutSeconds", 1);
    zero(probe, "periodSeconds", 10);
    zero(probe, "successThreshold", 1);
    zero(probe, "failureThreshold", 3);
    http_get(probe.get_mut("httpGet"));
    if let Some(grpc) = probe.get_mut("grpc") {
        absent(grpc, "service", "");
    }
}

fn http_get(action: Option<&mut Value>) {
    let Some(action) = action else { return };
    zero(action, "path", "/");
    zero(action, "scheme", "HTTP");
}

fn field_ref(selector: Option<&mut Value>) {
    if let Some(selector) = selector {
        zero(selector, "apiVersion", "v1");
    }
}

fn volume(volume: &mut Value) {
    let has_source = volume.as_object().is_some_and(|m| m.keys().any(|k| k != "name"));
    if !has_source {
        volume.set_at(&["emptyDir"], Value::object());
    }
    let Some(Value::Object(sources)) = Some(volume) else { return };
    for (name, source) in sources.iter_mut() {
        volume_source(name, source);
    }
}

fn volume_source(name: &str, source: &mut Value) {
    match name {
        "image" => zero(source, "pullPolicy", pull_policy(source.str_at(&["reference"]))),
        "hostPath" => absent(source, "type", ""),
        "secret" | "configMap" => absent(source, "defaultMode", FILE_MODE),
        "downwardAPI" => {
            absent(source, "defaultMode", FILE_MODE);
            downward_items(source);
        }
        "projected" => {
            absent(source, "defaultMode", FILE_MODE);
            items(source, "sources").iter_mut().for_each(projection);
        }
        "iscsi" => zero(source, "iscsiInterface", "default"),
        "rbd" => {
            zero(source, "pool", "rbd");
            zero(source, "user", "admin");
            zero(source, "keyring", "/etc/ceph/keyring");
        }
        "azureDisk" => {
            absent(source, "cachingMode", "ReadWrite");
            absent(source, "fsType", "ext4");
            absent(source, "readOnly", false);
            absent(source, "kind", "Shared");
        }
        "scaleIO" => {
            zero(source, "storageMode", "ThinProvisioned");
            zero(source, "fsType", "xfs");
        }
        "ephemeral" => {
            if let Some(spec) = source.at_mut(&["volumeClaimTemplate", "spec"]) {
                claim_spec(spec);
            }
        }
        _ => {}
    }
}

/// Applies the defaults of a PersistentVolumeClaim's spec.
pub(crate) fn claim_spec(spec: &mut Value) {
    absent(spec, "volumeMode", "Filesystem");
    round_requirements(spec, "resources");
}

fn downward_items(source: &mut Value) {
    for item in items(source, "items") {
        field_ref(item.get_mut("fieldRef"));
    }
}

fn projection(source: &mut Value) {
    if let Some(downward) = source.get_mut("downwardAPI") {
        downward_items(downward);
    }
    if let Some(token) = source.get_mut("serviceAccountToken") {
        absent(token, "expirationSeconds", 3600);
    }
}

fn pod_status(status: &mut Value) {
    for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in items(status, list) {
            round_resource_list(container.get_mut("allocatedResources"));
            round_requirements(container, "resources");
        }
    }
    round_resource_list(status.get_mut("allocatedResources"));
    round_requirements(status, "resources");
    pod_ips(status);
}

/// Keeps `podIP` equal to the first of `podIPs`; if both are given and differ, `podIP` wins.
fn pod_ips(status: &mut Value) {
    let first = status.items_at(&["podIPs"]).first().map(|ip| ip.str_at(&["ip"]).to_string());
    let single = status.str_at(&["podIP"]).to_string();
    if !single.is_empty() && first.as_deref() != Some(&single) {
        let mut ip = Value::object();
        ip.set_at(&["ip"], single.into());
        status.set_at(&["podIPs"], Value::Array(vec![ip]));
    } else if let Some(first) = first {
        status.set_at(&["podIP"], first.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn volumes_probes_and_resources_get_their_defaults() {
        let mut object = tree(
            r#"{"spec":{"hostNetwork":true,
              "volumes":[{"name":"a"},{"name":"b","secret":{"secretName":"s"}},{"name":"c","hostPath":{"path":"/"}}],
              "containers":[{"name":"c","image":"i:1","ports":[{"containerPort":80}],
                "livenessProbe":{"httpGet":{"port":1}},"resources":{"limits":{"cpu":"1.5m"}}}]}}"#,
        );
        pod(&mut object);
        let spec = object.get("spec").unwrap();
        assert_eq!(
            spec.get("volumes"),
            Some(&tree(
                r#"[{"name":"a","emptyDir":{}},{"name":"b","secret":{"secretName":"s","defaultMode":420}},{"name":"c","hostPath":{"path":"/","type":""}}]"#
            ))
        );
        let container = &spec.items_at(&["containers"])[0];
        assert_eq!(container.str_at(&["imagePullPolicy"]), "IfNotPresent");
        assert_eq!(
            container.get("ports"),
            Some(&tree(r#"[{"containerPort":80,"hostPort":80,"protocol":"TCP"}]"#))
        );
        assert_eq!(
            container.get("livenessProbe"),
            Some(&tree(
                r#"{"httpGet":{"port":1,"path":"/","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}"#
            ))
        );
        assert_eq!(
            container.get("resources"),
            Some(&tree(r#"{"limits":{"cpu":"2m"},"requests":{"cpu":"2m"}}"#))
        );
    }

    #[test]
    fn a_pod_with_limits_requests_what_its_containers_do() {
        let mut object = tree(
            r#"{"spec":{"resources":{"limits":{"cpu":"4","memory":"1Gi"}},
              "initContainers":[{"name":"i","resources":{"requests":{"cpu":"3"}}}],
              "containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}},{"name":"d","resources":{"requests":{"cpu":"1"}}}]}}"#,
        );
        pod(&mut object);
        assert_eq!(
            object.at(&["spec", "resources", "requests"]),
            Some(&tree(r#"{"cpu":"3","memory":"1Gi"}"#))
        );
    }
}
