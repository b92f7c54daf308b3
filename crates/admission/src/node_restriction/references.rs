//! The API objects and token audiences that pods refer to.

use crate::ClusterState;
use crate::service_account::{names, names_secrets};
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

/// The first API object that a pod refers to. The error is for a volume of a type that is not known, which might refer to one.
pub(super) fn api_reference(pod: &Value) -> Result<Option<&'static str>, String> {
    if names(pod, &["spec", "serviceAccountName"]) {
        return Ok(Some("serviceaccounts"));
    }
    if names_secrets(pod) {
        return Ok(Some("secrets"));
    }
    if names_config_maps(pod) {
        return Ok(Some("configmaps"));
    }
    if !pod.items_at(&["spec", "resourceClaims"]).is_empty() {
        return Ok(Some("resourceclaims"));
    }
    let volumes = pod.items_at(&["spec", "volumes"]).iter();
    volumes.map(volume_reference).find(|found| !matches!(found, Ok(None))).unwrap_or(Ok(None))
}

fn names_config_maps(pod: &Value) -> bool {
    let of_containers = ["containers", "initContainers", "ephemeralContainers"].iter().any(|list| {
        pod.items_at(&["spec", list]).iter().any(|container| {
            container.items_at(&["env"]).iter().any(|e| names(e, &["valueFrom", "configMapKeyRef", "name"]))
                || container.items_at(&["envFrom"]).iter().any(|e| names(e, &["configMapRef", "name"]))
        })
    });
    let named = |source: &Value| names(source, &["configMap", "name"]);
    let projects = |v: &Value| v.items_at(&["projected", "sources"]).iter().any(named);
    of_containers || pod.items_at(&["spec", "volumes"]).iter().any(|v| named(v) || projects(v))
}

fn volume_reference(volume: &Value) -> Result<Option<&'static str>, String> {
    let has = |key: &str| volume.get(key).is_some();
    if PLAIN_VOLUMES.iter().any(|key| has(key)) {
        return Ok(None);
    }
    if let Some((_, what)) = REFERRING_VOLUMES.iter().find(|(key, _)| has(key)) {
        return Ok(Some(what));
    }
    let name = quoted(volume.str_at(&["name"]));
    if !has("projected") {
        return Err(format!("unknown volume type for volume  {name}"));
    }
    for source in volume.items_at(&["projected", "sources"]) {
        if let Some((_, what)) = PROJECTIONS.iter().find(|(key, _)| source.get(key).is_some()) {
            return Ok(Some(what));
        }
        if source.get("downwardAPI").is_none() {
            return Err(format!("unknown source for projected volume {name}"));
        }
    }
    Ok(None)
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
        match driver.and_then(|name| {
            if name.is_empty() { Ok(false) } else { requests_audience(&name, audience, cluster) }
        }) {
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

fn requests_audience(driver: &str, audience: &str, cluster: &dyn ClusterState) -> Result<bool, String> {
    let Some(found) = cluster.object("storage.k8s.io", "csidrivers", "", driver) else {
        return Err(format!("csidriver.storage.k8s.io {} not found", quoted(driver)));
    };
    Ok(found.items_at(&["spec", "tokenRequests"]).iter().any(|t| t.str_at(&["audience"]) == audience))
}
