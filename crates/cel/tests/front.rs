//! The parser and the checker, compared with the trees, types and messages that cel-go has for the conformance cases.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::fmt::Write as _;

use pintle_cel::ast::{Expr, ExprKind, Literal};
use pintle_cel::env::{Checked, Env, Reference};
use pintle_cel::library::{bindings, encoders, math, optional, strings, two_variable};
use pintle_cel::types::Type;
use serde_json::Value as Json;

/// Prints a tree as cel-go's `debug` package does.
struct Printer<'a> {
    out: String,
    indent: usize,
    line_start: bool,
    adorn: &'a dyn Fn(&Expr) -> String,
    entry: &'static str,
}

impl Printer<'_> {
    fn text(&mut self, text: &str) {
        if std::mem::take(&mut self.line_start) {
            self.out.push_str(&"  ".repeat(self.indent));
        }
        self.out.push_str(text);
    }

    fn line(&mut self) {
        self.out.push('\n');
        self.line_start = true;
    }

    fn part(&mut self, title: &str, text: &str) {
        self.text(title);
        self.line();
        self.text(text);
        self.text(",");
        self.line();
    }

    fn part_expr(&mut self, title: &str, expr: &Expr) {
        self.text(title);
        self.line();
        self.expr(expr);
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Literal(literal) => self.text(&print_literal(literal)),
            ExprKind::Ident(name) => self.text(name),
            ExprKind::Select { operand, field, test_only } => {
                self.expr(operand);
                self.text(".");
                self.text(field);
                self.text(if *test_only { "~test-only~" } else { "" });
            }
            ExprKind::Call { function, target, args } => {
                if let Some(target) = target {
                    self.expr(target);
                    self.text(".");
                }
                self.text(function);
                self.text("(");
                self.many(args, |printer, arg| printer.expr(arg));
                self.text(")");
            }
            ExprKind::List { elements, .. } => {
                self.text("[");
                self.many(elements, |printer, element| printer.expr(element));
                self.text("]");
            }
            ExprKind::Map(entries) => {
                self.text("{");
                self.many(entries, |printer, entry| {
                    printer.text(if entry.optional { "?" } else { "" });
                    printer.expr(&entry.key);
                    printer.text(":");
                    printer.expr(&entry.value);
                    printer.text(printer.entry);
                });
                self.text("}");
            }
            ExprKind::Struct { name, fields } => {
                self.text(name);
                self.text("{");
                self.many(fields, |printer, field| {
                    printer.text(if field.optional { "?" } else { "" });
                    printer.text(&field.name);
                    printer.text(":");
                    printer.expr(&field.value);
                    printer.text(printer.entry);
                });
                self.text("}");
            }
            ExprKind::Comprehension(it) => {
                self.text("__comprehension__(");
                self.indent += 1;
                self.line();
                self.part("// Variable", &it.iter_var);
                if let Some(second) = &it.iter_var2 {
                    self.text(second);
                    self.text(",");
                    self.line();
                }
                self.part_expr("// Target", &it.iter_range);
                self.text(",");
                self.line();
                self.part("// Accumulator", &it.accu_var);
                for (title, expr) in [
                    ("// Init", &it.accu_init),
                    ("// LoopCondition", &it.loop_condition),
                    ("// LoopStep", &it.loop_step),
                ] {
                    self.part_expr(title, expr);
                    self.text(",");
                    self.line();
                }
                self.part_expr("// Result", &it.result);
                self.text(")");
                self.indent -= 1;
            }
        }
        let adorned = (self.adorn)(expr);
        self.text(&adorned);
    }

    fn many<T>(&mut self, parts: &[T], print: impl Fn(&mut Self, &T)) {
        if parts.is_empty() {
            return;
        }
        self.indent += 1;
        self.line();
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                self.text(",");
                self.line();
            }
            print(self, part);
        }
        self.indent -= 1;
        self.line();
    }
}

fn print(expr: &Expr, entry: &'static str, adorn: &dyn Fn(&Expr) -> String) -> String {
    let mut printer = Printer { out: String::new(), indent: 0, line_start: true, adorn, entry };
    printer.expr(expr);
    printer.out
}

