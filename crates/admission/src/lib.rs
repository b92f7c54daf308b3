//! Admission: the chain of built-in plugins that may change or refuse a write. One file a plugin.
//!
//! Plugins see trees in the stored version and read other objects through [`World`]; they do no I/O.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod always_deny;
mod always_pull_images;
mod anti_affinity;
pub mod cel;
mod certificates;
mod default_classes;
mod default_toleration_seconds;
mod durations;
mod escalation;
mod extended_resource_toleration;
mod external_ips;
mod limit_ranger;
pub mod matching;
mod namespace_exists;
mod namespace_lifecycle;
mod node_declared_features;
mod node_restriction;
mod owner_references;
mod pod_node_selector;
mod pod_resize;
mod pod_security;
mod pod_topology_labels;
pub mod policy;
mod priority;
pub mod quota;
mod request;
mod resources;
mod runtime_class;
mod service_account;
mod storage;
mod taint_nodes;
#[cfg(test)]
mod testing;
pub mod webhook;

pub use request::{Options, admission_request};

use durations::{Durations, Step};
use pintle_auth::{Authorizer, UserInfo};
use pintle_kinds::{Kind, KindVersion};
use pintle_meta::{GroupVersion, GroupVersionKind, Status};
use pintle_value::Value;
use std::sync::Arc;

/// What a request does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// What a plugin knows of a request beside the object.
pub struct Attributes<'a> {
    /// What is done.
    pub operation: Operation,
    /// The kind that is written.
    pub kind: &'a Kind,
    /// The version the request is in.
    pub version: &'a KindVersion,
    /// Namespace of the request; "" for cluster-scoped kinds. For a namespace itself: its name.
    pub namespace: &'a str,
    /// Name of the object; "" while it is not yet generated.
    pub name: &'a str,
    /// Subresource; "" for the object itself.
    pub subresource: &'a str,
    /// The object as it is, on update and delete.
    pub old: Option<&'a Value>,
    /// Who asks.
    pub user: &'a UserInfo,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// What else the client asked for.
    pub options: Options<'a>,
}

impl Attributes<'_> {
    /// Whether the request is about this resource (any subresource).
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.kind.group == group && self.kind.plural == plural
    }

    /// The kind of the request's object as it is called in a version: that of the subresource, where it has its own.
    pub fn kind_in(&self, version: &KindVersion) -> GroupVersionKind {
        let sub = version.subresource(self.subresource).filter(|_| !self.subresource.is_empty());
        sub.map_or_else(|| version.gvk(self.kind), |sub| sub.gvk.clone())
    }

    /// The refusal of a request; `object` is what it would have stored.
    pub fn forbidden(&self, object: Option<&Value>, why: &str) -> Status {
        let given = |key: &str| object.map_or("", |o| o.str_at(&["metadata", key]));
        let names = [self.name, given("name"), given("generateName"), "Unknown"];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        Status::forbidden(&self.kind.group_resource(), name, why)
    }
}

