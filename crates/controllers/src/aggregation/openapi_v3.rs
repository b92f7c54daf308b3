//! Converts the OpenAPI v2 document of an extension server without v3 to v3, as kube-apiserver does: references within
//! `allOf` and its like keep their v2 form, shared parameters are dropped, and a media type is one of the operation.

use pintle_value::{Map, Str, Value};

/// The most values of a converted document: each media type of an operation has a copy of its schema.
const VALUES_MAX: usize = 2_000_000;
/// How deep schemas are converted; deeper ones are refused.
const DEPTH_MAX: usize = 128;

const V2_SCHEMAS: &str = "#/definitions/";
const V3_SCHEMAS: &str = "#/components/schemas/";
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// Members of a schema that are left out if they are empty or false.
const OMITTED_IF_EMPTY: [&str; 25] = [
    "id",
    "$schema",
    "$ref",
    "description",
    "type",
    "nullable",
    "format",
    "title",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "pattern",
    "uniqueItems",
    "enum",
    "required",
    "allOf",
    "anyOf",
    "oneOf",
    "properties",
    "patternProperties",
    "dependencies",
    "definitions",
    "discriminator",
    "readOnly",
    "default",
    "example",
];

/// The v3 form of a v2 document; `None` if it would be too large or too deep.
pub(super) fn convert(v2: &Value) -> Option<Value> {
    let mut work = Conversion { values_left: VALUES_MAX };
    let mut out = Map::new();
    out.insert("openapi", "3.0.0".into());
    let info = v2.get("info").map(|info| {
        members(info, &["description", "title", "termsOfService", "contact", "license", "version"]).into()
    });
    out.insert("info", info.unwrap_or_default());
    insert_some(&mut out, "externalDocs", v2.get("externalDocs").map(external_docs));
    if let Some(paths) = v2.get("paths") {
        out.insert("paths", work.convert_paths(paths)?);
    }
    out.insert("components", work.convert_components(v2)?);
    Some(out.into())
}

/// A conversion in progress.
struct Conversion {
    values_left: usize,
}

impl Conversion {
    fn convert_components(&mut self, v2: &Value) -> Option<Value> {
        let mut out = Map::new();
        let schemas = each(v2.get("definitions"), |schema| self.schema(schema, true, 0))?;
        let security = each(v2.get("securityDefinitions"), |scheme| Some(security_scheme(scheme)))?;
        let produces = texts(v2, "produces");
        let responses = each(v2.get("responses"), |response| self.convert_response(response, &produces))?;
        for (name, found) in [("schemas", schemas), ("securitySchemes", security), ("responses", responses)] {
            insert_unless_empty(&mut out, name, found);
        }
        Some(out.into())
    }

    fn convert_paths(&mut self, v2: &Value) -> Option<Value> {
        let mut out = Map::new();
        for (path, item) in v2.as_object()?.iter() {
            if path.starts_with('/') {
                out.insert(path.clone(), self.convert_path(item)?);
            } else if is_extension(path) {
                out.insert(path.clone(), item.clone());
            }
        }
        Some(out.into())
    }

    fn convert_path(&mut self, v2: &Value) -> Option<Value> {
        let mut out = members(v2, &["$ref"]);
        for method in METHODS {
            if let Some(operation) = v2.get(method) {
                out.insert(method, self.convert_operation(operation)?);
            }
        }
        let shared = v2.items_at(&["parameters"]).iter().map(|parameter| self.convert_parameter(parameter));
        let shared = shared.collect::<Option<Vec<Value>>>()?;
        insert_some(&mut out, "parameters", Some(shared).filter(|all| !all.is_empty()).map(Value::Array));
        Some(out.into())
    }

    fn convert_operation(&mut self, v2: &Value) -> Option<Value> {
        let mut out = members(v2, &["description", "tags", "summary", "deprecated", "operationId"]);
        insert_some(&mut out, "externalDocs", v2.get("externalDocs").map(external_docs));
        let mut parameters = Vec::new();
        for parameter in v2.items_at(&["parameters"]) {
            match parameter.get("schema").filter(|_| parameter.str_at(&["name"]) == "body") {
                Some(schema) => {
                    let mut body = Map::new();
                    let content = self.content(schema, &texts(v2, "consumes"))?;
                    insert_unless_empty(&mut body, "content", content);
                    out.insert("requestBody", body.into());
                }
                None => parameters.push(self.convert_parameter(parameter)?),
            }
        }
        insert_some(&mut out, "parameters", Some(parameters).filter(|all| !all.is_empty()).map(Value::Array));
        let produces = texts(v2, "produces");
        let mut responses = Map::new();
        for (code, response) in v2.get("responses").and_then(Value::as_object).into_iter().flat_map(Map::iter)
        {
            if is_extension(code) {
                responses.insert(code.clone(), response.clone());
            } else if code.as_str() == "default" || code.parse::<i64>().is_ok() {
                responses.insert(code.clone(), self.convert_response(response, &produces)?);
            }
        }
        out.insert("responses", responses.into());
        Some(out.into())
    }

