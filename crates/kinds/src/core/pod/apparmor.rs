//! AppArmor profiles of a pod: legacy annotations become fields.

use crate::core::podspec::{self, defaults::CONTAINER_LISTS};
use crate::fill::items;
use pintle_value::{Path, Value};

/// Prefix of the annotation that names the profile of a container.
pub(crate) const ANNOTATION_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST_PREFIX: &str = "localhost/";
/// The longest allowed name of a profile on the node.
const PROFILE_BYTES_MAX: usize = 4095;

/// The warning about such an annotation.
pub(crate) const DEPRECATED: &str = r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;

/// The warnings about annotations of containers without a profile of their own: those that become fields, and those that cannot.
pub(crate) fn deprecated_annotations(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let Some(spec) = object.get("spec").filter(|spec| spec.str_at(&["os", "name"]) != "windows") else {
        return found;
    };
    let of_pod = spec.at(&["securityContext", "appArmorProfile"]);
    podspec::visit_containers(spec, &Path::ROOT, |container, _| {
        let key = format!("{ANNOTATION_PREFIX}{}", container.str_at(&["name"]));
        let Some(text) = object.at(&["metadata", "annotations", &key]).and_then(Value::as_str) else {
            return;
        };
        let own = profile(text);
        if container.at(&["securityContext", "appArmorProfile"]).is_none()
            && (own.is_none() || own.as_ref() != of_pod)
        {
            found.push(format!("{}: {DEPRECATED}", Path::of("metadata.annotations").key(&key)));
        }
    });
    found
}

/// Copies the profile of each container's annotation to its field, unless the pod's own profile is the same.
pub(crate) fn fields_from_annotations(object: &mut Value) {
    if object.str_at(&["spec", "os", "name"]) == "windows" {
        return;
    }
    let Some(annotations) = object.at(&["metadata", "annotations"]).and_then(Value::as_object).cloned()
    else {
        return;
    };
    let of_pod = object.at(&["spec", "securityContext", "appArmorProfile"]).cloned();
    let Some(spec) = object.get_mut("spec") else { return };
    for list in CONTAINER_LISTS {
        for container in items(spec, list) {
            let key = format!("{ANNOTATION_PREFIX}{}", container.str_at(&["name"]));
            let Some(text) = annotations.get(&key).and_then(Value::as_str) else { continue };
            if container.at(&["securityContext", "appArmorProfile"]).is_some() {
                continue;
            }
            let profile = profile(text);
            if profile.is_some() && profile != of_pod {
                container.set_at(&["securityContext", "appArmorProfile"], profile.unwrap_or_default());
            }
        }
    }
}

/// The profile of an annotation, if it is valid.
pub(crate) fn profile(annotation: &str) -> Option<Value> {
    let mut profile = Value::object();
    match annotation {
        "unconfined" => profile.set_at(&["type"], "Unconfined".into()),
        "runtime/default" => profile.set_at(&["type"], "RuntimeDefault".into()),
        other => {
            let name = other.strip_prefix(LOCALHOST_PREFIX).filter(|n| !n.is_empty())?;
            if name.trim() != name || name.len() > PROFILE_BYTES_MAX {
                return None;
            }
            profile.set_at(&["type"], "Localhost".into());
            profile.set_at(&["localhostProfile"], name.into());
        }
    }
    Some(profile)
}
