//! The enabled plugins, in kube-apiserver's order, built from flags and the configuration file.

use crate::config::{AdmissionConfiguration, ConfigError, PluginConfig};
use crate::durations::{Durations, Measuring, Step};
use crate::quota::LimitedResource;
use crate::webhook_config::WebhookConfig;
use crate::{Attributes, ClusterState, Mutation, Operation, Plugin, PluginError, Validation, escalation};
use pintle_auth::Authorizer;
use pintle_meta::Status;
use pintle_value::{Value, is_same_text};
use std::path::PathBuf;
use std::sync::Arc;

/// All plugins of kube-apiserver, in the order in which it calls them.
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

/// Plugins that are only enabled by a flag.
const OFF_BY_DEFAULT: [&str; 14] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
    "PodTolerationRestriction",
];

/// The configuration of the chain.
pub struct Settings {
    /// `--enable-admission-plugins`
    pub enabled: Vec<String>,
    /// `--disable-admission-plugins`
    pub disabled: Vec<String>,
    /// `--admission-control`: exactly the enabled plugins.
    pub only: Vec<String>,
    /// The value of `--admission-control-config-file`.
    pub config_file: Option<PathBuf>,
    /// Whether webhooks and policies may come from files (`ManifestBasedAdmissionControlConfig`).
    pub allows_manifests: bool,
    /// `--default-not-ready-toleration-seconds`
    pub not_ready_seconds: i64,
    /// `--default-unreachable-toleration-seconds`
    pub unreachable_seconds: i64,
    /// Authorizes the checks of plugins.
    pub authorizer: Arc<dyn Authorizer>,
}

impl Settings {
    /// The defaults of a server without configuration.
    pub fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Settings {
            enabled: Vec::new(),
            disabled: Vec::new(),
            only: Vec::new(),
            config_file: None,
            allows_manifests: false,
            not_ready_seconds: 300,
            unreachable_seconds: 300,
            authorizer,
        }
    }
}

/// The reason why the chain cannot be built, with kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The flags contradict each other or name unknown plugins.
    #[error("{0}")]
    Flags(String),
    /// A configuration cannot be used.
    #[error("failed to apply admission: {0}")]
    Apply(String),
    /// The file with the configuration of a plugin cannot be read.
    #[error("{0}")]
    PluginFile(ConfigError),
}

impl From<ConfigError> for SettingsError {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::File(_) => SettingsError::Apply(error.to_string()),
            ConfigError::PluginFile { .. } => SettingsError::PluginFile(error),
        }
    }
}

/// A plugin and its name in flags.
pub(crate) struct NamedPlugin {
    pub(crate) name: &'static str,
    plugin: Box<dyn Plugin>,
}

/// The enabled plugins.
pub struct Chain {
    plugins: Vec<NamedPlugin>,
    durations: Durations,
    /// The names of all enabled plugins, including those that other parts of the server implement.
    names: Vec<&'static str>,
    authorizer: Arc<dyn Authorizer>,
    limited_resources: Vec<LimitedResource>,
    mutating_webhooks: WebhookConfig,
    validating_webhooks: WebhookConfig,
    allows_manifests: bool,
    manifest_folders: Vec<(&'static str, PathBuf)>,
}

impl Chain {
    /// Builds the chain: the plugins that are enabled by default or by flag, without the disabled ones.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        let names = names(&settings)?;
        let configuration = match &settings.config_file {
            Some(path) => AdmissionConfiguration::load(path, &names)?,
            None => AdmissionConfiguration::default(),
        };
        let mut chain = Chain {
            plugins: Vec::new(),
            durations: Durations::default(),
            names: Vec::new(),
            authorizer: settings.authorizer.clone(),
            limited_resources: Vec::new(),
            mutating_webhooks: WebhookConfig::default(),
            validating_webhooks: WebhookConfig::default(),
            allows_manifests: settings.allows_manifests,
            manifest_folders: Vec::new(),
        };
        for name in names.iter().copied() {
            let config = configuration.of_plugin(name)?;
            chain.add(name, config.as_ref(), &settings).map_err(|error| {
                SettingsError::Apply(match error {
                    PluginError::Init(why) => format!("couldn't init admission plugin \"{name}\": {why}"),
                    PluginError::Initialize(why) => {
                        format!("failed to initialize admission plugin \"{name}\": {why}")
                    }
                })
            })?;
        }
        chain.names = names;
        Ok(chain)
    }

