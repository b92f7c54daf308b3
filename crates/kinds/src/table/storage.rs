//! Rows of the storage group.

use super::cell::{default_marked, text, texts};
use pintle_value::Value;

const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

pub(super) fn storage_class_name(object: &Value) -> Value {
    default_marked(object, &DEFAULT_CLASS_ANNOTATIONS)
}

pub(super) fn token_requests(object: &Value) -> Value {
    let requests = object.at(&["spec", "tokenRequests"]).and_then(Value::as_array).map(|requests| {
        requests.iter().map(|request| request.str_at(&["audience"])).collect::<Vec<_>>().join(",")
    });
    text(requests.unwrap_or_else(|| "<unset>".to_string()))
}

pub(super) fn lifecycle_modes(object: &Value) -> Value {
    let modes = texts(object, &["spec", "volumeLifecycleModes"]).join(",");
    text(if modes.is_empty() { "<none>".to_string() } else { modes })
}
