//! The file of `--encryption-provider-config`: parsed strictly, validated with kube-apiserver's messages.

use crate::aes::{Cbc, Gcm};
use crate::kms::{self, Kms, KmsV1, KmsVersion};
use crate::provider::{Cipher, Keyed, Provider, TransformError};
use crate::rules::{Configuration, Plugin, parse_resource};
use crate::secretbox::Secretbox;
use pintle_meta::FieldErrors;
use pintle_meta::duration::GoDuration;
use pintle_meta::field::{ErrorKind, quoted};
use pintle_meta::go_type::{GoStruct, GoType, head_type_error, unregistered_kind};
use pintle_value::{Path, Value, base64, json, yaml};
use std::sync::Arc;
use std::time::Duration;

/// The reason why a configuration is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file is invalid.
    #[error("error while parsing file: {0}")]
    Parse(String),
    /// The providers cannot be built.
    #[error("error while building transformers: {0}")]
    Build(String),
}

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";
const SCHEME: &str = "k8s.io/apiserver/pkg/server/options/encryptionconfig/config.go:142";
const KMS_V1_OFF: &str = "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  \
                          Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.";
/// The default time-out of a KMS plugin.
const TIMEOUT_DEFAULT: &str = "3s";

/// The default number of keys that a KMS v1 provider caches.
const CACHE_SIZE_DEFAULT: usize = 1000;

/// Creates the client of a KMS plugin from its version, endpoint and time-out.
pub type Connect = dyn Fn(KmsVersion, &str, Duration) -> Result<Arc<dyn kms::KmsService>, String>;

const TEXT: GoType = GoType::Text("string");
const KEYS: GoType = GoType::Structs(&GoStruct("Key", &[("name", TEXT), ("secret", TEXT)]));
const PROVIDER: GoStruct = GoStruct(
    "ProviderConfiguration",
    &[
        ("aesgcm", GoType::Struct(&GoStruct("AESConfiguration", &[("keys", KEYS)]))),
        ("aescbc", GoType::Struct(&GoStruct("AESConfiguration", &[("keys", KEYS)]))),
        ("secretbox", GoType::Struct(&GoStruct("SecretboxConfiguration", &[("keys", KEYS)]))),
        ("identity", GoType::Struct(&GoStruct("IdentityConfiguration", &[]))),
        (
            "kms",
            GoType::Struct(&GoStruct(
                "KMSConfiguration",
                &[
                    ("apiVersion", TEXT),
                    ("name", TEXT),
                    ("cachesize", GoType::Int32),
                    ("endpoint", TEXT),
                    ("timeout", GoType::Duration),
                ],
            )),
        ),
    ],
);
const RULE: GoStruct = GoStruct(
    "ResourceConfiguration",
    &[("resources", GoType::Texts("string")), ("providers", GoType::Structs(&PROVIDER))],
);
/// The Go types of the file.
const FILE: GoStruct = GoStruct(KIND, &[("resources", GoType::Structs(&RULE))]);

/// Parses a configuration. `path` is only used in errors; `connect` creates the client of a KMS plugin. `kms_v1` is the
/// feature gate KMSv1.
pub fn parse(
    path: &str,
    bytes: &[u8],
    kms_v1: bool,
    connect: &Connect,
) -> Result<Configuration, ConfigError> {
    if bytes.is_empty() {
        let why = format!(
            "error while loading file: encryption provider configuration file {} is empty",
            quoted(path)
        );
        return Err(ConfigError::Parse(why));
    }
    let tree = decode(bytes).map_err(|why| {
        ConfigError::Parse(format!(
            "error decoding encryption provider configuration file {}: {why}",
            quoted(path)
        ))
    })?;
    let mut errors = FieldErrors::new();
    validate(&tree, &mut errors);
    if !errors.is_empty() {
        return Err(ConfigError::Parse(errors.aggregate_message()));
    }
    build_configuration(&tree, kms_v1, connect).map_err(ConfigError::Build)
}

/// The parsed file, without unknown fields.
fn decode(bytes: &[u8]) -> Result<Value, String> {
    let tree = yaml::parse(bytes)
        .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?
        .value;
    if let Some(error) = head_type_error(&tree) {
        return Err(error);
    }
    let (version, kind) = (tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]));
    if kind.is_empty() {
        return Err(format!("Object 'Kind' is missing in '{}'", json::text(&redacted(&tree))));
    }
    if version != API_VERSION || kind != KIND {
        return Err(unregistered_kind(kind, version, SCHEME));
    }
    if let Some(error) = FILE.type_error(&tree, "v1") {
        return Err(error);
    }
    if let Some(error) = tree.items_at(&["resources"]).iter().find_map(timeout_error) {
        return Err(error);
    }
    let unknown = FILE.unknown_fields(&tree);
    if unknown.is_empty() { Ok(tree) } else { Err(format!("strict decoding error: {}", unknown.join(", "))) }
}

