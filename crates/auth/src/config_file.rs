//! Configuration files of the API server: YAML with a kind and a version, decoded strictly.

use pintle_meta::go_type::{GoStruct, GoType, head_type_error, missing_head, unregistered_kind};
use pintle_value::{Value, json, yaml};

const GROUP: &str = "apiserver.config.k8s.io";

/// The kinds of the group, with their fields.
const OTHER_KINDS: [GoStruct; 6] = [
    GoStruct("AdmissionConfiguration", &[("plugins", GoType::Any)]),
    GoStruct("AuthenticationConfiguration", &[("jwt", GoType::Any), ("anonymous", GoType::Any)]),
    GoStruct("AuthorizationConfiguration", &[("authorizers", GoType::Any)]),
    GoStruct("EgressSelectorConfiguration", &[("egressSelections", GoType::Any)]),
    GoStruct("EncryptionConfiguration", &[("resources", GoType::Any)]),
    GoStruct("TracingConfiguration", &[("endpoint", GoType::Any), ("samplingRatePerMillion", GoType::Any)]),
];

/// Decodes a file of this kind into a tree. The error has kube-apiserver's text; `place` is where it defines the scheme.
pub(crate) fn decode(text: &[u8], versions: &[&str], type_: &GoStruct, place: &str) -> Result<Value, String> {
    let kind = type_.0;
    if text.is_empty() {
        return Err("empty config data".to_string());
    }
    // As in kube-apiserver, a file that begins with a brace is JSON, if it can be read as such.
    let as_json = text.trim_ascii_start().starts_with(b"{").then(|| json::parse(text).ok()).flatten();
    let (tree, strict_error) = match as_json {
        Some(parsed) => {
            let repeated = parsed.duplicates.iter().map(|path| format!("duplicate field \"{path}\""));
            let repeated: Vec<String> = repeated.collect();
            (parsed.value, Some(repeated.join(", ")).filter(|text| !text.is_empty()))
        }
        None => {
            let parsed = yaml::parse(text).map_err(|error| error.to_string())?;
            (parsed.value, parsed.strict_error.map(|error| error.to_string()))
        }
    };
    let (found_kind, version) = (tree.str_at(&["kind"]), tree.str_at(&["apiVersion"]));
    if let Some(error) = head_type_error(&tree).or_else(|| missing_head(text, &tree)) {
        return Err(error);
    }
    let known = versions.iter().any(|known| version == format!("{GROUP}/{known}"));
    let is_kind = found_kind == kind || OTHER_KINDS.iter().any(|other| found_kind == other.0);
    if !known || !is_kind {
        return Err(unregistered_kind(found_kind, version, place));
    }
    // A file of another kind is validated by that kind's fields first.
    let other = OTHER_KINDS.iter().find(|other| found_kind == other.0 && found_kind != kind);
    let found = other.unwrap_or(type_);
    let package = version.rsplit('/').next().unwrap_or_default();
    if let Some(error) = found.strict_error(&tree, package, strict_error) {
        return Err(error);
    }
    if other.is_some() {
        return Err(format!("expected {kind}, got *apiserver.{found_kind}"));
    }
    Ok(tree)
}
