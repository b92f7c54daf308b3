//! The CEL workbench: compiles and evaluates one expression over objects in the request, and returns its cost. No object
//! of the cluster is read.

use pintle_cel::cost::NoModel;
use pintle_cel::env::Env;
use pintle_cel::library::kubernetes::cost::Kubernetes;
use pintle_cel::types::Type;
use pintle_cel::value::{EvalError, Object, Value as CelValue};
use pintle_schema::rules::CALL_COST_MAX;
use pintle_value::{Map, Value, json, yaml};

/// The size limit of a request: expression and objects.
pub const REQUEST_BYTES_MAX: usize = 1024 * 1024;
/// The size limit of an expression.
const EXPRESSION_BYTES_MAX: usize = 16 * 1024;
/// The size limit of a printed result; an expression can repeat a large value many times at little cost.
const RESULT_BYTES_MAX: usize = 64 * 1024;
/// The deepest lists and maps of a printed result.
const RESULT_DEPTH_MAX: usize = 64;

/// The variables of validation rules and of policies, each with the member of the request that provides its value.
const VARIABLES: [(&str, &str); 4] =
    [("self", "object"), ("object", "object"), ("oldSelf", "oldObject"), ("oldObject", "oldObject")];

/// Why a request cannot be evaluated.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The body is not JSON.
    #[error("the request is not JSON: {0}")]
    Json(String),
    /// A member is missing or too long.
    #[error("expression: must be text of at most {EXPRESSION_BYTES_MAX} bytes")]
    Expression,
    /// An object is not YAML.
    #[error("{0}: {1}")]
    Object(&'static str, String),
}

/// Evaluates `{"expression": text, "object": YAML, "oldObject": YAML}`. The response has `result` and `type`, or `error`
/// (with `compiled` false if the expression does not compile), and `cost` and `costLimit`.
pub fn evaluate(request: &[u8]) -> Result<Value, RequestError> {
    let request = json::parse(request).map_err(|error| RequestError::Json(error.to_string()))?.value;
    let expression = request.get("expression").and_then(Value::as_str).unwrap_or("");
    if expression.is_empty() || expression.len() > EXPRESSION_BYTES_MAX {
        return Err(RequestError::Expression);
    }
    let object = parse(&request, "object")?;
    let old = parse(&request, "oldObject")?;
    let tree = |member: &str| if member == "object" { &object } else { &old };
    let mut answer = Map::new();
    answer.insert("costLimit", number(CALL_COST_MAX));
    let env = VARIABLES.iter().fold(Env::kubernetes(), |env, (name, _)| env.with_variable(name, Type::Dyn));
    let checked = match env.compile(expression) {
        Ok(checked) => checked,
        Err(issues) => return Ok(failed_answer(answer, false, &issues.to_string())),
    };
    let estimate = checked.estimate(&Kubernetes(NoModel));
    answer.insert("estimateMin", number(estimate.min));
    answer.insert("type", checked.output_type().to_string().into());
    let program = match checked.plan() {
        Ok(program) => program,
        Err(error) => return Ok(failed_answer(answer, false, &error.to_string())),
    };
    let variables = VARIABLES.map(|(name, member)| (name, CelValue::any(tree(member))));
    let evaluation = program.eval(&variables, Some(CALL_COST_MAX));
    answer.insert("cost", number(evaluation.cost));
    Ok(match evaluation.result {
        Ok(value) => {
            let mut text = String::new();
            let whole = print(&value, &mut text, 0);
            answer.insert("compiled", true.into());
            answer.insert("result", text.into());
            answer.insert("truncated", whole.is_err().into());
            Value::Object(answer)
        }
        Err(error) => failed_answer(answer, true, &error.to_string()),
    })
}

fn parse(request: &Value, member: &'static str) -> Result<Value, RequestError> {
    let text = request.get(member).and_then(Value::as_str).unwrap_or("");
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    let parsed = yaml::parse(text.as_bytes());
    Ok(parsed.map_err(|error| RequestError::Object(member, error.to_string()))?.value)
}

fn number(cost: u64) -> Value {
    i64::try_from(cost).unwrap_or(i64::MAX).into()
}

fn failed_answer(mut answer: Map, compiled: bool, why: &str) -> Value {
    answer.insert("compiled", compiled.into());
    // Each error quotes the expression, so the text can become long.
    let mut text = String::new();
    _ = push(&mut text, why);
    answer.insert("error", text.into());
    Value::Object(answer)
}

/// The text has reached its limit.
struct Full;

