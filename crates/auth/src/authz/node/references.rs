//! The objects that pods and volumes refer to and that their node must read. The order of sources and their precedence
//! follow kube-apiserver.

use super::graph::Named;
use pintle_value::Value;

/// The annotation of mirror pods. A node may create these, so they must not give it access to anything.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The objects that a pod refers to, as `namespace/name`.
pub(super) fn of_pod(pod: &Value, namespace: &str) -> Vec<(Named, String)> {
    if pod.at(&["metadata", "annotations", MIRROR]).is_some() {
        return Vec::new();
    }
    let mut out = Vec::new();
    let mut add = |kind: Named, name: &str| {
        if !name.is_empty() {
            out.push((kind, format!("{namespace}/{name}")));
        }
    };
    add(Named::ServiceAccount, pod.str_at(&["spec", "serviceAccountName"]));
    for secret in pod.items_at(&["spec", "imagePullSecrets"]) {
        add(Named::Secret, secret.str_at(&["name"]));
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in pod.items_at(&["spec", list]) {
            of_container(container, &mut add);
        }
    }
    for volume in pod.items_at(&["spec", "volumes"]) {
        of_volume(volume, pod.str_at(&["metadata", "name"]), &mut add);
    }
    for claim in pod.items_at(&["spec", "resourceClaims"]) {
        add(Named::ResourceClaim, resource_claim(pod, claim));
    }
    let extended = pod.str_at(&["status", "extendedResourceClaimStatus", "resourceClaimName"]);
    add(Named::ResourceClaim, extended);
    out
}

fn of_container(container: &Value, add: &mut impl FnMut(Named, &str)) {
    for source in container.items_at(&["envFrom"]) {
        add(Named::Secret, source.str_at(&["secretRef", "name"]));
        add(Named::ConfigMap, source.str_at(&["configMapRef", "name"]));
    }
    for variable in container.items_at(&["env"]) {
        add(Named::Secret, variable.str_at(&["valueFrom", "secretKeyRef", "name"]));
        add(Named::ConfigMap, variable.str_at(&["valueFrom", "configMapKeyRef", "name"]));
    }
}

fn of_volume(volume: &Value, pod_name: &str, add: &mut impl FnMut(Named, &str)) {
    const SECRETS: [[&str; 3]; 10] = [
        ["azureFile", "secretName", ""],
        ["cephfs", "secretRef", "name"],
        ["cinder", "secretRef", "name"],
        ["flexVolume", "secretRef", "name"],
        ["rbd", "secretRef", "name"],
        ["secret", "secretName", ""],
        ["scaleIO", "secretRef", "name"],
        ["iscsi", "secretRef", "name"],
        ["storageos", "secretRef", "name"],
        ["csi", "nodePublishSecretRef", "name"],
    ];
    for path in &SECRETS {
        let path: Vec<&str> = path.iter().copied().filter(|step| !step.is_empty()).collect();
        add(Named::Secret, volume.str_at(&path));
    }
    add(Named::ConfigMap, volume.str_at(&["configMap", "name"]));
    for source in volume.items_at(&["projected", "sources"]) {
        add(Named::Secret, source.str_at(&["secret", "name"]));
        add(Named::ConfigMap, source.str_at(&["configMap", "name"]));
    }
    let present = |key: &str| volume.get(key).is_some_and(|source| !source.is_null());
    if present("persistentVolumeClaim") {
        add(Named::PersistentVolumeClaim, volume.str_at(&["persistentVolumeClaim", "claimName"]));
    } else if present("ephemeral") {
        add(Named::PersistentVolumeClaim, &format!("{pod_name}-{}", volume.str_at(&["name"])));
    }
}

/// The name of a resource claim: from the pod's spec, or generated from a template, as the status says.
fn resource_claim<'a>(pod: &'a Value, claim: &'a Value) -> &'a str {
    let given = claim.str_at(&["resourceClaimName"]);
    if !given.is_empty() || claim.get("resourceClaimTemplateName").is_none() {
        return given;
    }
    let mut statuses = pod.items_at(&["status", "resourceClaimStatuses"]).iter();
    let made = statuses.find(|status| status.str_at(&["name"]) == claim.str_at(&["name"]));
    made.map_or("", |status| status.str_at(&["resourceClaimName"]))
}

