//! Projected volumes and the downward API: several sources in one directory.

use super::options::Options;
use super::{env, paths};
use crate::error_text::Internal;
use crate::fields::{int, list, member, opt_int, text};
use crate::{check, facts};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};
use std::collections::HashSet;

/// The shortest allowed life of a token.
const TOKEN_SECONDS_MIN: i64 = 10 * 60;
/// The longest allowed life of a token.
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
/// The shortest and longest lifetime of a pod certificate; Kubernetes' own signers allow one day.
const CERTIFICATE_SECONDS_MIN: i64 = 3600;
const CERTIFICATE_SECONDS_MAX: i64 = 91 * 86400;
const KUBERNETES_CERTIFICATE_SECONDS_MAX: i64 = 86400;
const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
/// The fields that a volume can refer to.
const FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const FILE: &str = "core/v1.DownwardAPIVolumeFile";

/// Checks a volume of the downward API.
pub(crate) fn validate_downward(source: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check(source, "core/v1.DownwardAPIVolumeSource", path, errors);
    for file in list(source, "items") {
        validate_downward_file(file, path, errors);
    }
}

fn validate_downward_file(file: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check_fields(file, FILE, &["path"], path, errors);
    match (member(file, "fieldRef"), member(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            env::validate_field_ref(field, &FIELDS, &path.field("fieldRef"), errors);
            if resource.is_some() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "resource", detail);
            }
        }
        (None, Some(resource)) => {
            env::validate_resource_ref(resource, true, &path.field("resourceFieldRef"), errors)
        }
        (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    facts::check_fields(file, FILE, &["mode"], path, errors);
}

/// Checks a projected volume.
pub(crate) fn validate(projection: &Value, path: &Path<'_>, options: &Options, errors: &mut FieldErrors) {
    facts::check(projection, "core/v1.ProjectedVolumeSource", path, errors);
    let mut used = UsedPaths { paths: HashSet::new(), volume: path };
    for (at, source) in list(projection, "sources").iter().enumerate() {
        let sources = path.field("sources");
        validate_source(source, &sources.index(at), options, &mut used, errors);
    }
}

/// The paths that the sources of one volume use.
struct UsedPaths<'a> {
    paths: HashSet<&'a str>,
    volume: &'a Path<'a>,
}

impl<'a> UsedPaths<'a> {
    /// Claims a path; a second claim is an error that names `source`, the source of the path.
    fn claim(&mut self, path: &'a str, source: &str, errors: &mut FieldErrors) {
        if !self.paths.insert(path) {
            errors.invalid(self.volume, source, "conflicting duplicate paths");
        }
    }
}

/// Validates one source of a projected volume.
fn validate_source<'a>(
    source: &'a Value,
    path: &Path<'_>,
    options: &Options,
    used: &mut UsedPaths<'a>,
    errors: &mut FieldErrors,
) {
    let mut count = 0_usize;
    for key in ["secret", "configMap"] {
        let Some(object) = member(source, key) else { continue };
        count = count.saturating_add(1);
        let path = path.field(key);
        check::required(object, "name", &path, errors);
        for (at, item) in list(object, "items").iter().enumerate() {
            facts::check(item, "core/v1.KeyToPath", &path.field("items").index(at), errors);
            if !text(item, "path").is_empty() {
                used.claim(text(item, "path"), text(object, "name"), errors);
            }
        }
    }
    if let Some(downward) = member(source, "downwardAPI") {
        count = count.saturating_add(1);
        for file in list(downward, "items") {
            validate_downward_file(file, &path.field("downwardAPI"), errors);
            let target = text(file, "path");
            if !target.is_empty() {
                used.claim(target, target, errors);
            }
        }
    }
    if let Some(token) = member(source, "serviceAccountToken") {
        count = count.saturating_add(1);
        validate_service_account_token(
            token,
            &path.field("serviceAccountToken"),
            used.volume,
            options,
            errors,
        );
    }
    if let Some(bundle) = member(source, "clusterTrustBundle") {
        count = count.saturating_add(1);
        validate_trust_bundle(bundle, &path.field("clusterTrustBundle"), used, errors);
    }
    if let Some(certificate) = member(source, "podCertificate") {
        count = count.saturating_add(1);
        validate_pod_certificate(certificate, &path.field("podCertificate"), used, errors);
    }
    if count > 1 {
        errors.forbidden(path, "may not specify more than 1 volume type per source");
    }
}

