//! Builds ConversionReview requests and validates their answers.

use crate::answer::{self, Review};
use pintle_meta::field::quoted;
use pintle_meta::selector::label_validation::validate_labels;
use pintle_meta::{FieldErrors, GroupVersionKind, objectmeta};
use pintle_value::{Map, Path, RawJson, Str, Value, json};

const GROUP: &str = "apiextensions.k8s.io";

/// The first review version in `offered` that this server also supports.
pub(super) fn version(offered: &[Str]) -> Option<&'static str> {
    offered.iter().find_map(|version| match version.as_str() {
        "v1" => Some("v1"),
        "v1beta1" => Some("v1beta1"),
        _ => None,
    })
}

/// Builds a review that asks for these objects in the version `desired`.
pub(super) fn request(version: &str, uid: &str, desired: &str, trees: &[Value]) -> Vec<u8> {
    let objects = trees.iter().map(|tree| {
        let mut tree = tree.clone();
        tree.remove_at(&["metadata", "resourceVersion"]);
        tree
    });
    let mut review = Value::object();
    review.set_at(&["kind"], "ConversionReview".into());
    review.set_at(&["apiVersion"], format!("{GROUP}/{version}").into());
    review.set_at(&["request", "uid"], uid.into());
    review.set_at(&["request", "desiredAPIVersion"], desired.into());
    review.set_at(&["request", "objects"], Value::Array(objects.collect()));
    review.set_at(&["response", "uid"], "".into());
    review.set_at(&["response", "convertedObjects"], Value::Null);
    review.set_at(&["response", "result", "metadata"], Value::object());
    json::bytes(&review)
}

/// The reason why an answer contains no usable objects.
pub(super) struct AnswerError {
    pub(super) why: String,
    /// Whether the answer could not be decoded as a review.
    pub(super) is_undecodable: bool,
}

const KIND: &str = "ConversionReview";

/// Returns the converted objects in the answer to a review.
pub(super) fn objects(version: &str, uid: &str, answer: &[u8]) -> Result<Vec<Value>, AnswerError> {
    let tree = decode(version, answer).map_err(|why| AnswerError { why, is_undecodable: true })?;
    let refuse = |why: String| AnswerError { why, is_undecodable: false };
    // For v1beta1 reviews, kube-apiserver checks neither type nor uid.
    if version == "v1" {
        let (kind, api_version) = (tree.str_at(&["kind"]), tree.str_at(&["apiVersion"]));
        let expected = format!("{GROUP}/{version}");
        if kind != KIND || api_version != expected {
            let found = if api_version.is_empty() { "/" } else { api_version };
            return Err(refuse(format!(
                "expected webhook response of {expected}, Kind={KIND}, got {found}, Kind={kind}"
            )));
        }
    }
    let Some(response @ Value::Object(_)) = tree.get("response") else {
        return Err(refuse("no response provided".to_string()));
    };
    let answered = response.str_at(&["uid"]);
    if version == "v1" && answered != uid {
        return Err(refuse(format!("expected response.uid={}, got {}", quoted(uid), quoted(answered))));
    }
    let status = response.str_at(&["result", "status"]);
    if status != "Success" {
        let message = response.str_at(&["result", "message"]);
        return Err(refuse(match message {
            "" => format!("response.result.status was '{status}', not 'Success'"),
            _ => message.to_string(),
        }));
    }
    let mut objects = response.items_at(&["convertedObjects"]).to_vec();
    if objects.iter().any(is_kindless) {
        restore_texts(&mut objects, answer);
    }
    Ok(objects)
}

fn is_kindless(converted: &Value) -> bool {
    matches!(converted, Value::Object(_)) && converted.str_at(&["kind"]).is_empty()
}

/// Gives objects without kind the text that the webhook sent: their error quotes it.
fn restore_texts(objects: &mut [Value], answer: &[u8]) {
    let Ok(text) = std::str::from_utf8(answer) else { return };
    let member = |text, name: &str| {
        let mut parts = json::Parts::of(text);
        std::iter::from_fn(move || parts.next_part()).filter(|(key, _)| key == name).last()
    };
    let Some((_, response)) = member(text, "response") else { return };
    let Some((_, converted)) = member(response, "convertedObjects") else { return };
    let mut texts = json::Parts::of(converted);
    for object in objects {
        let Some((_, text)) = texts.next_part() else { return };
        if is_kindless(object) {
            *object = RawJson::read(text).unwrap_or_default();
        }
    }
}

/// Decodes an answer as Go's client does: a document without kind is taken for the expected one.
fn decode(version: &str, answer: &[u8]) -> Result<Value, String> {
    let tree = answer::read(Review { group: GROUP, version, kind: KIND }, answer)?;
    check_types(version, &tree)?;
    Ok(tree)
}

/// Refuses members whose JSON type does not fit the Go struct of a review.
fn check_types(version: &str, tree: &Value) -> Result<(), String> {
    let Some(response) = tree.get("response").filter(|response| **response != Value::Null) else {
        return Ok(());
    };
    let fault = |found: &Value, field: &str, type_: &str| {
        Err(format!(
            "json: cannot unmarshal {} into Go struct field {field} of type {type_}",
            found.json_type()
        ))
    };
    if !matches!(response, Value::Object(_)) {
        return fault(response, "ConversionReview.response", &format!("{version}.ConversionResponse"));
    }
    match response.get("uid") {
        None | Some(Value::Null | Value::String(_)) => {}
        Some(other) => return fault(other, "ConversionResponse.response.uid", "types.UID"),
    }
    match response.get("convertedObjects") {
        None | Some(Value::Null | Value::Array(_)) => Ok(()),
        Some(other) => fault(other, "ConversionResponse.response.convertedObjects", "[]runtime.RawExtension"),
    }
}

