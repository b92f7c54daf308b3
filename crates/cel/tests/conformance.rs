//! The language's conformance cases: value, error and type of each case that needs no protobuf messages.
//!
//! `conformance.jsonl` has the needed parts of the published cases, one per line; `trim` writes it from the whole set
//! (`CEL_CONFORMANCE=conformance.json cargo test -p pintle-cel --test conformance -- --ignored trim`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may panic")]

use pintle_cel::decl::{Function, Overload};
use pintle_cel::env::Env;
use pintle_cel::library::{
    self, Library, encoders, lists, math, optional, regex, sets, strings, two_variable,
};
use pintle_cel::types::Type;
use pintle_cel::value::{EvalError, Value};
use serde_json::{Value as Json, json};

/// The protobuf types that are part of the language.
const OWN: [&str; 2] = ["google.protobuf.Timestamp", "google.protobuf.Duration"];
const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance.jsonl");

#[test]
fn conformance() {
    let text = std::fs::read_to_string(FIXTURE).unwrap();
    let base = everything();
    let (mut passed, mut failures) = (0, Vec::new());
    for line in text.lines() {
        let case: Json = serde_json::from_str(line).unwrap();
        match run(&base, &case) {
            Ok(()) => passed += 1,
            Err(why) => {
                failures.push(format!("{}: {}\n    {why}", case["suite"].as_str().unwrap(), case["expr"]))
            }
        }
    }
    assert!(failures.is_empty(), "{}\n{} failed, {passed} passed", failures.join("\n"), failures.len());
    assert!(passed > 1_650, "only {passed} cases ran");
}

/// The standard library and all extensions of cel-go in their newest versions.
fn everything() -> Env {
    let libraries = [
        optional::library(u32::MAX),
        strings::specified(),
        math::library(u32::MAX),
        lists::library(u32::MAX),
        sets::library(),
        encoders::library(),
        regex::library(),
        two_variable::library(),
        library::bindings(),
        library::blocks(),
    ];
    let env = Env::standard().with_options(|options| {
        options.escaped_identifiers = true;
        options.cross_type_comparisons = true;
    });
    libraries.into_iter().fold(env, Env::with_library)
}

/// Cases in which cel-go, and so Kubernetes, deviates from the specification; and functions that Kubernetes lacks.
#[test]
fn kubernetes_follows_cel_go() {
    let env = Env::kubernetes();
    for (expr, wanted) in [
        ("'tacocat'.indexOf('a', 30)", "-1"),
        ("'tacocat'.lastIndexOf('a', 30)", "-1"),
        ("duration('123.321456789s').getMilliseconds()", "123321"),
    ] {
        let program = env.compile(expr).unwrap().plan().unwrap();
        assert_eq!(program.eval(&[], None).result.unwrap().to_string(), wanted, "{expr}");
    }
    assert!(env.compile("cel.block([1], cel.index(0))").is_err());
}

