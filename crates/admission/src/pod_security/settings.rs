//! The configuration of PodSecurity: default levels and exemptions.

use super::policy::{Level, LevelVersion, NO_LEVEL, NO_VERSION, Policy, Version};
use crate::PluginError;
use crate::config::{PluginConfig, Scheme};
use pintle_meta::go_type::{GoStruct, GoType};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

const TEXTS: GoType = GoType::Texts("string");
const DEFAULTS: GoStruct = GoStruct(
    "PodSecurityDefaults",
    &[
        ("enforce", GoType::Text("string")),
        ("enforce-version", GoType::Text("string")),
        ("audit", GoType::Text("string")),
        ("audit-version", GoType::Text("string")),
        ("warn", GoType::Text("string")),
        ("warn-version", GoType::Text("string")),
    ],
);
const EXEMPTIONS: GoStruct = GoStruct(
    "PodSecurityExemptions",
    &[("usernames", TEXTS), ("namespaces", TEXTS), ("runtimeClasses", TEXTS)],
);
const CONFIGURATION: GoStruct = GoStruct(
    "PodSecurityConfiguration",
    &[("defaults", GoType::Struct(&DEFAULTS)), ("exemptions", GoType::Struct(&EXEMPTIONS))],
);
const SCHEME: Scheme = Scheme {
    kinds: &[
        ("pod-security.admission.config.k8s.io/v1", "PodSecurityConfiguration", &CONFIGURATION),
        ("pod-security.admission.config.k8s.io/v1beta1", "PodSecurityConfiguration", &CONFIGURATION),
        ("pod-security.admission.config.k8s.io/v1alpha1", "PodSecurityConfiguration", &CONFIGURATION),
    ],
    strict: true,
    place: "k8s.io/pod-security-admission/admission/api/scheme/scheme.go:31",
};

/// The parsed configuration.
pub(super) struct Settings {
    pub(super) defaults: Policy,
    pub(super) users: Vec<String>,
    pub(super) namespaces: Vec<String>,
    pub(super) runtime_classes: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            defaults: Policy::PRIVILEGED,
            users: Vec::new(),
            namespaces: Vec::new(),
            runtime_classes: Vec::new(),
        }
    }
}

impl Settings {
    pub(super) fn new(config: &PluginConfig) -> Result<Self, PluginError> {
        // An empty file configures nothing.
        if config.text.is_empty() {
            return Ok(Settings::default());
        }
        let (_, tree) = config.decode(&SCHEME).map_err(|error| PluginError::Init(error.text()))?;
        let defaults = parse_defaults(&tree)
            .map_err(|why| PluginError::Initialize(format!("PodSecurity configuration error: {why}")))?;
        let mut errors = FieldErrors::new();
        let names = |list: &str| -> Vec<String> {
            let items = tree.items_at(&["exemptions", list]).iter();
            items.map(|item| item.as_str().unwrap_or("").to_string()).collect()
        };
        let settings = Settings {
            defaults,
            users: names("usernames"),
            namespaces: names("namespaces"),
            runtime_classes: names("runtimeClasses"),
        };
        validate("namespaces", &settings.namespaces, names::is_dns1123_label, &mut errors);
        validate("runtimeClasses", &settings.runtime_classes, names::is_dns1123_subdomain, &mut errors);
        let no_name = |name: &str| match name {
            "" => vec!["username must not be empty".to_string()],
            _ => Vec::new(),
        };
        validate("usernames", &settings.users, no_name, &mut errors);
        if errors.is_empty() {
            Ok(settings)
        } else {
            Err(PluginError::Initialize(format!("PodSecurity invalid: {}", errors.aggregate_message())))
        }
    }
}

fn parse_defaults(tree: &Value) -> Result<Policy, String> {
    let mut policy = Policy::PRIVILEGED;
    let mut faults: Vec<String> = Vec::new();
    let modes: [(&str, &mut LevelVersion); 3] =
        [("enforce", &mut policy.enforce), ("audit", &mut policy.audit), ("warn", &mut policy.warn)];
    for (mode, value) in modes {
        match tree.str_at(&["defaults", mode]) {
            "" => {}
            text => match Level::parse(text) {
                Some(level) => value.level = level,
                None => faults.push(format!("{mode}: {NO_LEVEL}")),
            },
        }
        match tree.str_at(&["defaults", &format!("{mode}-version")]) {
            "" => {}
            text => match Version::parse(text) {
                Some(version) => value.version = version,
                None => faults.push(format!("{mode}-version: {NO_VERSION}")),
            },
        }
    }
    match faults.as_slice() {
        [] => Ok(policy),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

fn validate(list: &str, all: &[String], faults: impl Fn(&str) -> Vec<String>, errors: &mut FieldErrors) {
    let root = Path::of("exemptions");
    let path = root.field(list);
    for (index, name) in all.iter().enumerate() {
        let found = faults(name);
        if !found.is_empty() {
            errors.invalid(&path.index(index), name.as_str(), &found.join(", "));
        } else if all.iter().take(index).any(|other| other == name) {
            errors.duplicate(&path.index(index), name.as_str());
        }
    }
}
