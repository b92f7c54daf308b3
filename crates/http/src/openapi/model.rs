//! Operations in the form common to OpenAPI v2 and v3, and how each renders them.

use super::params;
use pintle_value::{Map, Str, Value};

/// Group, version and kind that an operation works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gvk {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

impl Gvk {
    /// As the documents write it.
    pub(super) fn to_value(&self) -> Value {
        object([
            ("group", self.group.as_str().into()),
            ("kind", self.kind.as_str().into()),
            ("version", self.version.as_str().into()),
        ])
    }
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Param {
    pub(super) name: &'static str,
    /// `path` or `query`.
    pub(super) place: &'static str,
    pub(super) type_: &'static str,
    /// The parameter's description; "" is omitted.
    pub(super) description: String,
}

/// The content of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A schema of this name.
    Schema(String),
    /// Text.
    Text,
}

/// One operation of a path.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) description: String,
    pub(super) tag: String,
    pub(super) action: Option<&'static str>,
    pub(super) gvk: Option<Gvk>,
    pub(super) params: Vec<Param>,
    /// The body's content and whether it is required.
    pub(super) body: Option<(Content, bool)>,
    pub(super) consumes: Vec<&'static str>,
    pub(super) produces: Vec<&'static str>,
    /// Success codes, each with the content `answer`; 401 is implied.
    pub(super) codes: &'static [(u16, &'static str)],
    pub(super) answer: Content,
}

/// The OpenAPI version to render.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// A reference to the schema with this name.
    pub(super) fn reference(self, name: &str) -> Value {
        let prefix = if self == Dialect::V2 { "#/definitions/" } else { "#/components/schemas/" };
        Value::String(Str::from(format!("{prefix}{name}")))
    }

    fn describe_content(self, content: &Content) -> Value {
        match content {
            Content::Schema(name) => object([("$ref", self.reference(name))]),
            Content::Text => object([("type", "string".into())]),
        }
    }

    /// A parameter where it is used: OpenAPI v2 refers to those that many operations have.
    fn param_or_reference(self, param: &Param) -> Value {
        let name = if self == Dialect::V2 { params::shared_name(param) } else { None };
        name.map_or_else(|| self.param(param), |name| parameter_reference(&name))
    }

    /// The body as a parameter, which it is in OpenAPI v2.
    fn body_or_reference(self, content: &Content, required: bool) -> Value {
        let schema = match content {
            Content::Schema(name) => name.as_str(),
            Content::Text => "",
        };
        match params::shared_body_name(schema, required) {
            Some(name) => parameter_reference(&name),
            None => self.body(schema, required),
        }
    }

    /// The definition of a body as a parameter.
    pub(super) fn body(self, schema: &str, required: bool) -> Value {
        let mut body = object([("in", "body".into()), ("name", "body".into())]);
        body.set_at(&["schema", "$ref"], self.reference(schema));
        if required {
            body.set_at(&["required"], true.into());
        }
        body
    }

    /// The definition of a parameter.
    pub(super) fn param(self, param: &Param) -> Value {
        let mut out = object([("in", param.place.into()), ("name", param.name.into())]);
        if !param.description.is_empty() {
            out.set_at(&["description"], param.description.as_str().into());
        }
        if param.place == "path" {
            out.set_at(&["required"], true.into());
        }
        let type_path: &[&str] = if self == Dialect::V2 { &["type"] } else { &["schema", "type"] };
        let unique_path: &[&str] =
            if self == Dialect::V2 { &["uniqueItems"] } else { &["schema", "uniqueItems"] };
        out.set_at(type_path, param.type_.into());
        out.set_at(unique_path, true.into());
        out
    }

    /// All operations of a path. Parameters that all of them have are written once.
    pub(super) fn path_item(self, operations: &[Operation]) -> Value {
        let mut common: Vec<&Param> =
            operations.first().map(|o| o.params.iter().collect()).unwrap_or_default();
        common.retain(|param| operations.iter().all(|o| o.params.contains(param)));
        common.sort();
        let mut item = Map::new();
        for operation in operations {
            item.insert(operation.method, self.describe_operation(operation, &common));
        }
        if !common.is_empty() {
            item.insert(
                "parameters",
                Value::Array(common.iter().map(|p| self.param_or_reference(p)).collect()),
            );
        }
        item.into()
    }

    fn describe_operation(self, operation: &Operation, common: &[&Param]) -> Value {
        let mut own: Vec<&Param> = operation.params.iter().filter(|p| !common.contains(p)).collect();
        own.sort();
        let mut params: Vec<Value> = own.into_iter().map(|p| self.param_or_reference(p)).collect();
        let mut out = object([
            ("description", operation.description.as_str().into()),
            ("operationId", operation.id.as_str().into()),
            ("tags", texts([operation.tag.as_str()])),
        ]);
        if let Some(action) = operation.action {
            out.set_at(&["x-kubernetes-action"], action.into());
        }
        if let Some(gvk) = &operation.gvk {
            out.set_at(&["x-kubernetes-group-version-kind"], gvk.to_value());
        }
        match (self, &operation.body) {
            (Dialect::V2, Some((content, required))) => {
                params.insert(0, self.body_or_reference(content, *required));
            }
            (Dialect::V3, Some((content, required))) => {
                out.set_at(&["requestBody", "content"], self.by_media(&operation.consumes, content));
                if *required {
                    out.set_at(&["requestBody", "required"], true.into());
                }
            }
            (_, None) => {}
        }
        if !params.is_empty() {
            out.set_at(&["parameters"], Value::Array(params));
        }
        if self == Dialect::V2 {
            if !operation.consumes.is_empty() {
                out.set_at(&["consumes"], texts(operation.consumes.iter().copied()));
            }
            out.set_at(&["produces"], texts(operation.produces.iter().copied()));
            out.set_at(&["schemes"], texts(["https"]));
        }
        for (code, meaning) in operation.codes {
            let mut answer = object([("description", (*meaning).into())]);
            match self {
                Dialect::V2 => answer.set_at(&["schema"], self.describe_content(&operation.answer)),
                Dialect::V3 => {
                    answer.set_at(&["content"], self.by_media(&operation.produces, &operation.answer))
                }
            }
            out.set_at(&["responses", &code.to_string()], answer);
        }
        out.set_at(&["responses", "401", "description"], "Unauthorized".into());
        out
    }

    fn by_media(self, media: &[&'static str], content: &Content) -> Value {
        media
            .iter()
            .map(|m| (*m, object([("schema", self.describe_content(content))])))
            .collect::<Map>()
            .into()
    }
}

fn parameter_reference(name: &str) -> Value {
    object([("$ref", Value::String(Str::from(format!("#/parameters/{name}"))))])
}

/// An object of these members.
pub(super) fn object<const N: usize>(members: [(&'static str, Value); N]) -> Value {
    members.into_iter().collect::<Map>().into()
}

/// A list of texts.
pub(super) fn texts<'a>(items: impl IntoIterator<Item = &'a str>) -> Value {
    Value::Array(items.into_iter().map(Value::from).collect())
}
