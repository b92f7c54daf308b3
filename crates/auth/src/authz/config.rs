//! `AuthorizationConfiguration`: the file of `--authorization-config`, and the authorization flags in its terms.

use super::conditions::Conditions;
use crate::config_file;
use pintle_meta::duration::GoDuration;
use pintle_meta::errno::go_error_text;
use pintle_meta::field::{Plain, quoted};
use pintle_meta::go_type::{GoStruct, GoType};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};
use std::collections::BTreeSet;

/// Where kube-apiserver defines the scheme of the file, which is part of errors.
const SCHEME: &str = "k8s.io/apiserver/pkg/apis/apiserver/load/load.go:32";
/// Types of authorizers, sorted.
const TYPES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
/// The type that may occur several times.
pub const WEBHOOK: &str = "Webhook";
const SECOND: i64 = 1_000_000_000;
const TIMEOUT_NANOS_MAX: i64 = 30 * SECOND;

/// The authorizers, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizationConfig {
    /// The authorizers.
    pub authorizers: Vec<AuthorizerConfig>,
}

/// One authorizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct AuthorizerConfig {
    pub type_: String,
    pub name: String,
    pub webhook: Option<WebhookConfig>,
}

/// The settings of a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct WebhookConfig {
    pub authorized_ttl: GoDuration,
    pub cache_authorized: bool,
    pub unauthorized_ttl: GoDuration,
    pub cache_unauthorized: bool,
    pub timeout: GoDuration,
    pub review_version: String,
    pub condition_version: String,
    pub failure_policy: String,
    pub connection_type: String,
    pub kubeconfig: Option<String>,
    pub conditions: Vec<String>,
}

const TEXT: GoType = GoType::Text("string");
const WEBHOOK_FIELDS: GoStruct = GoStruct(
    "WebhookConfiguration",
    &[
        ("authorizedTTL", GoType::Duration),
        ("cacheAuthorizedRequests", GoType::Bool),
        ("unauthorizedTTL", GoType::Duration),
        ("cacheUnauthorizedRequests", GoType::Bool),
        ("timeout", GoType::Duration),
        ("subjectAccessReviewVersion", TEXT),
        ("matchConditionSubjectAccessReviewVersion", TEXT),
        ("failurePolicy", TEXT),
        (
            "connectionInfo",
            GoType::Struct(&GoStruct("WebhookConnectionInfo", &[("type", TEXT), ("kubeConfigFile", TEXT)])),
        ),
        ("matchConditions", GoType::Structs(&GoStruct("WebhookMatchCondition", &[("expression", TEXT)]))),
    ],
);
const FILE: GoStruct = GoStruct(
    "AuthorizationConfiguration",
    &[(
        "authorizers",
        GoType::Structs(&GoStruct(
            "AuthorizerConfiguration",
            &[("type", TEXT), ("name", TEXT), ("webhook", GoType::Struct(&WEBHOOK_FIELDS))],
        )),
    )],
);

impl AuthorizationConfig {
    /// Parses and validates the text of a file. `required` are the types that must be present. The error has
    /// kube-apiserver's text.
    pub fn load(text: &[u8], required: &BTreeSet<String>) -> Result<Self, String> {
        let config = AuthorizationConfig::parse(text)
            .map_err(|why| format!("failed to load AuthorizationConfiguration from file: {why}"))?;
        config.validate()?;
        config.check_names(required)?;
        Ok(config)
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        // An empty file is the default configuration, which has no authorizers.
        if text.is_empty() {
            return Ok(AuthorizationConfig::default());
        }
        let versions = ["v1", "v1beta1", "v1alpha1"];
        let tree = config_file::decode(text, &versions, &FILE, SCHEME)?;
        let authorizers = tree.items_at(&["authorizers"]).iter().map(read_authorizer);
        Ok(AuthorizationConfig { authorizers: authorizers.collect::<Result<_, _>>()? })
    }

    /// Validates the configuration.
    fn validate(&self) -> Result<(), String> {
        let mut errors = FieldErrors::new();
        let list = Path::of("authorizers");
        if self.authorizers.is_empty() {
            errors.required(&list, "at least one authorization mode must be defined");
        }
        let (mut types, mut seen_names) = (BTreeSet::new(), BTreeSet::new());
        for (index, authorizer) in self.authorizers.iter().enumerate() {
            let path = list.index(index);
            let type_ = authorizer.type_.as_str();
            if type_.is_empty() {
                errors.required(&path.field("type"), "");
                continue;
            }
            if !TYPES.contains(&type_) {
                errors.not_supported(&path.field("type"), type_, &TYPES);
                continue;
            }
            if !types.insert(type_) && type_ != WEBHOOK {
                errors.duplicate(&path.field("type"), type_);
                continue;
            }
            validate_name(&authorizer.name, &mut seen_names, &path.field("name"), &mut errors);
            match &authorizer.webhook {
                None if type_ == WEBHOOK => {
                    errors.required(&path.field("webhook"), "required when type=Webhook");
                }
                Some(webhook) if type_ == WEBHOOK => webhook.validate(&path, &mut errors),
                Some(_) => {
                    let why = "may only be specified when type=Webhook";
                    errors.invalid(&path.field("webhook"), "non-null", why);
                }
                None => {}
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.aggregate_message()) }
    }

