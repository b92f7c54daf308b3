//! Which built-in kinds have rules of their own.

use crate::{Hooks, NoHooks, coordination, core, discovery, networking};

/// The hooks of a built-in kind.
pub(crate) fn hooks_for(group: &str, kind: &str) -> &'static dyn Hooks {
    match (group, kind) {
        ("", "ConfigMap") => &core::configmap::ConfigMap,
        ("", "Endpoints") => &core::endpoints::Endpoints,
        ("", "LimitRange") => &core::limitrange::LimitRange,
        ("", "Namespace") => &core::namespace::Namespace,
        ("", "Node") => &core::node::Node,
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
        _ => &NoHooks,
    }
}
