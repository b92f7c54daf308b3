//! The hooks of built-in kinds.

use crate::{
    Hooks, NoHooks, admissionregistration, apiextensions, apiregistration, apiserverinternal, apps,
    autoscaling, batch, certificates, coordination, core, discovery, events, flowcontrol, networking, node,
    policy, rbac, resource, scheduling, storage, storagemigration,
};

/// The hooks of a built-in kind.
pub(crate) fn hooks_for(group: &str, kind: &str) -> &'static dyn Hooks {
    match (group, kind) {
        ("", "ConfigMap") => &core::configmap::ConfigMap,
        ("", "Endpoints") => &core::endpoints::Endpoints,
        ("", "Event") => &events::event::Event,
        ("", "LimitRange") => &core::limitrange::LimitRange,
        ("", "Namespace") => &core::namespace::Namespace,
        ("", "Node") => &core::node::Node,
        ("", "PersistentVolume") => &core::persistentvolume::PersistentVolume,
        ("", "PersistentVolumeClaim") => &core::persistentvolumeclaim::PersistentVolumeClaim,
        ("", "Pod") => &core::pod::Pod,
        ("", "PodTemplate") => &core::podtemplate::PodTemplate,
        ("", "ReplicationController") => &core::replicationcontroller::ReplicationController,
        ("", "ResourceQuota") => &core::resourcequota::ResourceQuota,
        ("", "Secret") => &core::secret::Secret,
        ("", "Service") => &core::service::Service,
        ("", "ServiceAccount") => &core::serviceaccount::ServiceAccount,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => {
            &admissionregistration::Policy(admissionregistration::Role::Mutating)
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => {
            &admissionregistration::PolicyBinding(admissionregistration::Role::Mutating)
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            &admissionregistration::Policy(admissionregistration::Role::Validating)
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            &admissionregistration::PolicyBinding(admissionregistration::Role::Validating)
        }
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => &admissionregistration::WebhookConfiguration,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => &apiextensions::definition::Definition,
        ("apiregistration.k8s.io", "APIService") => &apiregistration::apiservice::ApiService,
        ("apps", "ControllerRevision") => &apps::controllerrevision::ControllerRevision,
        ("apps", "DaemonSet") => &apps::daemonset::DaemonSet,
        ("apps", "Deployment") => &apps::deployment::Deployment,
        ("apps", "ReplicaSet") => &apps::replicaset::ReplicaSet,
        ("apps", "StatefulSet") => &apps::statefulset::StatefulSet,
        ("autoscaling", "HorizontalPodAutoscaler") => {
            &autoscaling::horizontalpodautoscaler::HorizontalPodAutoscaler
        }
        ("batch", "CronJob") => &batch::cronjob::CronJob,
        ("batch", "Job") => &batch::job::Job,
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            &certificates::certificatesigningrequest::CertificateSigningRequest
        }
        ("certificates.k8s.io", "ClusterTrustBundle") => {
            &certificates::clustertrustbundle::ClusterTrustBundle
        }
        ("certificates.k8s.io", "PodCertificateRequest") => {
            &certificates::podcertificaterequest::PodCertificateRequest
        }
        ("coordination.k8s.io", "LeaseCandidate") => &coordination::leasecandidate::LeaseCandidate,
        ("internal.apiserver.k8s.io", "StorageVersion") => &apiserverinternal::StorageVersion,
        ("coordination.k8s.io", "Lease") => &coordination::lease::Lease,
        ("discovery.k8s.io", "EndpointSlice") => &discovery::endpointslice::EndpointSlice,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => &flowcontrol::flowschema::FlowSchema,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            &flowcontrol::prioritylevelconfiguration::PriorityLevelConfiguration
        }
        ("networking.k8s.io", "IPAddress") => &networking::ipaddress::IpAddress,
        ("networking.k8s.io", "Ingress") => &networking::ingress::Ingress,
        ("networking.k8s.io", "IngressClass") => &networking::ingressclass::IngressClass,
        ("networking.k8s.io", "NetworkPolicy") => &networking::networkpolicy::NetworkPolicy,
        ("networking.k8s.io", "ServiceCIDR") => &networking::servicecidr::ServiceCidr,
        ("node.k8s.io", "RuntimeClass") => &node::runtimeclass::RuntimeClass,
        ("policy", "PodDisruptionBudget") => &policy::poddisruptionbudget::PodDisruptionBudget,
        ("rbac.authorization.k8s.io", "ClusterRole") => &rbac::Role { namespaced: false },
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => &rbac::Binding { namespaced: false },
        ("rbac.authorization.k8s.io", "Role") => &rbac::Role { namespaced: true },
        ("rbac.authorization.k8s.io", "RoleBinding") => &rbac::Binding { namespaced: true },
        ("resource.k8s.io", "DeviceClass") => &resource::deviceclass::DeviceClass,
        ("resource.k8s.io", "DeviceTaintRule") => &resource::taintrule::DeviceTaintRule,
        ("resource.k8s.io", "ResourcePoolStatusRequest") => &resource::poolstatus::ResourcePoolStatusRequest,
        ("resource.k8s.io", "ResourceClaim") => &resource::ResourceClaim,
        ("resource.k8s.io", "ResourceClaimTemplate") => &resource::ResourceClaimTemplate,
        ("resource.k8s.io", "ResourceSlice") => &resource::resourceslice::ResourceSlice,
        ("scheduling.k8s.io", "PodGroup") => &scheduling::podgroup::PodGroup,
        ("scheduling.k8s.io", "Workload") => &scheduling::workload::Workload,
        ("storagemigration.k8s.io", "StorageVersionMigration") => &storagemigration::StorageVersionMigration,
        ("scheduling.k8s.io", "PriorityClass") => &scheduling::priorityclass::PriorityClass,
        ("storage.k8s.io", "CSIDriver") => &storage::csidriver::CsiDriver,
        ("storage.k8s.io", "CSINode") => &storage::csinode::CsiNode,
        ("storage.k8s.io", "CSIStorageCapacity") => &storage::csistoragecapacity::CsiStorageCapacity,
        ("storage.k8s.io", "StorageClass") => &storage::storageclass::StorageClass,
        ("storage.k8s.io", "VolumeAttachment") => &storage::volumeattachment::VolumeAttachment,
        ("storage.k8s.io", "VolumeAttributesClass") => &storage::volumeattributesclass::VolumeAttributesClass,
        _ => &NoHooks,
    }
}
