//! Errors at run time, with cel-go's messages.

use pintle_cel::env::Env;
use pintle_cel::types::Type;
use pintle_cel::value::Value;

fn check(cases: &[(&str, &str)]) {
    let variables: Vec<(&str, Type, Value<'_>)> = vec![
        ("zero", Type::Int, Value::Int(0)),
        ("max", Type::Int, Value::Int(i64::MAX)),
        ("min", Type::Int, Value::Int(i64::MIN)),
        ("one", Type::Uint, Value::Uint(1)),
        ("list", Type::list(Type::Int), Value::list(vec![Value::Int(1), Value::Int(0)])),
        ("map", Type::map(Type::String, Type::Int), Value::map(vec![("a".into(), Value::Int(1))])),
        ("text", Type::String, "abc".into()),
        ("any", Type::Dyn, "abc".into()),
        ("none", Type::Dyn, Value::Null),
    ];
    let env =
        variables.iter().fold(Env::kubernetes(), |env, (name, ty, _)| env.with_variable(name, ty.clone()));
    let values: Vec<_> = variables.iter().map(|(name, _, value)| (*name, value.clone())).collect();
    for (expr, expected) in cases {
        let checked = env.compile(expr).unwrap_or_else(|issues| panic!("{issues}"));
        let found = match checked.plan() {
            Ok(program) => match program.eval(&values, None).result {
                Ok(value) => format!("no error: {value}"),
                Err(err) => err.to_string(),
            },
            Err(err) => err.to_string(),
        };
        assert_eq!(found, *expected, "{expr}");
    }
}

#[test]
fn numbers() {
    check(&[
        ("1 / zero", "division by zero"),
        ("1 % zero", "modulus by zero"),
        ("max + 1", "integer overflow"),
        ("max * 2", "integer overflow"),
        ("min - 1", "integer overflow"),
        ("-min", "integer overflow"),
        ("min / -1", "integer overflow"),
        ("one - 2u", "unsigned integer overflow"),
        ("one / 0u", "division by zero"),
        ("uint(min)", "unsigned integer overflow"),
        ("int(1e30 * double(one))", "integer overflow"),
        ("dyn(text) < 1.0", "no such overload"),
        ("any + zero", "no such overload"),
        ("none + 1", "no such overload: _+_"),
        ("none < 1", "no such overload: _<_"),
        ("!any", "no such overload"),
        ("any && true", "no such overload"),
    ]);
}

#[test]
fn lookups() {
    check(&[
        ("list[2]", "index out of bounds: 2"),
        ("list[-1]", "index out of bounds: -1"),
        ("list[int(one) + 4]", "index out of bounds: 5"),
        ("map.b", "no such key: b"),
        ("map['b']", "no such key: b"),
        ("any.b", "no such key: b"),
        ("none.b", "no such key: b"),
        ("map.?b.value()", "optional.none() dereference"),
        ("size(any.b)", "no such key: b"),
    ]);
}

#[test]
fn conversions() {
    check(&[
        ("int(text)", "type conversion error from 'string' to 'int'"),
        ("double(text)", "type conversion error from 'string' to 'double'"),
        ("bool(text)", "type conversion error from 'string' to 'bool'"),
        ("duration(text)", "type conversion error from 'string' to 'google.protobuf.Duration'"),
        ("timestamp(text)", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("int('x')", "type conversion error from 'string' to 'int'"),
        ("timestamp(max)", "timestamp overflow"),
        ("timestamp('0001-01-01T00:00:00Z') - duration('24h') < timestamp(0)", "timestamp overflow"),
        ("timestamp(0).getHours(text)", "unknown time zone abc"),
        ("timestamp(0).getHours('a:b' + text)", "strconv.Atoi: parsing \"a\": invalid syntax"),
        ("int(none)", "no such overload: int(null_type)"),
        ("text.matches(text + '(')", "error parsing regexp: missing closing ): `abc(`"),
        ("none.size()", "no such overload: size"),
        ("any.contains(none)", "no such overload"),
    ]);
}

#[test]
fn logic_and_loops() {
    check(&[
        ("list.all(x, 1 / x > 0)", "division by zero"),
        ("list.exists(x, 1 / x > 5)", "division by zero"),
        ("list.exists(x, 1 / x == 1)", "no error: true"),
        ("list.all(x, 1 / x > 5)", "no error: false"),
        ("list.map(x, 1 / x)", "division by zero"),
        ("list.exists_one(x, 1 / x == 1)", "division by zero"),
        ("1 / zero == 1 || true", "no error: true"),
        ("true || 1 / zero == 1", "no error: true"),
        ("1 / zero == 1 && false", "no error: false"),
        ("1 / zero == 1 && 1 % zero == 1", "division by zero"),
        ("zero == 0 ? 1 / zero == 1 : true", "division by zero"),
        ("any.all(x, x)", "got 'types.String', expected iterable type"),
    ]);
}
