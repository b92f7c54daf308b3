//! The configuration of the plugins that ask webhooks and policies: credentials for webhooks.

use crate::config::{PluginConfig, Scheme, Shape, Struct, in_words};
use pintle_meta::FieldErrors;
use pintle_value::{Path as FieldPath, Value};
use pintle_webhook::Credentials;
use std::path::Path;

const WEBHOOKS: Struct = Struct {
    name: "WebhookAdmission",
    fields: &[("kubeConfigFile", Shape::Text), ("staticManifestsDir", Shape::Text)],
};
const WEBHOOK_SCHEME: Scheme = Scheme {
    kinds: &[("apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration", &WEBHOOKS)],
    strict: true,
    place: "k8s.io/apiserver/pkg/admission/plugin/webhook/config/kubeconfig.go:34",
};
const POLICIES: Struct =
    Struct { name: "PolicyConfiguration", fields: &[("staticManifestsDir", Shape::Text)] };
const POLICY_SCHEME: Scheme = Scheme {
    kinds: &[
        ("apiserver.config.k8s.io/v1", "ValidatingAdmissionPolicyConfiguration", &POLICIES),
        ("apiserver.config.k8s.io/v1", "MutatingAdmissionPolicyConfiguration", &POLICIES),
    ],
    strict: true,
    place: "k8s.io/apiserver/pkg/admission/plugin/policy/config/config.go:34",
};

/// The configuration of a plugin that asks webhooks.
#[derive(Clone, Default)]
pub struct WebhookConfig {
    /// What webhooks are shown, by their host.
    pub credentials: Credentials,
}

impl WebhookConfig {
    /// Reads the configuration of a webhook plugin. `allows_manifests` is whether the feature is on.
    pub(crate) fn of_webhooks(config: Option<&PluginConfig>, allows_manifests: bool) -> Result<Self, String> {
        let Some(config) = config else { return Ok(WebhookConfig::default()) };
        let (_, tree) = config.decode(&WEBHOOK_SCHEME).map_err(|error| error.text())?;
        let kubeconfig = tree.str_at(&["kubeConfigFile"]);
        if !kubeconfig.is_empty() && !kubeconfig.starts_with('/') {
            return Err(invalid("kubeConfigFile", kubeconfig, "must be an absolute file path"));
        }
        refuse_manifests(&tree, allows_manifests)?;
        let credentials = match kubeconfig {
            "" => Credentials::default(),
            path => Credentials::load(Path::new(path))?,
        };
        Ok(WebhookConfig { credentials })
    }

    /// Checks the configuration of a policy plugin, which must be of this kind.
    pub(crate) fn check_policies(
        config: Option<&PluginConfig>,
        kind: &str,
        allows_manifests: bool,
    ) -> Result<(), String> {
        let Some(config) = config else { return Ok(()) };
        let (found, tree) = config.decode(&POLICY_SCHEME).map_err(|error| error.text())?;
        if found != kind {
            return Err(format!("unexpected type: *policyconfig.{found}"));
        }
        refuse_manifests(&tree, allows_manifests)
    }
}

/// Refuses a folder of webhook configurations or policies that are no API objects: as kube-apiserver does where the feature is
/// off or the folder is none, and otherwise because it is not read here.
fn refuse_manifests(tree: &Value, allowed: bool) -> Result<(), String> {
    const FIELD: &str = "staticManifestsDir";
    let folder = tree.str_at(&[FIELD]);
    if folder.is_empty() {
        return Ok(());
    }
    if !allowed {
        let mut errors = FieldErrors::new();
        let why =
            "staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled";
        errors.forbidden(&FieldPath::of(FIELD), why);
        return Err(errors.sentence());
    }
    if !folder.starts_with('/') {
        return Err(invalid(FIELD, folder, "must be an absolute file path"));
    }
    match std::fs::metadata(folder) {
        Err(error) => {
            Err(invalid(FIELD, folder, &format!("unable to read: stat {folder}: {}", in_words(&error))))
        }
        Ok(found) if !found.is_dir() => Err(invalid(FIELD, folder, "must be a directory")),
        // What is in it would be admitted otherwise.
        Ok(_) => Err("staticManifestsDir is not available here".to_string()),
    }
}

fn invalid(field: &str, value: &str, why: &str) -> String {
    let mut errors = FieldErrors::new();
    errors.invalid(&FieldPath::of(field), value, why);
    errors.sentence()
}