/// The error about a time-out that is no duration, which the decoder itself refuses.
fn timeout_error(rule: &Value) -> Option<String> {
    let providers = rule.items_at(&["providers"]).iter();
    let mut timeouts = providers.filter_map(|provider| provider.at(&["kms", "timeout"])?.as_str());
    timeouts.find_map(|text| GoDuration::parse(text).err().map(|error| error.to_string()))
}

fn validate(tree: &Value, errors: &mut FieldErrors) {
    let root = Path::of("resources");
    let rules = tree.items_at(&["resources"]);
    if rules.is_empty() {
        return errors.required(&root, "at least one resources is required");
    }
    let mut kms_names: Vec<String> = Vec::new();
    for (i, rule) in rules.iter().enumerate() {
        let path = root.index(i);
        let at_least_one = |path: &Path<'_>, errors: &mut FieldErrors| {
            errors.required(path, &format!("at least one {} is required", path.to_str()));
        };
        let names: Vec<&str> = rule.items_at(&["resources"]).iter().filter_map(Value::as_str).collect();
        let at = path.field("resources");
        if names.is_empty() {
            at_least_one(&at, errors);
        }
        validate_overlap(&names, &at, errors);
        for (j, name) in names.iter().enumerate() {
            if let Some(why) = resource_fault(name) {
                errors.invalid(&at.index(j), *name, why);
            }
        }
        let at = path.field("providers");
        let providers = rule.items_at(&["providers"]);
        if providers.is_empty() {
            at_least_one(&at, errors);
        }
        for (j, provider) in providers.iter().enumerate() {
            validate_provider(provider, &at.index(j), &mut kms_names, errors);
        }
    }
}

fn validate_overlap(names: &[&str], path: &Path<'_>, errors: &mut FieldErrors) {
    let all: Vec<(String, String)> = names.iter().map(|name| parse_resource(name)).collect();
    let (mut duplicate, mut overlap) = (false, false);
    for (i, one) in all.iter().enumerate() {
        for (_, other) in all.iter().enumerate().filter(|(j, _)| *j != i) {
            if one == other && !duplicate {
                duplicate = true;
            } else {
                let is_all = one.0 == "*" && one.1 == "*";
                overlap |= is_all || one.0 == other.0 && (one.1 == "*" || other.1 == "*");
            }
        }
    }
    let error_value = || {
        let list = Value::Array(names.iter().map(|name| Value::from(*name)).collect());
        json::text(&list)
    };
    if duplicate {
        let why = "the same resource cannot be specified multiple times";
        errors.push(ErrorKind::Invalid, path, Some(&error_value()), why);
    }
    if overlap {
        let why = "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as \
                   they will be masked";
        errors.push(ErrorKind::Invalid, path, Some(&error_value()), why);
    }
}

fn resource_fault(name: &str) -> Option<&'static str> {
    let (group, resource) = parse_resource(name);
    match name {
        _ if name.to_lowercase() != name => Some("resource name should not contain capital letters"),
        "*" => {
            Some("use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources")
        }
        "apiserveripinfo" | "serviceipallocations" | "servicenodeportallocations" => {
            Some("resources which do not have REST API/s cannot be encrypted")
        }
        _ if group == "events.k8s.io" => Some(
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the \
             config file",
        ),
        _ if group == "extensions" => {
            Some("'extensions' group has been removed and cannot be used for encryption")
        }
        _ if group == "*" && resource != "*" => {
            Some("encrypting the same resource across groups is not supported")
        }
        _ => None,
    }
}

fn validate_provider(
    provider: &Value,
    path: &Path<'_>,
    kms_names: &mut Vec<String>,
    errors: &mut FieldErrors,
) {
    let is_set = |name: &str| provider.get(name).is_some_and(|value| !value.is_null());
    let found =
        ["kms", "aesgcm", "aescbc", "secretbox", "identity"].iter().filter(|name| is_set(name)).count();
    if found != 1 {
        let why = match found {
            0 => {
                "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"
            }
            _ => {
                "more than one provider specified in a single element, should split into different list elements"
            }
        };
        errors.push(ErrorKind::Invalid, path, Some(&go_provider(provider)), why);
    }
    if let Some(kms) = provider.get("kms").filter(|value| !value.is_null()) {
        return validate_kms(kms, &path.field("kms"), kms_names, errors);
    }
    for (name, sizes) in [("aesgcm", &[16, 24, 32][..]), ("aescbc", &[16, 24, 32]), ("secretbox", &[32])] {
        let Some(keyed) = provider.get(name).filter(|value| !value.is_null()) else { continue };
        let at = path.field(name);
        let at = at.field("keys");
        let keys = keyed.items_at(&["keys"]);
        if keys.is_empty() {
            errors.required(&at, "at least one keys is required");
        }
        for (k, key) in keys.iter().enumerate() {
            validate_key(key, &at.index(k), sizes, errors);
        }
        return;
    }
}

