//! Random expressions: compiling, estimating and evaluating them ends within the budget, with the same result each time.

mod pieces;

use super::Input;
use crate::fixture::{Fixture, parsed};
use crate::random::Random;
use pieces::{DOCUMENTS, NESTINGS, TEMPLATES, WORDS};
use pintle_cel::cost::{CostModel, Node, SizeEstimate, size_on_path};
use pintle_cel::env::Env;
use pintle_cel::library::kubernetes::cost::Kubernetes;
use pintle_cel::program::Program;
use pintle_cel::shape::{Field, ListKind, ObjectShape, Shape, ShapeKind};
use pintle_cel::types::Type;
use pintle_cel::value::{EvalError, Value as CelValue};
use pintle_value::{Value, yaml};
use std::sync::{Arc, LazyLock, OnceLock};

/// Kubernetes' cost limit of one expression.
const COST_MAX: u64 = 1_000_000;
/// Expressions that cost at most this are evaluated again with other limits.
const REPEATED_COST_MAX: u64 = 20_000;
/// Longer expressions are not combined with others.
const SEED_BYTES_MAX: usize = 4 << 10;
const CONFORMANCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cel/tests/conformance.jsonl");

/// The expressions that are combined: the language's conformance tests, and the rules of the transcripts.
fn expressions(fixture: &Fixture) -> &'static [String] {
    static EXPRESSIONS: OnceLock<Vec<String>> = OnceLock::new();
    EXPRESSIONS.get_or_init(|| {
        let cases = std::fs::read_to_string(CONFORMANCE).unwrap_or_default();
        let cases = cases.lines().filter_map(|line| parsed(line.as_bytes()));
        let bodies = fixture.bodies.iter().filter_map(|body| Some(yaml::parse(body).ok()?.value));
        let mut out = Vec::new();
        cases.chain(bodies).for_each(|found| collect_expressions(&found, &mut out));
        out.sort();
        out.dedup();
        out
    })
}

fn collect_expressions(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, member) in map.iter() {
                match member.as_str() {
                    Some(text) if ["expr", "rule", "messageExpression", "expression"].contains(&&**key) => {
                        out.push(text.to_owned());
                    }
                    _ => collect_expressions(member, out),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_expressions(item, out)),
        _ => {}
    }
}

/// An expression, mostly a combination of others, and its object.
pub(super) fn seed(fixture: &Fixture, random: &mut Random) -> Input {
    let known = expressions(fixture);
    let some = |random: &mut Random| random.pick(known).cloned().unwrap_or_default();
    let mut text = some(random);
    for _ in 0..random.below(5) {
        if text.len() > SEED_BYTES_MAX {
            break;
        }
        text = match random.below(8) {
            0 | 1 => {
                let other = some(random);
                fill_template(random.word(TEMPLATES), &text, &other)
            }
            2 => {
                let other = random.word(WORDS);
                fill_template(random.word(TEMPLATES), other, &text)
            }
            3 if random.one_in(8) => {
                let (before, after) = random.pick(NESTINGS).copied().unwrap_or_default();
                let times = 1 << random.below(11);
                format!("{}{text}{}", before.repeat(times), after.repeat(times))
            }
            4 | 5 => {
                let with = random.word(WORDS);
                exchanged(random, &text, with)
            }
            _ => {
                let other = some(random);
                let with = random.pick(&tokens(&other)).copied().unwrap_or_default().to_owned();
                exchanged(random, &text, &with)
            }
        };
    }
    vec![text.into(), random.word(DOCUMENTS).into()]
}

fn fill_template(template: &str, a: &str, b: &str) -> String {
    let mut out = String::new();
    for token in tokens(template) {
        out.push_str(match token {
            "A" => a,
            "B" => b,
            other => other,
        });
    }
    out
}

/// Replaces one word of the expression by another.
fn exchanged(random: &mut Random, text: &str, with: &str) -> String {
    let mut tokens = tokens(text);
    let at = random.below(tokens.len());
    if let Some(token) = tokens.get_mut(at) {
        *token = with;
    }
    tokens.concat()
}

/// Splits into words, quoted texts, and single characters.
fn tokens(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let end = match first {
            '\'' | '"' => rest.get(1..).and_then(|rest| rest.find(first)).map(|at| at + 2),
            first if is_word(first) => rest.find(|c| !is_word(c)).or(Some(rest.len())),
            _ => None,
        };
        let (token, after) = rest.split_at(end.unwrap_or(first.len_utf8()));
        out.push(token);
        rest = after;
    }
    out
}