/// Checks that a converted object has a kind, an apiVersion and metadata.
fn check_object(converted: &Value) -> Result<(), String> {
    match converted {
        Value::Object(_) if !converted.str_at(&["kind"]).is_empty() => Ok(()),
        Value::Object(_) => Err(format!("Object 'Kind' is missing in '{}'", json::text(converted))),
        Value::Raw(raw) => Err(format!("Object 'Kind' is missing in '{}'", raw.text())),
        Value::Null => Err("unexpected end of JSON input".to_string()),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            other.json_type()
        )),
    }
}

/// Identifies the object that an error is about.
pub(super) struct Place<'a> {
    /// The kind that was requested, for error messages.
    pub(super) kind: &'a str,
    pub(super) index: usize,
    pub(super) in_list: bool,
}

impl Place<'_> {
    fn error_text(&self, why: &str) -> String {
        let Place { kind, index, in_list } = *self;
        if in_list {
            format!("conversion webhook for {kind} returned invalid converted object at index {index}: {why}")
        } else {
            format!("conversion webhook for {kind} returned invalid object: {why}")
        }
    }

    fn type_error(&self, why: &str) -> String {
        let Place { kind, index, in_list } = *self;
        if in_list {
            self.error_text(why)
        } else {
            format!("conversion webhook for {kind} returned invalid object at index {index}: {why}")
        }
    }

    fn metadata_error(&self, why: &str) -> String {
        let Place { kind, index, in_list } = *self;
        if in_list {
            format!(
                "conversion webhook for {kind} returned invalid metadata in object at index {index}: {why}"
            )
        } else {
            format!("conversion webhook for {kind} returned invalid metadata: {why}")
        }
    }
}

/// Returns the converted object with the metadata of the original; a webhook may only change labels and annotations.
pub(super) fn accept(
    original: &Value,
    mut converted: Value,
    wanted: &GroupVersionKind,
    place: &Place<'_>,
) -> Result<Value, String> {
    // For a single object kube-apiserver's error does not say which one it is.
    check_object(&converted).map_err(|why| if place.in_list { place.error_text(&why) } else { why })?;
    let group_version = wanted.group_version().to_string();
    let received = converted.str_at(&["apiVersion"]);
    if received != group_version {
        let why = format!("invalid groupVersion (expected {group_version}, received {received})");
        return Err(place.type_error(&why));
    }
    let kind = converted.str_at(&["kind"]);
    if kind != wanted.kind {
        let why = format!("invalid kind (expected {}, received {kind})", wanted.kind);
        return Err(place.type_error(&why));
    }
    for (key, word) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (was, is) = (original.str_at(&["metadata", key]), converted.str_at(&["metadata", key]));
        if was != is {
            return Err(place.error_text(&format!("must have the same {word}: {was} != {is}")));
        }
    }
    restore_metadata(original, &mut converted).map_err(|why| place.metadata_error(&why))?;
    Ok(converted)
}

fn restore_metadata(original: &Value, converted: &mut Value) -> Result<(), String> {
    let answered = match converted.get("metadata") {
        None => return Err("missing metadata in converted object".to_string()),
        Some(Value::Object(answered)) => answered.clone(),
        Some(other) => {
            return Err(format!("invalid metadata of type {} in converted object", other.go_type()));
        }
    };
    let mut metadata = original.get("metadata").cloned().unwrap_or_else(Value::object);
    for field in ["labels", "annotations"] {
        match answered.get(field).unwrap_or(&Value::Null) {
            Value::Null => _ = metadata.remove_at(&[field]),
            Value::Object(new) => {
                check_texts(field, new, metadata.get(field))?;
                metadata.set_at(&[field], Value::Object(new.clone()));
            }
            other => {
                return Err(format!(
                    "invalid metadata.{field} of type {} in converted object",
                    other.go_type()
                ));
            }
        }
    }
    converted.set_at(&["metadata"], metadata);
    Ok(())
}

/// Validates the labels or annotations that the webhook changed.
fn check_texts(field: &str, new: &Map, old: Option<&Value>) -> Result<(), String> {
    for (key, value) in new.iter() {
        if value.as_str().is_none() {
            let found = value.go_type();
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {found} in converted object"
            ));
        }
    }
    if old.and_then(Value::as_object) == Some(new) {
        return Ok(());
    }
    let mut errors = FieldErrors::new();
    let metadata = Path::of("metadata");
    match field {
        "labels" => validate_labels(Some(new), &metadata.field("labels"), &mut errors),
        // kube-apiserver's path in this error says `annotation`, without an s.
        _ => objectmeta::validate_annotations(Some(new), &metadata.field("annotation"), &mut errors),
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.aggregate_message()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_without_kind_is_quoted_as_it_was_sent() {
        let answer = br#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {"uid": "u",
            "result": {"status": "Success"}, "convertedObjects": [{"kind": "A"}, { "b" : 1 }, {"c":2}]}}"#;
        let objects = objects("v1", "u", answer).ok().unwrap();
        let errors: Vec<_> =
            objects.iter().map(|object| check_object(object).err().unwrap_or_default()).collect();
        assert_eq!(
            errors,
            ["", "Object 'Kind' is missing in '{ \"b\" : 1 }'", "Object 'Kind' is missing in '{\"c\":2}'"]
        );
    }
}
