//! Trees with shapes: types of formats, sets and keyed lists, members that are null or not declared.

use std::sync::Arc;

use pintle_cel::env::Env;
use pintle_cel::shape::{Field, ListKind, ObjectShape, Shape, ShapeKind};
use pintle_cel::types::Type;
use pintle_cel::value::{Object, Value};
use pintle_value::json;

fn list(element: ShapeKind, list: ListKind) -> ShapeKind {
    ShapeKind::List { element: Arc::new(Shape::of(element)), list }
}

fn object(name: &str, fields: Vec<(&str, &str, ShapeKind)>) -> ShapeKind {
    let field = |(name, json, kind): (&str, &str, ShapeKind)| {
        (name.into(), Field { json: json.into(), shape: Arc::new(Shape::of(kind)), required: false })
    };
    ShapeKind::Object(Arc::new(ObjectShape {
        name: name.into(),
        fields: fields.into_iter().map(field).collect(),
    }))
}

fn shape() -> Arc<Shape> {
    let port = || object("Port", vec![("name", "name", ShapeKind::String), ("port", "port", ShapeKind::Int)]);
    let keys: Arc<[_]> = ["name".into()].into();
    Arc::new(Shape::of(object(
        "Self",
        vec![
            ("number", "number", ShapeKind::Double),
            ("count", "count", ShapeKind::Int),
            ("when", "when", ShapeKind::Timestamp),
            ("day", "day", ShapeKind::Timestamp),
            ("wait", "wait", ShapeKind::Duration),
            ("data", "data", ShapeKind::Bytes),
            ("intOrString", "intOrString", ShapeKind::Dyn),
            ("nothing", "nothing", ShapeKind::String),
            ("dash__dash__ed", "dash-ed", ShapeKind::String),
            ("plain", "plain", list(ShapeKind::Int, ListKind::Ordered)),
            ("set", "set", list(ShapeKind::String, ListKind::Set)),
            ("otherSet", "otherSet", list(ShapeKind::String, ListKind::Set)),
            ("ports", "ports", list(port(), ListKind::KeyedBy(keys.clone()))),
            ("otherPorts", "otherPorts", list(port(), ListKind::KeyedBy(keys))),
            ("labels", "labels", ShapeKind::Map { value: Arc::new(Shape::of(ShapeKind::String)) }),
            ("inner", "inner", object("Inner", vec![("a", "a", ShapeKind::Int)])),
            ("other", "other", object("Inner", vec![("a", "a", ShapeKind::Int)])),
        ],
    )))
}

const OBJECT: &str = r#"{
    "number": 3, "count": 2, "when": "2024-02-03T04:05:06Z", "day": "2024-02-03", "wait": "90s", "data": "YWJj",
    "intOrString": "5%", "nothing": null, "dash-ed": "yes", "plain": [1, 2], "set": ["a", "b"], "otherSet": ["b", "c"],
    "ports": [{"name": "x", "port": 1}, {"name": "y", "port": 2}],
    "otherPorts": [{"name": "y", "port": 2}, {"name": "x", "port": 1}],
    "labels": {"app": "db"}, "inner": {"a": 1, "hidden": 2}, "other": {"a": 1, "hidden": 3}
}"#;

