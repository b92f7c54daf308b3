//! VolumeAttachment: one source, one node, and the result. The spec is immutable.

use crate::core::persistentvolume::spec;
use crate::core::podspec::volume_sources::validate_csi_driver_name;
use crate::fields::{entries, member, opt_int, opt_text, text};
use crate::metadata::ResourceScope;
use crate::{Hooks, Scope, check, metadata};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

const METADATA_BYTES_MAX: usize = 256 * 1024;
const MESSAGE_BYTES_MAX: usize = 1024;
const ONE_SOURCE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
pub(crate) struct VolumeAttachment;

impl Hooks for VolumeAttachment {
    fn validates_changed_metadata(&self, _scope: Scope<'_>) -> bool {
        false
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let path = Path::of("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        validate_csi_driver_name(text(spec, "attacher"), &path.field("attacher"), errors);
        let source = spec.get("source").unwrap_or(&Value::Null);
        validate_source(source, &path.field("source"), errors);
        let node = text(spec, "nodeName");
        check::each(names::dns_subdomain(node, false), &path.field("nodeName"), node, errors);
        validate_status(object, errors);
        if let Some(name) = opt_text(source, "persistentVolumeName") {
            let at = Path::of("spec.source.persistentVolumeName");
            check::each(names::dns_subdomain(name, false), &at, name, errors);
        }
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, _old: &Value, errors: &mut FieldErrors) {
        metadata::validate_core_as_new(self, ResourceScope::Cluster, object, errors);
        self.validate_create(object, errors);
    }
}

fn validate_source(source: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    match (member(source, "inlineVolumeSpec"), opt_text(source, "persistentVolumeName")) {
        (None, None) => errors.required(path, ONE_SOURCE),
        (Some(_), Some(_)) => errors.forbidden(path, ONE_SOURCE),
        (None, Some("")) => {
            errors
                .required(&path.field("persistentVolumeName"), "must specify non empty persistentVolumeName");
        }
        (None, Some(_)) => {}
        (Some(inline), None) => spec::validate_inline(inline, &path.field("inlineVolumeSpec"), errors),
    }
}

fn validate_status(object: &Value, errors: &mut FieldErrors) {
    let Some(status) = object.get("status") else { return };
    let path = Path::of("status");
    let size: usize = entries(status.get("attachmentMetadata"))
        .map(|(key, value)| key.len().saturating_add(value.as_str().map_or(0, str::len)))
        .sum();
    if size > METADATA_BYTES_MAX {
        errors.too_long(&path.field("attachmentMetadata"), METADATA_BYTES_MAX);
    }
    for field in ["attachError", "detachError"] {
        let Some(error) = member(status, field) else { continue };
        let path = path.field(field);
        if text(error, "message").len() > MESSAGE_BYTES_MAX {
            // kube-apiserver's error states the other limit here.
            errors.too_long(&path.field("message"), METADATA_BYTES_MAX);
        }
        if let Some(code) = opt_int(error, "errorCode").filter(|code| *code < 0) {
            let detail = names::range_error(0, i64::from(i32::MAX));
            errors.invalid(&path.field("errorCode"), code, &detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::created;

    #[test]
    fn an_inline_volume_has_no_capacity() {
        let faults = created(
            &VolumeAttachment,
            r#"{"spec":{"attacher":"d","nodeName":"n","source":{"inlineVolumeSpec":{"capacity":{"storage":"1"},"accessModes":["ReadWriteOnce"],"csi":{"driver":"d","volumeHandle":"h"}}}}}"#,
        );
        assert_eq!(
            faults,
            [
                "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes"
            ]
        );
    }
}
