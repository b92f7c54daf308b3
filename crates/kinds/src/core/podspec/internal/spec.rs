//! The pod spec and template in Go's internal types.

use super::containers::{
    APP_ARMOR_PROFILE, CONTAINER, EPHEMERAL_CONTAINER, RESOURCE_REQUIREMENTS, SE_LINUX_OPTIONS,
    SECCOMP_PROFILE, WINDOWS_SECURITY_CONTEXT_OPTIONS,
};
use super::meta::{LABEL_SELECTOR, OBJECT_META};
use super::volumes::{LOCAL_OBJECT_REFERENCE, VOLUME};
use crate::error_text::{FLAG, Field, Kind, NULL, NUMBER, TEXT};

/// `Sysctl`
pub(crate) const SYSCTL: &[Field] = &[Field("name", "Name", TEXT), Field("value", "Value", TEXT)];
/// `PodSecurityContext`
pub(crate) const POD_SECURITY_CONTEXT: &[Field] = &[
    Field("hostNetwork", "HostNetwork", FLAG),
    Field("hostPID", "HostPID", FLAG),
    Field("hostIPC", "HostIPC", FLAG),
    Field("shareProcessNamespace", "ShareProcessNamespace", NULL),
    Field("hostUsers", "HostUsers", NULL),
    Field("seLinuxOptions", "SELinuxOptions", Kind::Struct(SE_LINUX_OPTIONS)),
    Field("windowsOptions", "WindowsOptions", Kind::Struct(WINDOWS_SECURITY_CONTEXT_OPTIONS)),
    Field("runAsUser", "RunAsUser", NULL),
    Field("runAsGroup", "RunAsGroup", NULL),
    Field("runAsNonRoot", "RunAsNonRoot", NULL),
    Field("supplementalGroups", "SupplementalGroups", NULL),
    Field("supplementalGroupsPolicy", "SupplementalGroupsPolicy", NULL),
    Field("fsGroup", "FSGroup", NULL),
    Field("fsGroupChangePolicy", "FSGroupChangePolicy", NULL),
    Field("sysctls", "Sysctls", Kind::List(SYSCTL)),
    Field("seccompProfile", "SeccompProfile", Kind::Struct(SECCOMP_PROFILE)),
    Field("appArmorProfile", "AppArmorProfile", Kind::Struct(APP_ARMOR_PROFILE)),
    Field("seLinuxChangePolicy", "SELinuxChangePolicy", NULL),
];
/// `NodeSelectorRequirement`
pub(crate) const NODE_SELECTOR_REQUIREMENT: &[Field] =
    &[Field("key", "Key", TEXT), Field("operator", "Operator", TEXT), Field("values", "Values", NULL)];
/// `NodeSelectorTerm`
pub(crate) const NODE_SELECTOR_TERM: &[Field] = &[
    Field("matchExpressions", "MatchExpressions", Kind::List(NODE_SELECTOR_REQUIREMENT)),
    Field("matchFields", "MatchFields", Kind::List(NODE_SELECTOR_REQUIREMENT)),
];
/// `NodeSelector`
pub(crate) const NODE_SELECTOR: &[Field] =
    &[Field("nodeSelectorTerms", "NodeSelectorTerms", Kind::List(NODE_SELECTOR_TERM))];
/// `PreferredSchedulingTerm`
pub(crate) const PREFERRED_SCHEDULING_TERM: &[Field] =
    &[Field("weight", "Weight", NUMBER), Field("preference", "Preference", Kind::Value(NODE_SELECTOR_TERM))];