#[test]
fn shaped_trees() {
    let cases = [
        ("self.number == 3.0 && type(self.number) == double", "true"),
        ("self.count / 2 == 1", "true"),
        ("self.when.getMinutes() == 5", "true"),
        ("self.day == timestamp('2024-02-03T00:00:00Z')", "true"),
        ("self.wait == duration('1m30s')", "true"),
        ("self.data == b'abc'", "true"),
        ("self.intOrString == '5%' || self.intOrString == 5", "true"),
        ("type(self.intOrString) == string ? self.intOrString.endsWith('%') : false", "true"),
        ("has(self.nothing)", "false"),
        ("self.nothing", "no such key: nothing"),
        ("self.dash__dash__ed", "yes"),
        ("has(self.dash__dash__ed)", "true"),
        ("self.plain == [1, 2]", "true"),
        ("[1, 2] == self.plain", "true"),
        ("self.plain == [2, 1]", "false"),
        ("self.plain + [3] == [1, 2, 3]", "true"),
        ("self.plain[1]", "2"),
        ("2 in self.plain && !(5 in self.plain)", "true"),
        ("self.set == ['b', 'a']", "true"),
        ("['b', 'a'] == self.set", "false"),
        ("self.set + self.otherSet", "[a, b, c]"),
        ("self.set + self.otherSet == ['c', 'b', 'a']", "true"),
        ("self.ports == self.otherPorts", "true"),
        ("(self.ports + self.otherPorts).size()", "2"),
        ("self.ports + self.otherPorts == self.ports", "true"),
        ("self.ports.map(p, p.port)", "[1, 2]"),
        ("self.labels.app", "db"),
        ("'app' in self.labels && !('x' in self.labels)", "true"),
        ("self.labels == {'app': 'db'}", "true"),
        ("self.labels.map(k, k)", "[app]"),
        ("self.inner == self.other", "false"),
        ("self.inner.a == self.other.a", "true"),
        ("type(self.inner) == map", "true"),
        ("self.?nothing.orValue('default')", "default"),
        ("self.?inner.?a.orValue(7)", "1"),
        ("self.labels[?'x'].hasValue()", "false"),
    ];
    let shape = shape();
    let env = Env::kubernetes().with_shape("self", shape.clone());
    let tree = json::parse(OBJECT.as_bytes()).unwrap().value;
    let this = Value::read(&tree, &shape).unwrap();
    for (expr, expected) in cases {
        let program = env.compile(expr).unwrap_or_else(|issues| panic!("{issues}")).plan().unwrap();
        let found = match program.eval(&[("self", this.clone())], None).result {
            Ok(value) => value.to_string(),
            Err(err) => err.to_string(),
        };
        assert_eq!(found, expected, "{expr}");
    }
}

#[test]
fn pieces_that_are_not_of_their_shape() {
    let cases = [
        (r#""x""#, ShapeKind::Int, "invalid data, expected int, got string"),
        ("1.5", ShapeKind::Int, "invalid data, expected int, got float64"),
        ("1", ShapeKind::String, "invalid data, expected string, got int64"),
        ("[]", ShapeKind::Double, "invalid data, expected float, got []interface {}"),
        ("{}", ShapeKind::Bool, "invalid data, expected bool, got map[string]interface {}"),
        (
            "1",
            list(ShapeKind::Int, ListKind::Ordered),
            "invalid data, expected an array for the provided schema with type=array",
        ),
        ("1", object("A", vec![]), "invalid data, expected a map for the provided schema with type=object"),
    ];
    for (text, kind, expected) in cases {
        let tree = json::parse(text.as_bytes()).unwrap().value;
        let shape = Shape::of(kind);
        assert_eq!(Value::read(&tree, &shape).unwrap_err().to_string(), expected, "{text}");
    }
}

/// kube-apiserver's `lazy.MapValue`: declared as a map, but none at run time.
#[test]
fn lazy_maps() {
    let env = Env::kubernetes().with_variable("claims", Type::map(Type::String, Type::Any));
    let tree = json::parse(br#"{"sub": "x", "a.b": "dotted"}"#).unwrap();
    let members = tree.value.as_object().unwrap();
    for (text, expected) in [
        ("'sub' in claims", None),
        ("size(claims) > 0", None),
        ("claims == {}", None),
        ("claims != {}", Some(true)),
        ("{} == claims", Some(false)),
        ("{'sub': claims.sub, 'a__dot__b': claims['a.b']} == claims", Some(true)),
        ("claims == claims", Some(true)),
        ("type(claims) == map", Some(false)),
        ("claims.exists(value, value == 'dotted')", Some(true)),
        ("claims.exists(value, value == 'sub')", Some(false)),
        ("claims.exists(key, value, key == 'dotted')", Some(true)),
        ("claims.exists(key, value, value == 'dotted')", None),
        ("optional.of(claims).?sub.hasValue()", None),
        ("claims[?'sub'].hasValue()", Some(true)),
        ("claims['a__' + 'dot__b'] == 'dotted'", Some(true)),
        ("claims[dyn(1)] == 'x'", None),
    ] {
        let program = env.compile(text).unwrap_or_else(|issues| panic!("{text}: {issues}")).plan().unwrap();
        let claims = Value::Object(Object::Lazy(members, "kubernetes.claims"));
        let result = program.eval(&[("claims", claims)], None).result;
        let found = result.ok().map(|value| matches!(value, Value::Bool(true)));
        assert_eq!(found, expected, "{text}");
    }
}
