//! Reviews that webhooks answer, decoded as client-go does: JSON or YAML, of the expected kind or without kind, with its errors.

use pintle_meta::go_type::unregistered_kind;
use pintle_value::{Value, json, yaml};

/// The name of client-go's scheme, which its errors contain.
const SCHEME: &str = "k8s.io/client-go/kubernetes/scheme/register.go:82";
/// The versions of reviews that client-go knows.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
/// The groups of reviews.
const GROUPS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];
/// Groups whose types client-go does not know, because they have schemes of their own.
const OTHER_SCHEMES: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// A field of a review: its path, the Go struct that has it, and its Go type.
pub(crate) type Field = (&'static [&'static str], &'static str, GoType);

/// The Go types of fields.
#[derive(Clone, Copy)]
pub(crate) enum GoType {
    Bool,
    Text,
    Texts,
    TextLists,
    Struct(&'static str),
}

/// A review that is waited for.
pub(crate) struct Review<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    /// The fields that are read from it.
    pub(crate) fields: &'a [Field],
}

impl Review<'_> {
    /// Decodes the answer of a webhook.
    pub(crate) fn read(&self, answer: &[u8]) -> Result<Value, String> {
        let unread = |why: &str| format!("couldn't get version/kind; json parse error: {why}");
        let tree = if answer.trim_ascii_start().starts_with(b"{") {
            json::parse(answer).map_err(|error| unread(&error.to_string()))?.value
        } else {
            yaml::parse(answer).map_err(|error| unread(error.message()))?.value
        };
        if tree.as_object().is_none() && !tree.is_null() {
            return Err(unread(&format!(
                "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                tree.json_type()
            )));
        }
        self.check_kind(tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]))?;
        self.fields.iter().try_for_each(|field| self.check_field(&tree, field))?;
        Ok(tree)
    }

    /// Refuses an answer of another kind or version. An answer without them is taken for the expected one.
    fn check_kind(&self, api_version: &str, kind: &str) -> Result<(), String> {
        let expected = format!("{}/{}", self.group, self.version);
        let api_version = if api_version.is_empty() { expected.as_str() } else { api_version };
        let kind = if kind.is_empty() { self.kind } else { kind };
        if kind == self.kind && api_version == expected {
            return Ok(());
        }
        if !is_registered(api_version) {
            return Err(unregistered_kind(kind, api_version, SCHEME));
        }
        let version = api_version.rsplit('/').next().unwrap_or_default();
        Err(format!("converting ({version}.{kind}) to ({}.{}): unknown conversion", self.version, self.kind))
    }

    fn check_field(&self, tree: &Value, (path, owner, type_): &Field) -> Result<(), String> {
        let Some(value) = tree.at(path).filter(|value| !value.is_null()) else { return Ok(()) };
        let element = "string".to_string();
        let (wrong, wanted) = match type_ {
            GoType::Bool => (Some(value).filter(|value| value.as_bool().is_none()), "bool".to_string()),
            GoType::Text => (Some(value).filter(|value| value.as_str().is_none()), element),
            GoType::Struct(name) => {
                (Some(value).filter(|value| value.as_object().is_none()), format!("{}.{name}", self.version))
            }
            GoType::Texts => match value.as_array() {
                Some(items) => (items.iter().find(|item| !is_text(item)), element),
                None => (Some(value), "[]string".to_string()),
            },
            GoType::TextLists => match value.as_object() {
                Some(members) => {
                    let lists = members.iter().map(|(_, list)| list);
                    let items = lists.flat_map(|list| list.as_array().unwrap_or_default());
                    (items.into_iter().find(|item| !is_text(item)), element)
                }
                None => (Some(value), format!("map[string]{}.ExtraValue", self.version)),
            },
        };
        match wrong {
            None => Ok(()),
            Some(wrong) => Err(format!(
                "json: cannot unmarshal {} into Go struct field {owner}.{} of type {wanted}",
                wrong.json_type(),
                path.join(".")
            )),
        }
    }
}

fn is_text(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some()
}

/// Whether client-go has types of this version.
fn is_registered(api_version: &str) -> bool {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    if GROUPS.contains(&group) {
        return VERSIONS.contains(&version);
    }
    let served = pintle_kinds::builtin_versions();
    let mut served = served.iter().map(|(served, _)| (&*served.group, &*served.version));
    !OTHER_SCHEMES.contains(&group) && served.any(|served| served == (group, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_answers_have_the_texts_of_client_go() {
        const FIELDS: &[Field] = &[
            (&["status"], "TokenReview", GoType::Struct("TokenReviewStatus")),
            (&["status", "authenticated"], "TokenReviewStatus", GoType::Bool),
            (&["status", "audiences"], "TokenReviewStatus", GoType::Texts),
        ];
        let group = "authentication.k8s.io";
        let review = Review { group, version: "v1beta1", kind: "TokenReview", fields: FIELDS };
        let struct_ = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        let shape = |found: &str| {
            format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type {struct_}"
            )
        };
        let unknown = |kind: &str, version: &str| {
            format!("no kind {kind:?} is registered for version {version:?} in scheme {SCHEME:?}")
        };
        let field = |found: &str, field: &str, type_: &str| {
            format!("json: cannot unmarshal {found} into Go struct field {field} of type {type_}")
        };
        for (answer, want) in [
            ("hello", Some(shape("string"))),
            ("[]", Some(shape("array"))),
            ("{}", None),
            ("kind: TokenReview", None),
            (
                r#"{"apiVersion":"v1","kind":"Status"}"#,
                Some("converting (v1.Status) to (v1beta1.TokenReview): unknown conversion".into()),
            ),
            (
                r#"{"apiVersion":"authentication.k8s.io/v1"}"#,
                Some("converting (v1.TokenReview) to (v1beta1.TokenReview): unknown conversion".into()),
            ),
            (
                r#"{"apiVersion":"authentication.k8s.io/v1alpha1"}"#,
                Some(unknown("TokenReview", "authentication.k8s.io/v1alpha1")),
            ),
            (r#"{"apiVersion":"x/v1","kind":"X"}"#, Some(unknown("X", "x/v1"))),
            (r#"{"status":1}"#, Some(field("number", "TokenReview.status", "v1beta1.TokenReviewStatus"))),
            (
                r#"{"status":{"authenticated":"yes"}}"#,
                Some(field("string", "TokenReviewStatus.status.authenticated", "bool")),
            ),
            (
                r#"{"status":{"audiences":[1]}}"#,
                Some(field("number", "TokenReviewStatus.status.audiences", "string")),
            ),
        ] {
            assert_eq!(review.read(answer.as_bytes()).err(), want, "{answer}");
        }
    }
}
