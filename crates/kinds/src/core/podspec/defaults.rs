//! Defaults of pods and pod specs that depend on other fields; the others are in `data/defaults.txt`.

use super::{aggregate, image};
use crate::fill::{items, zero};
use pintle_value::Value;

/// The container lists of a pod spec.
pub(crate) const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// Legacy annotations for init containers.
const INIT_CONTAINER_ANNOTATIONS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// The defaults of a pod, which has a few more than a template.
pub(crate) fn pod(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec") {
        for list in ["containers", "initContainers"] {
            items(spec, list).iter_mut().for_each(requests_from_limits);
        }
        aggregate::default_pod_limits(spec);
        aggregate::default_pod_requests(spec);
        if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
            for list in ["containers", "initContainers"] {
                items(spec, list).iter_mut().for_each(host_ports);
            }
        }
        if spec.get("terminationGracePeriodSeconds").and_then(Value::as_int).is_some_and(|s| s < 0) {
            spec.set_at(&["terminationGracePeriodSeconds"], 1.into());
        }
    }
    drop_init_container_annotations(object);
}

/// Keeps the deprecated `serviceAccount` of a pod spec equal to `serviceAccountName`.
pub(crate) fn same_service_account(spec: &mut Value) {
    let name = match spec.str_at(&["serviceAccountName"]) {
        "" => spec.str_at(&["serviceAccount"]),
        name => name,
    };
    if !name.is_empty() {
        let name = Value::from(name);
        spec.set_at(&["serviceAccountName"], name.clone());
        spec.set_at(&["serviceAccount"], name);
    }
}

/// Drops the legacy annotations of a pod or template.
pub(crate) fn drop_init_container_annotations(object: &mut Value) {
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

/// The default pull policy of a container depends on the tag of its image.
pub(crate) fn image_pull_policy(container: &mut Value) {
    zero(container, "imagePullPolicy", pull_policy(container.str_at(&["image"])));
}

/// The default pull policy of a volume with the files of an image.
pub(crate) fn volume_pull_policy(source: &mut Value) {
    zero(source, "pullPolicy", pull_policy(source.str_at(&["reference"])));
}

fn pull_policy(reference: &str) -> &'static str {
    if image::tag(reference) == "latest" { "Always" } else { "IfNotPresent" }
}

/// A volume without a source is an empty directory.
pub(crate) fn empty_dir(volume: &mut Value) {
    let has_source = volume.as_object().is_some_and(|m| m.keys().any(|k| k != "name"));
    if !has_source {
        volume.set_at(&["emptyDir"], Value::object());
    }
}

/// Keeps `podIP` equal to the first of `podIPs`; if both are given and differ, `podIP` wins.
pub(crate) fn pod_ips(status: &mut Value) {
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
    use crate::defaults::of_type;
    use crate::testing::tree;
    use pintle_value::Value;

    fn pod(object: &mut Value) {
        of_type("core/v1.Pod").unwrap().apply(object);
    }

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
