//! The API objects and token audiences that pods refer to.

use crate::ClusterState;
use crate::service_account::names_secrets;
use pintle_meta::field::quoted;
use pintle_value::Value;

/// Volume types that refer to no API object, in addition to those that `names_secrets` handles.
const PLAIN_VOLUMES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];
/// Volume types that refer to API objects, with the text for the error.
const REFERRING_VOLUMES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];
const PROJECTIONS: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// In-tree volume types that are served by a CSI driver.
const MIGRATED_VOLUMES: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

/// The first API object that a pod refers to.
pub(super) fn api_reference(pod: &Value) -> Option<String> {
    if !pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
        return Some("serviceaccounts".into());
    }
    if names_secrets(pod) {
        return Some("secrets".into());
    }
    if names_config_maps(pod) {
        return Some("configmaps".into());
    }
    if !pod.items_at(&["spec", "resourceClaims"]).is_empty() {
        return Some("resourceclaims".into());
    }
    pod.items_at(&["spec", "volumes"]).iter().find_map(volume_reference)
}

fn names_config_maps(pod: &Value) -> bool {
    let of_containers = ["containers", "initContainers", "ephemeralContainers"].iter().any(|list| {
        pod.items_at(&["spec", list]).iter().any(|container| {
            container.items_at(&["env"]).iter().any(|e| e.at(&["valueFrom", "configMapKeyRef"]).is_some())
                || container.items_at(&["envFrom"]).iter().any(|e| e.get("configMapRef").is_some())
        })
    });
    let projects =
        |v: &Value| v.items_at(&["projected", "sources"]).iter().any(|s| s.get("configMap").is_some());
    of_containers
        || pod.items_at(&["spec", "volumes"]).iter().any(|v| v.get("configMap").is_some() || projects(v))
}

fn volume_reference(volume: &Value) -> Option<String> {
    let has = |key: &str| volume.get(key).is_some();
    if PLAIN_VOLUMES.iter().any(|key| has(key)) {
        return None;
    }
    if let Some((_, what)) = REFERRING_VOLUMES.iter().find(|(key, _)| has(key)) {
        return Some((*what).to_string());
    }
    if !has("projected") {
        return Some(format!("unknown volume type for volume  {}", quoted(volume.str_at(&["name"]))));
    }
    volume.items_at(&["projected", "sources"]).iter().find_map(|source| {
        let known = PROJECTIONS.iter().find(|(key, _)| source.get(key).is_some());
        known.map(|(_, what)| (*what).to_string())
    })
}

/// Returns whether a volume of the pod requests a token for this audience, directly or through its CSI driver. The
/// error names an object that is missing for the decision.
pub(super) fn has_audience(
    pod: &Value,
    audience: &str,
    namespace: &str,
    cluster: &dyn ClusterState,
) -> Result<bool, String> {
    let mut missing: Vec<String> = Vec::new();
    for volume in pod.items_at(&["spec", "volumes"]) {
        let projects = volume.items_at(&["projected", "sources"]).iter().any(|source| {
            source.get("serviceAccountToken").is_some_and(|token| token.str_at(&["audience"]) == audience)
        });
        let driver = driver(pod, volume, namespace, cluster);
        match driver.and_then(|name| if name.is_empty() { Ok(false) } else { asks(&name, audience, cluster) })
        {
            _ if projects => return Ok(true),
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(why) if missing.contains(&why) => {}
            Err(why) => missing.push(why),
        }
    }
    match missing.as_slice() {
        [] => Ok(false),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// The CSI driver of a volume: its own or that of the volume its claim is bound to; "" if there is none.
fn driver(
    pod: &Value,
    volume: &Value,
    namespace: &str,
    cluster: &dyn ClusterState,
) -> Result<String, String> {
    let claim = if volume.at(&["ephemeral", "volumeClaimTemplate"]).is_some() {
        format!("{}-{}", pod.str_at(&["metadata", "name"]), volume.str_at(&["name"]))
    } else if let Some(claim) = volume.get("persistentVolumeClaim") {
        claim.str_at(&["claimName"]).to_string()
    } else {
        return Ok(driver_of_source(volume));
    };
    let missing = |what: &str, name: &str| format!("{what} {} not found", quoted(name));
    let found = cluster.object("", "persistentvolumeclaims", namespace, &claim);
    let found = found.ok_or_else(|| missing("persistentvolumeclaim", &claim))?;
    let bound = found.str_at(&["spec", "volumeName"]);
    let bound = cluster
        .object("", "persistentvolumes", "", bound)
        .ok_or_else(|| missing("persistentvolume", bound))?;
    Ok(bound.get("spec").map(driver_of_source).unwrap_or_default())
}

/// The CSI driver of a volume source, also of an in-tree one that a driver serves; "" if there is none.
fn driver_of_source(source: &Value) -> String {
    let own = source.get("csi").map(|csi| csi.str_at(&["driver"]));
    let migrated = || MIGRATED_VOLUMES.into_iter().find(|(kind, _)| source.get(kind).is_some());
    own.or_else(|| migrated().map(|(_, driver)| driver)).unwrap_or_default().to_string()
}

fn asks(driver: &str, audience: &str, cluster: &dyn ClusterState) -> Result<bool, String> {
    let Some(found) = cluster.object("storage.k8s.io", "csidrivers", "", driver) else {
        return Err(format!("csidriver.storage.k8s.io {} not found", quoted(driver)));
    };
    Ok(found.items_at(&["spec", "tokenRequests"]).iter().any(|t| t.str_at(&["audience"]) == audience))
}
