//! APIService: which server serves a version of a group. Those without a service are served by this server.

use crate::{Hooks, Scope, facts, fields, hooks};
use pintle_meta::field::{Named, quoted};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value, base64};

pub(crate) struct ApiService;

impl Hooks for ApiService {
    fn prepare_create(&self, object: &mut Value) {
        if service(object).is_some() {
            return;
        }
        let mut condition = Value::object();
        let created = object.str_at(&["metadata", "creationTimestamp"]);
        let texts = [
            ("type", "Available"),
            ("status", "True"),
            ("reason", "Local"),
            ("message", "Local APIServices are always available"),
            ("lastTransitionTime", created),
        ];
        for (key, text) in texts {
            condition.set_at(&[key], text.into());
        }
        object.set_at(&["status", "conditions"], Value::Array(vec![condition]));
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        if scope != Scope::Main {
            for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
                hooks::take(object, old, &["metadata", key]);
            }
        }
    }

    fn name_errors(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment_name(name, false)
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_name(object, errors);
        validate_spec(object.get("spec").unwrap_or(&Value::Null), &Path::of("spec"), errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, _old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Main {
            return self.validate_create(object, errors);
        }
        let path = Path::of("status.conditions");
        for (at, condition) in object.items_at(&["status", "conditions"]).iter().enumerate() {
            let given = fields::text(condition, "status");
            if !matches!(given, "True" | "False" | "Unknown") {
                errors.not_supported(
                    &path.index(at).field("status"),
                    Named(given),
                    &["True", "False", "Unknown"],
                );
            }
        }
    }
}

fn service(object: &Value) -> Option<&Value> {
    object.at(&["spec", "service"]).filter(|service| !service.is_null())
}

/// The name must be VERSION.GROUP.
fn validate_name(object: &Value, errors: &mut FieldErrors) {
    let wanted = format!("{}.{}", object.str_at(&["spec", "version"]), object.str_at(&["spec", "group"]));
    let metadata = Path::of("metadata");
    for key in ["generateName", "name"] {
        let given = object.str_at(&["metadata", key]);
        if !given.is_empty() && given != wanted && names::path_segment_name(given, false).is_empty() {
            let why = format!("must be `spec.version+\".\"+spec.group`: {}", quoted(&wanted));
            errors.invalid(&metadata.field(key), given, &why);
        }
    }
}

fn validate_spec(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    if fields::text(spec, "group").is_empty() && fields::text(spec, "version") != "v1" {
        errors.required(&path.field("group"), "only v1 may have an empty group and it better be legacy kube");
    }
    facts::check(spec, "apiregistration/v1.APIServiceSpec", path, errors);
    let bundle = base64::decode(fields::text(spec, "caBundle")).map_or(0, |bytes| bytes.len());
    let insecure = fields::flag(spec, "insecureSkipTLSVerify");
    let Some(service) = fields::member(spec, "service") else {
        if bundle > 0 {
            let error_text = format!("{bundle} bytes");
            errors.invalid(
                &path.field("caBundle"),
                error_text.as_str(),
                "local APIServices may not have a caBundle",
            );
        }
        if insecure {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            errors.invalid(&path.field("insecureSkipTLSVerify"), true, why);
        }
        return;
    };
    let at = path.field("service");
    facts::check(service, "apiregistration/v1.ServiceReference", &at, errors);
    let port = fields::int(service, "port");
    let complaints = names::is_valid_port_num(port);
    if !complaints.is_empty() {
        errors.invalid(&at.field("port"), port, &format!("port is not valid: {}", complaints.join(", ")));
    }
    if insecure && bundle > 0 {
        errors.invalid(&path.field("insecureSkipTLSVerify"), true, "may not be true if caBundle is present");
    }
}
