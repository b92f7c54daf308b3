//! How Go prints the values of an apply configuration that JSON cannot express. Errors quote them.

use pintle_apply::typed::{Foreign, Form};
use pintle_cel::value::{Object, Value as CelValue};
use pintle_meta::duration::GoDuration;
use pintle_meta::field::quoted;
use pintle_value::{Map, Str, Value};

/// The deepest value that is printed.
const DEPTH_MAX: usize = 8;

/// Describes a value. In a list or map (`is_nested`) Go's conversion leaves it as cel-go has it.
pub(super) fn describe(value: &CelValue<'_>, is_nested: bool) -> Foreign {
    let form = match value {
        CelValue::Map(_) | CelValue::Object(_) => Form::Map,
        CelValue::List(_) => Form::List,
        _ => Form::Scalar,
    };
    Foreign {
        form,
        go_type: go_type(value, is_nested),
        go_syntax: go_syntax(value, is_nested, 0),
        go_text: go_text(value, 0),
        members: scalar_members(value),
    }
}

fn scalar_members(value: &CelValue<'_>) -> Map {
    let CelValue::Object(Object::Shared(_, fields)) = value else { return Map::new() };
    let scalars = fields.iter().filter_map(|(name, value)| {
        let value = match value {
            CelValue::String(text) => Value::from(text.as_str()),
            CelValue::Int(int) => Value::Int(*int),
            CelValue::Bool(value) => Value::Bool(*value),
            _ => return None,
        };
        Some((Str::from(&**name), value))
    });
    scalars.collect()
}

/// Formats the type as Go's `%T` does.
fn go_type(value: &CelValue<'_>, is_nested: bool) -> String {
    match value {
        CelValue::Null => "structpb.NullValue".to_string(),
        CelValue::Uint(_) => "uint64".to_string(),
        CelValue::Duration(_) => "time.Duration".to_string(),
        CelValue::Timestamp(_) => "time.Time".to_string(),
        CelValue::Bytes(_) => "[]uint8".to_string(),
        CelValue::List(_) if is_nested => "[]ref.Val".to_string(),
        CelValue::List(_) => "[]interface {}".to_string(),
        CelValue::Map(_) if is_nested => "map[ref.Val]ref.Val".to_string(),
        CelValue::Map(_) | CelValue::Object(_) => "map[string]interface {}".to_string(),
        CelValue::Opaque(opaque) => match go_name(&opaque.cel_type().runtime_name()) {
            "Quantity" => "*resource.Quantity".to_string(),
            "URL" => "*url.URL".to_string(),
            "IP" => "netip.Addr".to_string(),
            "CIDR" => "netip.Prefix".to_string(),
            "Semver" => "semver.Version".to_string(),
            "Format" => "cel.Format".to_string(),
            _ => "*types.Err".to_string(),
        },
        _ => "interface {}".to_string(),
    }
}

/// The name that kube-apiserver's conversions have for a type of its libraries.
pub(super) fn go_name(cel_type: &str) -> &str {
    match cel_type {
        "kubernetes.NamedFormat" => "Format",
        "kubernetes.Quantity" | "kubernetes.URL" | "kubernetes.Semver" | "net.IP" | "net.CIDR" => {
            cel_type.rsplit('.').next().unwrap_or(cel_type)
        }
        other => other,
    }
}

/// Formats the value as Go's `%v` does.
fn go_text(value: &CelValue<'_>, depth: usize) -> String {
    if depth > DEPTH_MAX {
        return String::new();
    }
    let below = |value: &CelValue<'_>| go_text(value, depth.saturating_add(1));
    match value {
        CelValue::Duration(nanos) => GoDuration(*nanos).to_string(),
        CelValue::Optional(None) => "<nil>".to_string(),
        CelValue::Optional(Some(value)) => below(value),
        CelValue::Opaque(_) => opaque_text(value),
        CelValue::List(_) => format!("[{}]", print_items(value, below).join(" ")),
        CelValue::Map(_) | CelValue::Object(Object::Shared(..)) => {
            let entries = entries(value, |key| key.to_string(), below);
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}

/// Formats the value as Go's `%#v` does.
fn go_syntax(value: &CelValue<'_>, is_nested: bool, depth: usize) -> String {
    if depth > DEPTH_MAX {
        return String::new();
    }
    let below = |value: &CelValue<'_>| match (value, is_nested) {
        (CelValue::Bytes(bytes), true) => format!("types.Bytes{{{}}}", hexadecimal(bytes)),
        (CelValue::Duration(nanos), true) => format!("types.Duration{{Duration:{nanos}}}"),
        _ => go_syntax(value, true, depth.saturating_add(1)),
    };
    match value {
        CelValue::Null => "0".to_string(),
        CelValue::Uint(uint) => format!("{uint:#x}"),
        CelValue::String(text) => quoted(text.as_str()),
        CelValue::Duration(nanos) => nanos.to_string(),
        CelValue::Timestamp(moment) => moment.go_syntax(),
        CelValue::Bytes(bytes) => format!("[]uint8{{{}}}", hexadecimal(bytes)),
        CelValue::Optional(Some(value)) => below(value),
        CelValue::Opaque(_) => opaque_text(value),
        CelValue::List(_) => {
            format!("{}{{{}}}", go_type(value, is_nested), print_items(value, below).join(", "))
        }
        CelValue::Map(_) | CelValue::Object(Object::Shared(..)) => {
            let entries = entries(value, |key| go_syntax(key, true, depth.saturating_add(1)), below);
            format!("{}{{{}}}", go_type(value, is_nested), entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// The text of a value of a library. The authorizer and its answers have none: Go prints the error of their conversion.
fn opaque_text(value: &CelValue<'_>) -> String {
    match go_type(value, false).as_str() {
        "*types.Err" => "no such overload".to_string(),
        _ => value.to_string(),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#x}")).collect();
    bytes.join(", ")
}

fn print_items(value: &CelValue<'_>, print: impl Fn(&CelValue<'_>) -> String) -> Vec<String> {
    let CelValue::List(list) = value else { return Vec::new() };
    list.iter().map(|item| item.map_or_else(|why| why.to_string(), |item| print(&item))).collect()
}

/// `key:value`, sorted by key as Go prints maps.
fn entries(
    value: &CelValue<'_>,
    print_key: impl Fn(&CelValue<'_>) -> String,
    print: impl Fn(&CelValue<'_>) -> String,
) -> Vec<String> {
    let mut entries: Vec<(String, String)> = match value {
        CelValue::Map(map) => map
            .entries()
            .map(|(key, value)| {
                (print_key(&key), value.map_or_else(|why| why.to_string(), |value| print(&value)))
            })
            .collect(),
        CelValue::Object(Object::Shared(_, fields)) => {
            fields.iter().map(|(name, value)| (print_key(&name.to_string().into()), print(value))).collect()
        }
        _ => Vec::new(),
    };
    entries.sort();
    entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect()
}
