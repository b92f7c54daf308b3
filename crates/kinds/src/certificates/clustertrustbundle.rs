//! ClusterTrustBundle: trust anchors, of one signer or independent of signers.

use super::certificatesigningrequest::validate_signer_name;
use super::pem;
use crate::{Hooks, Scope, check, metadata};
use pintle_meta::{FieldErrors, names, objectmeta};
use pintle_value::{Path, Value};
use std::collections::BTreeMap;

const BUNDLE_BYTES_MAX: usize = 1024 * 1024;
const SPEC: Path<'static> = Path::of("spec");

pub(crate) struct ClusterTrustBundle;

impl Hooks for ClusterTrustBundle {
    /// The rule of its names depends on the signer, so `validate_metadata` checks them.
    fn validates_metadata(&self) -> bool {
        false
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate(object, true, errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let bundle = ["spec", "trustBundle"];
        validate(object, object.str_at(&bundle) != old.str_at(&bundle), errors);
        let meta = |object: &'_ Value| object.get("metadata").unwrap_or(&Value::Null).clone();
        objectmeta::validate_update(&meta(object), &meta(old), &Path::of("metadata"), errors);
        let signer = ["spec", "signerName"];
        let (new, before) = (object.str_at(&signer), old.str_at(&signer));
        if new != before {
            errors.invalid(&SPEC.field("signerName"), new, check::IMMUTABLE);
        }
    }
}

fn validate(object: &Value, parses_bundle: bool, errors: &mut FieldErrors) {
    let signer = object.str_at(&["spec", "signerName"]);
    let rule = |name: &str, prefix: bool| name_errors(signer, name, prefix);
    let meta = object.get("metadata").unwrap_or(&Value::Null);
    objectmeta::validate_create(meta, false, &rule, &Path::of("metadata"), errors);
    metadata::validate_core(object, errors);
    if !signer.is_empty() {
        validate_signer_name(signer, &SPEC.field("signerName"), errors);
    }
    if parses_bundle {
        validate_bundle(object.str_at(&["spec", "trustBundle"]), errors);
    }
}

/// The name of a bundle begins with that of its signer.
fn name_errors(signer: &str, name: &str, prefix: bool) -> Vec<String> {
    if signer.is_empty() {
        return if name.contains(':') {
            vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_string()]
        } else {
            names::dns_subdomain(name, prefix)
        };
    }
    let wanted = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&wanted) {
        Some(rest) => names::dns_subdomain(rest, prefix),
        None => {
            vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {wanted}")]
        }
    }
}

fn validate_bundle(bundle: &str, errors: &mut FieldErrors) {
    let path = SPEC.field("trustBundle");
    if bundle.len() > BUNDLE_BYTES_MAX {
        return errors.too_long(&path, BUNDLE_BYTES_MAX);
    }
    let before = errors.0.len();
    let mut anchors: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    for (at, block) in pem::blocks(bundle.as_bytes()).enumerate() {
        match pem::anchor_error(&block) {
            Some(why) => errors.invalid(&path, "<value omitted>", &format!("entry {at} {why}")),
            None => anchors.entry(block.contents).or_default().push(at),
        }
    }
    if errors.0.len() > before {
        return;
    }
    if anchors.is_empty() {
        errors.invalid(&path, "<value omitted>", "at least one trust anchor must be provided");
    }
    for places in anchors.values().filter(|places| places.len() > 1) {
        let places = places.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
        errors.invalid(&path, "<value omitted>", &format!("duplicate trust anchor (indices [{places}])"));
    }
}
