//! Certificates and requests for them, as PEM.

use super::request_signature::signature_error;
use pintle_meta::asn1;
use pintle_value::base64;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};
use x509_parser::prelude::{FromDer, X509Certificate};

/// A PEM block.
pub(super) struct Block {
    /// `CERTIFICATE`, for instance.
    pub(super) label: String,
    /// Whether there are headers before the contents.
    pub(super) has_headers: bool,
    /// The bytes.
    pub(super) contents: Vec<u8>,
}

/// The PEM blocks in a text, as Go finds them: whatever is not a well-formed block is skipped.
pub(super) fn blocks(bytes: &[u8]) -> impl Iterator<Item = Block> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let lines: Vec<String> = text.split('\n').map(|line| line.trim_end().to_string()).collect();
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(line) = lines.get(at) {
            at = at.saturating_add(1);
            let label = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----"));
            if let Some((block, length)) = label.and_then(|label| block(label, lines.get(at..)?)) {
                at = at.saturating_add(length);
                return Some(block);
            }
        }
        None
    })
}

/// The block whose first line names `label`, and the number of its other lines.
fn block(label: &str, lines: &[String]) -> Option<(Block, usize)> {
    let headers = lines.iter().take_while(|line| line.contains(':')).count();
    let end = format!("-----END {label}-----");
    let length = lines.iter().position(|line| line.starts_with("-----"))?;
    let body: String = lines.get(headers..length)?.iter().flat_map(|line| line.chars()).collect();
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\r');
    let contents = base64::decode(&body.replace(is_space, "")).ok()?;
    (lines.get(length)? == &end).then(|| {
        (Block { label: label.to_string(), has_headers: headers > 0, contents }, length.saturating_add(1))
    })
}

/// The error of an invalid trust anchor.
pub(super) fn anchor_error(block: &Block) -> Option<String> {
    if block.label != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.label));
    }
    if block.has_headers {
        return Some("has PEM block headers".to_string());
    }
    let parsed = X509Certificate::from_der(&block.contents).ok().filter(|(rest, _)| rest.is_empty());
    let Some((_, certificate)) = parsed else {
        return Some("does not parse as X.509".to_string());
    };
    (!certificate.is_ca()).then(|| "does not have the CA bit set".to_string())
}

/// The error of an invalid certificate request; it must be signed by its own key.
pub(super) fn request_error(bytes: &[u8]) -> Option<String> {
    let Some(block) = blocks(bytes).next().filter(|block| block.label == "CERTIFICATE REQUEST") else {
        return Some("PEM block type must be CERTIFICATE REQUEST".to_string());
    };
    let Ok((rest, request)) = X509CertificationRequest::from_der(&block.contents) else {
        return Some("x509: malformed certificate request".to_string());
    };
    if !rest.is_empty() {
        return Some("asn1: syntax error: trailing data".to_string());
    }
    signature_error(&request)
}

/// The subject for which a certificate is requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSubject {
    /// The last common name, or "" if there is none.
    pub common_name: String,
    /// All organizations.
    pub organizations: Vec<String>,
}

impl RequestSubject {
    /// Reads a PEM certificate request; `None` if it is malformed. It is the same block that `request_error` validates.
    pub fn of_pem(bytes: &[u8]) -> Option<Self> {
        let block = blocks(bytes).next()?;
        let (_, request) = X509CertificationRequest::from_der(&block.contents).ok()?;
        let mut subject = RequestSubject::default();
        for attribute in request.certification_request_info.subject.iter_attributes() {
            let value = attribute.attr_value();
            let Some(text) = asn1::text(value.tag().0, value.data).ok()? else { continue };
            match attribute.attr_type() {
                oid if *oid == OID_X509_COMMON_NAME => subject.common_name = text,
                oid if *oid == OID_X509_ORGANIZATION_NAME => subject.organizations.push(text),
                _ => {}
            }
        }
        Some(subject)
    }
}

/// The error of invalid issued certificates; an empty value is valid.
pub(super) fn certificate_error(bytes: &[u8]) -> Option<String> {
    if bytes.is_empty() {
        return None;
    }
    let mut count = 0_usize;
    for block in blocks(bytes) {
        if block.label != "CERTIFICATE" {
            let found = pintle_meta::field::quoted(&block.label);
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {found}"));
        }
        count = count.saturating_add(1);
        if block.has_headers {
            return Some("no PEM block headers are permitted".to_string());
        }
        if block.contents.is_empty() {
            return Some("found CERTIFICATE PEM block containing 0 certificates".to_string());
        }
        let mut rest = block.contents.as_slice();
        while !rest.is_empty() {
            let Ok((after, _)) = X509Certificate::from_der(rest) else {
                return Some("x509: malformed certificate".to_string());
            };
            rest = after;
        }
    }
    (count == 0).then(|| "must contain at least one CERTIFICATE PEM block".to_string())
}