fn run(base: &Env, case: &Json) -> Result<(), String> {
    let expr = case["expr"].as_str().unwrap();
    let mut env = base.clone().with_container(case["container"].as_str().unwrap_or_default());
    for declared in case["typeEnv"].as_array().into_iter().flatten() {
        if declared["ident"].is_null() {
            let functions = vec![declared_function(declared)];
            env = env.with_library(Library { functions, ..Library::default() });
        } else {
            env = env
                .with_variable(declared["name"].as_str().unwrap(), declared_type(&declared["ident"]["type"]));
        }
    }
    let fails = case["fails"] == json!(true);
    let program = if case["disableCheck"] == json!(true) {
        match env.parse(expr) {
            Ok(ast) => env.plan_unchecked(&ast),
            Err(issues) => return if fails { Ok(()) } else { Err(issues.to_string()) },
        }
    } else {
        let checked = match env.compile(expr) {
            Ok(checked) => checked,
            Err(issues) => return if fails { Ok(()) } else { Err(issues.to_string()) },
        };
        if let Some(ty) = case["type"].as_str().filter(|ty| *ty != checked.output_type().to_string()) {
            return Err(format!("type {} instead of {ty}", checked.output_type()));
        }
        if case["checkOnly"] == json!(true) {
            return Ok(());
        }
        checked.plan()
    };
    let program = match program {
        Ok(program) => program,
        Err(err) => return if fails { Ok(()) } else { Err(format!("no plan: {err}")) },
    };
    let bindings = case["bindings"].as_object();
    let variables: Vec<(&str, Value<'_>)> =
        bindings.into_iter().flatten().map(|(name, bound)| (name.as_str(), value(&bound["value"]))).collect();
    let evaluation = program.eval(&variables, None);
    match evaluation.result {
        Err(_) if fails => Ok(()),
        Err(err) => Err(format!("failed: {err}")),
        Ok(found) if fails => Err(format!("{found:?} instead of an error")),
        Ok(found) => {
            // A case without a value expects `true`.
            let wanted = case.get("value").map_or(Value::Bool(true), value);
            if same(&found, &wanted) { Ok(()) } else { Err(format!("{found:?} instead of {wanted:?}")) }
        }
    }
}

/// Whether two values are equal and of the same type; not-a-number equals itself here.
fn same(found: &Value<'_>, wanted: &Value<'_>) -> bool {
    match (found, wanted) {
        (Value::Double(a), Value::Double(b)) => a == b || (a.is_nan() && b.is_nan()),
        _ => found.type_name() == wanted.type_name() && found.equals(wanted) == Ok(true),
    }
}

fn value(json: &Json) -> Value<'static> {
    let (kind, content) = json.as_object().and_then(|map| map.iter().next()).expect("a value has one member");
    let text = content.as_str().unwrap_or_default();
    match kind.as_str() {
        "nullValue" => Value::Null,
        "boolValue" => Value::Bool(content.as_bool().unwrap()),
        "int64Value" => Value::Int(text.parse().unwrap()),
        "uint64Value" => Value::Uint(text.parse().unwrap()),
        "doubleValue" => Value::Double(content.as_f64().unwrap_or(match text {
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            _ => f64::NAN,
        })),
        "stringValue" => text.to_owned().into(),
        "bytesValue" => Value::Bytes(pintle_value::base64::decode(text).unwrap().into()),
        "typeValue" => Value::Type(named_type(text)),
        "listValue" => Value::list(content["values"].as_array().into_iter().flatten().map(value).collect()),
        "mapValue" => {
            let entries = content["entries"].as_array().into_iter().flatten();
            Value::map(entries.map(|entry| (value(&entry["key"]), value(&entry["value"]))).collect())
        }
        "objectValue" => {
            let function = if content["@type"].as_str().unwrap().ends_with("Duration") {
                "duration"
            } else {
                "timestamp"
            };
            let text = content["value"].as_str().unwrap();
            let program = Env::standard().compile(&format!("{function}({text:?})")).unwrap().plan().unwrap();
            match program.eval(&[], None).result.unwrap() {
                Value::Duration(nanos) => Value::Duration(nanos),
                Value::Timestamp(moment) => Value::Timestamp(moment),
                other => panic!("{other:?}"),
            }
        }
        kind => panic!("a value of the kind {kind}"),
    }
}

fn named_type(name: &str) -> Type {
    match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::Type(None),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        name => Type::opaque(name),
    }
}

fn declared_function(json: &Json) -> Function {
    let overloads = json["function"]["overloads"].as_array().unwrap().iter().map(|overload| {
        let id: &'static str = overload["overloadId"].as_str().unwrap().to_owned().leak();
        let params: Vec<Type> = overload["params"].as_array().unwrap().iter().map(declared_type).collect();
        Overload::function(id, params, declared_type(&overload["resultType"]), |_| {
            Err(EvalError::NoSuchOverload)
        })
    });
    Function::new(json["name"].as_str().unwrap().to_owned().leak(), overloads.collect::<Vec<_>>())
}