/// `NodeAffinity`
pub(crate) const NODE_AFFINITY: &[Field] = &[
    Field(
        "requiredDuringSchedulingIgnoredDuringExecution",
        "RequiredDuringSchedulingIgnoredDuringExecution",
        Kind::Struct(NODE_SELECTOR),
    ),
    Field(
        "preferredDuringSchedulingIgnoredDuringExecution",
        "PreferredDuringSchedulingIgnoredDuringExecution",
        Kind::List(PREFERRED_SCHEDULING_TERM),
    ),
];
/// `PodAffinityTerm`
pub(crate) const POD_AFFINITY_TERM: &[Field] = &[
    Field("labelSelector", "LabelSelector", Kind::Struct(LABEL_SELECTOR)),
    Field("namespaces", "Namespaces", NULL),
    Field("topologyKey", "TopologyKey", TEXT),
    Field("namespaceSelector", "NamespaceSelector", Kind::Struct(LABEL_SELECTOR)),
    Field("matchLabelKeys", "MatchLabelKeys", NULL),
    Field("mismatchLabelKeys", "MismatchLabelKeys", NULL),
];
/// `WeightedPodAffinityTerm`
pub(crate) const WEIGHTED_POD_AFFINITY_TERM: &[Field] = &[
    Field("weight", "Weight", NUMBER),
    Field("podAffinityTerm", "PodAffinityTerm", Kind::Value(POD_AFFINITY_TERM)),
];
/// `PodAffinity`
pub(crate) const POD_AFFINITY: &[Field] = &[
    Field(
        "requiredDuringSchedulingIgnoredDuringExecution",
        "RequiredDuringSchedulingIgnoredDuringExecution",
        Kind::List(POD_AFFINITY_TERM),
    ),
    Field(
        "preferredDuringSchedulingIgnoredDuringExecution",
        "PreferredDuringSchedulingIgnoredDuringExecution",
        Kind::List(WEIGHTED_POD_AFFINITY_TERM),
    ),
];
/// `PodAntiAffinity`
pub(crate) const POD_ANTI_AFFINITY: &[Field] = &[
    Field(
        "requiredDuringSchedulingIgnoredDuringExecution",
        "RequiredDuringSchedulingIgnoredDuringExecution",
        Kind::List(POD_AFFINITY_TERM),
    ),
    Field(
        "preferredDuringSchedulingIgnoredDuringExecution",
        "PreferredDuringSchedulingIgnoredDuringExecution",
        Kind::List(WEIGHTED_POD_AFFINITY_TERM),
    ),
];
/// `Affinity`
pub(crate) const AFFINITY: &[Field] = &[
    Field("nodeAffinity", "NodeAffinity", Kind::Struct(NODE_AFFINITY)),
    Field("podAffinity", "PodAffinity", Kind::Struct(POD_AFFINITY)),
    Field("podAntiAffinity", "PodAntiAffinity", Kind::Struct(POD_ANTI_AFFINITY)),
];
/// `Toleration`
pub(crate) const TOLERATION: &[Field] = &[
    Field("key", "Key", TEXT),
    Field("operator", "Operator", TEXT),
    Field("value", "Value", TEXT),
    Field("effect", "Effect", TEXT),
    Field("tolerationSeconds", "TolerationSeconds", NULL),
];
/// `HostAlias`
pub(crate) const HOST_ALIAS: &[Field] = &[Field("ip", "IP", TEXT), Field("hostnames", "Hostnames", NULL)];
/// `PodDnsConfigOption`
pub(crate) const POD_DNS_CONFIG_OPTION: &[Field] =
    &[Field("name", "Name", TEXT), Field("value", "Value", NULL)];
