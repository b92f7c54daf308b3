//! A validation rule over an object of a known shape: its estimated cost, its actual cost, and its result.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_cel::cost::{CostModel, Node, SizeEstimate, size_on_path};
use pintle_cel::env::Env;
use pintle_cel::library::kubernetes::cost::Kubernetes;
use pintle_cel::shape::{Field, ListKind, ObjectShape, Shape, ShapeKind};
use pintle_cel::value::Value;
use pintle_value::json;

const RULE: &str = "self.replicas <= self.maxReplicas && self.zones.all(z, z.startsWith('eu-'))";

/// Sizes according to the bounds of the shape.
struct Sizes(Arc<Shape>);

impl CostModel for Sizes {
    fn estimate_size(&self, node: &Node<'_>) -> Option<SizeEstimate> {
        size_on_path(&self.0, &node.path)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shape = Arc::new(object());
    let env = Env::kubernetes().with_shape("self", shape.clone());
    let checked = env.compile(RULE)?;
    let estimate = checked.estimate(&Kubernetes(Sizes(shape.clone())));
    println!("the rule costs {} at least and {} at most", estimate.min, estimate.max);

    let program = checked.plan()?;
    for text in [
        r#"{"replicas": 2, "maxReplicas": 3, "zones": ["eu-north", "eu-west"]}"#,
        r#"{"replicas": 2, "maxReplicas": 3, "zones": ["eu-north", "us-east"]}"#,
        r#"{"replicas": 2}"#,
    ] {
        let tree = json::parse(text.as_bytes())?.value;
        let evaluation = program.eval(&[("self", Value::read(&tree, &shape)?)], Some(10_000));
        match evaluation.result {
            Ok(verdict) => println!("{text}: {verdict} for {}", evaluation.cost),
            Err(err) => println!("{text}: {err} for {}", evaluation.cost),
        }
    }
    Ok(())
}

fn object() -> Shape {
    let field = |name: &str, shape: Shape| {
        (name.into(), Field { json: name.into(), shape: Arc::new(shape), required: false })
    };
    let mut zone = Shape::of(ShapeKind::String);
    zone.max_elements = 64;
    let mut zones = Shape::of(ShapeKind::List { element: Arc::new(zone), list: ListKind::Set });
    zones.max_elements = 10;
    let fields = BTreeMap::from([
        field("replicas", Shape::of(ShapeKind::Int)),
        field("maxReplicas", Shape::of(ShapeKind::Int)),
        field("zones", zones),
    ]);
    Shape::of(ShapeKind::Object(Arc::new(ObjectShape { name: "Self".into(), fields })))
}