fn print_literal(literal: &Literal) -> String {
    match literal {
        Literal::Null => "null".into(),
        Literal::Bool(value) => value.to_string(),
        Literal::Int(value) => value.to_string(),
        Literal::Uint(value) => format!("{value}u"),
        Literal::Double(value) => print_double(*value),
        Literal::String(text) => quote(text.chars().map(Ok)),
        Literal::Bytes(bytes) => {
            let units = bytes.utf8_chunks().flat_map(|chunk| {
                chunk
                    .valid()
                    .chars()
                    .map(Ok)
                    .chain(chunk.invalid().iter().map(|byte| Err(*byte)))
                    .collect::<Vec<_>>()
            });
            format!("b{}", quote(units))
        }
    }
}

/// Go's `%v` of a float.
fn print_double(value: f64) -> String {
    let exponent = format!("{value:e}");
    let (mantissa, exponent) = exponent.split_once('e').unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    if value == 0.0 || (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Go's `strconv.Quote`.
fn quote(units: impl Iterator<Item = Result<char, u8>>) -> String {
    let mut out = String::from("\"");
    for unit in units {
        match unit {
            Ok('"') => out.push_str("\\\""),
            Ok('\\') => out.push_str("\\\\"),
            Ok('\u{7}') => out.push_str("\\a"),
            Ok('\u{8}') => out.push_str("\\b"),
            Ok('\u{c}') => out.push_str("\\f"),
            Ok('\n') => out.push_str("\\n"),
            Ok('\r') => out.push_str("\\r"),
            Ok('\t') => out.push_str("\\t"),
            Ok('\u{b}') => out.push_str("\\v"),
            Ok(char) if char < ' ' || char == '\u{7f}' => write!(out, "\\x{:02x}", u32::from(char)).unwrap(),
            Ok(char) if char > '~' && is_invisible(char) => {
                write!(out, "\\u{:04x}", u32::from(char)).unwrap()
            }
            Ok(char @ '\u{88888}') => write!(out, "\\U{:08x}", u32::from(char)).unwrap(),
            Ok(char) => out.push(char),
            Err(byte) => write!(out, "\\x{byte:02x}").unwrap(),
        }
    }
    out.push('"');
    out
}

/// Spaces, joiners and similar, which Go escapes.
fn is_invisible(char: char) -> bool {
    char.is_whitespace()
        || matches!(char, '\u{80}'..='\u{9f}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{fffb}')
}

fn kind_name(expr: &Expr) -> String {
    let name = match &expr.kind {
        ExprKind::Literal(Literal::Null) => "Constant_NullValue",
        ExprKind::Literal(Literal::Bool(_)) => "Constant_BoolValue",
        ExprKind::Literal(Literal::Int(_)) => "Constant_Int64Value",
        ExprKind::Literal(Literal::Uint(_)) => "Constant_Uint64Value",
        ExprKind::Literal(Literal::Double(_)) => "Constant_DoubleValue",
        ExprKind::Literal(Literal::String(_)) => "Constant_StringValue",
        ExprKind::Literal(Literal::Bytes(_)) => "Constant_BytesValue",
        ExprKind::Ident(_) => "Expr_IdentExpr",
        ExprKind::Select { .. } => "Expr_SelectExpr",
        ExprKind::Call { .. } => "Expr_CallExpr",
        ExprKind::List { .. } => "Expr_ListExpr",
        ExprKind::Map(_) | ExprKind::Struct { .. } => "Expr_StructExpr",
        ExprKind::Comprehension(_) => "Expr_ComprehensionExpr",
    };
    format!("^#*expr.{name}#")
}

fn type_and_reference(checked: &Checked, expr: &Expr) -> String {
    let reference = match checked.reference(expr.id) {
        None => String::new(),
        Some(Reference::Variable(name)) => format!("^{name}"),
        Some(Reference::Constant(constant)) => format!("^{}", constant.name),
        Some(Reference::Function(function, overloads)) => {
            let mut ids: Vec<&str> =
                overloads.iter().map(|index| function.overloads[*index as usize].id).collect();
            ids.sort_unstable();
            format!("^{}", ids.join("|"))
        }
    };
    format!("~{}{reference}", checked.type_of(expr.id))
}

fn declared_type(json: &Json) -> Option<Type> {
    if json.get("dyn").is_some() {
        return Some(Type::Dyn);
    }
    if let Some(list) = json.get("listType") {
        return Some(Type::list(declared_type(&list["elemType"])?));
    }
    if let Some(map) = json.get("mapType") {
        return Some(Type::map(declared_type(&map["keyType"])?, declared_type(&map["valueType"])?));
    }
    if let Some(ty) = json.get("abstractType") {
        let params: Option<Vec<Type>> = ty["parameterTypes"].as_array()?.iter().map(declared_type).collect();
        return Some(Type::Opaque(ty["name"].as_str()?.into(), params?.into()));
    }
    if let Some(ty) = json.get("typeParam") {
        return Some(Type::param(ty.as_str()?));
    }
    let primitive = |name: &str| {
        Some(match name {
            "BOOL" => Type::Bool,
            "INT64" => Type::Int,
            "UINT64" => Type::Uint,
            "DOUBLE" => Type::Double,
            "STRING" => Type::String,
            "BYTES" => Type::Bytes,
            _ => return None,
        })
    };
    if let Some(ty) = json.get("wrapper") {
        return Some(Type::Wrapper(primitive(ty.as_str()?)?.into()));
    }
    match json.get("wellKnown").and_then(Json::as_str) {
        Some("TIMESTAMP") => return Some(Type::Timestamp),
        Some("DURATION") => return Some(Type::Duration),
        _ => {}
    }
    primitive(json.get("primitive")?.as_str()?)
}

fn environment(case: &Json) -> Option<Env> {
    let mut env = Env::standard().with_container(case["container"].as_str().unwrap_or_default());
    for declared in case["typeEnv"].as_array().into_iter().flatten() {
        env = env.with_variable(declared["name"].as_str()?, declared_type(&declared["ident"]["type"])?);
    }
    Some(env)
}

/// Adds the extensions with which the cases are checked.
fn extended(env: Env) -> Env {
    let libraries = [
        optional::library(u32::MAX),
        strings::library(u32::MAX),
        math::library(u32::MAX),
        encoders::library(),
        two_variable::library(),
        bindings(),
    ];
    libraries.into_iter().fold(env, Env::with_library)
}

fn cases() -> Vec<Json> {
    let path = std::env::var("CEL_CONFORMANCE").unwrap();
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
#[ignore = "needs the published cases: CEL_CONFORMANCE=conformance.json"]
fn trees_types_and_messages() {
    let (mut passed, mut failed) = (0, Vec::new());
    let mut check = |what: &str, expr: &str, expected: &str, found: &str| {
        if expected == found {
            passed += 1;
        } else {
            failed.push(format!("{what} of {expr}\n--- expected\n{expected}\n--- found\n{found}\n"));
        }
    };
    for case in cases() {
        let original = &case["original"];
        let expr = original["expr"].as_str().unwrap();
        // `cel.block` is missing, the depth limit was lower, and one overload has another name here.
        let apart = ["cel.block", "cel.iterVar", "getSeconds('-00:00')", "((((((((((7"];
        if apart.iter().any(|part| expr.contains(part)) {
            continue;
        }
        let protobuf =
            ["google.protobuf.", "TestAllTypes", "proto2", "proto3", "GlobalEnum", "NestedEnum", "TopLevel"];
        let all = case.to_string();
        if protobuf.iter().any(|word| all.contains(word)) {
            continue;
        }
        let Some(env) = environment(original) else { continue };
        if let Some(expected) = case["ast"].as_str() {
            let found = match env.parse(expr) {
                Ok(ast) => print(&ast.root, "^#*expr.Expr_CreateStruct_Entry#", &kind_name),
                Err(issues) => issues.to_string(),
            };
            check("tree", expr, expected, &found);
        }
        if let Some(expected) = case["checkedAst"].as_str() {
            let found = match extended(env.clone()).compile(expr) {
                Ok(checked) => print(&checked.ast.root, "", &|expr| type_and_reference(&checked, expr)),
                Err(issues) => issues.to_string(),
            };
            check("types", expr, expected, &found);
        }
        if let Some(expected) = case["error"].as_str() {
            let name = original["name"].as_str().unwrap();
            // The errors are those of an environment with few extensions.
            let env =
                [strings::library(u32::MAX), encoders::library()].into_iter().fold(env, Env::with_library);
            let found = match env.compile(expr) {
                Ok(checked) => format!("no error: {}", checked.output_type()),
                Err(issues) => issues.to_string(),
            };
            check("error", expr, &expected.replace(&format!("ERROR: {name}:"), "ERROR: <input>:"), &found);
        }
    }
    assert!(failed.is_empty(), "{}\n{} failed, {passed} passed", failed.join("\n"), failed.len());
}
