//! Which built-in kinds have rules of their own.

use crate::{Hooks, NoHooks, coordination, core, discovery, events, networking, node, scheduling, storage};

/// The hooks of a built-in kind.
pub(crate) fn hooks_for(group: &str, kind: &str) -> &'static dyn Hooks {
    match (group, kind) {
        ("", "ConfigMap") => &core::configmap::ConfigMap,
        ("", "Endpoints") => &core::endpoints::Endpoints,
        ("", "Event") => &events::event::Event,
        ("", "LimitRange") => &core::limitrange::LimitRange,
        ("", "Namespace") => &core::namespace::Namespace,
        ("", "Node") => &core::node::Node,
        ("", "PersistentVolumeClaim") => &core::persistentvolumeclaim::PersistentVolumeClaim,
        ("", "ResourceQuota") => &core::resourcequota::ResourceQuota,
        ("", "Secret") => &core::secret::Secret,
        ("", "Service") => &core::service::Service,
        ("", "ServiceAccount") => &core::serviceaccount::ServiceAccount,
        ("coordination.k8s.io", "Lease") => &coordination::lease::Lease,
        ("discovery.k8s.io", "EndpointSlice") => &discovery::endpointslice::EndpointSlice,
        ("networking.k8s.io", "IPAddress") => &networking::ipaddress::IpAddress,
        ("networking.k8s.io", "Ingress") => &networking::ingress::Ingress,
        ("networking.k8s.io", "IngressClass") => &networking::ingressclass::IngressClass,
        ("networking.k8s.io", "NetworkPolicy") => &networking::networkpolicy::NetworkPolicy,
        ("networking.k8s.io", "ServiceCIDR") => &networking::servicecidr::ServiceCidr,
        ("node.k8s.io", "RuntimeClass") => &node::runtimeclass::RuntimeClass,
        ("scheduling.k8s.io", "PriorityClass") => &scheduling::priorityclass::PriorityClass,
        ("storage.k8s.io", "CSIDriver") => &storage::csidriver::CsiDriver,
        ("storage.k8s.io", "CSINode") => &storage::csinode::CsiNode,
        ("storage.k8s.io", "CSIStorageCapacity") => &storage::csistoragecapacity::CsiStorageCapacity,
        ("storage.k8s.io", "StorageClass") => &storage::storageclass::StorageClass,
        ("storage.k8s.io", "VolumeAttributesClass") => &storage::volumeattributesclass::VolumeAttributesClass,
        _ => &NoHooks,
    }
}