    /// Builds one plugin from its configuration. The chain keeps the configuration of plugins that other parts of the
    /// server implement.
    fn add(
        &mut self,
        name: &'static str,
        config: Option<&PluginConfig>,
        settings: &Settings,
    ) -> Result<(), PluginError> {
        let allowed = settings.allows_manifests;
        let folder = match name {
            "MutatingAdmissionWebhook" => {
                self.mutating_webhooks = WebhookConfig::of_webhooks(config, allowed)?;
                self.mutating_webhooks.manifests.clone()
            }
            "ValidatingAdmissionWebhook" => {
                self.validating_webhooks = WebhookConfig::of_webhooks(config, allowed)?;
                self.validating_webhooks.manifests.clone()
            }
            "MutatingAdmissionPolicy" | "ValidatingAdmissionPolicy" => {
                WebhookConfig::manifests_of_policies(config, &format!("{name}Configuration"), allowed)?
            }
            "ResourceQuota" => {
                self.limited_resources = LimitedResource::all(config)?;
                None
            }
            _ => {
                let plugin = plugin(name, config, settings)?;
                self.plugins.extend(plugin.map(|plugin| NamedPlugin { name, plugin }));
                None
            }
        };
        self.manifest_folders.extend(folder.map(|folder| (name, folder)));
        Ok(())
    }

    /// Returns whether a plugin is enabled.
    pub fn is_on(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    /// The resources that need a matching quota (`limitedResources`).
    pub fn limited_resources(&self) -> &[LimitedResource] {
        &self.limited_resources
    }

    /// The configuration of the plugin MutatingAdmissionWebhook.
    pub fn mutating_webhooks(&self) -> &WebhookConfig {
        &self.mutating_webhooks
    }

    /// The configuration of the plugin ValidatingAdmissionWebhook.
    pub fn validating_webhooks(&self) -> &WebhookConfig {
        &self.validating_webhooks
    }

    /// Whether webhooks and policies may come from files. Their names are reserved then.
    pub fn allows_manifests(&self) -> bool {
        self.allows_manifests
    }

    /// The folders of `staticManifestsDir`, each with its plugin.
    pub fn manifest_folders(&self) -> &[(&'static str, PathBuf)] {
        &self.manifest_folders
    }

    /// Begins to measure a step of admission; it ends when the result is dropped.
    pub fn measure(&self, step: Step, operation: Operation) -> Measuring<'_> {
        self.durations.begin(step, operation, &self.plugins, |name| self.is_on(name))
    }

    /// Runs all plugins that can change the object.
    pub fn mutate(
        &self,
        request: &Attributes<'_>,
        object: &mut Value,
        cluster: &dyn ClusterState,
        measuring: &mut Measuring<'_>,
    ) -> Result<(), Status> {
        self.admit(request, measuring, |plugin| plugin.mutate(Mutation { request, object, cluster }))
    }

    /// Runs all plugins that can refuse a deletion before webhooks are called.
    pub fn admit_deletion(
        &self,
        request: &Attributes<'_>,
        cluster: &dyn ClusterState,
        measuring: &mut Measuring<'_>,
    ) -> Result<(), Status> {
        self.admit(request, measuring, |plugin| plugin.admit_deletion(request, cluster))
    }

    /// Calls each plugin that the request concerns, until one refuses it.
    fn admit(
        &self,
        request: &Attributes<'_>,
        measuring: &mut Measuring<'_>,
        mut call: impl FnMut(&dyn Plugin) -> Result<(), Status>,
    ) -> Result<(), Status> {
        for (place, NamedPlugin { name, plugin }) in self.plugins.iter().enumerate() {
            if !concerns(&**plugin, request) {
                measuring.observe_uncalled(place);
                continue;
            }
            let outcome = call(&**plugin);
            measuring.observe_plugin(place, name, outcome.is_err());
            outcome?;
        }
        Ok(())
    }

    /// Refuses an object that grants rights its writer does not have. Must be called after all mutations.
    pub fn check_escalation(
        &self,
        request: &Attributes<'_>,
        object: &Value,
        cluster: &dyn ClusterState,
    ) -> Result<(), Status> {
        escalation::check(request, object, cluster, &*self.authorizer)
    }

    /// Runs all plugins that can refuse the object.
    pub async fn validate(
        &self,
        request: &Attributes<'_>,
        object: Option<&Value>,
        cluster: &dyn ClusterState,
        warnings: &mut Vec<String>,
        measuring: &mut Measuring<'_>,
    ) -> Result<(), Status> {
        for (place, NamedPlugin { name, plugin }) in self.plugins.iter().enumerate() {
            if !concerns(&**plugin, request) {
                measuring.observe_uncalled(place);
                continue;
            }
            let mut outcome = plugin.validate(Validation { request, object, cluster, warnings });
            if let Some(review) = plugin.review(request, object).filter(|_| outcome.is_ok()) {
                outcome = review.await;
            }
            measuring.observe_plugin(place, name, outcome.is_err());
            outcome?;
        }
        Ok(())
    }
}

/// Returns whether a plugin looks at the resource of a request.
fn concerns(plugin: &dyn Plugin, request: &Attributes<'_>) -> bool {
    let resources = plugin.resources();
    resources.is_empty()
        || resources.iter().any(|(group, plural)| {
            is_same_text(&request.kind.plural, plural) && is_same_text(&request.kind.group, group)
        })
}

/// What is wrong with the flags that name plugins: `--enable-admission-plugins`, `--disable-admission-plugins` and
/// `--admission-control`.
pub fn plugin_faults(enabled: &[String], disabled: &[String], only: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    if !only.is_empty() && (!enabled.is_empty() || !disabled.is_empty()) {
        let flags = "admission-control and enable-admission-plugins/disable-admission-plugins";
        faults.push(format!("{flags} flags are mutually exclusive"));
    }
    let flags = [
        ("admission-control", only),
        ("enable-admission-plugins", enabled),
        ("disable-admission-plugins", disabled),
    ];
    for (flag, names) in flags {
        let unknown = names.iter().filter(|name| !ORDER.contains(&name.as_str()));
        faults.extend(unknown.map(|name| format!("{flag} plugin \"{name}\" is unknown")));
    }
    let mut both: Vec<&str> =
        enabled.iter().filter(|name| disabled.contains(name)).map(String::as_str).collect();
    both.sort_unstable();
    both.dedup();
    if !both.is_empty() {
        let both = both.join(" ");
        faults.push(format!("[{both}] in enable-admission-plugins and disable-admission-plugins overlapped"));
    }
    // kube-apiserver lists equal errors once.
    let mut seen = std::collections::BTreeSet::new();
    faults.retain(|fault| seen.insert(fault.clone()));
    faults
}

/// The names of the enabled plugins, in their order.
fn names(settings: &Settings) -> Result<Vec<&'static str>, SettingsError> {
    let Settings { enabled, disabled, only, .. } = settings;
    match plugin_faults(enabled, disabled, only).as_slice() {
        [] => {}
        [one] => return Err(SettingsError::Flags(one.clone())),
        many => return Err(SettingsError::Flags(format!("[{}]", many.join(", ")))),
    }
    let listed = |list: &[String], name: &str| list.iter().any(|own| own == name);
    let is_on = |name: &&'static str| {
        if only.is_empty() {
            !listed(disabled, name) && (!OFF_BY_DEFAULT.contains(name) || listed(enabled, name))
        } else {
            listed(only, name)
        }
    };
    Ok(ORDER.into_iter().filter(is_on).collect())
}

