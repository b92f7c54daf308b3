//! Secret: `stringData`, the rules of each type, the immutable type.

use super::configmap::{DATA_BYTES_MAX, decoded_len, entries, validate_key, validate_unchanged};
use super::secret_tls;
use crate::check::differs_exactly;
use crate::metadata::ResourceScope;
use crate::{Hooks, Scope, metadata};
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, objectmeta};
use pintle_value::{Map, Path, Value, base64, json};

const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const TLS: &str = "kubernetes.io/tls";

pub(crate) struct Secret;

impl Hooks for Secret {
    fn prepare_update(&self, _scope: Scope<'_>, object: &mut Value, old: &Value) {
        if object.str_at(&["type"]).is_empty() {
            crate::hooks::take(object, old, &["type"]);
        }
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_data(object, errors);
        validate_type(object, errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let kind = object.str_at(&["type"]);
        if kind != old.str_at(&["type"]) {
            errors.invalid(&Path::of("type"), Named(kind), objectmeta::IMMUTABLE);
        }
        validate_unchanged(object, old, &[("data", differs_exactly)], errors);
        metadata::validate_core_as_new(self, ResourceScope::Namespaced, object, errors);
        validate_data(object, errors);
        validate_type(object, errors);
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        if object.str_at(&["type"]) != TLS {
            return Vec::new();
        }
        let bytes = |key: &str| base64::decode(object.str_at(&["data", key])).unwrap_or_default();
        secret_tls::key_pair_error(&bytes("tls.crt"), &bytes("tls.key")).into_iter().collect()
    }
}

/// Moves `stringData` into `data`.
pub(crate) fn take_string_data(object: &mut Value) {
    let Some(Value::Object(texts)) = object.remove_at(&["stringData"]) else { return };
    if texts.is_empty() {
        return;
    }
    if object.get("data").and_then(Value::as_object).is_none() {
        object.set_at(&["data"], Value::Object(Map::new()));
    }
    for (key, text) in texts {
        let encoded = base64::encode(text.as_str().unwrap_or("").as_bytes());
        object.set_at(&["data", &key], encoded.into());
    }
}

fn validate_data(object: &Value, errors: &mut FieldErrors) {
    let data = Path::of("data");
    let mut size = 0_usize;
    for (key, value) in entries(object, "data") {
        validate_key(&data, key, errors);
        size = size.saturating_add(decoded_len(value));
    }
    if size > DATA_BYTES_MAX {
        errors.too_long(&data, DATA_BYTES_MAX);
    }
}

fn validate_type(object: &Value, errors: &mut FieldErrors) {
    let data = Path::of("data");
    let value = |key: &str| object.at(&["data", key]).and_then(Value::as_str);
    match object.str_at(&["type"]) {
        "kubernetes.io/service-account-token" => validate_account(object, errors),
        "kubernetes.io/dockercfg" => validate_json(object, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => validate_json(object, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" if value("username").is_none() && value("password").is_none() => {
            errors.required(&data.key("username"), "");
            errors.required(&data.key("password"), "");
        }
        "kubernetes.io/ssh-auth" if value("ssh-privatekey").unwrap_or("").is_empty() => {
            errors.required(&data.key("ssh-privatekey"), "");
        }
        TLS => {
            for key in ["tls.crt", "tls.key"] {
                if value(key).is_none() {
                    errors.required(&data.key(key), "");
                }
            }
        }
        _ => {}
    }
}

/// A service account token must name its account; everything else may be added later.
fn validate_account(object: &Value, errors: &mut FieldErrors) {
    if metadata::annotation(object, SERVICE_ACCOUNT_NAME).unwrap_or("").is_empty() {
        errors.required(&Path::of("metadata.annotations").key(SERVICE_ACCOUNT_NAME), "");
    }
}

/// Requires a JSON object under `key`.
fn validate_json(object: &Value, key: &str, errors: &mut FieldErrors) {
    let data = Path::of("data");
    let Some(text) = object.at(&["data", key]).and_then(Value::as_str) else {
        return errors.required(&data.key(key), "");
    };
    let bytes = base64::decode(text).unwrap_or_default();
    let complaint = match json::parse(&bytes) {
        Ok(parsed) => match parsed.value {
            Value::Object(_) | Value::Null => return,
            other => {
                format!(
                    "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                    other.json_type()
                )
            }
        },
        Err(error) => error.message().to_string(),
    };
    errors.invalid(&data.key(key), "<secret contents redacted>", &complaint);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, defaulted, updated};

    #[test]
    fn string_data_overwrites_data_and_is_not_stored() {
        assert_eq!(
            defaulted("core/v1.Secret", r#"{"data":{"a":"b2xk"},"stringData":{"a":"new","c":""}}"#),
            r#"{"data":{"a":"bmV3","c":""},"type":"Opaque"}"#
        );
        assert_eq!(defaulted("core/v1.Secret", r#"{"stringData":{}}"#), r#"{"type":"Opaque"}"#);
    }

    #[test]
    fn each_type_wants_its_keys() {
        for (object, expected) in [
            (
                r#"{"type":"kubernetes.io/tls"}"#,
                vec!["data[tls.crt]: Required value", "data[tls.key]: Required value"],
            ),
            (r#"{"type":"kubernetes.io/ssh-auth"}"#, vec!["data[ssh-privatekey]: Required value"]),
            (r#"{"type":"kubernetes.io/basic-auth","data":{"password":""}}"#, vec![]),
            (
                r#"{"type":"kubernetes.io/service-account-token"}"#,
                vec!["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
            ),
            (
                r#"{"type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":"bm8="}}"#,
                vec![
                    r#"data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid character 'o' in literal null (expecting 'u')"#,
                ],
            ),
        ] {
            assert_eq!(created(&Secret, object), expected);
        }
    }

    #[test]
    fn the_type_stays() {
        let old = r#"{"metadata":{"name":"a","namespace":"n"},"type":"Opaque"}"#;
        let new = r#"{"metadata":{"name":"a","namespace":"n"},"type":"x"}"#;
        assert_eq!(
            updated(&Secret, Scope::Main, new, old),
            [r#"type: Invalid value: "x": field is immutable"#]
        );
    }
}
