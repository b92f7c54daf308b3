//! Group internal.apiserver.k8s.io: StorageVersion, in which API servers publish how they store a resource.

use crate::{Hooks, Scope, check, fields};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};
use std::collections::{HashMap, HashSet};

const API_VERSION_WORDS: &str = "a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')";

pub(crate) struct StorageVersion;

impl Hooks for StorageVersion {
    fn name_errors(&self, name: &str, _prefix: bool) -> Vec<String> {
        let Some((group, resource)) = name.rsplit_once('.') else {
            return vec!["name must be in the form of <group>.<resource>".to_string()];
        };
        let in_segment = |segment: &'static str| move |why: String| format!("the {segment} segment {why}");
        let group = names::is_dns1123_subdomain(group).into_iter().map(in_segment("group"));
        let resource = names::is_dns1035_label(resource).into_iter().map(in_segment("resource"));
        group.chain(resource).collect()
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
    let mut ids = check::Unique::default();
    for (index, server) in servers.iter().enumerate() {
        let at = list.index(index);
        let id = fields::text(server, "apiServerID");
        ids.check(id, &at.field("apiServerID"), id, errors);
        validate_server(server, &at, errors);
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
    validate_conditions(fields::list(status, "conditions"), &path, errors);
}

fn validate_server(server: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    check::dns_subdomain(&path.field("apiServerID"), fields::text(server, "apiServerID"), errors);
    let is_version = |path: &Path<'_>, version: &str, errors: &mut FieldErrors| {
        let complaints = api_version_errors(version);
        if !complaints.is_empty() {
            errors.invalid(path, version, &complaints.join(","));
        }
    };
    let encoding = fields::text(server, "encodingVersion");
    is_version(&path.field("encodingVersion"), encoding, errors);
    let decodable = fields::texts(server, "decodableVersions");
    let at = path.field("decodableVersions");
    for (index, version) in decodable.iter().enumerate() {
        is_version(&at.index(index), version, errors);
    }
    if !decodable.contains(&encoding) {
        let why = format!("decodableVersions must include encodingVersion {encoding}");
        errors.invalid(&at, server.get("decodableVersions"), &why);
    }
    let at = path.field("servedVersions");
    let all = decodable.join(" ");
    let decodable: HashSet<&str> = decodable.into_iter().collect();
    for (index, version) in fields::texts(server, "servedVersions").iter().enumerate() {
        is_version(&at.index(index), version, errors);
        if !decodable.contains(version) && !errors.is_full() {
            let why = format!(
                "individual served version : {version} must be included in decodableVersions : [{all}]"
            );
            errors.invalid(&at.index(index), *version, &why);
        }
    }
}

/// Requires an API version: `v1` or `apps/v1`.
fn api_version_errors(text: &str) -> Vec<String> {
    let within = |part: &str, complaints: Vec<String>| -> Vec<String> {
        complaints.into_iter().map(|why| format!("{part} part: {why}")).collect()
    };
    let part_errors = |part: &str, text: &str, rule: fn(&str) -> Vec<String>| {
        if text.is_empty() {
            within(part, vec!["must be non-empty".to_string()])
        } else {
            within(part, rule(text))
        }
    };
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [version] => part_errors("version", version, names::is_dns1035_label),
        [group, version] => {
            let mut out = part_errors("group", group, names::is_dns1123_subdomain);
            out.extend(part_errors("version", version, names::is_dns1035_label));
            out
        }
        _ => vec![format!("an apiVersion is {API_VERSION_WORDS}")],
    }
}

/// Validates conditions; in errors their index follows the status, as in kube-apiserver.
fn validate_conditions(conditions: &[Value], status: &Path<'_>, errors: &mut FieldErrors) {
    let mut last_index = HashMap::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = status.index(index);
        let kind = fields::text(condition, "type");
        if let Some(earlier) = last_index.insert(kind, index) {
            let why =
                format!("the type of the condition is not unique, it also appears in conditions[{earlier}]");
            errors.invalid(&path.field("type"), kind, &why);
        }
        for field in ["type", "status"] {
            check::qualified_name(&path.field(field), fields::text(condition, field), errors);
        }
        for field in ["reason", "message"] {
            check::required(condition, field, &path, errors);
        }
    }
}