/// Builds the plugin with this name; `None` if it does nothing or another part of the server implements it.
fn plugin(
    name: &str,
    config: Option<&PluginConfig>,
    settings: &Settings,
) -> Result<Option<Box<dyn Plugin>>, PluginError> {
    let authorizer = || settings.authorizer.clone();
    Ok(Some(match name {
        "NamespaceLifecycle" => Box::new(crate::namespace_lifecycle::NamespaceLifecycle),
        "NamespaceExists" => Box::new(crate::namespace_exists::NamespaceExists),
        "LimitPodHardAntiAffinityTopology" => {
            Box::new(crate::anti_affinity::LimitPodHardAntiAffinityTopology)
        }
        "LimitRanger" => Box::new(crate::limit_ranger::LimitRanger),
        "ServiceAccount" => Box::new(crate::service_account::ServiceAccount),
        "NodeRestriction" => Box::new(crate::node_restriction::NodeRestriction(authorizer())),
        "TaintNodesByCondition" => Box::new(crate::taint_nodes::TaintNodesByCondition),
        "AlwaysPullImages" => Box::new(crate::always_pull_images::AlwaysPullImages),
        "ImagePolicyWebhook" => Box::new(crate::image_policy::ImagePolicyWebhook::new(config)?),
        "PodSecurity" => Box::new(crate::pod_security::PodSecurity::new(config)?),
        "PodNodeSelector" => Box::new(crate::pod_node_selector::PodNodeSelector::new(config)),
        "Priority" => Box::new(crate::priority::Priority),
        "DefaultTolerationSeconds" => Box::new(crate::default_toleration_seconds::DefaultTolerationSeconds {
            not_ready_seconds: settings.not_ready_seconds,
            unreachable_seconds: settings.unreachable_seconds,
        }),
        "PodTolerationRestriction" => {
            Box::new(crate::pod_toleration_restriction::PodTolerationRestriction::new(config)?)
        }
        "EventRateLimit" => Box::new(crate::event_rate_limit::EventRateLimit::new(config)?),
        "ExtendedResourceToleration" => {
            Box::new(crate::extended_resource_toleration::ExtendedResourceToleration)
        }
        "DefaultStorageClass" => Box::new(crate::default_classes::DefaultStorageClass),
        "PodGroupProtection" => Box::new(crate::pod_groups::PodGroupProtection),
        "PodGroupWorkloadExists" => Box::new(crate::pod_groups::PodGroupWorkloadExists),
        "JobValidation" => Box::new(crate::pod_groups::JobValidation),
        "ClusterTrustBundleAttest" => Box::new(crate::certificates::ClusterTrustBundleAttest(authorizer())),
        "StorageObjectInUseProtection" => Box::new(crate::storage::StorageObjectInUseProtection),
        "OwnerReferencesPermissionEnforcement" => {
            Box::new(crate::owner_references::OwnerReferencesPermissionEnforcement(authorizer()))
        }
        "PersistentVolumeClaimResize" => Box::new(crate::storage::PersistentVolumeClaimResize),
        "RuntimeClass" => Box::new(crate::runtime_class::RuntimeClass),
        "CertificateApproval" => Box::new(crate::certificates::CertificateApproval(authorizer())),
        "CertificateSigning" => Box::new(crate::certificates::CertificateSigning(authorizer())),
        "CertificateSubjectRestriction" => Box::new(crate::certificates::CertificateSubjectRestriction),
        "DefaultIngressClass" => Box::new(crate::default_classes::DefaultIngressClass),
        "DenyServiceExternalIPs" => Box::new(crate::external_ips::DenyServiceExternalIps),
        "PodTopologyLabels" => Box::new(crate::pod_topology_labels::PodTopologyLabels),
        "NodeDeclaredFeatureValidator" => {
            Box::new(crate::node_declared_features::NodeDeclaredFeatureValidator)
        }
        "PodResizeValidator" => Box::new(crate::pod_resize::PodResizeValidator),
        "AlwaysDeny" => Box::new(crate::always_deny::AlwaysDeny),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_auth::authz::AlwaysAllow;

    fn chain(only: &[&str], enabled: &[&str], disabled: &[&str]) -> Result<Vec<&'static str>, String> {
        let texts = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let settings = Settings {
            only: texts(only),
            enabled: texts(enabled),
            disabled: texts(disabled),
            ..Settings::new(Arc::new(AlwaysAllow))
        };
        let chain = Chain::new(settings).map_err(|error| error.to_string())?;
        Ok(chain.plugins.iter().map(|plugin| plugin.name).collect())
    }

    #[test]
    fn plugins_are_asked_in_order_and_can_be_turned_off() {
        let all = chain(&[], &[], &[]).unwrap();
        assert!(all.starts_with(&["NamespaceLifecycle", "LimitRanger", "ServiceAccount"]));
        assert_eq!(all.len() - 1, chain(&[], &["LimitRanger"], &["ServiceAccount"]).unwrap().len());
        for name in ["AlwaysDeny", "NodeRestriction", "PodNodeSelector", "PodTolerationRestriction"] {
            assert!(!all.contains(&name) && chain(&[], &[name], &[]).unwrap().contains(&name), "{name}");
        }
        let only = chain(&["Priority", "NamespaceLifecycle"], &[], &[]);
        assert_eq!(only, Ok(vec!["NamespaceLifecycle", "Priority"]));
        let both = ["Priority", "LimitRanger"];
        for (only, enabled, disabled, error) in [
            (&[][..], &["Nope"][..], &[][..], "enable-admission-plugins plugin \"Nope\" is unknown"),
            (&[], &[], &["Nope"], "disable-admission-plugins plugin \"Nope\" is unknown"),
            (&["Nope"], &[], &[], "admission-control plugin \"Nope\" is unknown"),
            (
                &["Priority"],
                &["Priority"],
                &[],
                "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive",
            ),
            (
                &[],
                &both,
                &both,
                "[LimitRanger Priority] in enable-admission-plugins and disable-admission-plugins overlapped",
            ),
            (
                &[],
                &["EventRateLimit"],
                &[],
                "failed to apply admission: couldn't init admission plugin \"EventRateLimit\": limits: Invalid value: null: must not be empty",
            ),
        ] {
            assert_eq!(chain(only, enabled, disabled), Err(error.to_string()));
        }
    }
}
