//! Configuration files of the API server: YAML with a kind and a version, decoded strictly.

use pintle_value::{Value, yaml};

/// The fields of a part of a file, each with its subfields. Lists have the fields of their items.
pub(crate) struct Fields(pub(crate) &'static [(&'static str, Option<&'static Fields>)]);

const GROUP: &str = "apiserver.config.k8s.io";

/// The kinds of the group, with their fields.
const OTHER_KINDS: [(&str, Fields); 6] = [
    ("AdmissionConfiguration", Fields(&[("plugins", None)])),
    ("AuthenticationConfiguration", Fields(&[("jwt", None), ("anonymous", None)])),
    ("AuthorizationConfiguration", Fields(&[("authorizers", None)])),
    ("EgressSelectorConfiguration", Fields(&[("egressSelections", None)])),
    ("EncryptionConfiguration", Fields(&[("resources", None)])),
    ("TracingConfiguration", Fields(&[("endpoint", None), ("samplingRatePerMillion", None)])),
];

/// Decodes a file of this kind into a tree. The error has kube-apiserver's text.
pub(crate) fn decode(text: &[u8], kind: &str, versions: &[&str], fields: &Fields) -> Result<Value, String> {
    if text.is_empty() {
        return Err("empty config data".to_string());
    }
    let parsed = yaml::parse(text).map_err(|error| error.to_string())?;
    let tree = parsed.value;
    let (found_kind, version) = (tree.str_at(&["kind"]), tree.str_at(&["apiVersion"]));
    let known = versions.iter().any(|known| version == format!("{GROUP}/{known}"));
    if found_kind.is_empty() {
        return Err("Object 'Kind' is missing in the configuration".to_string());
    }
    let is_kind = found_kind == kind || OTHER_KINDS.iter().any(|(other, _)| found_kind == *other);
    if !known || !is_kind {
        return Err(format!("no kind \"{found_kind}\" is registered for version \"{version}\""));
    }
    if let Some(repeated) = parsed.strict_error {
        return Err(format!("strict decoding error: {repeated}"));
    }
    let mut unknown = Vec::new();
    // A file of another kind is validated by that kind's fields first.
    let other = OTHER_KINDS.iter().find(|(other, _)| found_kind == *other && found_kind != kind);
    find_unknown(&tree, other.map_or(fields, |(_, fields)| fields), "", true, &mut unknown);
    if !unknown.is_empty() {
        return Err(format!("strict decoding error: {}", unknown.join(", ")));
    }
    if other.is_some() {
        return Err(format!("expected {kind}, got *apiserver.{found_kind}"));
    }
    Ok(tree)
}

/// An operating system error in Go's words, without the operation.
pub(crate) fn go_error_text(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_string(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_string(),
        std::io::ErrorKind::IsADirectory => "is a directory".to_string(),
        std::io::ErrorKind::NotADirectory => "not a directory".to_string(),
        _ => error.to_string(),
    }
}

fn find_unknown(tree: &Value, fields: &Fields, path: &str, is_root: bool, unknown: &mut Vec<String>) {
    if let Some(items) = tree.as_array() {
        for (index, item) in items.iter().enumerate() {
            find_unknown(item, fields, &format!("{path}[{index}]"), false, unknown);
        }
    }
    let Some(map) = tree.as_object() else { return };
    for (key, value) in map.iter() {
        let below = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
        match fields.0.iter().find(|(name, _)| *name == key) {
            Some((_, Some(fields))) => find_unknown(value, fields, &below, false, unknown),
            Some((_, None)) => {}
            None if is_root && matches!(&**key, "kind" | "apiVersion") => {}
            None => unknown.push(format!("unknown field \"{below}\"")),
        }
    }
}
