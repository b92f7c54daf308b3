//! Group internal.apiserver.k8s.io: StorageVersion, in which API servers publish how they store a resource.

use crate::{Hooks, Scope, check, fields, hooks};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};
use std::collections::BTreeSet;

pub(crate) struct StorageVersion;

impl Hooks for StorageVersion {
    fn name_errors(&self, name: &str, _prefix: bool) -> Vec<String> {
        let Some((group, resource)) = name.rsplit_once('.') else {
            return vec!["name must be in the form of <group>.<resource>".to_string()];
        };
        let of = |segment: &'static str| move |why: String| format!("the {segment} segment {why}");
        let group = names::is_dns1123_subdomain(group).into_iter().map(of("group"));
        let resource = names::is_dns1035_label(resource).into_iter().map(of("resource"));
        group.chain(resource).collect()
    }

    fn prepare_create(&self, object: &mut Value) {
        object.set_at(&["status"], Value::object());
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        hooks::keep_named_metadata(scope, object, old);
    }

    fn validates_changed_metadata(&self, _scope: Scope<'_>) -> bool {
        false
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, _old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Sub("status") {
            validate_status(object.get("status").unwrap_or(&Value::Null), errors);
        }
    }
}

fn validate_status(status: &Value, errors: &mut FieldErrors) {
    let path = Path::of("status");
    let list = path.field("storageVersions");
    let servers = fields::list(status, "storageVersions");
    let mut ids = BTreeSet::new();
    for (index, server) in servers.iter().enumerate() {
        let at = list.index(index);
        let id = fields::text(server, "apiServerID");
        if !ids.insert(id) {
            errors.duplicate(&at.field("apiServerID"), id);
        }
        check::dns_subdomain(&at.field("apiServerID"), id, errors);
        let decodable = fields::list(server, "decodableVersions");
        let encoding = fields::text(server, "encodingVersion");
        if !decodable.iter().any(|version| version.as_str() == Some(encoding)) {
            let why = format!("decodableVersions must include encodingVersion {encoding}");
            errors.invalid(&at.field("decodableVersions"), server.get("decodableVersions"), &why);
        }
    }
    let mut encodings = servers.iter().map(|server| fields::text(server, "encodingVersion"));
    let first = encodings.next();
    let common = first.filter(|first| encodings.all(|encoding| encoding == *first));
    let at = path.field("commonEncodingVersion");
    match (common, fields::opt_text(status, "commonEncodingVersion")) {
        (None, Some(given)) => {
            let why = "should be nil if servers do not agree on the same encoding version, or if there is no server \
                       reporting the supported versions yet";
            errors.invalid(&at, given, why);
        }
        (Some(common), None) => {
            errors.invalid(&at, &Value::Null, &format!("the common encoding version is {common}"));
        }
        (Some(common), Some(given)) if common != given => {
            errors.invalid(&at, given, &format!("the actual common encoding version is {common}"));
        }
        _ => {}
    }
}
