//! The configuration of the webhook and policy plugins: credentials for webhooks, and folders of manifests.

use crate::config::{PluginConfig, Scheme};
use pintle_meta::FieldErrors;
use pintle_meta::errno::go_error_text;
use pintle_meta::go_type::{GoStruct, GoType};
use pintle_value::{Path as FieldPath, Value};
use pintle_webhook::Credentials;
use std::path::{Path, PathBuf};

const WEBHOOKS: GoStruct = GoStruct(
    "WebhookAdmission",
    &[("kubeConfigFile", GoType::Text("string")), ("staticManifestsDir", GoType::Text("string"))],
);
const WEBHOOK_SCHEME: Scheme = Scheme {
    kinds: &[("apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration", &WEBHOOKS)],
    strict: true,
    place: "k8s.io/apiserver/pkg/admission/plugin/webhook/config/kubeconfig.go:34",
};
const POLICIES: GoStruct = GoStruct("PolicyConfiguration", &[("staticManifestsDir", GoType::Text("string"))]);
const POLICY_SCHEME: Scheme = Scheme {
    kinds: &[
        ("apiserver.config.k8s.io/v1", "ValidatingAdmissionPolicyConfiguration", &POLICIES),
        ("apiserver.config.k8s.io/v1", "MutatingAdmissionPolicyConfiguration", &POLICIES),
    ],
    strict: true,
    place: "k8s.io/apiserver/pkg/admission/plugin/policy/config/config.go:34",
};

/// The configuration of a plugin that calls webhooks.
#[derive(Clone, Default)]
pub struct WebhookConfig {
    /// The credentials to send, by the webhook's host.
    pub credentials: Credentials,
    /// The folder of manifests (`staticManifestsDir`).
    pub(crate) manifests: Option<PathBuf>,
}

impl WebhookConfig {
    /// Parses the configuration of a webhook plugin. `allows_manifests` is whether the feature gate is on.
    pub(crate) fn of_webhooks(config: Option<&PluginConfig>, allows_manifests: bool) -> Result<Self, String> {
        let Some(config) = config else { return Ok(WebhookConfig::default()) };
        let (_, tree) = config.decode(&WEBHOOK_SCHEME).map_err(|error| error.text())?;
        let kubeconfig = tree.str_at(&["kubeConfigFile"]);
        if !kubeconfig.is_empty() && !kubeconfig.starts_with('/') {
            return Err(invalid_field("kubeConfigFile", kubeconfig, "must be an absolute file path"));
        }
        let manifests = manifests(&tree, allows_manifests)?;
        let credentials = match kubeconfig {
            "" => Credentials::default(),
            path => Credentials::load(Path::new(path))?,
        };
        Ok(WebhookConfig { credentials, manifests })
    }

    /// Parses the configuration of a policy plugin, which must be of this kind, and returns its folder of manifests.
    pub(crate) fn manifests_of_policies(
        config: Option<&PluginConfig>,
        kind: &str,
        allows_manifests: bool,
    ) -> Result<Option<PathBuf>, String> {
        let Some(config) = config else { return Ok(None) };
        let (found, tree) = config.decode(&POLICY_SCHEME).map_err(|error| error.text())?;
        if found != kind {
            return Err(format!("unexpected type: *policyconfig.{found}"));
        }
        manifests(&tree, allows_manifests)
    }
}

/// The folder of `staticManifestsDir`, if there is one. Refused if the feature is off or the folder does not exist.
fn manifests(tree: &Value, allowed: bool) -> Result<Option<PathBuf>, String> {
    const FIELD: &str = "staticManifestsDir";
    let folder = tree.str_at(&[FIELD]);
    if folder.is_empty() {
        return Ok(None);
    }
    if !allowed {
        let mut errors = FieldErrors::new();
        let why =
            "staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled";
        errors.forbidden(&FieldPath::of(FIELD), why);
        return Err(errors.aggregate_message());
    }
    if !folder.starts_with('/') {
        return Err(invalid_field(FIELD, folder, "must be an absolute file path"));
    }
    match std::fs::metadata(folder) {
        Err(error) => Err(invalid_field(
            FIELD,
            folder,
            &format!("unable to read: stat {folder}: {}", go_error_text(&error)),
        )),
        Ok(found) if !found.is_dir() => Err(invalid_field(FIELD, folder, "must be a directory")),
        Ok(_) => Ok(Some(PathBuf::from(folder))),
    }
}

fn invalid_field(field: &str, value: &str, why: &str) -> String {
    let mut errors = FieldErrors::new();
    errors.invalid(&FieldPath::of(field), value, why);
    errors.aggregate_message()
}
