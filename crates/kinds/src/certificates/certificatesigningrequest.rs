//! CertificateSigningRequest: records the requester, its spec is immutable, approval and certificate have scopes of
//! their own.

use super::pem;
use crate::metadata::ResourceScope;
use crate::{Hooks, Requester, Scope, check, fields, hooks, metadata};
use pintle_meta::field::{Named, Plain, quoted};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Str, Value, base64};
use std::collections::HashMap;

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const EXPIRATION_SECONDS_MIN: i64 = 600;
const SUBDOMAIN_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(crate) struct CertificateSigningRequest;

impl Hooks for CertificateSigningRequest {
    fn prepare_create(&self, object: &mut Value) {
        for key in ["username", "uid", "groups", "extra"] {
            object.remove_at(&["spec", key]);
        }
    }

    fn set_requester(&self, object: &mut Value, requester: &Requester<'_>) {
        let list = |texts: &[String]| Value::Array(texts.iter().map(|t| Value::from(t.as_str())).collect());
        for (key, text) in [("username", requester.name), ("uid", requester.uid)] {
            if !text.is_empty() {
                object.set_at(&["spec", key], text.into());
            }
        }
        if !requester.groups.is_empty() {
            object.set_at(&["spec", "groups"], list(requester.groups));
        }
        for (key, values) in requester.extra {
            object.set_at(&["spec", "extra", key], list(values));
        }
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        hooks::take(object, old, &["spec"]);
        match scope {
            Scope::Sub("approval") => {
                let conditions = object.remove_at(&["status", "conditions"]);
                hooks::take(object, old, &["status"]);
                match conditions {
                    Some(conditions) => object.set_at(&["status", "conditions"], conditions),
                    None => _ = object.remove_at(&["status", "conditions"]),
                }
            }
            Scope::Sub(_) => {
                keep_conditions(object, old, "Approved");
                keep_conditions(object, old, "Denied");
            }
            Scope::Main => hooks::take(object, old, &["status"]),
        }
    }

    fn stamp(&self, scope: Scope<'_>, object: &mut Value, old: Option<&Value>, now: &str) {
        let Some(old) = old.filter(|_| scope != Scope::Main) else { return };
        let type_and_status = |condition: &Value| {
            ["type", "status"].map(|key| condition.get(key).and_then(Value::as_str).map(Str::from))
        };
        let mut moved_before = HashMap::new();
        for condition in old.items_at(&["status", "conditions"]) {
            let moved = condition.str_at(&["lastTransitionTime"]);
            moved_before.entry(type_and_status(condition)).or_insert(moved);
        }
        let Some(conditions) = object.at_mut(&["status", "conditions"]).and_then(Value::as_array_mut) else {
            return;
        };
        for condition in conditions {
            let moved = moved_before.get(&type_and_status(condition)).copied().filter(|t| !t.is_empty());
            crate::fill::absent(condition, "lastUpdateTime", now);
            crate::fill::absent(condition, "lastTransitionTime", moved.unwrap_or(now));
        }
    }

    fn name_errors(&self, _name: &str, _prefix: bool) -> Vec<String> {
        Vec::new()
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate(object, None, errors);
    }

    /// `validate_update` does it, after the rules of the kind.
    fn validates_changed_metadata(&self, _scope: Scope<'_>) -> bool {
        false
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        metadata::validate_core_as_new(self, ResourceScope::Cluster, object, errors);
        validate(object, Some(old), errors);
        validate_change(scope, object, old, errors);
        metadata::validate_core_as_change(object, old, errors);
    }
}

fn conditions<'a>(object: &'a Value, kind: &str) -> Vec<&'a Value> {
    object.items_at(&["status", "conditions"]).iter().filter(|c| fields::text(c, "type") == kind).collect()
}

/// Restores conditions of this type, unless one was added or removed.
fn keep_conditions(object: &mut Value, old: &Value, kind: &str) {
    let before: Vec<Value> = conditions(old, kind).into_iter().cloned().collect();
    if conditions(object, kind).len() != before.len() {
        return;
    }
    let Some(all) = object.at_mut(&["status", "conditions"]).and_then(Value::as_array_mut) else { return };
    for (condition, old) in all.iter_mut().filter(|c| fields::text(c, "type") == kind).zip(before) {
        *condition = old;
    }
}

fn validate(object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let path = Path::of("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let request = fields::text(spec, "request");
    if let Some(why) = pem::request_error(&base64::decode(request).unwrap_or_default()) {
        let at = path.field("request");
        match fields::member(spec, "request") {
            None => errors.invalid(&at, Plain("null"), &why),
            Some(_) => errors.invalid(&at, Named(request), &why),
        }
    }
    validate_usages(spec, old, &path.field("usages"), errors);
    let signer = fields::text(spec, "signerName");
    let legacy_before = old.is_some_and(|old| old.str_at(&["spec", "signerName"]) == LEGACY_SIGNER);
    if signer == LEGACY_SIGNER && !legacy_before {
        let why = "the legacy signerName is not allowed via this API version";
        errors.invalid(&path.field("signerName"), signer, why);
    } else {
        validate_signer_name(signer, &path.field("signerName"), errors);
    }
    if let Some(seconds) = fields::opt_int(spec, "expirationSeconds").filter(|s| *s < EXPIRATION_SECONDS_MIN)
    {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&path.field("expirationSeconds"), seconds, why);
    }
    validate_conditions(object, old, errors);
    validate_certificate(object, old, errors);
}

fn certificate(object: &Value) -> Vec<u8> {
    base64::decode(object.str_at(&["status", "certificate"])).unwrap_or_default()
}

