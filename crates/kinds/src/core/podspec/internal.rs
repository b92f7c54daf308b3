//! Internal forms of pod specs, for messages that show them.
//!
//! The tables follow the internal types of kube-apiserver 1.36, field by field.

pub(crate) mod containers;
pub(crate) mod meta;
pub(crate) mod spec;
pub(crate) mod volumes;

use pintle_value::Value;

/// Fields of the spec that internally belong to the security context.
const IN_SECURITY_CONTEXT: [&str; 5] =
    ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

/// A pod spec with its fields where they are internally.
pub(crate) fn pod_spec(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for key in IN_SECURITY_CONTEXT {
        if let Some(value) = spec.get(key).cloned() {
            spec.set_at(&["securityContext", key], value);
        }
    }
    spec
}

/// A template with the fields of its spec where they are internally.
pub(crate) fn template(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(spec) = template.get("spec").map(pod_spec) {
        template.set_at(&["spec"], spec);
    }
    template
}
