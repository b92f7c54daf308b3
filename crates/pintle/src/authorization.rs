//! Authorizers from `--authorization-config` or the authorization flags, reloaded when the file changes.

use crate::config::Config;
use crate::config_file::{ConfigFile, Handled, ReloadMetrics, read};
use crate::egress;
use crate::flags::{FlagError, Flags};
use pintle_auth::authz::abac::Abac;
use pintle_auth::authz::conditions::Conditions;
use pintle_auth::authz::config::{AuthorizationConfig, AuthorizerConfig, WEBHOOK, WebhookConfig};
use pintle_auth::authz::node::{NodeAuthorizer, NodeFeatures};
use pintle_auth::authz::rbac::Rbac;
use pintle_auth::authz::webhook::{WebhookAuthorizer, WebhookSettings};
use pintle_auth::authz::{AlwaysAllow, AlwaysDeny, Counted, PrivilegedGroup, Reloadable, Union};
use pintle_auth::{Authorizer, UserInfo};
use pintle_meta::FieldErrors;
use pintle_meta::duration::GoDuration;
use pintle_metrics::families;
use pintle_value::Path as FieldPath;
use pintle_webhook::{Dialer, Kubeconfig, ReviewClient};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often the file is checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The time-out of the webhook that is configured by flags, in nanoseconds.
const FLAG_WEBHOOK_TIMEOUT: i64 = 30_000_000_000;

const MODES: [&str; 6] = ["AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node"];
/// The flags that the file replaces.
const REPLACED_FLAGS: [&str; 5] = [
    "authorization-mode",
    "authorization-webhook-config-file",
    "authorization-webhook-version",
    "authorization-webhook-cache-authorized-ttl",
    "authorization-webhook-cache-unauthorized-ttl",
];

/// The authorizers and their configuration.
#[derive(Clone, Default)]
pub(crate) struct Authorization {
    config: AuthorizationConfig,
    file: Option<PathBuf>,
    /// Text of the file that `config` was read from.
    text: Vec<u8>,
    policy_file: PathBuf,
    /// How webhooks are reached.
    dialer: Dialer,
    /// Whether `--authorization-mode` contains AlwaysAllow.
    pub(crate) allows_everything: bool,
}

/// Authorizers that do not change when the file changes.
#[derive(Clone)]
pub(crate) struct LastingAuthorizers {
    pub(crate) rbac: Arc<Rbac>,
    pub(crate) node: Option<Arc<NodeAuthorizer>>,
    abac: Option<Arc<Abac>>,
    has_rbac: bool,
}

impl Authorization {
    /// Reads the flags, and the file that they name.
    pub(crate) fn new(flags: &Flags) -> Result<Self, FlagError> {
        let policy_file = PathBuf::from(flags.text("authorization-policy-file"));
        let dialer = egress::read(flags)?.unwrap_or_default().to_control_plane();
        let path = flags.text("authorization-config");
        if path.is_empty() {
            let config = from_flags(flags);
            let allows_everything = config.authorizers.iter().any(|a| a.type_ == "AlwaysAllow");
            return Ok(Authorization {
                config,
                policy_file,
                dialer,
                allows_everything,
                ..Authorization::default()
            });
        }
        let (config, text) = load(path).map_err(|why| FlagError::new(&why))?;
        let file = Some(PathBuf::from(path));
        Ok(Authorization { config, file, text, policy_file, dialer, allows_everything: false })
    }

    /// Builds the authorizers that live as long as the server.
    pub(crate) fn lasting(&self, config: &Config) -> Result<LastingAuthorizers, FlagError> {
        let has = |type_: &str| self.config.authorizers.iter().any(|a| a.type_ == type_);
        let features = NodeFeatures {
            trust_bundles: config.gate("ClusterTrustBundle"),
            credential_providers: config.gate("KubeletServiceAccountTokenForCredentialProviders"),
            pod_certificates: config.gate("PodCertificateRequest"),
        };
        let invalid = |why: String| FlagError::new(&format!("invalid authorization config: {why}"));
        Ok(LastingAuthorizers {
            rbac: Arc::new(Rbac::default()),
            node: has("Node").then(|| Arc::new(NodeAuthorizer::new(features))),
            abac: has("ABAC").then(|| abac(&self.policy_file)).transpose().map_err(invalid)?.map(Arc::new),
            has_rbac: has("RBAC"),
        })
    }

