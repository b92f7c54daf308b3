//! The actual costs, compared with cel-go's.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap is a failed test"
)]

use pintle_cel::env::Env;
use pintle_cel::types::Type;
use pintle_cel::value::{EvalError, Value};

const TEXT: usize = 500;

fn environment() -> Env {
    let list = || Type::list(Type::Dyn);
    [
        ("ints", Type::list(Type::Int)),
        ("texts", Type::map(Type::String, Type::String)),
        ("nested", Type::map(Type::String, Type::map(Type::String, Type::Dyn))),
        ("objects", list()),
        ("lists", Type::list(list())),
        ("text", Type::String),
        ("other", Type::String),
        ("short", Type::String),
        ("longer", Type::String),
        ("blob", Type::Bytes),
        ("x", Type::Int),
        ("no", Type::Bool),
        ("yes", Type::Bool),
    ]
    .into_iter()
    .fold(Env::standard(), |env, (name, ty)| env.with_variable(name, ty))
}

fn variables() -> Vec<(&'static str, Value<'static>)> {
    let text = || -> Value<'static> { "z".repeat(TEXT).into() };
    let nested = Value::map(vec![("a".into(), Value::map(vec![("b".into(), "0".into())]))]);
    vec![
        ("ints", Value::list(vec![Value::Int(1), Value::Int(2)])),
        ("texts", Value::map(vec![("key".into(), "v".into())])),
        ("nested", nested),
        ("objects", Value::list(vec![])),
        ("lists", Value::list(vec![])),
        ("text", text()),
        ("other", text()),
        ("short", "val1".into()),
        ("longer", "val2222222".into()),
        ("blob", Value::Bytes(vec![b'z'; TEXT].into())),
        ("x", Value::Int(1)),
        ("no", Value::Bool(false)),
        ("yes", Value::Bool(true)),
    ]
}

fn cost(env: &Env, expr: &str, limit: Option<u64>) -> (Result<(), EvalError>, u64) {
    let program = env.compile(expr).unwrap_or_else(|issues| panic!("{issues}")).plan().unwrap();
    let evaluation = program.eval(&variables(), limit);
    (evaluation.result.map(|_| ()), evaluation.cost)
}

#[test]
fn cel_go_figures() {
    let cases = [
        (r#""Hello World!""#, 0),
        ("ints", 1),
        ("texts['key']", 2),
        ("ints[0]", 2),
        ("nested.a", 2),
        ("texts['ke' + 'y']", 3),
        ("ints[3-3]", 3),
        ("has(nested.a)", 2),
        ("has(nested.a.b)", 3),
        ("[1, 2, 3]", 10),
        (r#"{"a": 1, "b": 2, "c": 3}"#, 30),
        ("objects.all(x, true)", 2),
        ("lists.all(x, x.all(y, true))", 2),
        ("[1, 2, 3].all(x, true)", 20),
        ("text.matches('[0-9]')", 103),
        ("'123'.matches('[0-9]')", 2),
        ("false || false", 0),
        ("no || no || no || no", 4),
        ("yes && yes && yes && yes", 4),
        ("1 < 2", 1),
        ("1 == 2", 1),
        ("2 in [1, 2, 3]", 13),
        ("1 + 1", 1),
        ("true ? 1 : 2", 0),
        (r#"size("123")"#, 1),
        ("'12345678901234567890' == '123456789012345678901234567890'", 2),
        ("string(blob)", 51),
        ("bytes(text)", 51),
        ("string(1)", 1),
        ("text.contains(other)", 2502),
        (r"text.matches('\\d+a\\d+b')", 103),
        ("short.startsWith(text)", 3),
        ("short.size()", 2),
        ("(x > 2 ? ints : [1]).all(y, true)", 16),
        ("(x > 2 ? objects : objects).all(y, true)", 3),
        ("true ? false : 1 > 3", 0),
        ("false ? false : 1 > 3", 1),
        ("(objects + objects).all(x, true)", 4),
        (r#""abcdefg".contains(short + longer)"#, 6),
        ("(1 > 2 ? 5 : 3) > 1", 2),
        ("(1 > 2 || 2 > 1) == true", 3),
        ("[{'k1': 1}, {'k2': 2}].all(x, true)", 77),
        ("[1,2,3,4,5].filter(x, x % 2 == 0)", 62),
        ("[1,2,3,4,5].map(x, x)", 86),
        ("[1,2,3,4,5].map(x, x).filter(x, x % 2 == 0)", 138),
        ("[1,2,3,4,5].map(x, x).exists(x, x == 5) == true", 118),
        ("[1,2,3,4,5].map(x, x).map(x, x)", 162),
        ("[1,2,3,4,5].map(x, [x, x]).filter(z, z.size() == 2)", 232),
        ("[1,2,3,4,5].map(x, [x, x]).all(y, y.all(y, y == 1))", 171),
        ("[1,2,3,4,5].map(x, x).map(x, x) + [1]", 173),
        ("[1,2,3].all(i, i in [1,2,3].map(j, j + j))", 86),
    ];
    let env = environment();
    for (expr, expected) in cases {
        assert_eq!(cost(&env, expr, None), (Ok(()), expected), "{expr}");
    }
}

#[test]
fn the_limit_ends_an_evaluation() {
    let env = environment();
    let expr = r#""abcdefg".contains(short + longer)"#;
    assert_eq!(cost(&env, expr, Some(6)), (Ok(()), 6));
    assert_eq!(cost(&env, expr, Some(5)).0, Err(EvalError::CostLimit));
    // No operator absorbs this error.
    assert_eq!(cost(&env, "ints.exists(i, i > 0 || true) || true", Some(3)).0, Err(EvalError::CostLimit));
}

#[test]
fn presence_tests_and_constants_are_free_in_kubernetes() {
    let cases = [
        ("has(nested.a)", 1),
        ("has(nested.a.b)", 2),
        ("[1, 2, 3]", 0),
        ("x in [1, 2, 3]", 1),
        ("short in ['val1', 'val2']", 1),
        ("x in [x, 2]", 14),
        ("duration('1h') < duration('2h')", 1),
        ("[1,2,3,4,5].map(x, x)", 66),
        ("ints.map(x, 1)", 6),
        ("ints.filter(x, x > 1)", 19),
    ];
    let env = environment().with_options(|options| {
        options.presence_test_has_cost = false;
        options.fold_constants = true;
    });
    for (expr, expected) in cases {
        assert_eq!(cost(&env, expr, None), (Ok(()), expected), "{expr}");
    }
}
