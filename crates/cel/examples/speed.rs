//! Measures how long typical validation rules take to compile and to evaluate: `cargo run --release -p pintle-cel
//! --example speed`.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "it prints, and fails loudly")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use pintle_cel::env::Env;
use pintle_cel::shape::{Field, ListKind, ObjectShape, Shape, ShapeKind};
use pintle_cel::value::Value;
use pintle_value::json;

const RULES: [&str; 10] = [
    "self.minReplicas <= self.replicas && self.replicas <= self.maxReplicas",
    "self.replicas >= 0 ? self.replicas <= 100 : false",
    "!has(self.host) || self.host.matches('^[a-z0-9.-]+$')",
    "self.mode in ['Always', 'Never', 'IfNotPresent']",
    "self.ports.all(p, p.port > 0 && p.port < 65536)",
    "self.ports.exists(p, p.name == 'metrics')",
    "self.ports.filter(p, p.name.startsWith('m')).map(p, p.port).size() == 1",
    "self.ports.all(p, self.ports.exists_one(q, q.name == p.name))",
    "self.labels.all(k, size(k) < 64 && size(self.labels[k]) < 64)",
    "self == oldSelf",
];

const OBJECT: &str = r#"{
    "minReplicas": 1, "replicas": 3, "maxReplicas": 10, "host": "db.example.com", "mode": "IfNotPresent",
    "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}, {"name": "metrics", "port": 9090}],
    "labels": {"app": "db", "tier": "backend", "owner": "team-a"}
}"#;

fn main() {
    let shape = object_shape();
    let env = Env::kubernetes().with_shape("self", shape.clone()).with_shape("oldSelf", shape.clone());
    let object = json::parse(OBJECT.as_bytes()).expect("the object is well-formed").value;
    let old = object.clone();
    println!("| rule | compile µs | evaluate ns | cost |\n| --- | --- | --- | --- |");
    for rule in RULES {
        let program = env
            .compile(rule)
            .unwrap_or_else(|issues| panic!("{issues}"))
            .plan()
            .expect("the rule can be planned");
        let this = Value::read(&object, &shape).expect("the object has the shape");
        let before = Value::read(&old, &shape).expect("the object has the shape");
        let variables = [("self", this), ("oldSelf", before)];
        let compile = per_round(|| {
            black_box(env.compile(black_box(rule)).is_ok_and(|checked| checked.plan().is_ok()));
        });
        let evaluate = per_round(|| {
            black_box(program.eval(black_box(&variables), Some(1_000_000)).result.is_ok());
        });
        let evaluation = program.eval(&variables, None);
        evaluation.result.expect("the rule can be evaluated");
        println!("| `{rule}` | {:.1} | {:.0} | {} |", compile * 1e6, evaluate * 1e9, evaluation.cost);
    }
}

/// Seconds per call: the best of many short runs, which other load disturbs least.
fn per_round(mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..2_000 {
        let start = Instant::now();
        for _ in 0..32 {
            work();
        }
        best = best.min(start.elapsed().as_secs_f64() / 32.0);
    }
    best
}

fn object_shape() -> Arc<Shape> {
    let port = object("self.ports.@idx", vec![("name", ShapeKind::String), ("port", ShapeKind::Int)]);
    let ports = ShapeKind::List { element: Arc::new(Shape::of(port)), list: ListKind::Ordered };
    let labels = ShapeKind::Map { value: Arc::new(Shape::of(ShapeKind::String)) };
    let fields = vec![
        ("minReplicas", ShapeKind::Int),
        ("replicas", ShapeKind::Int),
        ("maxReplicas", ShapeKind::Int),
        ("host", ShapeKind::String),
        ("mode", ShapeKind::String),
        ("ports", ports),
        ("labels", labels),
    ];
    Arc::new(Shape::of(object("self", fields)))
}

fn object(name: &str, fields: Vec<(&str, ShapeKind)>) -> ShapeKind {
    let field = |(name, kind): (&str, ShapeKind)| {
        (name.into(), Field { json: name.into(), shape: Arc::new(Shape::of(kind)), required: false })
    };
    ShapeKind::Object(Arc::new(ObjectShape {
        name: name.into(),
        fields: fields.into_iter().map(field).collect(),
    }))
}