    /// Authorizers other than webhooks are named by their type.
    fn check_names(&self, required: &BTreeSet<String>) -> Result<(), String> {
        let mut errors = Vec::new();
        let others = || self.authorizers.iter().filter(|authorizer| authorizer.type_ != WEBHOOK);
        for AuthorizerConfig { type_, name, .. } in others() {
            let expected = type_.to_lowercase();
            if expected != *name {
                errors.push(format!("expected name {expected} for authorizer {type_} instead of {name}"));
            }
        }
        let missing: Vec<&str> = required
            .iter()
            .map(String::as_str)
            .filter(|wanted| others().all(|authorizer| authorizer.type_ != *wanted))
            .collect();
        if !missing.is_empty() {
            errors.push(format!("missing required types: [{}]", missing.join(" ")));
        }
        if errors.is_empty() { Ok(()) } else { Err(crate::aggregate(errors)) }
    }
}

impl WebhookConfig {
    // kube-apiserver's paths omit "webhook".
    fn validate(&self, path: &Path<'_>, errors: &mut FieldErrors) {
        let duration = |value: GoDuration, name: &str, max: i64, why: &str, errors: &mut FieldErrors| {
            let place = path.field(name);
            match value.0 {
                0 => errors.required(&place, ""),
                nanos if nanos < 0 || nanos > max => errors.invalid(&place, &*value.to_string(), why),
                _ => {}
            }
        };
        duration(self.timeout, "timeout", TIMEOUT_NANOS_MAX, "must be > 0s and <= 30s", errors);
        duration(self.authorized_ttl, "authorizedTTL", i64::MAX, "must be > 0s", errors);
        duration(self.unauthorized_ttl, "unauthorizedTTL", i64::MAX, "must be > 0s", errors);
        let one_of = |value: &str, name: &str, supported: &[&str], errors: &mut FieldErrors| match value {
            "" => errors.required(&path.field(name), ""),
            known if supported.contains(&known) => {}
            other => errors.not_supported(&path.field(name), other, supported),
        };
        one_of(&self.review_version, "subjectAccessReviewVersion", &["v1", "v1beta1"], errors);
        let place = path.field("matchConditionSubjectAccessReviewVersion");
        match self.condition_version.as_str() {
            "" if !self.conditions.is_empty() => {
                errors.required(&place, "required if match conditions are specified");
            }
            "" | "v1" => {}
            other => errors.not_supported(&place, other, &["v1"]),
        }
        one_of(&self.failure_policy, "failurePolicy", &["NoOpinion", "Deny"], errors);
        self.validate_connection(&path.field("connectionInfo"), errors);
        let _ = Conditions::compile(&self.conditions, path, errors);
    }

    fn validate_connection(&self, path: &Path<'_>, errors: &mut FieldErrors) {
        let place = path.field("kubeConfigFile");
        let file = self.kubeconfig.as_deref();
        match (self.connection_type.as_str(), file) {
            ("", _) => errors.required(&path.field("type"), ""),
            ("InClusterConfig", None) => {}
            ("InClusterConfig", Some(file)) => {
                errors.invalid(&place, file, "can only be set when type=KubeConfigFile");
            }
            ("KubeConfigFile", None | Some("")) => errors.required(&place, ""),
            ("KubeConfigFile", Some(file)) if !file.starts_with('/') => {
                errors.invalid(&place, file, "must be an absolute path");
            }
            ("KubeConfigFile", Some(file)) => match std::fs::metadata(file) {
                Ok(found) if found.is_file() => {}
                Ok(_) => errors.invalid(&place, file, "must be a regular file"),
                Err(error) => {
                    let why = go_error_text(&error);
                    errors.invalid(&place, file, &format!("error loading file: stat {file}: {why}"));
                }
            },
            (other, _) => {
                // The error prints the whole structure with Go's field names.
                let file = file.map_or("null".to_string(), quoted);
                let text = format!("{{\"Type\":{},\"KubeConfigFile\":{file}}}", quoted(other));
                let supported = ["InClusterConfig", "KubeConfigFile"];
                errors.not_supported(&path.field("type"), Plain(&text), &supported);
            }
        }
    }
}

