//! Builds AdmissionReview requests and validates their answers.

use pintle_meta::field::quoted;
use pintle_value::{Value, base64, json};

const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";

/// A version of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum ReviewVersion {
    V1,
    V1beta1,
}

impl ReviewVersion {
    /// The version with this name, if it is supported.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1beta1),
            _ => None,
        }
    }

    /// The review version's name.
    pub fn name(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "v1",
            ReviewVersion::V1beta1 => "v1beta1",
        }
    }

    /// The `apiVersion` of reviews in this version.
    pub fn api_version(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "admission.k8s.io/v1",
            ReviewVersion::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// Builds a review of a request; missing objects are null.
pub fn body(
    version: ReviewVersion,
    mut request: Value,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Vec<u8> {
    for (key, object) in [("object", object), ("oldObject", old)] {
        request.set_at(&[key], object.cloned().unwrap_or(Value::Null));
    }
    let mut out = format!(r#"{{"kind":"{KIND}","apiVersion":"{}","request":{{"#, version.api_version());
    let fields = ORDER.iter().filter_map(|key| Some((*key, request.get(key)?)));
    for (index, (key, value)) in fields.enumerate() {
        let comma = if index == 0 { "" } else { "," };
        out.push_str(&format!("{comma}\"{key}\":"));
        out.push_str(&json::text(value));
    }
    out.push_str("}}");
    out.into_bytes()
}

/// The fields of a request in kube-apiserver's order.
const ORDER: [&str; 15] = [
    "uid",
    "kind",
    "resource",
    "subResource",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "object",
    "oldObject",
    "dryRun",
    "options",
];

/// A webhook's verdict on a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// A JSON patch of the object; empty for none.
    pub patch: Vec<u8>,
    /// The kind of the patch.
    pub patch_type: String,
    /// The `v1.Status` that explains a denial.
    pub result: Value,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Annotations of the audit event.
    pub audit_annotations: Vec<(String, String)>,
}

/// The verdict in a typed review that answers the request with this uid.
pub fn verdict(version: ReviewVersion, uid: &str, mutating: bool, review: &Value) -> Result<Verdict, String> {
    let Some(response @ Value::Object(_)) = review.get("response") else {
        return Err("webhook response was absent".to_string());
    };
    let patch = base64::decode(response.str_at(&["patch"])).map_err(|error| error.to_string())?;
    let patch_type = response.get("patchType").and_then(Value::as_str);
    let mut verdict = Verdict {
        allowed: response.get("allowed").and_then(Value::as_bool).unwrap_or(false),
        result: response.get("status").cloned().unwrap_or_else(Value::object),
        warnings: response
            .items_at(&["warnings"])
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_string)
            .collect(),
        audit_annotations: audit_annotations(response),
        ..Verdict::default()
    };
    // For v1beta1 reviews, kube-apiserver does not check uid, version and patch type.
    if version == ReviewVersion::V1 {
        check(uid, mutating, review, response, (&patch, patch_type))?;
        verdict.patch_type = patch_type.unwrap_or("").to_string();
    } else if !patch.is_empty() {
        verdict.patch_type = "JSONPatch".to_string();
    }
    if mutating {
        verdict.patch = patch;
    }
    Ok(verdict)
}

fn audit_annotations(response: &Value) -> Vec<(String, String)> {
    let entries = response.get("auditAnnotations").and_then(Value::as_object);
    let texts = entries.into_iter().flat_map(|map| map.iter());
    texts.filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_string()))).collect()
}

fn check(
    uid: &str,
    mutating: bool,
    review: &Value,
    response: &Value,
    (patch, patch_type): (&[u8], Option<&str>),
) -> Result<(), String> {
    let answered = response.str_at(&["uid"]);
    if answered != uid {
        return Err(format!("expected response.uid={}, got {}", quoted(uid), quoted(answered)));
    }
    let (kind, api_version) = (review.str_at(&["kind"]), review.str_at(&["apiVersion"]));
    let expected = ReviewVersion::V1.api_version();
    if kind != KIND || api_version != expected {
        let got = if api_version.contains('/') { api_version.to_string() } else { format!("/{api_version}") };
        return Err(format!("expected webhook response of {GROUP}/v1, Kind={KIND}, got {got}, Kind={kind}"));
    }
    match (patch.is_empty(), patch_type) {
        (false, _) if !mutating => Err("validating webhook may not return response.patch".to_string()),
        (_, Some(_)) if !mutating => Err("validating webhook may not return response.patchType".to_string()),
        (false, None) => Err("webhook returned response.patch but not response.patchType".to_string()),
        (true, Some(_)) => Err("webhook returned response.patchType but not response.patch".to_string()),
        (_, Some("")) => Err("webhook returned invalid response.patchType of \"\"".to_string()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_written_in_kube_apiservers_order() {
        let request = crate::testing::tree(r#"{"dryRun":false,"uid":"u","name":"n","operation":"CREATE"}"#);
        let object = crate::testing::tree(r#"{"metadata":{"uid":"o"}}"#);
        let body = body(ReviewVersion::V1, request, Some(&object), None);
        assert_eq!(
            String::from_utf8(body).unwrap(),
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","name":"n","operation":"CREATE","object":{"metadata":{"uid":"o"}},"oldObject":null,"dryRun":false}}"#
        );
    }

    use crate::testing::tree;

    #[test]
    fn answers_must_fit_the_question() {
        let v1 = |rest: &str| {
            format!(
                r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{{{rest}}}}}"#
            )
        };
        for (mutating, review, expected) in [
            (false, v1(r#""uid":"u","allowed":true"#), "true"),
            (false, v1(r#""uid":"u""#), "false"),
            (false, v1(r#""uid":"v""#), r#"expected response.uid="u", got "v""#),
            (false, "{}".to_string(), "webhook response was absent"),
            (
                false,
                r#"{"kind":"X","apiVersion":"v1","response":{"uid":"u"}}"#.to_string(),
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /v1, Kind=X",
            ),
            (false, v1(r#""uid":"u","patch":"W10=""#), "validating webhook may not return response.patch"),
            (
                false,
                v1(r#""uid":"u","patchType":"x""#),
                "validating webhook may not return response.patchType",
            ),
            (
                true,
                v1(r#""uid":"u","patch":"W10=""#),
                "webhook returned response.patch but not response.patchType",
            ),
            (
                true,
                v1(r#""uid":"u","patchType":"x""#),
                "webhook returned response.patchType but not response.patch",
            ),
            (
                true,
                v1(r#""uid":"u","patch":"W10=","patchType":"""#),
                r#"webhook returned invalid response.patchType of """#,
            ),
            (true, v1(r#""uid":"u","patch":"W10=","patchType":"JSONPatch","allowed":true"#), "true"),
        ] {
            let found = verdict(ReviewVersion::V1, "u", mutating, &tree(&review));
            let found = found.map_or_else(|why| why, |verdict| verdict.allowed.to_string());
            assert_eq!(found, expected, "{review}");
        }
        let old = verdict(
            ReviewVersion::V1beta1,
            "u",
            true,
            &tree(r#"{"response":{"allowed":true,"patch":"W10=","warnings":["w"]}}"#),
        );
        let old = old.unwrap();
        assert_eq!((old.patch_type.as_str(), old.patch.as_slice()), ("JSONPatch", &b"[]"[..]));
        assert_eq!(old.warnings, ["w"]);
    }
}
