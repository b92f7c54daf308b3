//! Validates the volumes of a pod spec: names, and exactly one source each.

use super::options::Options;
use super::{projected, volume_sources};
use crate::check;
use crate::facts::{self, UnionMember};
use crate::fields::{list, member, quantity, text};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};
use std::collections::{HashMap, HashSet};

/// The valid volumes by name, which containers can mount.
pub(crate) type Volumes<'a> = HashMap<&'a str, &'a Value>;

/// The limit of a volume's name and portal together if iSCSI has an initiator.
const ISCSI_NAME_BYTES_MAX: usize = 64;

/// Validates all volumes. `pod` is the name of the pod, if known.
pub(crate) fn validate<'a>(
    volumes: &'a [Value],
    pod: Option<&str>,
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) -> Volumes<'a> {
    let pod = pod.filter(|name| !name.is_empty());
    let mut fine = Volumes::new();
    let generated = generated_claims(volumes, pod);
    for (at, volume) in volumes.iter().enumerate() {
        let path = path.index(at);
        let name = text(volume, "name");
        let before = errors.0.len();
        validate_source(volume, pod, &path, options, errors);
        check::required_dns_label(&path.field("name"), name, errors);
        if fine.contains_key(name) {
            errors.duplicate(&path.field("name"), name);
        }
        if errors.0.len() == before {
            fine.insert(name, volume);
        }
        refuse_generated_claim(volume, &generated, &path, errors);
    }
    fine
}

/// The names of the claims that are generated for a pod.
fn generated_claims(volumes: &[Value], pod: Option<&str>) -> HashSet<String> {
    let Some(pod) = pod else { return HashSet::new() };
    let generated = volumes.iter().filter(|volume| member(volume, "ephemeral").is_some());
    generated.map(|volume| format!("{pod}-{}", text(volume, "name"))).collect()
}

/// A pod cannot refer to a claim that is generated for it.
fn refuse_generated_claim(
    volume: &Value,
    generated: &HashSet<String>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let Some(claim) = member(volume, "persistentVolumeClaim") else { return };
    let claim = text(claim, "claimName");
    if generated.contains(claim) {
        let detail = "must not reference a PVC that gets created for an ephemeral volume";
        errors.invalid(&path.field("persistentVolumeClaim.claimName"), claim, detail);
    }
}

fn validate_source(
    volume: &Value,
    pod: Option<&str>,
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    facts::check_union(volume, "core/v1.VolumeSource", path, errors, |member, errors| {
        let UnionMember { field, value: source, is_refused } = member;
        if !is_refused {
            validate_one_source(field, source, volume, pod, path, options, errors);
        }
        if field == "iscsi" {
            validate_iscsi_name(volume, source, path, errors);
        }
    });
}

fn validate_one_source(
    key: &'static str,
    source: &Value,
    volume: &Value,
    pod: Option<&str>,
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    let source_path = path.field(volume_sources::error_name(key));
    match key {
        "emptyDir" => {
            if quantity(source.get("sizeLimit")).sign() < 0 {
                let detail = "SizeLimit field must be a valid resource quantity";
                errors.forbidden(&source_path.field("sizeLimit"), detail);
            }
        }
        "downwardAPI" => projected::validate_downward(source, &source_path, errors),
        "projected" => projected::validate(source, &source_path, options, errors),
        "ephemeral" => {
            volume_sources::validate_ephemeral(source, &source_path, errors);
            validate_claim_name(text(volume, "name"), pod, path, errors);
        }
        "image" => {
            // In a template the reference is optional: a workload controller may set it.
            let fields = if options.is_pod { &["reference", "pullPolicy"][..] } else { &["pullPolicy"] };
            facts::check_fields(source, "core/v1.ImageVolumeSource", fields, &source_path, errors);
        }
        _ => volume_sources::validate(key, source, &source_path, errors),
    }
}

fn validate_iscsi_name(volume: &Value, source: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let name = text(volume, "name");
    let length = name.len().saturating_add(1).saturating_add(text(source, "targetPortal").len());
    if member(source, "initiatorName").is_some() && length > ISCSI_NAME_BYTES_MAX {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.invalid(&path.field("name"), name, detail);
    }
}

/// The claim of an ephemeral volume is named after pod and volume.
fn validate_claim_name(volume: &str, pod: Option<&str>, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(pod) = pod.filter(|_| !volume.is_empty()) else { return };
    let claim = format!("{pod}-{volume}");
    for complaint in names::dns_subdomain(&claim, false) {
        let detail = format!("PVC name {}: {complaint}", pintle_meta::field::quoted(&claim));
        errors.invalid(&path.field("name"), volume, &detail);
    }
}

/// Returns whether a volume can be used as a block device.
pub(crate) fn is_claim(volume: &Value) -> bool {
    member(volume, "persistentVolumeClaim").is_some() || member(volume, "ephemeral").is_some()
}

/// The volumes of a spec.
pub(crate) fn of(spec: &Value) -> &[Value] {
    list(spec, "volumes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn claims_are_not_compared_one_by_one() {
        let errors = |count: usize| {
            let ephemeral = r#"{"volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1"}}}}}"#;
            let volumes: Vec<String> = (0..count)
                .map(|n| {
                    format!(
                        r#"{{"name":"v{n}","persistentVolumeClaim":{{"claimName":"c{n}"}}}},{{"name":"e{n}","ephemeral":{ephemeral}}}"#
                    )
                })
                .collect();
            let refused = r#"{"name":"r","persistentVolumeClaim":{"claimName":"pod-e0"}}"#;
            let volumes = tree(&format!("[{},{refused}]", volumes.join(",")));
            let mut errors = FieldErrors::new();
            let begin = std::time::Instant::now();
            validate(volumes.as_array().unwrap(), Some("pod"), &Path::ROOT, &Options::default(), &mut errors);
            (begin.elapsed(), errors.aggregate_message())
        };
        let (_, text) = errors(1);
        let wanted = "persistentVolumeClaim.claimName: Invalid value: \"pod-e0\": must not reference a PVC";
        assert!(text.contains(wanted), "{text}");
        // One by one it takes four hundred times as long. Other processes may disturb some of the measurements.
        assert!((0..5).any(|_| errors(4000).0 < errors(200).0 * 100));
    }
}
