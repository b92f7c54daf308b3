//! CEL expressions that select devices.

use crate::features;
use pintle_cel::cost::{CallEstimate, CostEstimate, CostModel, Node, SizeEstimate};
use pintle_cel::decl::{Function, Overload};
use pintle_cel::env::Env;
use pintle_cel::library::{self, Library, kubernetes::cost::Kubernetes, kubernetes::quantity::QUANTITY};
use pintle_cel::shape::{Field, ObjectShape, Shape, ShapeKind};
use pintle_cel::types::Type;
use pintle_cel::value::{EvalError, Value};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Str};
use std::sync::{Arc, OnceLock};

/// The cost limit of one expression.
const COST_MAX: u64 = 1_000_000;
/// The maximum number of attributes and capacities of a device.
const ATTRIBUTES_MAX: u64 = 32;
/// The longest value of an attribute.
const VALUE_BYTES_MAX: u64 = 64;
/// The feature gate of attributes that are lists, and the most values of such an attribute.
const LIST_ATTRIBUTES: &str = "DRAListTypeAttributes";
const LIST_VALUES_MAX: usize = 48;
/// The longest domain of an attribute.
const DOMAIN_BYTES_MAX: u64 = 63;
/// The longest name of an attribute within its domain.
const NAME_BYTES_MAX: u64 = 32;
/// The longest name of a driver.
const DRIVER_BYTES_MAX: u64 = 63;

/// Validates an expression over a `device`.
pub(super) fn validate(expression: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let checked = match device_env().compile(expression) {
        Ok(checked) => checked,
        Err(issues) => return errors.invalid(path, expression, &format!("compilation failed: {issues}")),
    };
    let found = checked.output_type();
    let unknown =
        if features::is_enabled(LIST_ATTRIBUTES) { &[Type::Any, Type::Dyn][..] } else { &[Type::Any] };
    if *found != Type::Bool && !unknown.contains(found) {
        let why = format!("must evaluate to bool or the unknown type, not {}", found.declared_name());
        return errors.invalid(path, expression, &why);
    }
    if let Err(why) = checked.plan() {
        return errors.internal(path, &format!("program instantiation failed: {why}"));
    }
    if checked.estimate(&Kubernetes(Sizes)).max > COST_MAX {
        errors.forbidden(path, "too complex, exceeds cost limit");
    }
}

fn device_env() -> &'static Env {
    static ENV: OnceLock<Env> = OnceLock::new();
    ENV.get_or_init(|| {
        let env = Env::kubernetes().with_library(library::bindings()).with_shape("device", device());
        if features::is_enabled(LIST_ATTRIBUTES) { env.with_library(includes()) } else { env }
    })
}

/// `attribute.includes(value)`, for attributes that are lists or single values.
fn includes() -> Library {
    const ID: &str = "dra_includes_dyn_dyn";
    let overload = Overload::method(ID, [Type::Dyn, Type::Dyn], Type::Bool, |args| {
        let [target, wanted] = args else { return Err(EvalError::failed("no such overload")) };
        let Value::List(list) = target else {
            return Ok(Value::Bool(target.equals(wanted).unwrap_or(false)));
        };
        for (at, item) in list.iter().enumerate() {
            if at >= LIST_VALUES_MAX {
                return Err(EvalError::failed(format!(
                    "'includes' function cannot be applied to lists longer than {LIST_VALUES_MAX} values"
                )));
            }
            if item?.equals(wanted).unwrap_or(false) {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    });
    Library {
        functions: vec![Function::new("includes", [overload])],
        estimators: vec![(ID, |_, _, _| {
            Some(CallEstimate::of(CostEstimate { min: 0, max: LIST_VALUES_MAX as u64 }))
        })],
        ..Library::default()
    }
}

/// How much a device holds.
struct Sizes;

impl CostModel for Sizes {
    fn estimate_size(&self, node: &Node<'_>) -> Option<SizeEstimate> {
        let path: Vec<&str> = node.path.iter().map(|part| &**part).collect();
        let max = match path[..] {
            ["device"] => 0,
            ["device", "driver"] => DRIVER_BYTES_MAX,
            ["device", "allowMultipleAllocations"] => 1,
            ["device", "attributes" | "capacity"] => ATTRIBUTES_MAX,
            ["device", "attributes" | "capacity", "@keys"] => DOMAIN_BYTES_MAX,
            ["device", "attributes" | "capacity", "@items" | "@values"] => ATTRIBUTES_MAX,
            ["device", "attributes" | "capacity", "@items" | "@values", "@keys"] => NAME_BYTES_MAX,
            // The size estimate of an attribute does not depend on its name.
            ["device", "attributes", "@items" | "@values", _] => VALUE_BYTES_MAX,
            ["device", "capacity", "@items" | "@values", "@items" | "@values"] => 0,
            _ => return None,
        };
        Some(SizeEstimate { min: 0, max })
    }
}

/// The `device` variable.
fn device() -> Arc<Shape> {
    let map = |value: Shape| Shape::of(ShapeKind::Map { value: Arc::new(value) });
    let values = |of: Type| map(map(Shape::of(ShapeKind::Typed(of))));
    // Macros may iterate over `dyn`, not over `any`.
    let attribute = if features::is_enabled(LIST_ATTRIBUTES) { Type::Dyn } else { Type::Any };
    let capacity = Type::Object(QUANTITY.into());
    let fields = [
        ("driver", Shape::of(ShapeKind::String)),
        ("allowMultipleAllocations", Shape::of(ShapeKind::Bool)),
        ("attributes", values(attribute)),
        ("capacity", values(capacity)),
    ];
    let fields = fields.map(|(name, shape)| {
        (Str::from(name), Field { json: name.into(), shape: Arc::new(shape), required: true })
    });
    let object = ObjectShape { name: "kubernetes.DRADevice".into(), fields: fields.into() };
    Arc::new(Shape::of(ShapeKind::Object(Arc::new(object))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_compiled_and_priced() {
        let cases = [
            ("device.driver == 'a'", ""),
            ("device.attributes['a.example.com'].model.contains('x')", ""),
            ("device.attributes['a.example.com'].flag", ""),
            ("device.capacity['a.example.com'].memory.compareTo(quantity('1Gi')) >= 0", ""),
            ("cel.bind(a, device.attributes['a.example.com'], a.x && a.y)", ""),
            (
                "dyn(true)",
                "e: Invalid value: \"dyn(true)\": must evaluate to bool or the unknown type, not dyn",
            ),
            ("1", "e: Invalid value: \"1\": must evaluate to bool or the unknown type, not int"),
            (
                "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a + b + c == d))))",
                "e: Forbidden: too complex, exceeds cost limit",
            ),
        ];
        for (expression, expected) in cases {
            let mut errors = FieldErrors::new();
            validate(expression, &Path::of("e"), &mut errors);
            let found: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
            assert_eq!(found.join("; "), expected, "{expression}");
        }
    }
}
