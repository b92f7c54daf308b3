//! Validates `spec.conversion`: how objects are converted between versions.

use super::spec::Options;
use crate::{check, endpoint, webhook};
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Str, Value, base64};

/// The ConversionReview versions that the server supports.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Validates `spec.conversion`.
pub(super) fn validate(
    conversion: Option<&Value>,
    options: &Options,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let Some(conversion) = conversion.filter(|c| !c.is_null()) else { return };
    let strategy = conversion.str_at(&["strategy"]);
    match strategy {
        "" => errors.required(&path.field("strategy"), ""),
        "None" | "Webhook" => {}
        other => errors.not_supported(&path.field("strategy"), other, &["None", "Webhook"]),
    }
    let client = conversion.at(&["webhook", "clientConfig"]).filter(|c| !c.is_null());
    let at = path.field("webhookClientConfig");
    let versions = conversion.items_at(&["webhook", "conversionReviewVersions"]);
    if strategy != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.forbidden(&at, why);
        }
        if !versions.is_empty() {
            errors.forbidden(&path.field("conversionReviewVersions"), why);
        }
        return;
    }
    match client {
        None => errors.required(&at, "required when strategy is set to Webhook"),
        Some(client) => {
            validate_client(client, &at, errors);
            if let Some(why) = ca_bundle_error_of(client).filter(|_| options.require_authorities) {
                errors.invalid(&at.field("caBundle"), client.str_at(&["caBundle"]), &why);
            }
        }
    }
    let recognized = options.require_known_review;
    validate_versions(versions, recognized, &path.field("conversionReviewVersions"), errors);
}

fn validate_client(client: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let url = client.get("url").and_then(Value::as_str);
    let service = client.get("service").filter(|s| !s.is_null());
    match (url, service) {
        (Some(url), None) => webhook::validate_url(url, true, &path.field("url"), errors),
        (None, Some(service)) => webhook::validate_service(service, true, &path.field("service"), errors),
        _ => errors.required(path, "exactly one of url or service is required"),
    }
}

fn ca_bundle_error_of(client: &Value) -> Option<String> {
    endpoint::ca_bundle_error(&base64::decode(client.str_at(&["caBundle"])).unwrap_or_default())
}

/// Returns whether the CA bundle of the conversion webhook is invalid.
pub(crate) fn has_invalid_ca_bundle(conversion: Option<&Value>) -> bool {
    conversion
        .and_then(|c| c.at(&["webhook", "clientConfig"]))
        .is_some_and(|c| ca_bundle_error_of(c).is_some())
}

fn validate_versions(versions: &[Value], recognized: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    if versions.is_empty() {
        return errors.required(path, "");
    }
    let versions: Vec<Str> = versions.iter().map(|v| Str::from(v.as_str().unwrap_or(""))).collect();
    let mut seen = check::Unique::default();
    for (at, version) in versions.iter().enumerate() {
        if seen.is_repeated(version) {
            errors.invalid(&path.index(at), version, "duplicate version");
            continue;
        }
        check::each(names::is_dns1035_label(version), &path.index(at), version, errors);
    }
    if recognized && !has_known_version(versions.iter().map(Str::as_str)) {
        errors.invalid(path, &versions[..], "must include at least one of v1, v1beta1");
    }
}

fn has_known_version<'a>(mut versions: impl Iterator<Item = &'a str>) -> bool {
    versions.any(|version| REVIEW_VERSIONS.contains(&version))
}

/// Returns whether a definition names a supported review version, or none at all.
pub(super) fn supports_known_review_version(conversion: Option<&Value>) -> bool {
    let versions =
        conversion.map(|c| c.items_at(&["webhook", "conversionReviewVersions"])).unwrap_or_default();
    versions.is_empty() || has_known_version(versions.iter().filter_map(Value::as_str))
}

/// The error text contains the strategy as Go's enum.
pub(super) fn must_be_none(strategy: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    errors.invalid(path, Named(strategy), "must be None if spec.preserveUnknownFields is true");
}
