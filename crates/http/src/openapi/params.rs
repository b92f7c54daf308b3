//! The parameters of operations: names, types and descriptions, by operation. Those of the query are in `parameters.txt`.

use super::model::{Dialect, Param};
use super::operations::META;
use pintle_value::{Map, Str, base64, json};
use std::sync::LazyLock;

const FILE: &str = include_str!("parameters.txt");

/// A parameter of the query.
struct Row {
    /// The operations that have it, separated by spaces.
    operations: &'static str,
    name: &'static str,
    type_: &'static str,
    description: String,
}

/// The rows of the table, by name.
static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let (mut rows, mut operations) = (Vec::new(), "");
    for line in FILE.lines().filter(|line| !line.starts_with('#')) {
        if let Some(names) = line.strip_prefix('[') {
            operations = names.trim_end_matches(']');
        } else if let Some((name, rest)) = line.split_once(' ')
            && let Some((type_, description)) = rest.split_once(' ')
        {
            rows.push(Row { operations, name, type_, description: description.replace("\\n", "\n") });
        }
    }
    rows.sort_by_key(|row| row.name);
    rows
});

impl Row {
    fn param(&self) -> Param {
        Param { name: self.name, place: "query", type_: self.type_, description: self.description.clone() }
    }
}

/// The query parameters of operations of this name: `list`, `write` or `PodExecOptions`, for instance.
pub(super) fn query(operation: &str) -> Vec<Param> {
    let has = |row: &&Row| row.operations.split(' ').any(|name| name == operation);
    ROWS.iter().filter(has).map(Row::param).collect()
}

/// A part of the path.
pub(super) fn path(name: &'static str, description: String) -> Param {
    Param { name, place: "path", type_: "string", description }
}

/// The namespace in the path.
pub(super) fn namespace() -> Param {
    path("namespace", "object name and auth scope, such as for teams and projects".to_string())
}

/// The parameter for the rest of the path after `proxy/`.
pub(super) fn path_below() -> Param {
    path("path", "path to the resource".to_string())
}

/// The name under which OpenAPI v2 declares a parameter outside of the operations, which then refer to it. Names of
/// objects are declared in place, because their description contains the kind; the other two are, because kubectl
/// before v1.27 looks for them there.
pub(super) fn shared_name(param: &Param) -> Option<String> {
    if matches!((param.place, param.name), (_, "name") | ("query", "fieldValidation" | "dryRun")) {
        return None;
    }
    // The name has a hash of the parameter's JSON with the members in the order of kube-openapi.
    let mut text = b"{\"uniqueItems\":true,\"type\":".to_vec();
    json::write_string(param.type_, &mut text);
    for (key, value) in
        [("description", param.description.as_str()), ("name", param.name), ("in", param.place)]
    {
        if !value.is_empty() {
            text.push(b',');
            json::write_string(key, &mut text);
            text.push(b':');
            json::write_string(value, &mut text);
        }
    }
    text.extend_from_slice(if param.place == "path" { b",\"required\":true}" } else { b"}" });
    Some(format!("{}-{}", param.name, short_hash(&text)))
}

/// The name of a shared body parameter whose type is one of the API machinery.
pub(super) fn shared_body_name(schema: &str, required: bool) -> Option<String> {
    if !schema.starts_with("io.k8s.apimachinery") {
        return None;
    }
    let required = if required { "\"required\":true," } else { "" };
    let text =
        format!(r##"{{"name":"body","in":"body",{required}"schema":{{"$ref":"#/definitions/{schema}"}}}}"##);
    Some(format!("body-{}", short_hash(text.as_bytes())))
}

/// All parameters that operations of OpenAPI v2 refer to, by name.
pub(super) fn shared() -> Map {
    let params = ROWS.iter().map(Row::param).chain([namespace(), path_below()]);
    let bodies = [("DeleteOptions", false), ("Patch", true)];
    let params = params.filter_map(|p| Some((Str::from(shared_name(&p)?), Dialect::V2.param(&p))));
    let bodies = bodies.into_iter().filter_map(|(kind, required)| {
        let schema = format!("{META}{kind}");
        Some((Str::from(shared_body_name(&schema, required)?), Dialect::V2.body(&schema, required)))
    });
    params.chain(bodies).collect()
}

/// The first six bytes of FNV-1 in the alphabet of URLs.
fn short_hash(bytes: &[u8]) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = bytes.iter().fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(*byte));
    let [a, b, c, d, e, f, ..] = hash.to_be_bytes();
    base64::encode_url(&[a, b, c, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_shared_parameters_are_those_of_kube_openapi() {
        assert_eq!(shared_name(&namespace()).as_deref(), Some("namespace-vgWSWtn3"));
        assert_eq!(shared_name(&path_below()).as_deref(), Some("path-z6Ciiujn"));
        let version = query("read");
        assert_eq!(version.first().and_then(shared_name).as_deref(), Some("resourceVersion-5WAnf1kx"));
        let body = |kind: &str, required| shared_body_name(&format!("{META}{kind}"), required);
        assert_eq!(body("DeleteOptions", false).as_deref(), Some("body-2Y1dVQaQ"));
        assert_eq!(body("Patch", true).as_deref(), Some("body-78PwaGsr"));
        assert_eq!(shared_body_name("io.k8s.api.core.v1.Pod", true), None);
        let unnamed = query("write").into_iter().filter(|param| shared_name(param).is_none());
        assert_eq!(unnamed.map(|param| param.name).collect::<Vec<_>>(), ["dryRun", "fieldValidation"]);
    }
}
