//! The certificates of an issued PodCertificateRequest.

use super::pem::{self, Block};
use super::podcertificaterequest::bytes;
use super::public_key;
use crate::fields;
use pintle_meta::{FieldErrors, Timestamp};
use pintle_value::{Path, Value};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

const CHAIN_BYTES_MAX: usize = 100 * 1024;
const LIFETIME_SECONDS_MIN: i64 = 60 * 60;
const REFRESH_MARGIN_SECONDS: i64 = 10 * 60;
const NANOS_PER_SECOND: i64 = 1_000_000_000;
const STATUS: Path<'static> = Path::of("status");

/// Validates the chain and the times of an issued request. The first error ends the validation, as in kube-apiserver.
pub(super) fn validate(object: &Value, errors: &mut FieldErrors) {
    let chain = object.str_at(&["status", "certificateChain"]);
    let path = STATUS.field("certificateChain");
    if chain.len() > CHAIN_BYTES_MAX {
        return errors.too_long(&path, CHAIN_BYTES_MAX);
    }
    let mut blocks = pem::blocks(chain.as_bytes());
    let Some(leaf) = blocks.next() else {
        return errors.invalid(
            &path,
            chain,
            "issued certificate chain must contain at least one certificate",
        );
    };
    if leaf.label != "CERTIFICATE" {
        let why = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks";
        return errors.invalid(&path, chain, why);
    }
    let Some(certificate) = parse(&leaf) else {
        return errors.invalid(&path, chain, "leaf certificate does not parse as valid X.509");
    };
    validate_names(&certificate, &path, errors);
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let wanted = match bytes(spec, "stubPKCS10Request") {
        request if !request.is_empty() => public_key::of_request(&request),
        _ => Some(bytes(spec, "pkixPublicKey")),
    };
    if wanted.is_some_and(|wanted| wanted != certificate.public_key().raw) {
        return errors.invalid(&path, chain, "leaf certificate was not issued to the requested public key");
    }
    if !validate_times(object, &certificate, errors) {
        return;
    }
    for block in blocks {
        if block.label != "CERTIFICATE" {
            // The misspelling is kube-apiserver's.
            let why = "issued certificate chain must consist entirely of CERTFICATE PEM blocks";
            return errors.invalid(&path, chain, why);
        }
        if parse(&block).is_none() {
            return errors.invalid(&path, chain, "intermediate certificate does not parse as valid X.509");
        }
    }
}

fn parse(block: &Block) -> Option<X509Certificate<'_>> {
    let parsed = X509Certificate::from_der(&block.contents).ok();
    parsed.filter(|(rest, _)| rest.is_empty()).map(|(_, certificate)| certificate)
}

fn validate_names(certificate: &X509Certificate<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let names = certificate.subject_alternative_name().ok().flatten();
    for name in names.iter().flat_map(|names| &names.value.general_names) {
        let GeneralName::DNSName(name) = name else { continue };
        if name.is_empty() {
            errors.invalid(path, *name, "leaf certificate should not contain empty DNSName");
        }
        if name.contains("..") {
            errors.invalid(path, *name, "leaf certificate's DNSName should not contain '..'");
        }
        if name.starts_with('.') || name.ends_with('.') {
            errors.invalid(path, *name, "leaf certificate's DNSName should not start or end with '.'");
        }
    }
}

/// Validates the times of the status against those of the certificate. Returns whether they are right.
fn validate_times(object: &Value, certificate: &X509Certificate<'_>, errors: &mut FieldErrors) -> bool {
    let before = errors.0.len();
    let time = |field: &str| Timestamp::parse(object.str_at(&["status", field])).ok().map(|t| t.seconds);
    let text = |field: &str| object.at(&["status", field]);
    let times = ["notBefore", "notAfter", "beginRefreshAt"].map(time);
    let certified = "must be present and consistent with the issued certificate";
    let in_range = "must be present and in the range [notbefore+10min, notafter-10min]";
    let [Some(start), Some(end), Some(refresh)] = times else {
        let whys = [("notBefore", certified), ("notAfter", certified), ("beginRefreshAt", in_range)];
        for ((field, why), _) in whys.into_iter().zip(times).filter(|(_, time)| time.is_none()) {
            errors.required(&STATUS.field(field), why);
        }
        return false;
    };
    let validity = certificate.validity();
    let (not_before, not_after) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let lifetime = not_after.saturating_sub(not_before);
    let max =
        fields::opt_int(object.get("spec").unwrap_or(&Value::Null), "maxExpirationSeconds").unwrap_or(0);
    // kube-apiserver prints a duration as its nanoseconds.
    let lifetime_nanos = lifetime.saturating_mul(NANOS_PER_SECOND);
    let mut refuse = |field: &str, why: &str| errors.invalid(&STATUS.field(field), text(field), why);
    if start != not_before {
        refuse("notBefore", "must be set to the NotBefore time encoded in the leaf certificate");
    } else if end != not_after {
        refuse("notAfter", "must be set to the NotAfter time encoded in the leaf certificate");
    } else if lifetime < LIFETIME_SECONDS_MIN {
        let why = "leaf certificate lifetime must be >= 1 hour";
        errors.invalid(&STATUS.field("certificateChain"), lifetime_nanos, why);
    } else if lifetime > max {
        let why = format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({max})");
        errors.invalid(&STATUS.field("certificateChain"), lifetime_nanos, &why);
    } else if refresh < start.saturating_add(REFRESH_MARGIN_SECONDS) {
        refuse("beginRefreshAt", "must be at least 10 minutes after status.notBefore");
    } else if refresh > end.saturating_sub(REFRESH_MARGIN_SECONDS) {
        refuse("beginRefreshAt", "must be at least 10 minutes before status.notAfter");
    }
    errors.0.len() == before
}
