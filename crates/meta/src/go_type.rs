//! The Go types of configuration files, for the errors of Go's JSON decoder about values of the wrong type.

use crate::field::quoted;
use pintle_value::Value;
use pintle_value::quote::go_general;

/// A struct and its fields. Its name has a package only if that is not the package of the document.
pub struct GoStruct(pub &'static str, pub &'static [(&'static str, GoType)]);

/// The type of a field.
pub enum GoType {
    /// A string, or a named type of strings with its package.
    Text(&'static str),
    /// A list of strings, given the type of its items.
    Texts(&'static str),
    /// `bool`
    Bool,
    /// `int32`
    Int32,
    /// `int64`, or a named type based on it with its package.
    Int64(&'static str),
    /// `metav1.Duration`, which decodes itself.
    Duration,
    /// A struct or a pointer to one.
    Struct(&'static GoStruct),
    /// A list of structs.
    Structs(&'static GoStruct),
    /// Any value.
    Any,
}

/// The type that apimachinery decodes the head of a document into.
const HEAD: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// The error of apimachinery's decoder about a document that is no object, or whose `apiVersion` or `kind` is no string.
pub fn head_type_error(tree: &Value) -> Option<String> {
    let unread = |why: &str| {
        Some(format!("couldn't get version/kind; json parse error: json: cannot unmarshal {why}"))
    };
    let Some(map) = tree.as_object() else {
        let found = tree.json_type();
        return if tree.is_null() { None } else { unread(&format!("{found} into Go value of type {HEAD}")) };
    };
    let is_wrong = |key: &str, value: &Value| {
        matches!(key, "apiVersion" | "kind") && !value.is_null() && value.as_str().is_none()
    };
    let (key, value) = map.iter().find(|(key, value)| is_wrong(key, value))?;
    unread(&format!("{} into Go struct field .{key} of type string", value.json_type()))
}

/// The error of apimachinery's decoder about a document that has no `kind` or no `apiVersion`, given its text.
pub fn missing_head(text: &[u8], tree: &Value) -> Option<String> {
    let (name, _) = [("Kind", "kind"), ("apiVersion", "apiVersion")]
        .into_iter()
        .find(|(_, key)| tree.str_at(&[key]).is_empty())?;
    Some(format!("Object '{name}' is missing in '{}'", String::from_utf8_lossy(text)))
}

/// The error of apimachinery's decoder about a kind or version that the scheme, which is named by its place in the source, does not
/// have.
pub fn unregistered_kind(kind: &str, version: &str, scheme: &str) -> String {
    let [kind, version, scheme] = [kind, version, scheme].map(quoted);
    format!("no kind {kind} is registered for version {version} in scheme {scheme}")
}

impl GoStruct {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&GoType> {
        self.1.iter().find(|(field, _)| *field == name).map(|(_, type_)| type_)
    }

    /// The error of Go's decoder if a value within `tree` has the wrong type. `package` is the package of the structs, which
    /// the API calls a version.
    pub fn type_error(&self, tree: &Value, package: &str) -> Option<String> {
        self.error_below(tree, package, "")
    }

    /// The error of strict decoding: a value of the wrong type, or all repeated and unknown fields. `repeated` is what the parser
    /// complained about.
    pub fn strict_error(&self, tree: &Value, package: &str, repeated: Option<String>) -> Option<String> {
        self.type_error(tree, package).or_else(|| {
            let all: Vec<String> = repeated.into_iter().chain(self.unknown_fields(tree)).collect();
            (!all.is_empty()).then(|| format!("strict decoding error: {}", all.join(", ")))
        })
    }

    /// The errors of strict decoding about fields that the structs do not have. `kind` and `apiVersion` are known.
    pub fn unknown_fields(&self, tree: &Value) -> Vec<String> {
        let mut unknown = Vec::new();
        self.find_unknown(tree, "", &mut unknown);
        unknown
    }

    fn find_unknown(&self, tree: &Value, path: &str, unknown: &mut Vec<String>) {
        let Some(map) = tree.as_object() else { return };
        for (key, value) in map.iter() {
            let below = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
            match self.field(key) {
                Some(GoType::Struct(inner)) => inner.find_unknown(value, &below, unknown),
                Some(GoType::Structs(element)) => {
                    for (index, item) in value.as_array().unwrap_or_default().iter().enumerate() {
                        element.find_unknown(item, &format!("{below}[{index}]"), unknown);
                    }
                }
                Some(_) => {}
                None if path.is_empty() && matches!(&**key, "kind" | "apiVersion") => {}
                None => unknown.push(format!("unknown field \"{below}\"")),
            }
        }
    }

    fn error_below(&self, tree: &Value, package: &str, path: &str) -> Option<String> {
        tree.as_object()?.iter().find_map(|(key, value)| {
            let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
            self.field(key)?.error(value, self.split().1, package, &path)
        })
    }

    /// The struct's own package, if it has one, and its name. Names of packages are in lower case; what else has a dot is the
    /// path of an embedded struct.
    fn split(&self) -> (Option<&'static str>, &'static str) {
        match self.0.split_once('.') {
            Some((package, name)) if package.starts_with(|c: char| c.is_ascii_lowercase()) => {
                (Some(package), name)
            }
            _ => (None, self.0),
        }
    }

    /// The name with the package, which is `package` if the struct has none of its own.
    fn full_name(&self, package: &str) -> String {
        let (own, name) = self.split();
        format!("{}.{name}", own.unwrap_or(package))
    }
}

impl GoType {
    /// The error of Go's decoder if a document, which need not be an object, does not have this type.
    pub fn type_error(&self, document: &Value, package: &str) -> Option<String> {
        self.error(document, "", package, "")
    }

    fn error(&self, value: &Value, owner: &str, package: &str, path: &str) -> Option<String> {
        let mismatch = |found: &str, type_: &str| {
            let place =
                if path.is_empty() { "value".to_string() } else { format!("struct field {owner}.{path}") };
            Some(format!("json: cannot unmarshal {found} into Go {place} of type {type_}"))
        };
        let wrong = |value: &Value, type_: &str| mismatch(value.json_type(), type_);
        let text = |value: &Value, type_: &str| match value {
            Value::Null => None,
            _ if value.as_str().is_some() => None,
            _ => wrong(value, type_),
        };
        match self {
            _ if value.is_null() => None,
            GoType::Any => None,
            GoType::Text(type_) => text(value, type_),
            GoType::Texts(type_) => match value.as_array() {
                Some(items) => items.iter().find_map(|item| text(item, type_)),
                None => wrong(value, &format!("[]{type_}")),
            },
            GoType::Bool => value.as_bool().map_or_else(|| wrong(value, "bool"), |_| None),
            GoType::Int32 => match value {
                Value::Int(number) if i32::try_from(*number).is_ok() => None,
                Value::Int(number) => mismatch(&format!("number {number}"), "int32"),
                Value::Float(number) => mismatch(&format!("number {}", go_general(*number)), "int32"),
                _ => wrong(value, "int32"),
            },
            GoType::Int64(type_) => match value {
                Value::Int(_) => None,
                Value::Float(number) => mismatch(&format!("number {}", go_general(*number)), type_),
                _ => wrong(value, type_),
            },
            GoType::Duration if value.as_str().is_some() => None,
            GoType::Duration => wrong(value, "string"),
            GoType::Struct(inner) if value.as_object().is_some() => inner.error_below(value, package, path),
            GoType::Struct(inner) => wrong(value, &inner.full_name(package)),
            GoType::Structs(element) => {
                let Some(items) = value.as_array() else {
                    return wrong(value, &format!("[]{}", element.full_name(package)));
                };
                items.iter().find_map(|item| GoType::Struct(element).error(item, owner, package, path))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use GoType::{Bool, Duration, Int32, Int64, Struct, Structs, Text, Texts};
    use pintle_value::json;

    const INNER: GoStruct = GoStruct("Inner", &[("name", Text("string")), ("on", Bool), ("count", Int32)]);
    const OUTER: GoStruct = GoStruct(
        "Outer",
        &[("list", Structs(&INNER)), ("one", Struct(&INNER)), ("names", Texts("string")), ("time", Duration)],
    );

    #[test]
    fn heads_are_strings_that_are_there() {
        for (text, want) in [
            (r#"{"apiVersion":"v1","kind":"A"}"#, None),
            ("null", Some("Object 'Kind' is missing in 'null'")),
            (
                r#"{"kind":"A","apiVersion":null}"#,
                Some(r#"Object 'apiVersion' is missing in '{"kind":"A","apiVersion":null}'"#),
            ),
            (
                r#"{"kind":7}"#,
                Some(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of \
                     type string",
                ),
            ),
            (
                "[]",
                Some(
                    r#"couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#,
                ),
            ),
        ] {
            let tree = json::parse(text.as_bytes()).unwrap().value;
            let found = head_type_error(&tree).or_else(|| missing_head(text.as_bytes(), &tree));
            assert_eq!(found.as_deref(), want, "{text}");
        }
    }

    #[test]
    fn unknown_fields_are_named_by_their_paths() {
        let text = r#"{"kind":"Outer","x":1,"list":[{"name":"a"},{"y":1,"kind":"z"}],"one":{"z":{}}}"#;
        let found = OUTER.unknown_fields(&json::parse(text.as_bytes()).unwrap().value);
        let want =
            ["list[1].kind", "list[1].y", "one.z", "x"].map(|path| format!("unknown field \"{path}\""));
        assert_eq!(found, want);
    }

    #[test]
    fn documents_may_be_lists_of_structs_of_another_package() {
        const ITEM: GoStruct = GoStruct("v1.Item", &[("name", Text("string")), ("seconds", Int64("int64"))]);
        for (text, want) in [
            (r#"[{"name":"a","seconds":5}]"#, None),
            ("{}", Some("object into Go value of type []v1.Item")),
            ("[1]", Some("number into Go value of type v1.Item")),
            (r#"[{"seconds":1e30}]"#, Some("number 1e+30 into Go struct field Item.seconds of type int64")),
        ] {
            let tree = json::parse(text.as_bytes()).unwrap().value;
            let want = want.map(|want| format!("json: cannot unmarshal {want}"));
            assert_eq!(Structs(&ITEM).type_error(&tree, "v1alpha1"), want, "{text}");
        }
    }

    #[test]
    fn errors_name_the_innermost_struct_and_the_whole_path() {
        for (text, want) in [
            (
                r#"{"list":[{"name":"a","on":true,"count":1}],"one":null,"names":["a"],"time":"1s","x":1}"#,
                None,
            ),
            (r#"{"list":"x"}"#, Some("string into Go struct field Outer.list of type []v1.Inner")),
            (r#"{"list":[{"name":1}]}"#, Some("number into Go struct field Inner.list.name of type string")),
            (r#"{"list":[1]}"#, Some("number into Go struct field Outer.list of type v1.Inner")),
            (r#"{"one":{"on":"true"}}"#, Some("string into Go struct field Inner.one.on of type bool")),
            (
                r#"{"one":{"count":1.5}}"#,
                Some("number 1.5 into Go struct field Inner.one.count of type int32"),
            ),
            (r#"{"names":["a",{}]}"#, Some("object into Go struct field Outer.names of type string")),
            (r#"{"time":3}"#, Some("number into Go struct field Outer.time of type string")),
        ] {
            let found = OUTER.type_error(&json::parse(text.as_bytes()).unwrap().value, "v1");
            let want = want.map(|want| format!("json: cannot unmarshal {want}"));
            assert_eq!(found, want, "{text}");
        }
    }
}