/// The other objects, as plugins may look at them.
pub trait World: Send + Sync {
    /// One object.
    fn object(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value>;

    /// All objects of a kind, in one namespace or in all ("").
    fn objects(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value>;

    /// Objects of a kind in one of its versions: in one namespace or in all (""), of one name or all ("").
    fn objects_in(&self, version: &GroupVersion, kind: &str, namespace: &str, name: &str) -> Vec<Value>;

    /// Plural name of a kind, and whether it lives in namespaces; `None` where it is not served.
    fn resource(&self, version: &GroupVersion, kind: &str) -> Option<(String, bool)>;

    /// A random number.
    fn random(&self) -> u64;
}

/// One admission plugin.
pub trait Plugin: Send + Sync {
    /// The name that flags know it by.
    fn name(&self) -> &'static str;

    /// Changes or refuses an object before it is validated. Not called for deletions.
    fn mutate(
        &self,
        _request: &Attributes<'_>,
        _object: &mut Value,
        _world: &dyn World,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Refuses an object (none on deletion) after it is validated; may add warnings.
    fn validate(
        &self,
        _request: &Attributes<'_>,
        _object: Option<&Value>,
        _world: &dyn World,
        _warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        Ok(())
    }
}

/// All plugins that kube-apiserver knows, in the order in which it asks them.
const ORDER: [&str; 41] = [
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PodGroupProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "PodGroupWorkloadExists",
    "NodeDeclaredFeatureValidator",
    "JobValidation",
    "PodResizeValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
];

/// Plugins that are on by default but have nothing to do here, or whose work is done elsewhere in the server.
const ELSEWHERE: [&str; 9] = [
    "AlwaysAdmit",
    "PodGroupProtection",
    "ClusterTrustBundleAttest",
    "PodGroupWorkloadExists",
    "JobValidation",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

/// Plugins that must be asked for.
const OFF_BY_DEFAULT: [&str; 9] = [
    "AlwaysDeny",
    "AlwaysPullImages",
    "DenyServiceExternalIPs",
    "ExtendedResourceToleration",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceExists",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
];

/// What the chain is told by flags and by the server.
pub struct Settings {
    /// `--enable-admission-plugins`
    pub enabled: Vec<String>,
    /// `--disable-admission-plugins`
    pub disabled: Vec<String>,
    /// `--default-not-ready-toleration-seconds`
    pub not_ready_seconds: i64,
    /// `--default-unreachable-toleration-seconds`
    pub unreachable_seconds: i64,
    /// Who decides what users may do.
    pub authorizer: Arc<dyn Authorizer>,
}

/// Why the chain cannot be made; the text names the flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// No plugin has this name.
    #[error("--{0}: plugin {1:?} is unknown")]
    Unknown(&'static str, String),
    /// The plugin is one of kube-apiserver's, but not of this server's.
    #[error("--enable-admission-plugins: plugin {0:?} is not available here")]
    Unavailable(String),
    /// A plugin cannot be both.
    #[error("{0} in enable-admission-plugins and disable-admission-plugins overlapped")]
    Both(String),
}

/// The plugins in force, in kube-apiserver's order.
pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
    durations: Durations,
    /// Plugins that other parts of the server stand for and that are turned off.
    disabled: Vec<String>,
    authorizer: Arc<dyn Authorizer>,
}

impl Chain {
    /// The plugins that are on by default and those that are enabled, without the disabled ones.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        let mut plugins = all(&settings);
        let known = |name: &String| ORDER.contains(&name.as_str());
        if let Some(name) = settings.disabled.iter().find(|name| !known(name)) {
            return Err(SettingsError::Unknown("disable-admission-plugins", name.clone()));
        }
        for name in &settings.enabled {
            if !known(name) {
                return Err(SettingsError::Unknown("enable-admission-plugins", name.clone()));
            }
            if settings.disabled.contains(name) {
                return Err(SettingsError::Both(name.clone()));
            }
            let here = name == "ResourceQuota" || ELSEWHERE.contains(&name.as_str());
            if !here && !plugins.iter().any(|plugin| plugin.name() == name) {
                return Err(SettingsError::Unavailable(name.clone()));
            }
        }
        let listed = |list: &[String], plugin: &dyn Plugin| list.iter().any(|name| name == plugin.name());
        plugins.retain(|plugin| {
            let wanted = !OFF_BY_DEFAULT.contains(&plugin.name()) || listed(&settings.enabled, &**plugin);
            wanted && !listed(&settings.disabled, &**plugin)
        });
        plugins.sort_by_key(|plugin| ORDER.iter().position(|name| *name == plugin.name()));
        Ok(Chain {
            durations: Durations::default(),
            plugins,
            disabled: settings.disabled,
            authorizer: settings.authorizer,
        })
    }

    /// Whether a plugin that another part of the server stands for is on.
    pub fn is_on(&self, name: &str) -> bool {
        !self.disabled.iter().any(|disabled| disabled == name)
    }

    /// Lets every plugin change the object.
    pub fn mutate(
        &self,
        request: &Attributes<'_>,
        object: &mut Value,
        world: &dyn World,
    ) -> Result<(), Status> {
        self.durations.measure(Step::Admit, request.operation, &self.plugins, |plugin| {
            plugin.mutate(request, object, world)
        })
    }

    /// Refuses an object that would grant what is not its writer's own. Asked when nobody changes it any more.
    pub fn check_escalation(
        &self,
        request: &Attributes<'_>,
        object: &Value,
        world: &dyn World,
    ) -> Result<(), Status> {
        escalation::check(request, object, world, &*self.authorizer)
    }

    /// Lets every plugin refuse the object.
    pub fn validate(
        &self,
        request: &Attributes<'_>,
        object: Option<&Value>,
        world: &dyn World,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        self.durations.measure(Step::Validate, request.operation, &self.plugins, |plugin| {
            plugin.validate(request, object, world, warnings)
        })
    }
}

/// All plugins of this crate.
fn all(settings: &Settings) -> Vec<Box<dyn Plugin>> {
    vec![
        Box::new(namespace_lifecycle::NamespaceLifecycle),
        Box::new(limit_ranger::LimitRanger),
        Box::new(service_account::ServiceAccount),
        Box::new(taint_nodes::TaintNodesByCondition),
        Box::new(pod_security::PodSecurity),
        Box::new(priority::Priority),
        Box::new(default_toleration_seconds::DefaultTolerationSeconds {
            not_ready_seconds: settings.not_ready_seconds,
            unreachable_seconds: settings.unreachable_seconds,
        }),
        Box::new(default_classes::DefaultStorageClass),
        Box::new(storage::StorageObjectInUseProtection),
        Box::new(storage::PersistentVolumeClaimResize),
        Box::new(runtime_class::RuntimeClass),
        Box::new(certificates::CertificateApproval(settings.authorizer.clone())),
        Box::new(certificates::CertificateSigning(settings.authorizer.clone())),
        Box::new(certificates::CertificateSubjectRestriction),
        Box::new(default_classes::DefaultIngressClass),
        Box::new(pod_topology_labels::PodTopologyLabels),
        Box::new(node_declared_features::NodeDeclaredFeatureValidator),
        Box::new(pod_resize::PodResizeValidator),
        Box::new(always_deny::AlwaysDeny),
        Box::new(always_pull_images::AlwaysPullImages),
        Box::new(external_ips::DenyServiceExternalIps),
        Box::new(extended_resource_toleration::ExtendedResourceToleration),
        Box::new(anti_affinity::LimitPodHardAntiAffinityTopology),
        Box::new(namespace_exists::NamespaceExists),
        Box::new(node_restriction::NodeRestriction(settings.authorizer.clone())),
        Box::new(owner_references::OwnerReferencesPermissionEnforcement(settings.authorizer.clone())),
        Box::new(pod_node_selector::PodNodeSelector),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_auth::authz::AlwaysAllow;

    fn chain(enabled: &[&str], disabled: &[&str]) -> Result<Vec<&'static str>, String> {
        let texts = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let settings = Settings {
            enabled: texts(enabled),
            disabled: texts(disabled),
            not_ready_seconds: 300,
            unreachable_seconds: 300,
            authorizer: Arc::new(AlwaysAllow),
        };
        let chain = Chain::new(settings).map_err(|error| error.to_string())?;
        Ok(chain.plugins.iter().map(|plugin| plugin.name()).collect())
    }

    #[test]
    fn plugins_are_asked_in_order_and_can_be_turned_off() {
        let all = chain(&[], &[]).unwrap();
        assert!(all.starts_with(&["NamespaceLifecycle", "LimitRanger", "ServiceAccount"]));
        assert_eq!(all.len() - 1, chain(&["LimitRanger"], &["ServiceAccount"]).unwrap().len());
        for name in OFF_BY_DEFAULT {
            assert!(!all.contains(&name) && chain(&[name], &[]).unwrap().contains(&name), "{name}");
        }
        for (enabled, disabled, error) in [
            ("Nope", "", "--enable-admission-plugins: plugin \"Nope\" is unknown"),
            ("", "Nope", "--disable-admission-plugins: plugin \"Nope\" is unknown"),
            (
                "ImagePolicyWebhook",
                "",
                "--enable-admission-plugins: plugin \"ImagePolicyWebhook\" is not available here",
            ),
            (
                "Priority",
                "Priority",
                "Priority in enable-admission-plugins and disable-admission-plugins overlapped",
            ),
        ] {
            let names = |name: &'static str| if name.is_empty() { vec![] } else { vec![name] };
            assert_eq!(chain(&names(enabled), &names(disabled)), Err(error.to_string()));
        }
    }
}