    /// Builds all authorizers, in their order.
    pub(crate) fn start(&self, lasting: &LastingAuthorizers) -> Result<Arc<Reloadable>, FlagError> {
        let union = build(&self.config, lasting, &self.dialer)
            .map_err(|why| FlagError::new(&format!("invalid authorization config: {why}")))?;
        Ok(Arc::new(Reloadable::new(union)))
    }

    /// Replaces the authorizers when the file changes. An invalid file is ignored.
    pub(crate) async fn follow(
        mut self,
        lasting: LastingAuthorizers,
        current: Arc<Reloadable>,
        server_id: String,
    ) {
        let Some(path) = self.file.take() else { return };
        let metrics = [
            &families::AUTHORIZATION_CONFIG_INFO,
            &families::AUTHORIZATION_RELOADS,
            &families::AUTHORIZATION_RELOADED_AT,
        ];
        let mut metrics = ReloadMetrics::new(&server_id, &self.text, metrics);
        let mut file = ConfigFile::new(path, std::mem::take(&mut self.text), POLL_INTERVAL);
        // Authorizers other than webhooks must not change, so that no file opens a server that RBAC protects.
        let types = self.config.authorizers.iter().map(|a| a.type_.clone());
        let required: BTreeSet<String> = types.filter(|type_| type_ != WEBHOOK).collect();
        loop {
            let changed = file.changed().await;
            let reloaded = changed.as_ref().map_err(Clone::clone).and_then(|text| {
                let config = AuthorizationConfig::load(text, &required)?;
                if config == self.config {
                    return Ok(None);
                }
                let union = build(&config, &lasting, &self.dialer)?;
                self.config = config;
                Ok(Some((union, text)))
            });
            match reloaded {
                Ok(None) => {}
                Ok(Some((union, text))) => {
                    current.set(union);
                    metrics.succeeded(text);
                }
                Err(why) => {
                    tracing::error!("the authorization configuration stays as it was: {why}");
                    metrics.failed();
                }
            }
            // Trying the same content again would fail again, unless a kubeconfig that it names has changed.
            if let Ok(text) = changed {
                file.record(text, Handled::Finally);
            }
        }
    }
}

/// Allows `system:masters` everything; then calls the configured authorizers in order.
fn build(
    config: &AuthorizationConfig,
    lasting: &LastingAuthorizers,
    dialer: &Dialer,
) -> Result<Union, String> {
    let mut all: Vec<Box<dyn Authorizer>> = vec![Box::new(PrivilegedGroup(UserInfo::MASTERS))];
    for AuthorizerConfig { type_, name, webhook } in &config.authorizers {
        let late = || {
            format!("authorizer type {type_} is not allowed if it was not enabled at initial server startup")
        };
        let authorizer: Box<dyn Authorizer> = match type_.as_str() {
            "AlwaysAllow" => Box::new(Counted::new(type_, name, AlwaysAllow)),
            "AlwaysDeny" => Box::new(Counted::new(type_, name, AlwaysDeny)),
            "Node" => Box::new(Counted::new(type_, name, lasting.node.clone().ok_or_else(late)?)),
            "ABAC" => Box::new(Counted::new(type_, name, lasting.abac.clone().ok_or_else(late)?)),
            "RBAC" if !lasting.has_rbac => return Err(late()),
            "RBAC" => Box::new(Counted::new(type_, name, lasting.rbac.clone())),
            _ => {
                let webhook = webhook.as_ref().ok_or_else(late)?;
                Box::new(Counted::new(type_, name, webhook_authorizer(name, webhook, dialer)?))
            }
        };
        all.push(authorizer);
    }
    Ok(Union(all))
}

fn webhook_authorizer(
    name: &str,
    config: &WebhookConfig,
    dialer: &Dialer,
) -> Result<WebhookAuthorizer, String> {
    let Some(path) = &config.kubeconfig else {
        return Err("an authorization webhook needs a kubeconfig; there is none in this cluster".to_string());
    };
    let kubeconfig = Kubeconfig::load(Path::new(path))?;
    let duration = |value: GoDuration| Duration::from_nanos(u64::try_from(value.0).unwrap_or(0));
    let client = ReviewClient::new(kubeconfig, Some(duration(config.timeout)))?.with_dialer(dialer.clone());
    let mut errors = FieldErrors::new();
    let conditions = Conditions::compile(&config.conditions, &FieldPath::of("webhook"), &mut errors);
    if !errors.is_empty() {
        return Err(errors.aggregate_message());
    }
    let life = |ttl, is_cached: bool| if is_cached { duration(ttl) } else { Duration::ZERO };
    let settings = WebhookSettings {
        name: name.to_string(),
        version: config.review_version.clone(),
        allowed_life: life(config.authorized_ttl, config.cache_authorized),
        refused_life: life(config.unauthorized_ttl, config.cache_unauthorized),
        denies_on_failure: config.failure_policy == "Deny",
    };
    WebhookAuthorizer::new(client, settings, conditions)
}