fn validate_name<'a>(name: &'a str, seen: &mut BTreeSet<&'a str>, path: &Path<'_>, errors: &mut FieldErrors) {
    let faults = names::is_dns1123_subdomain(name);
    match () {
        () if name.is_empty() => errors.required(path, ""),
        () if seen.contains(name) => errors.duplicate(path, name),
        () if !faults.is_empty() => {
            errors.invalid(path, name, &format!("authorizer name is invalid: {}", faults.join(", ")));
        }
        () => {}
    }
    seen.insert(name);
}

fn read_authorizer(tree: &Value) -> Result<AuthorizerConfig, String> {
    let webhook = tree.get("webhook").filter(|webhook| !webhook.is_null());
    Ok(AuthorizerConfig {
        type_: tree.str_at(&["type"]).to_string(),
        name: tree.str_at(&["name"]).to_string(),
        webhook: webhook.map(webhook_config).transpose()?,
    })
}

fn webhook_config(tree: &Value) -> Result<WebhookConfig, String> {
    let text = |path: &[&str]| tree.str_at(path).to_string();
    let flag = |key: &str| tree.get(key).and_then(Value::as_bool).unwrap_or(true);
    // Go reads null as an empty duration, which is none.
    let duration = |key: &str, default: i64| match tree.get(key).map(|_| tree.str_at(&[key])) {
        None => Ok(GoDuration(default)),
        Some(given) => match GoDuration::parse(given).map_err(|error| error.to_string())? {
            GoDuration(0) => Ok(GoDuration(default)),
            other => Ok::<_, String>(other),
        },
    };
    let conditions = tree.items_at(&["matchConditions"]).iter();
    Ok(WebhookConfig {
        authorized_ttl: duration("authorizedTTL", 300 * SECOND)?,
        cache_authorized: flag("cacheAuthorizedRequests"),
        unauthorized_ttl: duration("unauthorizedTTL", 30 * SECOND)?,
        cache_unauthorized: flag("cacheUnauthorizedRequests"),
        timeout: duration("timeout", 0)?,
        review_version: text(&["subjectAccessReviewVersion"]),
        condition_version: text(&["matchConditionSubjectAccessReviewVersion"]),
        failure_policy: text(&["failurePolicy"]),
        connection_type: text(&["connectionInfo", "type"]),
        kubeconfig: tree
            .at(&["connectionInfo", "kubeConfigFile"])
            .and_then(Value::as_str)
            .map(str::to_string),
        conditions: conditions.map(|condition| condition.str_at(&["expression"]).to_string()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(authorizers: &str) -> String {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{authorizers}]"
        );
        let required = ["RBAC".to_string()].into();
        AuthorizationConfig::load(text.as_bytes(), &required).err().unwrap_or_default()
    }

    #[test]
    fn files_that_are_refused() {
        let rbac = "{type: RBAC, name: rbac}";
        let webhook = |more: &str| {
            format!(
                "{rbac}, {{type: Webhook, name: w, webhook: {{timeout: 3s, subjectAccessReviewVersion: v1, \
                 failurePolicy: Deny, connectionInfo: {{type: KubeConfigFile, kubeConfigFile: /dev/null/x}}{more}}}}}"
            )
        };
        for (authorizers, want) in [
            (rbac.to_string(), ""),
            (String::new(), "authorizers: Required value: at least one authorization mode must be defined"),
            (
                "{type: Magic, name: m}".to_string(),
                "authorizers[0].type: Unsupported value: \"Magic\": supported values: \"ABAC\", \"AlwaysAllow\", \
                 \"AlwaysDeny\", \"Node\", \"RBAC\", \"Webhook\"",
            ),
            ("{type: RBAC, name: r}".to_string(), "expected name rbac for authorizer RBAC instead of r"),
            ("{type: Node, name: node}".to_string(), "missing required types: [RBAC]"),
            (
                webhook(""),
                "authorizers[1].connectionInfo.kubeConfigFile: Invalid value: \"/dev/null/x\": error loading file: \
                 stat /dev/null/x: not a directory",
            ),
            (
                webhook(", matchConditions: [{expression: 'true'}]"),
                "authorizers[1].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions \
                 are specified",
            ),
            (
                webhook(", authorizedTTL: -1s"),
                "authorizers[1].authorizedTTL: Invalid value: \"-1s\": must be > 0s",
            ),
        ] {
            let why = refusal(&authorizers);
            assert!(
                if want.is_empty() { why.is_empty() } else { why.contains(want) },
                "{authorizers}: {why}"
            );
        }
    }
}