    fn convert_response(&mut self, v2: &Value, produces: &[&str]) -> Option<Value> {
        let mut out = members(v2, &["description"]);
        insert_some(&mut out, "$ref", reference(v2, "#/responses/", "#/components/responses/"));
        if let Some(schema) = v2.get("schema") {
            insert_unless_empty(&mut out, "content", self.content(schema, produces)?);
        }
        Some(out.into())
    }

    fn convert_parameter(&mut self, v2: &Value) -> Option<Value> {
        let mut out = members(v2, &["name", "in", "description", "required", "allowEmptyValue"]);
        insert_some(&mut out, "$ref", reference(v2, "#/parameters/", "#/components/parameters/"));
        let schema = match v2.get("schema") {
            Some(schema) => self.schema(schema, true, 0)?,
            None => {
                let mut simple = members(v2, &["format", "uniqueItems"]);
                simple.retain(|name, _| !is_extension(name));
                simple.insert("type", v2.str_at(&["type"]).into());
                simple.into()
            }
        };
        out.insert("schema", schema);
        Some(out.into())
    }

    /// The schema in each media type.
    fn content(&mut self, schema: &Value, media_types: &[&str]) -> Option<Map> {
        let mut out = Map::new();
        for media in media_types {
            let mut entry = Map::new();
            entry.insert("schema", self.schema(schema, true, 0)?);
            out.insert(*media, entry.into());
        }
        Some(out)
    }

    /// A schema, with its references in the form of v3 if `refers` is true. A reference with siblings is wrapped in `allOf`.
    fn schema(&mut self, v2: &Value, refers: bool, depth: usize) -> Option<Value> {
        self.values_left = self.values_left.checked_sub(1)?;
        if depth > DEPTH_MAX {
            return None;
        }
        let Some(found) = v2.as_object() else { return Some(v2.clone()) };
        let deeper = depth.saturating_add(1);
        let mut out = Map::with_capacity(found.len());
        for (name, value) in found.iter() {
            let converted = match name.as_str() {
                "properties" => each(Some(value), |schema| self.schema(schema, refers, deeper))?.into(),
                "items" | "additionalItems" | "additionalProperties" => match value {
                    Value::Array(items) => self.convert_schemas(items, refers, deeper)?,
                    other => self.schema(other, refers, deeper)?,
                },
                "allOf" | "anyOf" | "oneOf" => match value {
                    Value::Array(items) => self.convert_schemas(items, false, deeper)?,
                    _ => continue,
                },
                "not" => self.schema(value, false, deeper)?,
                "patternProperties" | "definitions" => {
                    each(Some(value), |schema| self.schema(schema, false, deeper))?.into()
                }
                "externalDocs" => external_docs(value),
                _ => self.leaf(value, deeper)?,
            };
            let is_blank = OMITTED_IF_EMPTY.contains(&name.as_str()) && is_omitted(name, &converted);
            if !is_blank {
                out.insert(name.clone(), converted);
            }
        }
        if refers
            && let Some(Value::String(text)) = out.get_mut("$ref")
            && let Some((_, target)) = text.split_once(V2_SCHEMAS)
        {
            *text = Str::from(format!("{V3_SCHEMAS}{target}"));
        }
        if out.len() > 1
            && let Some(reference) = out.remove("$ref")
        {
            let wrapped: Map = [(Str::from("$ref"), reference)].into_iter().collect();
            out.insert("allOf", Value::Array(vec![wrapped.into()]));
        }
        Some(out.into())
    }

    fn convert_schemas(&mut self, items: &[Value], refers: bool, depth: usize) -> Option<Value> {
        let converted: Option<Vec<Value>> =
            items.iter().map(|item| self.schema(item, refers, depth)).collect();
        converted.map(Value::Array)
    }