/// An object with a field of every kind.
static SHAPE: LazyLock<Arc<Shape>> = LazyLock::new(|| {
    let bounded = |kind: ShapeKind| Arc::new(Shape { max_elements: 100, ..Shape::of(kind) });
    let object = |name: &str, fields: Vec<(&str, ShapeKind)>| {
        let field = |(name, kind): (&str, ShapeKind)| {
            (name.into(), Field { json: name.into(), shape: bounded(kind), required: false })
        };
        let fields = fields.into_iter().map(field).collect();
        ShapeKind::Object(Arc::new(ObjectShape { name: name.into(), fields }))
    };
    let list = |element, list| ShapeKind::List { element: bounded(element), list };
    let port = object("Port", vec![("name", ShapeKind::String), ("port", ShapeKind::Int)]);
    bounded(object(
        "Self",
        vec![
            ("a", ShapeKind::Int),
            ("b", ShapeKind::Double),
            ("text", ShapeKind::String),
            ("list", list(ShapeKind::Int, ListKind::Ordered)),
            ("set", list(ShapeKind::String, ListKind::Set)),
            ("ports", list(port, ListKind::KeyedBy(["name".into()].into()))),
            ("map", ShapeKind::Map { value: bounded(ShapeKind::String) }),
            ("when", ShapeKind::Timestamp),
            ("wait", ShapeKind::Duration),
            ("data", ShapeKind::Bytes),
            ("any", ShapeKind::Dyn),
            ("inner", object("Inner", vec![("a", ShapeKind::Int)])),
        ],
    ))
});
static ANY: LazyLock<Arc<Shape>> = LazyLock::new(|| Arc::new(Shape::of(ShapeKind::Dyn)));

struct Sizes<'a>(&'a Shape);

impl CostModel for Sizes<'_> {
    fn estimate_size(&self, node: &Node<'_>) -> Option<SizeEstimate> {
        size_on_path(self.0, &node.path)
    }
}

pub(super) fn check(_: &Fixture, input: &Input) -> Result<(), String> {
    let Some(text) = input.first().and_then(|bytes| std::str::from_utf8(bytes).ok()) else { return Ok(()) };
    let document = input.get(1).and_then(|bytes| parsed(bytes)).unwrap_or_default();
    // With types, and without.
    for shape in [&*SHAPE, &*ANY] {
        let env = Env::kubernetes()
            .with_shape("self", shape.clone())
            .with_shape("oldSelf", shape.clone())
            .with_variable("x", Type::Dyn)
            .with_variable("text", Type::String);
        let program = match env.compile(text) {
            Ok(checked) => {
                let estimate = checked.estimate(&Kubernetes(Sizes(shape)));
                if estimate.min > estimate.max {
                    return Err(format!("costs {} at least, {} at most", estimate.min, estimate.max));
                }
                checked.plan()
            }
            Err(issues) if issues.to_string().is_empty() => return Err("a mistake without words".into()),
            Err(_) => match env.parse(text) {
                Ok(ast) => env.plan_unchecked(&ast),
                Err(_) => return Ok(()),
            },
        };
        let Ok(program) = program else { continue };
        let Ok(this) = CelValue::read(&document, shape) else { continue };
        run(&program, &this)?;
    }
    Ok(())
}

fn run<'a>(program: &'a Program, this: &CelValue<'a>) -> Result<(), String> {
    let variables = [
        ("self", this.clone()),
        ("oldSelf", this.clone()),
        ("x", CelValue::Int(1)),
        ("text", "abcab12".into()),
    ];
    let outcome = |limit: u64| {
        let evaluation = program.eval(&variables, Some(limit));
        (evaluation.result.map(|value| value.to_string()), evaluation.cost)
    };
    let (result, cost) = outcome(COST_MAX);
    if result.is_ok() && cost > COST_MAX {
        return Err(format!("has a result for {cost}"));
    }
    if result.is_err() || cost > REPEATED_COST_MAX {
        return Ok(());
    }
    super::same("with just enough to spend", &outcome(cost), &(result, cost))?;
    match cost.checked_sub(1).map(outcome) {
        None | Some((Err(EvalError::CostLimit), _)) => Ok(()),
        Some((result, _)) => Err(format!("costs {cost}, and with less to spend gives {result:?}")),
    }
}
