//! Decodes the answers of webhooks as Go's client does: JSON or YAML, of the expected kind or without kind.

use crate::decode;
use pintle_meta::go_type::unregistered_kind;
use pintle_value::{Value, json, yaml};
use pintle_webhook::{CallError, CertificateFlaw};

/// The name of the scheme in Go's client, which its error messages contain.
const SCHEME: &str = "k8s.io/apiserver/pkg/util/webhook/client.go:71";
/// The versions of reviews.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// A review that is waited for.
#[derive(Clone, Copy)]
pub(crate) struct Review<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
}

/// Decodes the review in an answer into a tree.
pub(crate) fn read(review: Review<'_>, answer: &[u8]) -> Result<Value, String> {
    let tree = parse_document(answer)?;
    check_kind(review, tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]))?;
    Ok(tree)
}

fn parse_document(answer: &[u8]) -> Result<Value, String> {
    let unread = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let tree = if answer.trim_ascii_start().starts_with(b"{") {
        json::parse(answer).map_err(|error| unread(error.to_string()))?.value
    } else {
        yaml::parse(answer).map_err(|error| unread(error.message().to_string()))?.value
    };
    decode::check_is_object(&tree)?;
    Ok(tree)
}

/// Refuses an answer of another kind or version. An answer without kind is taken for a review.
fn check_kind(review: Review<'_>, api_version: &str, kind: &str) -> Result<(), String> {
    let expected = format!("{}/{}", review.group, review.version);
    let api_version = if api_version.is_empty() { expected.as_str() } else { api_version };
    let kind = if kind.is_empty() { review.kind } else { kind };
    if kind == review.kind && api_version == expected {
        return Ok(());
    }
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let is_own = group == review.group && VERSIONS.contains(&version);
    let is_known = (kind == review.kind && is_own) || (kind == "Status" && (api_version == "v1" || is_own));
    Err(if is_known {
        let version = if kind == "Status" { "v1" } else { version };
        format!("converting ({version}.{kind}) to ({}.{}): unknown conversion", review.version, review.kind)
    } else {
        unregistered_kind(kind, api_version, SCHEME)
    })
}

/// Notes in the audit event that a webhook was not called because of a flaw of its certificate.
pub(crate) fn audit_flaw(error: &CallError) {
    let CallError::Unreachable { url, why, .. } = error else { return };
    let Some(flaw) = CertificateFlaw::of_error(why) else { return };
    let authority = url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or(""));
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    pintle_audit::annotate(&flaw.annotation(host), || flaw.reason().to_string());
}
