//! Versions that the server knows but does not serve: bodies in them are of the wrong version, not of a kind that
//! nobody knows.

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

/// Whether the kind is known in a version that is not served.
pub(super) fn is_unserved(kind: &str, version: &GroupVersion) -> bool {
    let version = version.to_string();
    UNSERVED.iter().any(|(of, kinds)| *of == version && kinds.split(' ').any(|known| known == kind))
}

/// Whether every Go scheme knows the kind: those that belong to no group, which are all in `v1`.
pub(super) fn is_everywhere(kind: &str, version: &GroupVersion) -> bool {
    const KINDS: &str = "APIGroup APIGroupList APIResourceList APIVersions CreateOptions DeleteOptions GetOptions \
                         ListOptions PatchOptions Status UpdateOptions WatchEvent";
    version.group.is_empty() && version.version == "v1" && KINDS.split(' ').any(|known| known == kind)
}

/// Whether the main scheme knows the kind, which no resource has.
pub(super) fn is_only_a_body(kind: &str, version: &GroupVersion) -> bool {
    const KINDS: &str = "List NodeConfigSource NodeProxyOptions PodAttachOptions PodExecOptions PodLogOptions \
                         PodPortForwardOptions PodProxyOptions PodStatusResult RangeAllocation SerializedReference \
                         ServiceProxyOptions";
    version.group.is_empty() && version.version == "v1" && KINDS.split(' ').any(|known| known == kind)
}

/// Whether a kind may come in this version to where a newer one is expected: of evictions the fields stayed the same.
pub(super) fn is_still_taken(kind: &str, version: &GroupVersion) -> bool {
    kind == "Eviction" && version.group == "policy" && version.version == "v1beta1"
}

/// The group that a kind belongs to inside the server, whichever group it is served or was once served by.
pub(super) fn home_group<'a>(group: &'a str, kind: &str) -> &'a str {
    match (group, kind) {
        ("events.k8s.io", "Event") => "",
        ("extensions", "DaemonSet" | "Deployment" | "ReplicaSet") => "apps",
        ("apps" | "extensions", "Scale") => "autoscaling",
        ("extensions", "Ingress" | "NetworkPolicy") => "networking.k8s.io",
        _ => group,
    }
}
