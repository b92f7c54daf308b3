//! Versions and schemas in error texts: all fields of kube-apiserver's internal types, by their Go names.

use super::props::{Items, Props};
use pintle_meta::field::{ErrorText, Named};
use pintle_value::{Value, json};

/// How a field of a schema is printed: its zero value, or its form.
enum Form {
    Text,
    Flag,
    /// As JSON; `null` when unset.
    Json,
    Schema,
    Schemas,
    SchemaMap,
    SchemaOrBool,
    Items,
    Dependencies,
    Docs,
    Rules,
}

/// The fields of a schema in Go's order: JSON name, Go name, form.
const FIELDS: [(&str, &str, Form); 44] = [
    ("id", "ID", Form::Text),
    ("$schema", "Schema", Form::Text),
    ("$ref", "Ref", Form::Json),
    ("description", "Description", Form::Text),
    ("type", "Type", Form::Text),
    ("nullable", "Nullable", Form::Flag),
    ("format", "Format", Form::Text),
    ("title", "Title", Form::Text),
    ("default", "Default", Form::Json),
    ("maximum", "Maximum", Form::Json),
    ("exclusiveMaximum", "ExclusiveMaximum", Form::Flag),
    ("minimum", "Minimum", Form::Json),
    ("exclusiveMinimum", "ExclusiveMinimum", Form::Flag),
    ("maxLength", "MaxLength", Form::Json),
    ("minLength", "MinLength", Form::Json),
    ("pattern", "Pattern", Form::Text),
    ("maxItems", "MaxItems", Form::Json),
    ("minItems", "MinItems", Form::Json),
    ("uniqueItems", "UniqueItems", Form::Flag),
    ("multipleOf", "MultipleOf", Form::Json),
    ("enum", "Enum", Form::Json),
    ("maxProperties", "MaxProperties", Form::Json),
    ("minProperties", "MinProperties", Form::Json),
    ("required", "Required", Form::Json),
    ("items", "Items", Form::Items),
    ("allOf", "AllOf", Form::Schemas),
    ("oneOf", "OneOf", Form::Schemas),
    ("anyOf", "AnyOf", Form::Schemas),
    ("not", "Not", Form::Schema),
    ("properties", "Properties", Form::SchemaMap),
    ("additionalProperties", "AdditionalProperties", Form::SchemaOrBool),
    ("patternProperties", "PatternProperties", Form::SchemaMap),
    ("dependencies", "Dependencies", Form::Dependencies),
    ("additionalItems", "AdditionalItems", Form::SchemaOrBool),
    ("definitions", "Definitions", Form::SchemaMap),
    ("externalDocs", "ExternalDocs", Form::Docs),
    ("example", "Example", Form::Json),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields", Form::Json),
    ("x-kubernetes-embedded-resource", "XEmbeddedResource", Form::Flag),
    ("x-kubernetes-int-or-string", "XIntOrString", Form::Flag),
    ("x-kubernetes-list-map-keys", "XListMapKeys", Form::Json),
    ("x-kubernetes-list-type", "XListType", Form::Json),
    ("x-kubernetes-map-type", "XMapType", Form::Json),
    ("x-kubernetes-validations", "XValidations", Form::Rules),
];