fn validate_certificate(object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let given = certificate(object);
    let tolerated =
        |old: &Value| certificate(old) == given || pem::certificate_error(&certificate(old)).is_some();
    if old.is_some_and(tolerated) {
        return;
    }
    if let Some(why) = pem::certificate_error(&given) {
        errors.invalid(&Path::of("status.certificate"), "<certificate data>", &why);
    }
}

fn validate_usages(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    let usages = fields::texts(spec, "usages");
    let before =
        old.and_then(|old| old.get("spec")).map(|spec| fields::texts(spec, "usages")).unwrap_or_default();
    let allow_unknown = before.iter().any(|usage| !USAGES.contains(usage));
    let allow_repeated = check::has_repeated(before.iter());
    if usages.is_empty() {
        errors.required(path, "");
    }
    for (at, usage) in
        usages.iter().enumerate().filter(|(_, usage)| !allow_unknown && !USAGES.contains(usage))
    {
        errors.not_supported(&path.index(at), Named(usage), &USAGES);
    }
    let mut seen = check::Unique::default();
    for (at, usage) in usages.iter().enumerate().filter(|_| !allow_repeated) {
        seen.check(usage, &path.index(at), Named(usage), errors);
    }
}

/// Requires the form `example.com/signer-name`.
pub(crate) fn validate_signer_name(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let parts: Vec<&str> = name.split('/').collect();
    let [domain, rest] = parts[..] else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(path, name, why);
    };
    if domain.len() > SUBDOMAIN_BYTES_MAX {
        errors.too_long(path, SUBDOMAIN_BYTES_MAX);
    }
    first_bad_label(domain, names::is_dns1123_label, path, errors);
    if !domain.contains('.') {
        errors.invalid(path, domain, "should be a domain with at least two segments separated by dots");
    }
    first_bad_label(rest, names::is_dns1123_subdomain, path, errors);
    let max = SUBDOMAIN_BYTES_MAX + (SUBDOMAIN_BYTES_MAX + LABEL_BYTES_MAX + 1) + 1;
    if name.len() > max {
        errors.too_long(path, max);
    }
}

fn first_bad_label(part: &str, rule: fn(&str) -> Vec<String>, path: &Path<'_>, errors: &mut FieldErrors) {
    let bad =
        part.split('.').map(|label| (label, rule(label))).find(|(_, complaints)| !complaints.is_empty());
    let Some((label, complaints)) = bad else { return };
    for why in complaints {
        errors.invalid(path, part, &format!("validating label {}: {why}", quoted(label)));
    }
}

fn validate_conditions(object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let path = Path::of("status.conditions");
    let all = object.items_at(&["status", "conditions"]);
    let before = old.map(|old| old.items_at(&["status", "conditions"])).unwrap_or_default();
    let types = |all: &'_ [Value]| -> Vec<String> {
        all.iter().map(|condition| fields::text(condition, "type").to_string()).collect()
    };
    let (all_types, types_before) = (types(all), types(before));
    let allow_empty = types_before.iter().any(String::is_empty);
    let allow_repeated = check::has_repeated(types_before.iter());
    let had = |wanted: &str| types_before.iter().any(|kind| kind == wanted);
    let allow_both = had("Approved") && had("Denied");
    let (mut seen, mut is_approved, mut is_denied) = (check::Unique::default(), false, false);
    for (at, (condition, kind)) in all.iter().zip(&all_types).enumerate() {
        if kind.is_empty() && !allow_empty {
            errors.required(&path.index(at).field("type"), "");
        }
        let given = fields::text(condition, "status");
        let true_only = matches!(kind.as_str(), "Approved" | "Denied" | "Failed");
        let allowed: &[&str] = if true_only { &["True"] } else { &["False", "True", "Unknown"] };
        check::required_supported(&path.index(at).field("status"), given, allowed, errors);
        let is_other_set = match kind.as_str() {
            "Approved" => is_denied,
            "Denied" => is_approved,
            _ => false,
        };
        is_approved |= kind == "Approved";
        is_denied |= kind == "Denied";
        if is_other_set && !allow_both {
            errors.invalid(&path, Named(kind), "Approved and Denied conditions are mutually exclusive");
        }
        if !allow_repeated {
            seen.check(kind, &path.index(at).field("type"), Named(kind), errors);
        }
    }
}

/// Validates an update: conditions cannot be removed, approval and certificate only change through their own
/// subresources.
fn validate_change(scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
    let status = Path::of("status");
    let path = status.field("conditions");
    for kind in ["Approved", "Denied", "Failed"] {
        if conditions(object, kind).len() < conditions(old, kind).len() {
            errors.forbidden(&path, &format!("updates may not remove a condition of type {}", quoted(kind)));
        }
    }
    for kind in ["Approved", "Denied"].into_iter().filter(|_| scope != Scope::Sub("approval")) {
        let (new, before) = (conditions(object, kind), conditions(old, kind));
        if new.len() > before.len() {
            errors.forbidden(&path, &format!("updates may not add a condition of type {}", quoted(kind)));
        } else if new.len() == before.len() && new != before {
            errors
                .forbidden(&path, &format!("updates may not modify a condition of type {}\n", quoted(kind)));
        }
    }
    if certificate(object) == certificate(old) {
        return;
    }
    let at = status.field("certificate");
    if scope != Scope::Sub("status") {
        errors.forbidden(&at, "updates may not set certificate content");
    } else if !certificate(old).is_empty() {
        errors.forbidden(&at, "updates may not modify existing certificate content");
    }
}
