//! The static estimates, compared with cel-go's.

use std::collections::HashMap;

use pintle_cel::cost::{CallEstimate, CostEstimate, CostModel, Node, SizeEstimate};
use pintle_cel::env::Env;
use pintle_cel::library::{bindings, two_variable};
use pintle_cel::types::Type;

/// Sizes by path; the year of a time costs seven.
struct Hints(HashMap<String, u64>);

impl CostModel for Hints {
    fn estimate_size(&self, node: &Node<'_>) -> Option<SizeEstimate> {
        let max = *self.0.get(&node.path.join("."))?;
        Some(SizeEstimate { min: 0, max })
    }

    fn estimate_call(
        &self,
        _function: &str,
        overload: &str,
        _target: Option<&Node<'_>>,
        _args: &[Node<'_>],
    ) -> Option<CallEstimate> {
        (overload == "timestamp_to_year").then(|| CallEstimate::of(CostEstimate::fixed(7)))
    }
}

#[test]
fn figures() {
    let env = [
        ("text", Type::String),
        ("other", Type::String),
        ("blob", Type::Bytes),
        ("time", Type::Timestamp),
        ("list", Type::list(Type::Int)),
        ("lists", Type::list(Type::list(Type::Int))),
        ("map", Type::map(Type::String, Type::map(Type::String, Type::Int))),
        ("a", Type::Bool),
        ("b", Type::Bool),
    ]
    .into_iter()
    .fold(Env::standard(), |env, (name, ty)| env.with_variable(name, ty))
    .with_library(two_variable::library())
    .with_library(bindings());
    let hints =
        [("text", 500), ("other", 500), ("blob", 500), ("list", 100), ("lists", 50), ("lists.@items", 10)];
    let model = Hints(hints.into_iter().map(|(path, size)| (path.to_owned(), size)).collect());
    let cases = [
        ("'Hello World!'", 0, 0),
        ("list", 1, 1),
        ("map['key']", 2, 2),
        ("has(map.x.y)", 3, 3),
        ("time.getFullYear()", 8, 8),
        ("[1, 2, 3]", 10, 10),
        ("{'a': 1}", 30, 30),
        ("list.all(x, true)", 2, 302),
        ("lists.all(x, x.all(y, true))", 2, 1752),
        ("[1, 2, 3].all(x, true)", 20, 20),
        ("text.matches('[0-9]')", 3, 103),
        ("'123'.matches('[0-9]')", 2, 2),
        ("a || b || a || b", 1, 4),
        ("2 in [1, 2, 3]", 13, 13),
        ("1 == 2", 1, 1),
        ("string(blob)", 1, 51),
        ("string(blob) == string(blob)", 3, 152),
        ("bytes(text) == bytes(text)", 3, 302),
        ("text.contains(other)", 2, 2502),
        ("text.startsWith(other)", 2, 52),
    ];
    for (expr, min, max) in cases {
        let checked = env.compile(expr).unwrap_or_else(|issues| panic!("{issues}"));
        assert_eq!(checked.estimate(&model), CostEstimate { min, max }, "{expr}");
    }
    let free = env.with_options(|options| options.presence_test_has_cost = false);
    let checked = free.compile("has(map.x.y)").unwrap_or_else(|issues| panic!("{issues}"));
    assert_eq!(checked.estimate(&model), CostEstimate::fixed(2));
}
