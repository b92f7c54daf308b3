//! Converts the results of mutations (JSON patches and apply configurations) to trees and applies them to an object.

mod foreign;

use pintle_apply::fieldset::PathElement;
use pintle_apply::patch::{PatchError, json};
use pintle_apply::typed::{self, Duplicates, Foreign, Type, ValidationErrors};
use pintle_cel::library::kubernetes::jsonpatch::misnamed_types;
use pintle_cel::value::{Object, Value as CelValue};
use pintle_meta::GroupVersionKind;
use pintle_schema::Schema;
use pintle_value::{Map, Str, Value, base64};

/// The deepest value that is converted.
const DEPTH_MAX: usize = 128;

/// The result of a mutation.
#[derive(Debug, PartialEq)]
pub enum Patched {
    /// A `test` operation of the patch failed: nothing changes.
    Untouched,
    /// A document that must still be decoded strictly.
    Document(Value),
    /// An object with merged fields, which its type has.
    Merged(Value),
}

/// Applies a list of `JSONPatch` operations.
pub(super) fn apply_json(operations: &CelValue<'_>, object: &Value) -> Result<Patched, String> {
    let CelValue::List(list) = operations else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_string());
    };
    let mut patch = Vec::new();
    for operation in list.iter() {
        patch
            .push(operation.map_err(|why| why.to_string()).and_then(|operation| read_operation(&operation))?);
    }
    let decoded = json::decode(Value::Array(patch), &[], false).map_err(|error| error.to_string())?;
    match decoded.with_written_nulls().apply(object.clone()) {
        Ok(document) => Ok(Patched::Document(document)),
        Err(PatchError::TestFailed(_)) => Ok(Patched::Untouched),
        Err(error) => Err(format!("JSON Patch: {error}")),
    }
}

fn read_operation(operation: &CelValue<'_>) -> Result<Value, String> {
    let CelValue::Object(Object::Shared(_, fields)) = operation else {
        return Err(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".to_string()
        );
    };
    let mut out = Map::new();
    for key in ["op", "path"] {
        out.insert(key, "".into());
    }
    for (name, value) in fields.iter() {
        match &**name {
            "value" => {
                check_names(value)?;
                let tree = as_json(value, 0).map_err(|why| {
                    format!(
                        "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}"
                    )
                })?;
                out.insert("value", tree);
            }
            "from" if value.as_str() == Some("") => {}
            other => {
                out.insert(Str::from(other), value.as_str().unwrap_or_default().into());
            }
        }
    }
    Ok(Value::Object(out))
}

fn check_names(value: &CelValue<'_>) -> Result<(), String> {
    match misnamed_types(value) {
        mistakes if mistakes.is_empty() => Ok(()),
        mistakes => Err(format!("type mismatch: {}", mistakes.join("\n"))),
    }
}

/// Merges an apply configuration into an object of this kind and type.
pub(super) fn apply_configuration(
    configuration: &CelValue<'_>,
    object: &Value,
    kind: &GroupVersionKind,
    schema: Option<&Schema>,
) -> Result<Patched, String> {
    check_names(configuration)?;
    let Some(schema) = schema else {
        let GroupVersionKind { group, version, kind } = kind;
        return Err(format!(
            "error applying patch: failed to convert patch object to typed object: \
             no corresponding type for {group}/{version}, Kind={kind}"
        ));
    };
    let ty = Type::of(schema);
    let converted = Native::default().convert(configuration);
    let merged = match converted {
        Ok(patch) => merge(as_kind(patch, kind), object, ty),
        Err(Unusable::Key) => return Err("invalid return type: *dynamic.ObjectVal".to_string()),
        Err(Unusable::Foreign(path, mut values)) => {
            values.reverse();
            Err(untyped(&typed::refuse_foreign(&values, &path, ty)))
        }
    };
    merged.map(Patched::Merged).map_err(|why| format!("error applying patch: {why}"))
}

fn as_kind(mut patch: Value, kind: &GroupVersionKind) -> Value {
    patch.set_at(&["apiVersion"], kind.group_version().to_string().as_str().into());
    patch.set_at(&["kind"], Value::String(kind.kind.clone()));
    patch
}

fn untyped(why: &ValidationErrors) -> String {
    format!("failed to convert patch object to typed object: {why}")
}

fn merge(patch: Value, object: &Value, ty: Type<'_>) -> Result<Value, String> {
    typed::validate(&patch, ty, Duplicates::Refused).map_err(|why| untyped(&why))?;
    let atomics = typed::atomics(&patch, ty);
    if !atomics.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        ));
    }
    typed::validate(object, ty, Duplicates::Allowed)
        .map_err(|why| format!("failed to convert original object to typed object: {why}"))?;
    Ok(typed::merge(object, &patch, ty))
}

/// The reason why a configuration cannot be converted to a tree.
enum Unusable {
    /// A map has a key that is not a string.
    Key,
    /// The patch contains a value that JSON cannot express: its path, the value itself and the containers around it.
    Foreign(Vec<PathElement>, Vec<Foreign>),
}

/// Converts CEL values as Go's native conversion does.
#[derive(Default)]
struct Native {
    path: Vec<PathElement>,
    /// Whether the value is in a list or map, which Go's conversion does not look into.
    is_nested: bool,
}

