//! ResourceClaim and ResourceClaimTemplate, whose specs are immutable.

use super::v1beta1::{self, Direction};
use super::{request, status};
use crate::core::podspec::volume_sources;
use crate::{Hooks, KindVersion, Namespace, Scope};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

pub(crate) struct ResourceClaim;

impl Hooks for ResourceClaim {
    fn convert(&self, object: &mut Value, from: &KindVersion, to: &KindVersion) {
        if let Some(direction) = Direction::of(from, to) {
            v1beta1::convert_requests(object.at_mut(&["spec", "devices"]), direction);
        }
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        if scope != Scope::Main {
            status::drop_deallocated(object, old);
        }
    }

    fn validate_in_namespace(&self, object: &Value, namespace: &Namespace<'_>, errors: &mut FieldErrors) {
        validate_admin_access(object.at(&["spec"]), namespace, errors);
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let devices = object.at(&["spec", "devices"]).unwrap_or(&Value::Null);
        request::validate(devices, &Path::of("spec.devices"), errors);
    }

    /// Admin access that was granted before stays, because allocations do not change.
    fn validate_update_in_namespace(
        &self,
        scope: Scope<'_>,
        object: &Value,
        old: &Value,
        namespace: &Namespace<'_>,
        errors: &mut FieldErrors,
    ) {
        if scope == Scope::Main || admin_result(old).is_some() {
            return;
        }
        if let Some(at) = admin_result(object) {
            let results = Path::of("status.allocation.devices.results");
            require_admin_label(&results.index(at).field("adminAccess"), namespace, errors);
        }
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope != Scope::Main {
            status::validate(object, old, errors);
        }
    }
}

/// Admin access is only allowed in namespaces with the label for it. kube-apiserver reports the first request that asks
/// for it, without `exactly` in the path.
fn validate_admin_access(spec: Option<&Value>, namespace: &Namespace<'_>, errors: &mut FieldErrors) {
    let requests = spec.map_or(&[][..], |spec| spec.items_at(&["devices", "requests"]));
    let asks = |request: &Value| request.at(&["exactly", "adminAccess"]) == Some(&Value::Bool(true));
    let Some(at) = requests.iter().position(asks) else { return };
    let requests = Path::of("spec.devices.requests");
    require_admin_label(&requests.index(at).field("adminAccess"), namespace, errors);
}

fn require_admin_label(path: &Path<'_>, namespace: &Namespace<'_>, errors: &mut FieldErrors) {
    const LABEL: &str = "resource.kubernetes.io/admin-access";
    if namespace().is_none_or(|ns| ns.str_at(&["metadata", "labels", LABEL]) != "true") {
        let why =
            format!("admin access to devices requires the `{LABEL}: true` label on the containing namespace");
        errors.forbidden(path, &why);
    }
}

/// The first allocated device with admin access.
fn admin_result(claim: &Value) -> Option<usize> {
    let results = claim.items_at(&["status", "allocation", "devices", "results"]);
    results.iter().position(|result| result.get("adminAccess") == Some(&Value::Bool(true)))
}

pub(crate) struct ResourceClaimTemplate;

impl Hooks for ResourceClaimTemplate {
    fn convert(&self, object: &mut Value, from: &KindVersion, to: &KindVersion) {
        if let Some(direction) = Direction::of(from, to) {
            v1beta1::convert_requests(object.at_mut(&["spec", "spec", "devices"]), direction);
        }
    }

    fn validate_in_namespace(&self, object: &Value, namespace: &Namespace<'_>, errors: &mut FieldErrors) {
        validate_admin_access(object.at(&["spec", "spec"]), namespace, errors);
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = Path::of("spec");
        volume_sources::validate_template_metadata(
            object.at(&["spec", "metadata"]),
            &spec.field("metadata"),
            errors,
        );
        let devices = object.at(&["spec", "spec", "devices"]).unwrap_or(&Value::Null);
        request::validate(devices, &spec.field("spec.devices"), errors);
    }
}