/// Prints a value as a literal of the language: strings quoted, lists and maps in brackets.
fn print(value: &CelValue<'_>, out: &mut String, depth: usize) -> Result<(), Full> {
    if depth > RESULT_DEPTH_MAX {
        return Err(Full);
    }
    let inner = depth.saturating_add(1);
    match value {
        CelValue::Null => push(out, "null"),
        CelValue::String(text) => push(out, &pintle_value::quote::go_quoted(text.as_str())),
        CelValue::List(list) => {
            push(out, "[")?;
            for (index, element) in list.iter().enumerate() {
                push(out, if index == 0 { "" } else { ", " })?;
                print_or_error(element, out, inner)?;
            }
            push(out, "]")
        }
        CelValue::Map(map) => {
            push(out, "{")?;
            for (index, (key, element)) in map.entries().enumerate() {
                push(out, if index == 0 { "" } else { ", " })?;
                print(&key, out, inner)?;
                push(out, ": ")?;
                print_or_error(element, out, inner)?;
            }
            push(out, "}")
        }
        CelValue::Optional(None) => push(out, "optional.none()"),
        CelValue::Optional(Some(value)) => {
            push(out, "optional.of(")?;
            print(value, out, inner)?;
            push(out, ")")
        }
        CelValue::Object(Object::Tree(map, shape)) => {
            let map = CelValue::Map(pintle_cel::value::Map::Tree(map, shape));
            print(&map, out, inner)
        }
        scalar => push(out, &scalar.to_string()),
    }
}

fn print_or_error(
    value: Result<CelValue<'_>, EvalError>,
    out: &mut String,
    depth: usize,
) -> Result<(), Full> {
    match value {
        Ok(value) => print(&value, out, depth),
        Err(error) => push(out, &error.to_string()),
    }
}

/// Appends as much of `text` as fits.
fn push(out: &mut String, text: &str) -> Result<(), Full> {
    let room = RESULT_BYTES_MAX.saturating_sub(out.len());
    if text.len() <= room {
        out.push_str(text);
        return Ok(());
    }
    let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    out.push_str(text.get(..end).unwrap_or(""));
    Err(Full)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(expression: &str, object: &str) -> Value {
        let mut request = Map::new();
        request.insert("expression", expression.into());
        request.insert("object", object.into());
        let text = json::bytes(&Value::Object(request));
        evaluate(&text).unwrap()
    }

    #[test]
    fn results_and_types() {
        let object = "spec: {replicas: 3, names: [a, b]}";
        for (expression, result, type_name) in [
            ("object.spec.replicas > 2", "true", "bool"),
            ("self.spec.names", "[\"a\", \"b\"]", "dyn"),
            ("{'a': 1}", "{\"a\": 1}", "map(string, int)"),
            ("size(object.spec.names)", "2", "int"),
            ("oldSelf == null", "true", "bool"),
            ("object.?status", "optional.none()", "optional_type(dyn)"),
        ] {
            let answer = run(expression, object);
            assert_eq!(answer.str_at(&["result"]), result, "{expression}: {answer:?}");
            assert_eq!(answer.str_at(&["type"]), type_name, "{expression}");
            assert!(answer.get("cost").is_some() && answer.get("costLimit").is_some());
        }
    }

    #[test]
    fn errors_say_whether_the_expression_compiled() {
        for (expression, compiled, part) in [
            ("1 +", false, "Syntax error"),
            ("nothing", false, "undeclared reference to 'nothing'"),
            ("object.gone", true, "no such key: gone"),
        ] {
            let answer = run(expression, "a: 1");
            assert_eq!(answer.get("compiled").and_then(Value::as_bool), Some(compiled), "{expression}");
            assert!(answer.str_at(&["error"]).contains(part), "{expression}: {answer:?}");
        }
    }

    #[test]
    fn cost_and_text_are_limited() {
        let object = format!("l: [{}]", vec!["1"; 2000].join(","));
        let answer = run("object.l.all(a, object.l.all(b, object.l.all(c, a + b + c > 0)))", &object);
        assert!(answer.str_at(&["error"]).contains("cost limit exceeded"), "{answer:?}");
        // Each step doubles the text, but not the cost.
        let doubled = (0..24).fold("object.l".to_string(), |inner, depth| {
            format!("[{inner}].map(v{depth}, [v{depth}, v{depth}])")
        });
        let answer = run(&doubled, &object);
        assert_eq!(answer.get("truncated").and_then(Value::as_bool), Some(true), "{answer:?}");
        assert!(answer.str_at(&["result"]).len() <= RESULT_BYTES_MAX);
    }

    #[test]
    fn requests_that_cannot_be_read() {
        assert!(matches!(evaluate(b"{"), Err(RequestError::Json(_))));
        assert_eq!(evaluate(b"{}"), Err(RequestError::Expression));
        let bad = br#"{"expression": "1", "object": "a: ["}"#;
        assert!(matches!(evaluate(bad), Err(RequestError::Object("object", _))));
    }
}
