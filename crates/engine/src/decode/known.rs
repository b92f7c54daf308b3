//! Versions that the server knows but does not serve. A body in one of them has the wrong version; it is not of an
//! unknown kind.

use pintle_meta::GroupVersion;

/// Kinds of each such version.
const UNSERVED: &[(&str, &str)] = &[
    (
        "admissionregistration.k8s.io/v1alpha1",
        "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding",
    ),
    (
        "admissionregistration.k8s.io/v1beta1",
        "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
    ),
    ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"),
    ("apiregistration.k8s.io/v1beta1", "APIService"),
    ("apps/v1beta1", "ControllerRevision Deployment Scale StatefulSet"),
    ("apps/v1beta2", "ControllerRevision DaemonSet Deployment ReplicaSet Scale StatefulSet"),
    ("authentication.k8s.io/v1alpha1", "SelfSubjectReview"),
    ("authentication.k8s.io/v1beta1", "SelfSubjectReview TokenReview"),
    (
        "authorization.k8s.io/v1beta1",
        "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    ),
    ("batch/v1beta1", "CronJob"),
    ("certificates.k8s.io/v1alpha1", "ClusterTrustBundle"),
    ("certificates.k8s.io/v1beta1", "CertificateSigningRequest ClusterTrustBundle PodCertificateRequest"),
    ("coordination.k8s.io/v1alpha2", "LeaseCandidate"),
    ("coordination.k8s.io/v1beta1", "Lease LeaseCandidate"),
    ("discovery.k8s.io/v1beta1", "EndpointSlice"),
    ("events.k8s.io/v1beta1", "Event"),
    ("extensions/v1beta1", "DaemonSet Deployment Ingress NetworkPolicy ReplicaSet Scale"),
    ("flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io/v1beta2", "FlowSchema PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema PriorityLevelConfiguration"),
    ("networking.k8s.io/v1beta1", "IPAddress Ingress IngressClass ServiceCIDR"),
    ("node.k8s.io/v1alpha1", "RuntimeClass"),
    ("node.k8s.io/v1beta1", "RuntimeClass"),
    ("policy/v1beta1", "Eviction PodDisruptionBudget"),
    ("rbac.authorization.k8s.io/v1alpha1", "ClusterRole ClusterRoleBinding Role RoleBinding"),
    ("rbac.authorization.k8s.io/v1beta1", "ClusterRole ClusterRoleBinding Role RoleBinding"),
    ("resource.k8s.io/v1alpha3", "DeviceTaintRule ResourcePoolStatusRequest"),
    ("resource.k8s.io/v1beta1", "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice"),
    (
        "resource.k8s.io/v1beta2",
        "DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice",
    ),
    ("scheduling.k8s.io/v1alpha2", "PodGroup Workload"),
    ("scheduling.k8s.io/v1beta1", "PriorityClass"),
    ("storage.k8s.io/v1alpha1", "CSIStorageCapacity VolumeAttachment VolumeAttributesClass"),
    (
        "storage.k8s.io/v1beta1",
        "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass",
    ),
    ("storagemigration.k8s.io/v1beta1", "StorageVersionMigration"),
];

/// Returns whether the kind exists in a version that is not served.
pub(super) fn is_unserved(kind: &str, version: &GroupVersion) -> bool {
    let version = version.to_string();
    let has = |kinds: &str| is_in_every_version(kind) || kinds.split(' ').any(|known| known == kind);
    UNSERVED.iter().any(|(unserved, kinds)| *unserved == version && has(kinds))
}

/// Returns whether every Go scheme contains the kind in any version, as kinds without a version are.
pub(super) fn is_unversioned(kind: &str) -> bool {
    matches!(kind, "APIGroup" | "APIGroupList" | "APIResourceList" | "APIVersions" | "Status")
}

/// Returns whether each version that a Go scheme knows has the kind.
pub(crate) fn is_in_every_version(kind: &str) -> bool {
    const KINDS: &str =
        "CreateOptions DeleteOptions GetOptions ListOptions PatchOptions UpdateOptions WatchEvent";
    KINDS.split(' ').any(|known| known == kind)
}

/// Returns whether every Go scheme contains the kind in this version.
pub(super) fn is_everywhere(kind: &str, version: &GroupVersion) -> bool {
    is_unversioned(kind) || (version.group.is_empty() && version.version == "v1" && is_in_every_version(kind))
}

/// Returns whether the main scheme contains the kind although no resource has it.
pub(super) fn is_only_a_body(kind: &str, version: &GroupVersion) -> bool {
    const KINDS: &str = "List NodeConfigSource NodeProxyOptions PodAttachOptions PodExecOptions PodLogOptions \
                         PodPortForwardOptions PodProxyOptions PodStatusResult RangeAllocation SerializedReference \
                         ServiceProxyOptions";
    match version.to_string().as_str() {
        "v1" => KINDS.split(' ').any(|known| known == kind),
        "admission.k8s.io/v1" | "admission.k8s.io/v1beta1" => kind == "AdmissionReview",
        "authentication.k8s.io/v1" => kind == "TokenRequest",
        "autoscaling/v1" => kind == "Scale",
        "imagepolicy.k8s.io/v1alpha1" => kind == "ImageReview",
        "policy/v1" => kind == "Eviction",
        _ => false,
    }
}

/// Returns whether a body in this older version is accepted where a newer one is expected. The fields of an Eviction
/// are the same in both.
pub(super) fn is_still_taken(kind: &str, version: &GroupVersion) -> bool {
    kind == "Eviction" && version.group == "policy" && version.version == "v1beta1"
}

/// The group that a kind belongs to internally, whichever group serves it or used to serve it.
pub(super) fn home_group<'a>(group: &'a str, kind: &str) -> &'a str {
    match (group, kind) {
        ("events.k8s.io", "Event") => "",
        ("extensions", "DaemonSet" | "Deployment" | "ReplicaSet") => "apps",
        ("apps" | "extensions", "Scale") => "autoscaling",
        ("extensions", "Ingress" | "NetworkPolicy") => "networking.k8s.io",
        _ => group,
    }
}