/// `PodDnsConfig`
pub(crate) const POD_DNS_CONFIG: &[Field] = &[
    Field("nameservers", "Nameservers", NULL),
    Field("searches", "Searches", NULL),
    Field("options", "Options", Kind::List(POD_DNS_CONFIG_OPTION)),
];
/// `PodReadinessGate`
pub(crate) const POD_READINESS_GATE: &[Field] = &[Field("conditionType", "ConditionType", TEXT)];
/// `TopologySpreadConstraint`
pub(crate) const TOPOLOGY_SPREAD_CONSTRAINT: &[Field] = &[
    Field("maxSkew", "MaxSkew", NUMBER),
    Field("topologyKey", "TopologyKey", TEXT),
    Field("whenUnsatisfiable", "WhenUnsatisfiable", TEXT),
    Field("labelSelector", "LabelSelector", Kind::Struct(LABEL_SELECTOR)),
    Field("minDomains", "MinDomains", NULL),
    Field("nodeAffinityPolicy", "NodeAffinityPolicy", NULL),
    Field("nodeTaintsPolicy", "NodeTaintsPolicy", NULL),
    Field("matchLabelKeys", "MatchLabelKeys", NULL),
];
/// `PodOs`
pub(crate) const POD_OS: &[Field] = &[Field("name", "Name", TEXT)];
/// `PodSchedulingGate`
pub(crate) const POD_SCHEDULING_GATE: &[Field] = &[Field("name", "Name", TEXT)];
/// `PodResourceClaim`
pub(crate) const POD_RESOURCE_CLAIM: &[Field] = &[
    Field("name", "Name", TEXT),
    Field("resourceClaimName", "ResourceClaimName", NULL),
    Field("resourceClaimTemplateName", "ResourceClaimTemplateName", NULL),
];
/// `PodSchedulingGroup`
pub(crate) const POD_SCHEDULING_GROUP: &[Field] = &[Field("podGroupName", "PodGroupName", NULL)];
/// `PodSpec`
pub(crate) const POD_SPEC: &[Field] = &[
    Field("volumes", "Volumes", Kind::List(VOLUME)),
    Field("initContainers", "InitContainers", Kind::List(CONTAINER)),
    Field("containers", "Containers", Kind::List(CONTAINER)),
    Field("ephemeralContainers", "EphemeralContainers", Kind::List(EPHEMERAL_CONTAINER)),
    Field("restartPolicy", "RestartPolicy", TEXT),
    Field("terminationGracePeriodSeconds", "TerminationGracePeriodSeconds", NULL),
    Field("activeDeadlineSeconds", "ActiveDeadlineSeconds", NULL),
    Field("dnsPolicy", "DNSPolicy", TEXT),
    Field("nodeSelector", "NodeSelector", NULL),
    Field("serviceAccountName", "ServiceAccountName", TEXT),
    Field("automountServiceAccountToken", "AutomountServiceAccountToken", NULL),
    Field("nodeName", "NodeName", TEXT),
    Field("securityContext", "SecurityContext", Kind::Struct(POD_SECURITY_CONTEXT)),
    Field("imagePullSecrets", "ImagePullSecrets", Kind::List(LOCAL_OBJECT_REFERENCE)),
    Field("hostname", "Hostname", TEXT),
    Field("subdomain", "Subdomain", TEXT),
    Field("setHostnameAsFQDN", "SetHostnameAsFQDN", NULL),
    Field("affinity", "Affinity", Kind::Struct(AFFINITY)),
    Field("schedulerName", "SchedulerName", TEXT),
    Field("tolerations", "Tolerations", Kind::List(TOLERATION)),
    Field("hostAliases", "HostAliases", Kind::List(HOST_ALIAS)),
    Field("priorityClassName", "PriorityClassName", TEXT),
    Field("priority", "Priority", NULL),
    Field("preemptionPolicy", "PreemptionPolicy", NULL),
    Field("dnsConfig", "DNSConfig", Kind::Struct(POD_DNS_CONFIG)),
    Field("readinessGates", "ReadinessGates", Kind::List(POD_READINESS_GATE)),
    Field("runtimeClassName", "RuntimeClassName", NULL),
    Field("overhead", "Overhead", NULL),
    Field("enableServiceLinks", "EnableServiceLinks", NULL),
    Field("topologySpreadConstraints", "TopologySpreadConstraints", Kind::List(TOPOLOGY_SPREAD_CONSTRAINT)),
    Field("os", "OS", Kind::Struct(POD_OS)),
    Field("schedulingGates", "SchedulingGates", Kind::List(POD_SCHEDULING_GATE)),
    Field("resourceClaims", "ResourceClaims", Kind::List(POD_RESOURCE_CLAIM)),
    Field("resources", "Resources", Kind::Struct(RESOURCE_REQUIREMENTS)),
    Field("hostnameOverride", "HostnameOverride", NULL),
    Field("schedulingGroup", "SchedulingGroup", Kind::Struct(POD_SCHEDULING_GROUP)),
];
/// `PodTemplateSpec`
pub(crate) const POD_TEMPLATE_SPEC: &[Field] =
    &[Field("metadata", "", Kind::Inline(OBJECT_META)), Field("spec", "Spec", Kind::Value(POD_SPEC))];
