//! Which field has the wrong type. Go's error names the path of the field without indices and keys, and with the names of
//! inlined structs: `cannot unmarshal number into Go struct field Container.spec.containers.image of type string`.

use pintle_value::Value;

/// The path of the first value that the error can be about, such as `spec.containers[1].image`.
pub(super) fn field_of(tree: &Value, message: &str) -> Option<String> {
    let (_, error) = message.split_once("json: cannot unmarshal ")?;
    let (found, field) = error.split_once(" into Go struct field ")?;
    let (field, _) = field.split_once(" of type ")?;
    // The first part is the name of the struct.
    let steps: Vec<&str> = field.split('.').skip(1).collect();
    // A number may be followed by its digits.
    let json_type = found.split_once(' ').map_or(found, |(json_type, _)| json_type);
    find(tree, &steps, json_type, String::new())
}

fn find(value: &Value, steps: &[&str], json_type: &str, path: String) -> Option<String> {
    if steps.is_empty() && value.json_type() == json_type {
        return Some(path);
    }
    match value.without_text() {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| find(item, steps, json_type, format!("{path}[{index}]"))),
        Value::Object(members) => match steps.split_first() {
            Some((step, rest)) if let Some(member) = value.get(step) => {
                let dot = if path.is_empty() { "" } else { "." };
                find(member, rest, json_type, format!("{path}{dot}{step}"))
            }
            // The name of an inlined struct: its fields are members of this object.
            Some((step, rest)) if step.starts_with(|first: char| first.is_ascii_uppercase()) => {
                find(value, rest, json_type, path)
            }
            // A map: its keys are not in the error.
            _ => members
                .iter()
                .find_map(|(key, member)| find(member, steps, json_type, format!("{path}[{key}]"))),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_found_in_lists_maps_and_inlined_structs() {
        let tree = r#"{"metadata":{"labels":{"a.b/c":"d","e":1}},"spec":{"replicas":"3","containers":[
          {"name":"a","ports":[{"containerPort":1}]},{"name":2,"ports":[{"containerPort":2},{"containerPort":"http"}]}],
          "volumes":[{"name":"v","hostPath":[]}],"args":["a",1.5]}}"#;
        let tree = pintle_value::json::parse(tree.as_bytes()).unwrap().value;
        let cases = [
            ("string into Go struct field DeploymentSpec.spec.replicas of type int32", Some("spec.replicas")),
            (
                "number into Go struct field Container.spec.containers.name of type string",
                Some("spec.containers[1].name"),
            ),
            (
                "string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
                Some("spec.containers[1].ports[1].containerPort"),
            ),
            (
                "number into Go struct field ObjectMeta.metadata.labels of type string",
                Some("metadata.labels[e]"),
            ),
            (
                "array into Go struct field Volume.spec.volumes.VolumeSource.hostPath of type v1.HostPathVolumeSource",
                Some("spec.volumes[0].hostPath"),
            ),
            ("number 1.5 into Go struct field PodSpec.spec.args of type string", Some("spec.args[1]")),
            ("bool into Go struct field PodSpec.spec.absent of type string", None),
            ("string into Go value of type v1.Pod", None),
        ];
        for (error, expected) in cases {
            let message =
                format!("Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal {error}");
            assert_eq!(field_of(&tree, &message).as_deref(), expected, "{error}");
        }
    }
}