fn validate_service_account_token(
    token: &Value,
    path: &Path<'_>,
    volume: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    let seconds = int(token, "expirationSeconds");
    let field = path.field("expirationSeconds");
    if seconds < TOKEN_SECONDS_MIN {
        errors.invalid(&field, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > TOKEN_SECONDS_MAX {
        errors.invalid(&field, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    match text(token, "path") {
        "" => errors.required(&volume.field("path"), ""),
        target if !options.nonlocal_token_path => {
            paths::local_non_reserved(&volume.field("path"), target, errors);
        }
        _ => {}
    }
}

fn validate_trust_bundle<'a>(
    bundle: &'a Value,
    path: &Path<'_>,
    used: &mut UsedPaths<'a>,
    errors: &mut FieldErrors,
) {
    match (member(bundle, "name"), member(bundle, "signerName")) {
        (Some(_), Some(_)) => {
            errors.invalid(path, bundle, "only one of name and signerName may be used");
        }
        (Some(_), None) => {
            if text(bundle, "name").is_empty() {
                errors.required(&path.field("name"), "must be a valid object name");
            }
            if let Some(selector) = member(bundle, "labelSelector") {
                let detail = "labelSelector must be unset if name is specified";
                errors.invalid(
                    &path.field("labelSelector"),
                    Internal(Some(selector), "meta/v1.LabelSelector"),
                    detail,
                );
            }
        }
        (None, Some(_)) => {
            if text(bundle, "signerName").is_empty() {
                errors.required(&path.field("signerName"), "must be a valid signer name");
            }
        }
        (None, None) => errors.required(path, "either name or signerName must be specified"),
    }
    check::required(bundle, "path", path, errors);
    paths::local_non_reserved(&path.field("path"), text(bundle, "path"), errors);
    used.claim(text(bundle, "path"), text(bundle, "path"), errors);
}

fn validate_pod_certificate<'a>(
    source: &'a Value,
    path: &Path<'_>,
    used: &mut UsedPaths<'a>,
    errors: &mut FieldErrors,
) {
    let key_type = text(source, "keyType");
    if !KEY_TYPES.contains(&key_type) {
        errors.not_supported(&path.field("keyType"), key_type, &KEY_TYPES);
    }
    if let Some(seconds) = opt_int(source, "maxExpirationSeconds") {
        validate_certificate_life(
            seconds,
            text(source, "signerName"),
            &path.field("maxExpirationSeconds"),
            errors,
        );
    }
    let mut count = 0_usize;
    for key in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let target = text(source, key);
        if target.is_empty() {
            continue;
        }
        count = count.saturating_add(1);
        paths::local_non_reserved(&path.field(key), target, errors);
        used.claim(target, target, errors);
    }
    if count == 0 {
        let detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.required(path, detail);
    }
}

fn validate_certificate_life(seconds: i64, signer: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if seconds < CERTIFICATE_SECONDS_MIN {
        errors.invalid(path, seconds, "if provided, maxExpirationSeconds must be >= 3600");
    }
    let is_kubernetes_signer = signer.split_once('/').is_some_and(|(domain, _)| {
        domain == "kubernetes.io"
            || domain.ends_with(".kubernetes.io") && names::is_dns1123_subdomain(domain).is_empty()
    });
    let max = if is_kubernetes_signer { KUBERNETES_CERTIFICATE_SECONDS_MAX } else { CERTIFICATE_SECONDS_MAX };
    if seconds > max {
        errors.invalid(path, seconds, &format!("if provided, maxExpirationSeconds must be <= {max}"));
    }
}
