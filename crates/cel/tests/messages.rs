//! Errors at compile time, with cel-go's messages.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_cel::env::Env;
use pintle_cel::library::{bindings, math};
use pintle_cel::shape::{Field, ObjectShape, Shape, ShapeKind};
use pintle_cel::types::Type;

/// The tokens that can begin an operand.
const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

fn environment() -> Env {
    let field = |kind| Field { json: "".into(), shape: Arc::new(Shape::of(kind)), required: false };
    let fields = BTreeMap::from([
        ("name".into(), field(ShapeKind::String)),
        ("count".into(), field(ShapeKind::Int)),
        (
            "tags".into(),
            field(ShapeKind::List {
                element: Arc::new(Shape::of(ShapeKind::String)),
                list: pintle_cel::shape::ListKind::Ordered,
            }),
        ),
    ]);
    let object = ShapeKind::Object(Arc::new(ObjectShape { name: "Widget".into(), fields }));
    Env::kubernetes()
        .with_shape("self", Arc::new(Shape::of(object)))
        .with_variable("any", Type::Dyn)
        .with_variable("maybe", Type::optional(Type::Int))
}

/// The errors as `column message`, one per line; source excerpts have their own test.
fn messages(env: &Env, expr: &str) -> String {
    match env.compile(expr) {
        Ok(checked) => format!("fine: {}", checked.output_type()),
        Err(issues) => {
            let line = |issue: &pintle_cel::issue::Issue| {
                let column = issue.offset.map_or_else(|| "-".into(), |offset| (offset + 1).to_string());
                format!("{column} {}", issue.message)
            };
            issues.list().iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

fn check(cases: &[(&str, &str)]) {
    let env = environment();
    for (expr, expected) in cases {
        assert_eq!(messages(&env, expr), expected.replace("OPERAND", OPERAND), "{expr}");
    }
}

#[test]
fn syntax() {
    check(&[
        ("self.count ==", "14 Syntax error: mismatched input '<EOF>' expecting OPERAND"),
        ("", "1 Syntax error: mismatched input '<EOF>' expecting OPERAND"),
        ("// nothing", "11 Syntax error: mismatched input '<EOF>' expecting OPERAND"),
        (
            "self.count = 1",
            "12 Syntax error: token recognition error at: '= '\n14 Syntax error: extraneous input '1' expecting <EOF>",
        ),
        ("any =", "5 Syntax error: token recognition error at: '='"),
        ("(self.count == 1", "17 Syntax error: missing ')' at '<EOF>'"),
        ("any[1", "6 Syntax error: missing ']' at '<EOF>'"),
        ("[1, 2", "6 Syntax error: mismatched input '<EOF>' expecting {']', ','}"),
        ("{1 2}", "4 Syntax error: missing ':' at '2'"),
        ("any ? 1", "8 Syntax error: mismatched input '<EOF>' expecting ':'"),
        ("any == any)", "11 Syntax error: extraneous input ')' expecting <EOF>"),
        ("self.count == 1 self.name == 'a'", "17 Syntax error: mismatched input 'self' expecting <EOF>"),
        (
            "self.name == 'a",
            "14 Syntax error: token recognition error at: ''a'\n16 Syntax error: mismatched input '<EOF>' expecting OPERAND",
        ),
        (
            "self.name == '\\q'",
            "14 Syntax error: token recognition error at: ''\\q'\n17 Syntax error: token recognition error at: '''\n\
             18 Syntax error: mismatched input '<EOF>' expecting OPERAND",
        ),
        (
            "self.in == 'a'",
            "6 Syntax error: no viable alternative at input '.in'\n9 Syntax error: extraneous input '==' expecting OPERAND",
        ),
        ("self.true", "6 Syntax error: mismatched input 'true' expecting IDENTIFIER"),
        ("self.", "6 Syntax error: no viable alternative at input '.'"),
        ("1 + + 2", "5 Syntax error: extraneous input '+' expecting OPERAND"),
        (
            "-1 any",
            "1 Syntax error: no viable alternative at input '-'\n4 Syntax error: extraneous input 'any' expecting <EOF>",
        ),
        (
            "if (any) { 1 }",
            "1 reserved identifier: if\n10 Syntax error: mismatched input '{' expecting <EOF>",
        ),
    ]);
}

#[test]
fn after_parsing() {
    check(&[
        ("while == 1", "1 reserved identifier: while"),
        ("for(unknown)", "1 reserved identifier: for"),
        ("9223372036854775808 > 1", "1 invalid int literal"),
        ("-9223372036854775808 < 1", "fine: bool"),
        ("18446744073709551616u > 1u", "1 invalid uint literal"),
        ("1e999 > 1.0", "1 invalid double literal"),
        ("b'\\u0041' == b''", "1 unable to unescape string"),
        ("'\\ud800' == ''", "1 invalid unicode code point"),
        ("self.`name` == ''", "6 unsupported syntax: '`'"),
        ("has(self)", "5 invalid argument to has() macro"),
        ("has(self.tags[0])", "14 invalid argument to has() macro"),
        ("self.tags.all(self.name, true)", "19 argument must be a simple name"),
        ("self.tags.map(1, true)", "15 argument is not an identifier"),
        ("self.tags.all(__result__, true)", "15 iteration variable overwrites accumulator variable"),
        ("self.tags.all(a, a, true)", "18 duplicate variable name: a"),
        ("maybe.optMap(1, 2)", "14 optMap() variable name must be a simple identifier"),
        (
            "self.tags.all(t)",
            "14 undeclared reference to 'all' (in container '')\n15 undeclared reference to 't' (in container '')",
        ),
    ]);
    let env = environment().with_library(bindings()).with_library(math::library(u32::MAX));
    for (expr, expected) in [
        ("cel.bind(1, 2, 3)", "10 cel.bind() variable names must be simple identifiers"),
        ("math.greatest()", "1 math.greatest() requires at least one argument"),
        ("math.least('a')", "12 math.least() invalid single argument value"),
        ("math.least(1, 'a')", "15 math.least() simple literal arguments must be numeric"),
    ] {
        assert_eq!(messages(&env, expr), expected, "{expr}");
    }
}

#[test]
fn types() {
    check(&[
        ("foo == 'a'", "1 undeclared reference to 'foo' (in container '')"),
        ("self.nam == 'a'", "5 undefined field 'nam'"),
        ("self.foo == 1 && self.bar == 2", "5 undefined field 'foo'\n22 undefined field 'bar'"),
        ("self.count.x == 1", "11 type 'int' does not support field selection"),
        (
            "self.name + self.count == 'a'",
            "11 found no matching overload for '_+_' applied to '(string, int)'",
        ),
        ("self.name.frobnicate()", "21 undeclared reference to 'frobnicate' (in container '')"),
        (
            "self.count.startsWith('a')",
            "22 found no matching overload for 'startsWith' applied to 'int.(string)'",
        ),
        (
            "self.name ? true : false",
            "11 found no matching overload for '_?_:_' applied to '(string, bool, bool)'",
        ),
        ("self.count && true", "5 expected type 'bool' but found 'int'"),
        ("self.count == null", "12 found no matching overload for '_==_' applied to '(int, null)'"),
        ("self == null", "fine: bool"),
        (
            "self.count == maybe",
            "12 found no matching overload for '_==_' applied to '(int, optional_type(int))'",
        ),
        (
            "self.count.all(x, true)",
            "5 expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("self.tags.all(t, t)", "18 expected type 'bool' but found 'string'"),
        ("[1, 'a']", "5 expected type 'int' but found 'string'"),
        ("[?1]", "3 expected type 'optional_type(int)' but found 'int'"),
        ("{'a': 1, 'b': 'c'}", "15 expected type 'int' but found 'string'"),
        ("Widget{name: 1}", "12 expected type of field 'name' is 'string' but provided type is 'int'"),
        ("Widget{nope: 1}.name", "12 undefined field 'nope'"),
        ("int{}", "4 'int' is not a message type"),
        ("self{}", "5 'Widget' is not a type"),
        ("any.anything.at.all() == 1", "20 undeclared reference to 'all' (in container '')"),
        ("1.5 > 1 && 2u < 3", "fine: bool"),
        ("self.tags.map(t, t.size())", "fine: list(int)"),
        ("self.tags.transformMap(i, t, t)", "fine: map(int, string)"),
        ("maybe.optMap(m, string(m))", "fine: optional_type(string)"),
        ("self.?name", "fine: optional_type(string)"),
        ("[]", "fine: list(dyn)"),
        ("type(self)", "fine: type(Widget)"),
    ]);
}

#[test]
fn literals() {
    check(&[
        ("duration('1 hour') > duration('1h')", "10 invalid duration argument"),
        ("timestamp('2020-01-01') < timestamp('2020-01-01T00:00:00Z')", "11 invalid timestamp argument"),
        ("self.name.matches('(')", "19 invalid matches argument"),
        ("self.name.matches('(?=a)b')", "19 invalid matches argument"),
        ("[any, 1]", "7 expected type 'dyn' but found 'int'"),
        ("[1, 'a']", "5 expected type 'int' but found 'string'"),
        ("'%s %d'.format(['a', 1])", "fine: string"),
    ]);
}

/// cel-go loses the setting that disables such comparisons in the scope of a macro.
#[test]
fn numbers_of_two_kinds() {
    let env = Env::standard();
    assert_eq!(
        messages(&env, "1 < 1.5"),
        "3 found no matching overload for '_<_' applied to '(int, double)'"
    );
    assert_eq!(messages(&env, "[1].all(x, true) && 1 < 1.5"), "fine: bool");
}

#[test]
fn containers() {
    let env = Env::standard()
        .with_container("a.b")
        .with_variable("a.b.x", Type::Int)
        .with_variable("a.x", Type::String)
        .with_variable("x", Type::Bool);
    assert_eq!(messages(&env, "x"), "fine: int");
    assert_eq!(messages(&env, ".x"), "fine: bool");
    assert_eq!(messages(&env, "a.x"), "fine: string");
    assert_eq!(messages(&env, "y"), "1 undeclared reference to 'y' (in container 'a.b')");
}

/// On a larger stack: an unoptimized build needs more than a test's thread has.
#[test]
fn limits() {
    let thread = std::thread::Builder::new().stack_size(16 << 20).spawn(check_limits);
    thread.unwrap().join().unwrap();
}

fn check_limits() {
    let env = environment();
    let nested = |depth| format!("{}true{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(messages(&env, &nested(249)), "fine: bool");
    assert_eq!(messages(&env, &nested(250)), "- expression recursion limit exceeded: 250");
    let sum = |terms: usize| vec!["1"; terms].join("+");
    assert_eq!(messages(&env, &sum(251)), "fine: int");
    assert_eq!(messages(&env, &sum(252)), "- max recursion depth exceeded");
    assert_eq!(messages(&env, &vec!["true"; 10_000].join("&&")), "fine: bool");
    assert_eq!(
        messages(&env, &" ".repeat(100_001)),
        "- expression code point size exceeds limit: size: 100001, limit 100000"
    );
    // The copies of a macro's target double with each call.
    let copied = format!("maybe{}", ".optMap(x, x)".repeat(40));
    assert_eq!(messages(&env, &copied), "- expression size exceeds limit: 1000000");
}
