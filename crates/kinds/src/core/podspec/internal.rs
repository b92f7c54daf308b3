//! Moves fields of pod specs to where the internal types have them, for error texts that print a spec.

use pintle_value::Value;

/// Fields of the spec that are in the security context of the internal type.
const IN_SECURITY_CONTEXT: [&str; 5] =
    ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

/// Moves the fields of a pod spec to their position in the internal type.
pub(crate) fn pod_spec(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for key in IN_SECURITY_CONTEXT {
        if let Some(value) = spec.get(key).cloned() {
            spec.set_at(&["securityContext", key], value);
        }
    }
    spec
}

/// Moves the fields of a template's spec to their position in the internal type.
pub(crate) fn template(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(spec) = template.get("spec").map(pod_spec) {
        template.set_at(&["spec"], spec);
    }
    template
}