fn declared_type(json: &Json) -> Type {
    let (kind, content) = json.as_object().and_then(|map| map.iter().next()).expect("a type has one member");
    match (kind.as_str(), content.as_str().unwrap_or_default()) {
        ("dyn", _) => Type::Dyn,
        ("null", _) => Type::Null,
        ("primitive", "INT64") => Type::Int,
        ("primitive", "UINT64") => Type::Uint,
        ("primitive", name) => named_type(&name.to_ascii_lowercase()),
        ("wellKnown", "TIMESTAMP") => Type::Timestamp,
        ("wellKnown", "DURATION") => Type::Duration,
        ("messageType", name) => named_type(name),
        ("listType", _) => Type::list(content.get("elemType").map_or(Type::Dyn, declared_type)),
        ("mapType", _) => Type::map(declared_type(&content["keyType"]), declared_type(&content["valueType"])),
        ("typeParam", name) => Type::param(name),
        ("abstractType", _) => {
            let params = content["parameterTypes"].as_array().into_iter().flatten().map(declared_type);
            Type::Opaque(content["name"].as_str().unwrap().into(), params.collect())
        }
        other => panic!("a type of the kind {other:?}"),
    }
}

/// Writes the parts of the cases that are read above, without cases that need protobuf messages or enums.
#[test]
#[ignore = "writes the fixture from the published cases"]
fn trim() {
    let path = std::env::var("CEL_CONFORMANCE").unwrap();
    let cases: Vec<Json> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut lines = String::new();
    for case in cases.iter().filter(|case| !needs_messages(case)) {
        let original = &case["original"];
        let path: Vec<&str> =
            case["path"].as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect();
        let mut kept = json!({
            "suite": format!("{}/{}", path.join("/"), original["name"].as_str().unwrap()),
            "expr": original["expr"],
        });
        for member in ["container", "typeEnv", "bindings", "value", "disableCheck", "checkOnly"] {
            if !original[member].is_null() {
                kept[member] = original[member].clone();
            }
        }
        if !original["evalError"].is_null() {
            kept["fails"] = json!(true);
        }
        if !original["typedResult"]["result"].is_null() {
            kept["value"] = original["typedResult"]["result"].clone();
        }
        if !case["type"].is_null() {
            kept["type"] = case["type"].clone();
        }
        lines.push_str(&format!("{kept}\n"));
    }
    std::fs::write(FIXTURE, lines).unwrap();
}

fn needs_messages(case: &Json) -> bool {
    let original = &case["original"];
    let mut expr = original["expr"].as_str().unwrap().to_owned();
    for own in OWN {
        expr = expr.replace(&format!("{own}{{"), "google.protobuf.Message{").replace(own, "");
    }
    let words = [
        "google.protobuf",
        "TestAllTypes",
        "TestRequired",
        "Value{",
        "proto2",
        "proto3",
        "NestedEnum",
        "GlobalEnum",
        "NULL_VALUE",
        "cel.expr",
    ];
    words.iter().any(|word| expr.contains(word))
        || ["value", "bindings", "typeEnv", "typedResult"]
            .iter()
            .any(|member| holds_message(&original[*member]))
}

fn holds_message(json: &Json) -> bool {
    let own = |name: &Json| OWN.iter().any(|own| name.as_str().is_some_and(|name| name.ends_with(own)));
    match json {
        Json::Object(map) if map.contains_key("enumValue") => true,
        Json::Object(map) if map.contains_key("@type") => !own(&map["@type"]),
        Json::Object(map) if map.contains_key("messageType") => !own(&map["messageType"]),
        Json::Object(map) => map.values().any(holds_message),
        Json::Array(list) => list.iter().any(holds_message),
        _ => false,
    }
}