/// The claim that a volume is bound to, and the secrets that nodes need for it. `None` if it is not bound.
pub(super) fn of_persistent_volume(volume: &Value) -> Option<(String, Vec<String>)> {
    let claim = volume.at(&["spec", "claimRef"]).filter(|claim| !claim.is_null())?;
    let claim_namespace = claim.str_at(&["namespace"]);
    let mut secrets = Vec::new();
    let mut add = |namespace: &str, name: &str| {
        if !name.is_empty() {
            secrets.push(format!("{namespace}/{name}"));
        }
    };
    let text = |path: &[&str]| volume.at(&["spec"]).map_or("", |spec| spec.str_at(path));
    let or_of_claim = |namespace| if str::is_empty(namespace) { claim_namespace } else { namespace };
    add(or_of_claim(text(&["azureFile", "secretNamespace"])), text(&["azureFile", "secretName"]));
    for source in ["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"] {
        let namespace = or_of_claim(text(&[source, "secretRef", "namespace"]));
        add(namespace, text(&[source, "secretRef", "name"]));
    }
    // Nodes do not need the secrets of the CSI controller.
    for (source, reference) in [
        ("cinder", "secretRef"),
        ("storageos", "secretRef"),
        ("csi", "nodePublishSecretRef"),
        ("csi", "nodeStageSecretRef"),
        ("csi", "nodeExpandSecretRef"),
    ] {
        add(text(&[source, reference, "namespace"]), text(&[source, reference, "name"]));
    }
    Some((format!("{claim_namespace}/{}", claim.str_at(&["name"])), secrets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    fn tree(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap().value
    }

    #[test]
    fn pods_name_objects_in_many_places() {
        let pod = tree(
            r#"{"metadata":{"name":"p"},"spec":{"serviceAccountName":"a","imagePullSecrets":[{"name":"pull"}],
            "containers":[{"envFrom":[{"secretRef":{"name":"s1"}},{"configMapRef":{"name":"c1"}}],
              "env":[{"name":"X","valueFrom":{"secretKeyRef":{"name":"s2","key":"k"}}}]}],
            "ephemeralContainers":[{"env":[{"name":"X","valueFrom":{"configMapKeyRef":{"name":"c2","key":"k"}}}]}],
            "volumes":[{"name":"v","csi":{"nodePublishSecretRef":{"name":"s3"}}},
              {"name":"w","projected":{"sources":[{"secret":{"name":"s4"}},{"configMap":{"name":"c3"}}]}},
              {"name":"e","ephemeral":{}},{"name":"d","persistentVolumeClaim":{"claimName":"d"}}],
            "resourceClaims":[{"name":"r","resourceClaimTemplateName":"t"},{"name":"q","resourceClaimName":"given"}]},
            "status":{"resourceClaimStatuses":[{"name":"r","resourceClaimName":"made"}]}}"#,
        );
        let found: Vec<String> =
            of_pod(&pod, "x").iter().map(|(kind, key)| format!("{kind:?} {key}")).collect();
        let want = [
            "ServiceAccount x/a",
            "Secret x/pull",
            "Secret x/s1",
            "ConfigMap x/c1",
            "Secret x/s2",
            "ConfigMap x/c2",
            "Secret x/s3",
            "Secret x/s4",
            "ConfigMap x/c3",
            "PersistentVolumeClaim x/p-e",
            "PersistentVolumeClaim x/d",
            "ResourceClaim x/made",
            "ResourceClaim x/given",
        ];
        assert_eq!(found, want);
        let mirror = tree(
            r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":""}},"spec":{"serviceAccountName":"a"}}"#,
        );
        assert!(of_pod(&mirror, "x").is_empty());
    }

    #[test]
    fn volumes_name_the_secrets_of_nodes() {
        for (spec, want) in [
            (r#"{"csi":{"nodePublishSecretRef":{"name":"a","namespace":"y"}}}"#, None),
            (
                r#"{"claimRef":{"namespace":"x","name":"c"},"csi":{"controllerPublishSecretRef":{"name":"no","namespace":"y"},"nodeStageSecretRef":{"name":"b","namespace":"y"}}}"#,
                Some(("x/c", vec!["y/b"])),
            ),
            (
                r#"{"claimRef":{"namespace":"x","name":"c"},"rbd":{"secretRef":{"name":"r"}}}"#,
                Some(("x/c", vec!["x/r"])),
            ),
        ] {
            let found = of_persistent_volume(&tree(&format!("{{\"spec\":{spec}}}")));
            let want = want.map(|(claim, secrets)| {
                (claim.to_string(), secrets.into_iter().map(str::to_string).collect::<Vec<_>>())
            });
            assert_eq!(found, want, "{spec}");
        }
    }
}