/// The fields that a schema sets, by their Go names and in Go's order.
pub(super) fn fields_set(schema: Props<'_>) -> impl Iterator<Item = &'static str> {
    FIELDS.iter().filter(move |(name, _, _)| schema.has(name)).map(|(_, go, _)| *go)
}

/// A schema.
pub(super) fn schema(schema: Props<'_>) -> String {
    let fields = FIELDS.iter().map(|(name, go, form)| format!("\"{go}\":{}", field(schema.get(name), form)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// The schema under `items`.
pub(super) fn items(of: Props<'_>) -> String {
    match of.items() {
        Items::None => "null".to_string(),
        Items::One(item) => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(item)),
        Items::Many(many) => format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", schemas(many)),
    }
}

fn schemas(all: &[Value]) -> String {
    format!("[{}]", all.iter().map(|v| schema(Props(v))).collect::<Vec<_>>().join(","))
}

fn field(value: Option<&Value>, form: &Form) -> String {
    let null = || "null".to_string();
    let Some(value) = value else {
        return match form {
            Form::Text => "\"\"".to_string(),
            Form::Flag => "false".to_string(),
            _ => null(),
        };
    };
    match form {
        Form::Text | Form::Flag | Form::Json => as_json(value),
        Form::Schema => schema(Props(value)),
        Form::Schemas => schemas(value.as_array().unwrap_or(&[])),
        Form::SchemaMap => map(value, |v| schema(Props(v))),
        Form::SchemaOrBool => match value.as_bool() {
            Some(allows) => format!("{{\"Allows\":{allows},\"Schema\":null}}"),
            None => format!("{{\"Allows\":true,\"Schema\":{}}}", schema(Props(value))),
        },
        Form::Items => match value {
            Value::Array(many) => format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", schemas(many)),
            one => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(Props(one))),
        },
        Form::Dependencies => map(value, |v| match v {
            Value::Array(_) => format!("{{\"Schema\":null,\"Property\":{}}}", as_json(v)),
            other => format!("{{\"Schema\":{},\"Property\":null}}", schema(Props(other))),
        }),
        Form::Docs => structure(value, &[("description", "Description", "\"\""), ("url", "URL", "\"\"")]),
        Form::Rules => rules(value.as_array().unwrap_or(&[])),
    }
}

/// A rule.
pub(super) fn rule(rule: &Value) -> String {
    let fields = [
        ("rule", "Rule", "\"\""),
        ("message", "Message", "\"\""),
        ("messageExpression", "MessageExpression", "\"\""),
        ("reason", "Reason", "null"),
        ("fieldPath", "FieldPath", "\"\""),
        ("optionalOldSelf", "OptionalOldSelf", "null"),
    ];
    structure(rule, &fields)
}

fn rules(all: &[Value]) -> String {
    format!("[{}]", all.iter().map(rule).collect::<Vec<_>>().join(","))
}

fn map(value: &Value, error_text: impl Fn(&Value) -> String) -> String {
    let members = value.as_object().into_iter().flat_map(|m| m.iter());
    let members = members.map(|(key, v)| format!("{}:{}", Named(key).error_text(), error_text(v)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// A struct: JSON name, Go name and zero value of each field.
fn structure(value: &Value, fields: &[(&str, &str, &str)]) -> String {
    let members = fields.iter().map(|(name, go, zero)| {
        let error_text =
            value.get(name).filter(|v| !v.is_null()).map_or_else(|| (*zero).to_string(), as_json);
        format!("\"{go}\":{error_text}")
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn as_json(value: &Value) -> String {
    let mut out = Vec::new();
    json::print(value, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// A list of versions, without what all of them share.
pub(super) fn versions(versions: Option<&Value>, has: impl Fn(&str) -> bool) -> String {
    let Some(Value::Array(all)) = versions else { return "null".to_string() };
    let plain = [
        ("name", "Name", "\"\""),
        ("served", "Served", "false"),
        ("storage", "Storage", "false"),
        ("deprecated", "Deprecated", "false"),
        ("deprecationWarning", "DeprecationWarning", "null"),
    ];
    let own = |version: &Value, key: &str, error_text: &dyn Fn(&Value) -> String| {
        version.get(key).filter(|v| has(key) && !v.is_null()).map_or_else(|| "null".to_string(), error_text)
    };
    let error_text = all.iter().map(|version| {
        let head = structure(version, &plain);
        let head = head.strip_suffix('}').unwrap_or(&head);
        format!(
            "{head},\"Schema\":{},\"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
            own(version, "schema", &validation),
            own(version, "subresources", &subresources),
            own(version, "additionalPrinterColumns", &columns),
            own(version, "selectableFields", &selectable),
        )
    });
    format!("[{}]", error_text.collect::<Vec<_>>().join(","))
}

fn validation(value: &Value) -> String {
    let inner = value.get("openAPIV3Schema").map_or_else(|| "null".to_string(), |v| schema(Props(v)));
    format!("{{\"OpenAPIV3Schema\":{inner}}}")
}

fn subresources(value: &Value) -> String {
    let status = if value.get("status").is_some() { "{}" } else { "null" };
    let fields = [
        ("specReplicasPath", "SpecReplicasPath", "\"\""),
        ("statusReplicasPath", "StatusReplicasPath", "\"\""),
        ("labelSelectorPath", "LabelSelectorPath", "null"),
    ];
    let scale = value.get("scale").map_or_else(|| "null".to_string(), |v| structure(v, &fields));
    format!("{{\"Status\":{status},\"Scale\":{scale}}}")
}

fn columns(value: &Value) -> String {
    let fields = [
        ("name", "Name", "\"\""),
        ("type", "Type", "\"\""),
        ("format", "Format", "\"\""),
        ("description", "Description", "\"\""),
        ("priority", "Priority", "0"),
        ("jsonPath", "JSONPath", "\"\""),
    ];
    let all = value.as_array().unwrap_or(&[]);
    format!("[{}]", all.iter().map(|v| structure(v, &fields)).collect::<Vec<_>>().join(","))
}

fn selectable(value: &Value) -> String {
    let all = value.as_array().unwrap_or(&[]);
    let error_text = all.iter().map(|v| structure(v, &[("jsonPath", "JSONPath", "\"\"")]));
    format!("[{}]", error_text.collect::<Vec<_>>().join(","))
}
