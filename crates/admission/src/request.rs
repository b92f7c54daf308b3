//! The `AdmissionRequest` that webhooks and expressions see.

use crate::matching::Matched;
use crate::{Attributes, Operation};
use pintle_meta::options::{DeleteOptions, FieldValidation};
use pintle_value::{Map, Str, Value};

/// The options of a request.
#[derive(Clone, Copy, Debug)]
pub enum Options<'a> {
    /// Options of a create or an update; a patch counts as an update.
    Write {
        /// `fieldManager` as the client sent it.
        field_manager: &'a str,
        /// `fieldValidation`, if the client sent it.
        validation: Option<FieldValidation>,
    },
    /// Options of a deletion.
    Delete(&'a DeleteOptions),
    /// Connections have none.
    None,
}

impl Operation {
    /// The name of the operation in rules and reviews.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// The request without its objects, in the version that matched.
pub fn admission_request(request: &Attributes<'_>, matched: &Matched, uid: &str) -> Value {
    let mut out = Map::new();
    let mut put = |key: &'static str, value: Value| {
        out.insert(key, value);
    };
    let own = request.version;
    let resource = |group: &Str, version: &Str| {
        texts(&[("group", group), ("version", version), ("resource", &request.kind.plural)])
    };
    let kind = |kind: &pintle_meta::GroupVersionKind| {
        texts(&[("group", &kind.group), ("version", &kind.version), ("kind", &kind.kind)])
    };
    put("uid", uid.into());
    put("kind", kind(&matched.kind));
    put("resource", resource(&matched.group, &matched.version_name));
    put("requestKind", kind(&request.kind_in(own)));
    put("requestResource", resource(&own.group, &own.name));
    for (key, text) in [
        ("subResource", request.subresource),
        ("requestSubResource", request.subresource),
        ("name", request.name),
        ("namespace", request.namespace),
    ] {
        if !text.is_empty() {
            put(key, text.into());
        }
    }
    put("operation", request.operation.name().into());
    put("userInfo", user_info(request));
    put("dryRun", Value::Bool(request.dry_run));
    put("options", options(request));
    Value::Object(out)
}

fn texts(pairs: &[(&'static str, &Str)]) -> Value {
    Value::Object(pairs.iter().map(|(key, text)| (*key, Value::String((*text).clone()))).collect())
}

fn user_info(request: &Attributes<'_>) -> Value {
    let list = |items: &[String]| Value::Array(items.iter().map(|item| item.as_str().into()).collect());
    let user = request.user;
    let mut out = Value::object();
    for (key, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            out.set_at(&[key], text.as_str().into());
        }
    }
    if !user.groups.is_empty() {
        out.set_at(&["groups"], list(&user.groups));
    }
    if !user.extra.is_empty() {
        let extra = user.extra.iter().map(|(key, values)| (Str::from(key), list(values)));
        out.set_at(&["extra"], Value::Object(extra.collect()));
    }
    out
}

/// The options as an object; null if there are none.
fn options(request: &Attributes<'_>) -> Value {
    let mut out = match request.options {
        Options::None => return Value::Null,
        Options::Delete(options) => options.to_value(),
        Options::Write { field_manager, validation } => {
            let mut out = Value::object();
            let kind = if request.operation == Operation::Create { "CreateOptions" } else { "UpdateOptions" };
            out.set_at(&["kind"], kind.into());
            if !field_manager.is_empty() {
                out.set_at(&["fieldManager"], field_manager.into());
            }
            if let Some(validation) = validation {
                out.set_at(&["fieldValidation"], validation.name().into());
            }
            if request.dry_run {
                out.set_at(&["dryRun"], Value::Array(vec!["All".into()]));
            }
            out
        }
    };
    out.set_at(&["apiVersion"], "meta.k8s.io/v1".into());
    out
}