/// The policies of `--authorization-policy-file`.
fn abac(path: &Path) -> Result<Abac, String> {
    let text = read(path)?;
    let read = Abac::parse(&String::from_utf8_lossy(&text));
    read.map_err(|why| format!("error reading policy file {}, {why}", path.display()))
}

/// Errors of the flags, and of the file that they name.
pub(crate) fn errors(flags: &Flags) -> Vec<String> {
    let path = flags.text("authorization-config");
    if path.is_empty() {
        return mode_errors(flags);
    }
    if REPLACED_FLAGS.iter().any(|name| flags.given(name)) {
        let why = "--authorization-config can not be specified when --authorization-mode or \
                   --authorization-webhook-* flags are defined";
        return vec![why.to_string()];
    }
    load(path).err().into_iter().collect()
}

/// Reads the file of `--authorization-config`; also returns its text.
fn load(path: &str) -> Result<(AuthorizationConfig, Vec<u8>), String> {
    read(Path::new(path)).and_then(|text| Ok((AuthorizationConfig::load(&text, &BTreeSet::new())?, text)))
}

fn modes(flags: &Flags) -> Vec<String> {
    let modes = flags.list("authorization-mode");
    if modes.is_empty() { vec!["RBAC".to_string()] } else { modes }
}

fn mode_errors(flags: &Flags) -> Vec<String> {
    let modes = modes(flags);
    let has = |mode: &str| modes.iter().any(|named| named == mode);
    let is_given = |name: &str| !flags.text(name).is_empty();
    let mut errors = Vec::new();
    for mode in &modes {
        if !MODES.contains(&mode.as_str()) {
            errors.push(format!("authorization-mode {mode:?} is not a valid mode"));
        }
        if mode == "ABAC" && !is_given("authorization-policy-file") {
            errors.push("authorization-mode ABAC's authorization policy file not passed".to_string());
        }
        if mode == WEBHOOK && !is_given("authorization-webhook-config-file") {
            errors.push("authorization-mode Webhook's authorization config file not passed".to_string());
        }
    }
    if !has("ABAC") && is_given("authorization-policy-file") {
        errors.push("cannot specify --authorization-policy-file without mode ABAC".to_string());
    }
    if !has(WEBHOOK) && is_given("authorization-webhook-config-file") {
        errors.push("cannot specify --authorization-webhook-config-file without mode Webhook".to_string());
    }
    if modes.iter().collect::<BTreeSet<_>>().len() < modes.len() {
        let listed: Vec<String> = modes.iter().map(|mode| format!("{mode:?}")).collect();
        errors.push(format!("authorization-mode [{}] has mode specified more than once", listed.join(" ")));
    }
    errors
}

/// The flags, which must be valid, in terms of the file.
fn from_flags(flags: &Flags) -> AuthorizationConfig {
    let authorizers = modes(flags).into_iter().map(|mode| AuthorizerConfig {
        name: if mode == WEBHOOK { "default".to_string() } else { mode.to_lowercase() },
        webhook: (mode == WEBHOOK).then(|| webhook_of_flags(flags)),
        type_: mode,
    });
    AuthorizationConfig { authorizers: authorizers.collect() }
}

fn webhook_of_flags(flags: &Flags) -> WebhookConfig {
    let nanos = |name: &str| i64::try_from(flags.duration(name).as_nanos()).unwrap_or(i64::MAX);
    WebhookConfig {
        authorized_ttl: GoDuration(nanos("authorization-webhook-cache-authorized-ttl")),
        cache_authorized: true,
        unauthorized_ttl: GoDuration(nanos("authorization-webhook-cache-unauthorized-ttl")),
        cache_unauthorized: true,
        timeout: GoDuration(FLAG_WEBHOOK_TIMEOUT),
        review_version: flags.text("authorization-webhook-version").to_string(),
        failure_policy: "NoOpinion".to_string(),
        connection_type: "KubeConfigFile".to_string(),
        kubeconfig: Some(flags.text("authorization-webhook-config-file").to_string()),
        ..WebhookConfig::default()
    }
}