impl Native {
    fn convert(&mut self, value: &CelValue<'_>) -> Result<Value, Unusable> {
        if self.path.len() > DEPTH_MAX {
            return Err(Unusable::Key);
        }
        let is_nested = self.is_nested;
        let converted = match value {
            CelValue::Bool(value) => Ok(Value::Bool(*value)),
            CelValue::Int(int) => Ok(Value::Int(*int)),
            CelValue::Double(double) => Ok(Value::Float(*double)),
            CelValue::String(text) => Ok(text.as_str().into()),
            CelValue::Type(ty) => Ok((&*ty.runtime_name()).into()),
            CelValue::Optional(None) => Ok(Value::Null),
            CelValue::Optional(Some(value)) => return self.convert(value),
            CelValue::List(list) => {
                let items = list.iter().enumerate().map(|(at, item)| {
                    self.convert_child(PathElement::Index(at as i64), true, &item.map_err(|_| Unusable::Key)?)
                });
                items.collect::<Result<_, _>>().map(Value::Array)
            }
            CelValue::Map(map) => {
                let entries = map.entries().map(|(key, value)| {
                    let key = Str::from(key.as_str().ok_or(Unusable::Key)?);
                    let value = value.map_err(|_| Unusable::Key)?;
                    Ok((key.clone(), self.convert_child(PathElement::Field(key), true, &value)?))
                });
                entries.collect::<Result<Map, _>>().map(Value::Object)
            }
            CelValue::Object(Object::Shared(_, fields)) => {
                let fields = fields.iter().map(|(name, value)| {
                    let name = Str::from(&**name);
                    Ok((name.clone(), self.convert_child(PathElement::Field(name), false, value)?))
                });
                fields.collect::<Result<Map, _>>().map(Value::Object)
            }
            _ => Err(Unusable::Foreign(self.path.clone(), Vec::new())),
        };
        converted.map_err(|unusable| match unusable {
            Unusable::Foreign(path, mut values) => {
                values.push(foreign::describe(value, is_nested));
                Unusable::Foreign(path, values)
            }
            Unusable::Key => Unusable::Key,
        })
    }

    fn convert_child(
        &mut self,
        element: PathElement,
        is_nested: bool,
        value: &CelValue<'_>,
    ) -> Result<Value, Unusable> {
        self.path.push(element);
        let outer = std::mem::replace(&mut self.is_nested, is_nested);
        let converted = self.convert(value);
        self.is_nested = outer;
        self.path.pop();
        converted
    }
}

/// A value as JSON.
fn as_json(value: &CelValue<'_>, depth: usize) -> Result<Value, String> {
    let unsupported = |value: &CelValue<'_>| format!("unsupported type conversion: {}", value.type_name());
    if depth > DEPTH_MAX {
        return Err(unsupported(value));
    }
    let below = |value: &CelValue<'_>| as_json(value, depth.saturating_add(1));
    Ok(match value {
        CelValue::Null => Value::Null,
        CelValue::Bool(value) => Value::Bool(*value),
        CelValue::Int(int) => number_as_json(*int),
        CelValue::Uint(uint) => i64::try_from(*uint).map_or_else(|_| uint.to_string().into(), number_as_json),
        CelValue::Double(double) => Value::Float(*double),
        CelValue::String(text) => text.as_str().into(),
        CelValue::Bytes(bytes) => base64::encode(bytes).into(),
        CelValue::Timestamp(moment) => moment.rfc3339().into(),
        CelValue::Duration(_) => value.to_string().into(),
        CelValue::Optional(Some(value)) => below(value)?,
        CelValue::Optional(None) => return Err("optional.none() dereference".to_string()),
        CelValue::Type(_) => return Err("type conversion not supported for 'type'".to_string()),
        CelValue::List(list) => {
            let items =
                list.iter().map(|item| item.map_err(|why| why.to_string()).and_then(|item| below(&item)));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        CelValue::Map(map) => {
            let mut out = Map::new();
            for (key, value) in map.entries() {
                let value = value.map_err(|why| why.to_string()).and_then(|value| below(&value))?;
                out.insert(json_key(&key)?, value);
            }
            Value::Object(out)
        }
        CelValue::Object(Object::Shared(_, fields)) => {
            let fields = fields.iter().map(|(name, value)| Ok((Str::from(&**name), below(value)?)));
            Value::Object(fields.collect::<Result<Map, String>>()?)
        }
        CelValue::Opaque(opaque) => {
            let name = opaque.cel_type().runtime_name();
            let name = foreign::go_name(&name);
            return Err(format!("type conversion error from '{name}' to '*structpb.Value'"));
        }
        other => return Err(unsupported(other)),
    })
}

/// The key of an object; cel-go converts no other type to a string.
fn json_key(key: &CelValue<'_>) -> Result<Str, String> {
    match key {
        CelValue::String(text) => Ok(Str::from(text.as_str())),
        CelValue::Bool(_) => Err("type conversion error from bool to 'string'".to_string()),
        other => Err(format!("unsupported type conversion from '{}' to string", other.type_name())),
    }
}

/// Integers that a double cannot represent become strings.
fn number_as_json(int: i64) -> Value {
    if int.unsigned_abs() < 1 << 53 { Value::Int(int) } else { int.to_string().into() }
}