fn validate_key(key: &Value, path: &Path<'_>, sizes: &[usize], errors: &mut FieldErrors) {
    if key.str_at(&["name"]).is_empty() {
        errors.required(&path.field("name"), "name is a mandatory field for a key");
    }
    let at = path.field("secret");
    match key.str_at(&["secret"]) {
        "" => errors.required(&at, "secret is a mandatory field for a key"),
        secret => match base64::decode(secret) {
            Err(_) => errors.invalid(&at, "REDACTED", "secrets must be base64 encoded"),
            Ok(bytes) if !sizes.contains(&bytes.len()) => {
                let sizes = sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
                let length = bytes.len();
                let why =
                    format!("secret is not of the expected length, got {length}, expected one of [{sizes}]");
                errors.invalid(&at, "REDACTED", &why);
            }
            Ok(_) => {}
        },
    }
}

fn validate_kms(kms: &Value, path: &Path<'_>, names: &mut Vec<String>, errors: &mut FieldErrors) {
    let name = kms.str_at(&["name"]);
    let version = kms_version(kms);
    let at = path.field("name");
    if name.is_empty() {
        errors.required(&at, "name is a mandatory field for a provider");
    }
    if version != "v1" && name.contains(':') {
        errors.invalid(&at, name, &format!("invalid KMS provider name {name}, must not contain ':'"));
    }
    if version != "v1" && names.iter().any(|known| known == name) {
        errors.invalid(&at, name, &format!("duplicate KMS provider name {name}, names must be unique"));
    }
    names.push(name.to_string());
    if kms_timeout(kms).is_none() {
        let error_value = kms.str_at(&["timeout"]);
        errors.invalid(&path.field("timeout"), error_value, "timeout should be a positive value");
    }
    let at = path.field("endpoint");
    match kms.str_at(&["endpoint"]) {
        "" => errors.invalid(&at, "", "endpoint is a mandatory field for a kms"),
        endpoint => {
            let scheme = endpoint.split_once(':').map_or("", |(scheme, _)| scheme);
            if scheme != "unix" {
                let why =
                    format!("unsupported scheme {} for KMS provider, only unix is supported", quoted(scheme));
                errors.invalid(&at, endpoint, &why);
            }
        }
    }
    let size = kms.get("cachesize").and_then(Value::as_int);
    match (version, size) {
        ("v1", Some(0)) => {
            let why = "cachesize should be a positive value, or negative to disable";
            errors.push(ErrorKind::Invalid, &path.field("cachesize"), Some("0"), why);
        }
        ("v1", _) | (_, None) => {}
        (_, Some(size)) => {
            let why = "cachesize is not supported in v2";
            errors.push(ErrorKind::Invalid, &path.field("cachesize"), Some(&size.to_string()), why);
        }
    }
    if !matches!(version, "v1" | "v2") {
        let why = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
        errors.invalid(&path.field("apiVersion"), version, why);
    }
}

fn kms_version(kms: &Value) -> &str {
    match kms.str_at(&["apiVersion"]) {
        "" => "v1",
        version => version,
    }
}

fn kms_timeout(kms: &Value) -> Option<Duration> {
    let text = kms.get("timeout").and_then(Value::as_str).unwrap_or(TIMEOUT_DEFAULT);
    let GoDuration(nanos) = GoDuration::parse(text).ok()?;
    u64::try_from(nanos).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos)
}

fn build_configuration(tree: &Value, kms_v1: bool, connect: &Connect) -> Result<Configuration, String> {
    let mut configuration = Configuration::default();
    for rule in tree.items_at(&["resources"]) {
        let mut providers = Vec::new();
        for provider in rule.items_at(&["providers"]) {
            providers.push(build_provider(provider, kms_v1, connect, &mut configuration.kms)?);
        }
        let providers = Arc::new(providers);
        for resource in rule.items_at(&["resources"]).iter().filter_map(Value::as_str) {
            configuration.add(resource, &providers)?;
        }
    }
    Ok(configuration)
}

