//! Validates new pods, and what holds for all pods.

use crate::core::podspec::{annotations, containers, options::Options, spec};
use crate::fields::{list, member, text};
use crate::{check, workload};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

const SPEC: Path<'static> = Path::of("spec");

/// Checks a new pod.
pub(super) fn validate(pod: &Value, errors: &mut FieldErrors) {
    validate_annotations_and_spec(pod, &Options::new(true, None), errors);
    let spec = workload::spec_of(pod);
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.forbidden(&SPEC.field("ephemeralContainers"), "cannot be set on create");
    }
    if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(&SPEC.field("nodeName"), detail);
    }
    annotations::validate_profiles(pod.get("metadata"), spec, &SPEC, errors);
}

/// Validates what holds for all pods.
pub(super) fn validate_annotations_and_spec(pod: &Value, options: &Options, errors: &mut FieldErrors) {
    let spec = workload::spec_of(pod);
    let own = pod.at(&["metadata", "annotations"]);
    annotations::validate(own, spec, &Path::of("metadata.annotations"), options, errors);
    spec::validate(spec, pod.get("metadata"), &SPEC, options, errors);
    if text(spec, "serviceAccountName").is_empty() {
        refuse_tokens(spec, errors);
    }
    for name in ["containers", "initContainers"] {
        check::each_item(spec, name, &SPEC, |container, path| {
            containers::require_unpadded_image(container, path, errors)
        });
    }
}

fn refuse_tokens(spec: &Value, errors: &mut FieldErrors) {
    let volumes = SPEC.field("volumes");
    for (at, volume) in list(spec, "volumes").iter().enumerate() {
        for (index, source) in volume.items_at(&["projected", "sources"]).iter().enumerate() {
            if member(source, "serviceAccountToken").is_some() {
                let volume = volumes.index(at);
                let sources = volume.field("projected.sources");
                let path = sources.index(index);
                let detail = "must not be specified when serviceAccountName is not set";
                errors.forbidden(&path.field("serviceAccountToken"), detail);
            }
        }
    }
}
