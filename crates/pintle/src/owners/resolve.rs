//! Resolves `deploy/web` to an object with the discovery documents.

use super::client::{Client, ClientError};
use pintle_meta::GroupVersion;
use pintle_value::{Value, percent};

const DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// The type and name that operands such as `deploy/web`, or `deploy web`, name.
pub(crate) fn type_and_name(operands: &[String]) -> Result<(String, String), String> {
    let (type_, name) = match operands {
        [] => return Err("say which object: TYPE/NAME".to_string()),
        [one] => one.split_once('/').unwrap_or((one, "")),
        [type_, name] if !type_.contains('/') => (type_.as_str(), name.as_str()),
        [first, more, ..] => return Err(format!("one object at a time: {first:?}, not also {more:?}")),
    };
    match (type_, name) {
        ("", _) | (_, "") => Err(format!("{:?} is not of the form TYPE/NAME", operands.join(" "))),
        _ => Ok((type_.to_string(), name.to_string())),
    }
}

/// Finds the resource with this name and gets the object.
pub(crate) async fn get(
    client: Client,
    kind: &str,
    name: &str,
    namespace: &str,
) -> Result<Value, ClientError> {
    let path = collection(&client, kind, namespace).await?;
    client.get(&format!("{path}/{}", escaped(name)), "application/json").await
}

/// The path of the collection with this name.
pub(crate) async fn collection(client: &Client, kind: &str, namespace: &str) -> Result<String, ClientError> {
    for root in ["/api", "/apis"] {
        let groups = client.get(root, DISCOVERY).await?;
        if let Some(path) = find(&groups, kind, namespace) {
            return Ok(path);
        }
    }
    Err(ClientError::Answer(format!("the server doesn't have a resource type {kind:?}")))
}

/// The path of the collection of a kind; `None` if the server does not have it.
pub(super) async fn collection_of_kind(
    client: &Client,
    version: &GroupVersion,
    kind: &str,
    namespace: &str,
) -> Result<Option<String>, ClientError> {
    let (root, wanted) = match version.group.as_str() {
        "" => ("/api", kind.to_string()),
        group => ("/apis", format!("{kind}.{}.{group}", version.version)),
    };
    Ok(find(&client.get(root, DISCOVERY).await?, &wanted, namespace))
}

/// The collection of `wanted`: a plural, singular, short name or kind, optionally with a group after a dot.
fn find(groups: &Value, wanted: &str, namespace: &str) -> Option<String> {
    let (wanted, in_group) = wanted.split_once('.').unwrap_or((wanted, ""));
    let is_it = |resource: &Value| {
        let same = |name: &str| name.eq_ignore_ascii_case(wanted);
        same(resource.str_at(&["resource"]))
            || same(resource.str_at(&["singularResource"]))
            || same(resource.str_at(&["responseKind", "kind"]))
            || resource.items_at(&["shortNames"]).iter().filter_map(Value::as_str).any(same)
    };
    for group in groups.items_at(&["items"]) {
        let group_name = group.str_at(&["metadata", "name"]);
        for version in group.items_at(&["versions"]) {
            let name = version.str_at(&["version"]);
            let fits =
                in_group.is_empty() || in_group == group_name || in_group == format!("{name}.{group_name}");
            let Some(resource) = version.items_at(&["resources"]).iter().find(|r| fits && is_it(r)) else {
                continue;
            };
            let root = if group_name.is_empty() { "/api".to_string() } else { format!("/apis/{group_name}") };
            let place = match resource.str_at(&["scope"]) {
                "Namespaced" => format!("/namespaces/{}", escaped(namespace)),
                _ => String::new(),
            };
            return Some(format!("{root}/{name}{place}/{}", resource.str_at(&["resource"])));
        }
    }
    None
}

/// A path segment: everything but letters, digits and `-._~` is percent-encoded.
pub(crate) fn escaped(part: &str) -> String {
    percent::encode(part.as_bytes(), |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_any_of_their_names() {
        let groups = pintle_value::json::parse(
            br#"{"items":[
                {"metadata":{},"versions":[{"version":"v1","resources":[
                  {"resource":"nodes","singularResource":"node","responseKind":{"kind":"Node"},"shortNames":["no"],"scope":"Cluster"},
                  {"resource":"events","singularResource":"event","responseKind":{"kind":"Event"},"scope":"Namespaced"}]}]},
                {"metadata":{"name":"events.k8s.io"},"versions":[{"version":"v1","resources":[
                  {"resource":"events","singularResource":"event","responseKind":{"kind":"Event"},"scope":"Namespaced"}]}]}]}"#,
        );
        let groups = groups.unwrap().value;
        for (wanted, path) in [
            ("no", Some("/api/v1/nodes")),
            ("Node", Some("/api/v1/nodes")),
            ("events", Some("/api/v1/namespaces/n%20s/events")),
            ("event.events.k8s.io", Some("/apis/events.k8s.io/v1/namespaces/n%20s/events")),
            ("event.v1.events.k8s.io", Some("/apis/events.k8s.io/v1/namespaces/n%20s/events")),
            ("nope", None),
        ] {
            assert_eq!(find(&groups, wanted, "n s").as_deref(), path, "{wanted}");
        }
    }
}