fn build_provider(
    provider: &Value,
    kms_v1: bool,
    connect: &Connect,
    all_kms: &mut Vec<Plugin>,
) -> Result<Provider, String> {
    if let Some(kms) = provider.get("kms").filter(|value| !value.is_null()) {
        let version = if kms_version(kms) == "v1" { KmsVersion::V1 } else { KmsVersion::V2 };
        if version == KmsVersion::V1 && !kms_v1 {
            return Err(KMS_V1_OFF.to_string());
        }
        let name = kms.str_at(&["name"]);
        let timeout = kms_timeout(kms).unwrap_or_default();
        let service = connect(version, kms.str_at(&["endpoint"]), timeout).map_err(|why| {
            format!(
                "could not configure KMS{}-Plugin's probe {}, error: {why}",
                kms_version(kms),
                quoted(name)
            )
        })?;
        if version == KmsVersion::V1 {
            let given = kms.get("cachesize").and_then(Value::as_int);
            // A negative size turns the cache off.
            let size = given.map_or(CACHE_SIZE_DEFAULT, |size| usize::try_from(size).unwrap_or(0));
            let kms = KmsV1::start(name, service, size);
            all_kms.push(Plugin::V1(kms.clone()));
            return Ok(Provider::KmsV1(kms));
        }
        let kms = Kms::start(name, service);
        all_kms.push(Plugin::V2(kms.clone()));
        return Ok(Provider::Kms(kms));
    }
    type Make = fn(&[u8]) -> Result<Cipher, TransformError>;
    const NO_AES_KEY: &str = "no matching key was found for the provided AES transformer";
    const NO_BOX_KEY: &str = "no matching key was found for the provided Secretbox transformer";
    let kinds: [(&str, &'static str, &'static str, Make); 3] = [
        ("aesgcm", "k8s:enc:aesgcm:v1:", NO_AES_KEY, |key| Gcm::new(key).map(Cipher::Gcm)),
        ("aescbc", "k8s:enc:aescbc:v1:", NO_AES_KEY, |key| Cbc::new(key).map(Box::new).map(Cipher::Cbc)),
        ("secretbox", "k8s:enc:secretbox:v1:", NO_BOX_KEY, |key| {
            Secretbox::new(key).map(Box::new).map(Cipher::Secretbox)
        }),
    ];
    for (name, prefix, no_key, make) in kinds {
        let Some(keyed) = provider.get(name).filter(|value| !value.is_null()) else { continue };
        let mut keys = Vec::new();
        for key in keyed.items_at(&["keys"]) {
            let secret = base64::decode(key.str_at(&["secret"])).unwrap_or_default();
            let cipher = make(&secret).map_err(|error| error.to_string())?;
            keys.push((key.str_at(&["name"]).to_string(), cipher));
        }
        return Ok(Provider::Keyed(Keyed { prefix, no_key, keys }));
    }
    Ok(Provider::Identity)
}

/// A provider as Go prints its struct, without the secrets, which kube-apiserver prints here.
fn go_provider(provider: &Value) -> String {
    let keyed = |name: &str| match provider.get(name).filter(|value| !value.is_null()) {
        None => "null".to_string(),
        Some(keyed) => {
            let keys = keyed
                .items_at(&["keys"])
                .iter()
                .map(|key| format!("{{\"Name\":{},\"Secret\":\"REDACTED\"}}", quoted(key.str_at(&["name"]))));
            format!("{{\"Keys\":[{}]}}", keys.collect::<Vec<_>>().join(","))
        }
    };
    let is_set = |name: &str| provider.get(name).is_some_and(|value| !value.is_null());
    format!(
        "{{\"AESGCM\":{},\"AESCBC\":{},\"Secretbox\":{},\"Identity\":{},\"KMS\":{}}}",
        keyed("aesgcm"),
        keyed("aescbc"),
        keyed("secretbox"),
        if is_set("identity") { "{}" } else { "null" },
        if is_set("kms") { "{}" } else { "null" },
    )
}

/// A copy for error messages: it retains names and hides every other text, which may be a secret.
fn redacted(tree: &Value) -> Value {
    match tree {
        Value::Object(map) => {
            let mut out = map.clone();
            for (name, value) in out.iter_mut() {
                *value = if name == "secret" { "REDACTED".into() } else { redacted(value) };
            }
            Value::Object(out)
        }
        Value::Array(items) => Value::Array(items.iter().map(redacted).collect()),
        other => other.clone(),
    }
}
