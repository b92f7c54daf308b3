//! Expressions that pick devices.

use crate::admissionregistration::declared;
use pintle_cel::env::Env;
use pintle_cel::shape::{Field, ObjectShape, Shape, ShapeKind};
use pintle_cel::types::Type;
use pintle_meta::FieldErrors;
use pintle_schema::rules;
use pintle_value::{Path, Str};
use std::sync::{Arc, OnceLock};

/// What an expression may cost.
const COST_MAX: u64 = 1_000_000;
/// The most attributes and capacities of a device.
const ATTRIBUTES_MAX: u64 = 32;
/// The longest value of an attribute.
const VALUE_BYTES_MAX: u64 = 64;
/// The longest name of a driver.
const DRIVER_BYTES_MAX: u64 = 63;

/// All that is wrong with an expression over a `device`.
pub(super) fn validate(expression: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let checked = match env().compile(expression) {
        Ok(checked) => checked,
        Err(issues) => return errors.invalid(path, expression, &format!("compilation failed: {issues}")),
    };
    let found = checked.output_type();
    if !matches!(found, Type::Bool | Type::Dyn) {
        let why = format!("must evaluate to bool or the unknown type, not {}", declared(found));
        return errors.invalid(path, expression, &why);
    }
    if rules::cost_max(&checked, device()) > COST_MAX {
        errors.forbidden(path, "too complex, exceeds cost limit");
    }
}

fn env() -> &'static Env {
    static ENV: OnceLock<Env> = OnceLock::new();
    ENV.get_or_init(|| Env::kubernetes().with_shape("device", device().clone()))
}

/// What expressions see of a device.
fn device() -> &'static Arc<Shape> {
    static DEVICE: OnceLock<Arc<Shape>> = OnceLock::new();
    DEVICE.get_or_init(device_shape)
}

fn device_shape() -> Arc<Shape> {
    let sized =
        |kind: ShapeKind, max_elements: u64| Arc::new(Shape { kind, max_elements, min_serialized_size: 0 });
    let map = |value: Arc<Shape>| sized(ShapeKind::Map { value }, ATTRIBUTES_MAX);
    let attributes = map(map(sized(ShapeKind::Dyn, VALUE_BYTES_MAX)));
    let capacity = map(map(sized(ShapeKind::Dyn, 0)));
    let fields = [
        ("driver", sized(ShapeKind::String, DRIVER_BYTES_MAX)),
        ("allowMultipleAllocations", sized(ShapeKind::Bool, 1)),
        ("attributes", attributes),
        ("capacity", capacity),
    ];
    let fields =
        fields.map(|(name, shape)| (Str::from(name), Field { json: name.into(), shape, required: true }));
    let object = ObjectShape { name: "kubernetes.DRADevice".into(), fields: fields.into() };
    sized(ShapeKind::Object(Arc::new(object)), 0)
}