    /// A copy of a value that is no schema.
    fn leaf(&mut self, value: &Value, depth: usize) -> Option<Value> {
        self.values_left = self.values_left.checked_sub(1)?;
        if depth > DEPTH_MAX {
            return None;
        }
        let deeper = depth.saturating_add(1);
        match value {
            Value::Object(found) => {
                let entries =
                    found.iter().map(|(name, value)| Some((name.clone(), self.leaf(value, deeper)?)));
                entries.collect::<Option<Vec<_>>>().map(|entries| entries.into_iter().collect::<Map>().into())
            }
            Value::Array(items) => {
                let items: Option<Vec<Value>> = items.iter().map(|item| self.leaf(item, deeper)).collect();
                items.map(Value::Array)
            }
            other => Some(other.clone()),
        }
    }
}

/// Converts each member of an object.
fn each(tree: Option<&Value>, mut convert: impl FnMut(&Value) -> Option<Value>) -> Option<Map> {
    let mut out = Map::new();
    for (name, value) in tree.and_then(Value::as_object).into_iter().flat_map(Map::iter) {
        out.insert(name.clone(), convert(value)?);
    }
    Some(out)
}

fn security_scheme(v2: &Value) -> Value {
    let mut out = members(v2, &["description", "type", "name", "in"]);
    let flow = v2.str_at(&["flow"]);
    if !flow.is_empty() {
        let mut details = members(v2, &["authorizationUrl", "tokenUrl", "scopes"]);
        details.retain(|name, _| !is_extension(name));
        let mut flows = Map::new();
        flows.insert(flow, details.into());
        out.insert("flows", flows.into());
    }
    out.into()
}

fn external_docs(v2: &Value) -> Value {
    let mut out = members(v2, &["description"]);
    out.retain(|name, _| !is_extension(name));
    out.insert("url", v2.str_at(&["url"]).into());
    out.into()
}

/// The named members that are not empty, and extensions.
fn members(tree: &Value, names: &[&str]) -> Map {
    let all = tree.as_object().into_iter().flat_map(Map::iter);
    let retained = all.filter(|(name, value)| {
        is_extension(name) || names.contains(&name.as_str()) && !is_omitted(name, value)
    });
    retained.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The `$ref` of a response or a parameter.
fn reference(tree: &Value, from: &str, to: &str) -> Option<Value> {
    let text = tree.str_at(&["$ref"]);
    (!text.is_empty()).then(|| text.replacen(from, to, 1).into())
}

fn is_extension(name: &str) -> bool {
    name.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("x-"))
}

/// Whether Go leaves out a member with this value. Defaults and examples may have any value but null.
fn is_omitted(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        _ if matches!(name, "default" | "example") => false,
        Value::Bool(given) => !given,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(found) => found.is_empty(),
        _ => false,
    }
}

fn texts<'a>(tree: &'a Value, name: &str) -> Vec<&'a str> {
    tree.items_at(&[name]).iter().filter_map(Value::as_str).collect()
}

fn insert_unless_empty(out: &mut Map, name: &str, found: Map) {
    if !found.is_empty() {
        out.insert(name, found.into());
    }
}

fn insert_some(out: &mut Map, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        out.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    fn converted(v2: &str) -> Option<String> {
        Some(json::text(&convert(&json::parse(v2.as_bytes()).unwrap().value)?))
    }

    #[test]
    fn references_with_siblings_are_wrapped() {
        let v2 = r##"{"definitions":{"A":{"description":"a","$ref":"#/definitions/B","type":""},"C":{"$ref":"#/definitions/B","title":""}}}"##;
        let want = r##"{"components":{"schemas":{"A":{"allOf":[{"$ref":"#/components/schemas/B"}],"description":"a"},"C":{"$ref":"#/components/schemas/B"}}},"info":null,"openapi":"3.0.0"}"##;
        assert_eq!(converted(v2).as_deref(), Some(want));
    }

    #[test]
    fn a_document_that_grows_too_much_is_refused() {
        let media: Vec<String> = (0..3000).map(|n| format!("\"{n}\"")).collect();
        let schema = format!("{{\"enum\":[{}0]}}", "0,".repeat(1000));
        let v2 = format!(
            r#"{{"paths":{{"/a":{{"get":{{"produces":[{}],"responses":{{"200":{{"schema":{schema}}}}}}}}}}}}}"#,
            media.join(",")
        );
        assert_eq!(converted(&v2), None);
        let deep =
            format!(r#"{{"definitions":{{"A":{}{{}}{}}}}}"#, r#"{"items":"#.repeat(200), "}".repeat(200));
        assert_eq!(converted(&deep), None);
    }
}
