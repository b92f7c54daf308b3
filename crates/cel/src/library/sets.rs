//! cel-go's `ext.Sets`: lists as sets.

use super::operand::{elements, list};
use super::{Library, price};
use crate::cost::{CallEstimate, CostEstimate, CostModel, Node};
use crate::decl::{Function, Overload, Run};
use crate::types::Type;
use crate::value::{EvalError, List, Value};

/// `sets.contains`, `sets.equivalent` and `sets.intersects`.
pub fn library() -> Library {
    let any = Type::list(Type::param("T"));
    let two = |name, id, run: Run| {
        Function::new(name, [Overload::function(id, [any.clone(), any.clone()], Type::Bool, run)])
    };
    Library {
        functions: vec![
            two("sets.contains", "list_sets_contains_list", |args| {
                contains_all(list(args, 0)?, list(args, 1)?).map(Value::Bool)
            }),
            two("sets.equivalent", "list_sets_equivalent_list", |args| {
                let (a, b) = (list(args, 0)?, list(args, 1)?);
                Ok(Value::Bool(contains_all(a, b)? && contains_all(b, a)?))
            }),
            two("sets.intersects", "list_sets_intersects_list", |args| {
                let (a, b) = (elements(args, 0)?, elements(args, 1)?);
                Ok(Value::Bool(a.iter().any(|element| is_in(&b, element))))
            }),
        ],
        estimators: vec![
            ("list_sets_contains_list", |model, _, args| estimate(model, args, 1.0)),
            ("list_sets_intersects_list", |model, _, args| estimate(model, args, 1.0)),
            // Both directions.
            ("list_sets_equivalent_list", |model, _, args| estimate(model, args, 2.0)),
        ],
        trackers: vec![
            ("list_sets_contains_list", |args, _| track(args, 1.0)),
            ("list_sets_intersects_list", |args, _| track(args, 1.0)),
            ("list_sets_equivalent_list", |args, _| track(args, 2.0)),
        ],
        ..Library::default()
    }
}

fn contains_all<'a>(whole: &List<'a>, part: &List<'a>) -> Result<bool, EvalError> {
    let whole: Vec<Value<'a>> = whole.iter().collect::<Result<_, _>>()?;
    for element in part.iter() {
        if !is_in(&whole, &element?) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_in(list: &[Value<'_>], element: &Value<'_>) -> bool {
    list.iter().any(|known| element.equals(known).unwrap_or(false))
}

fn estimate(model: &dyn CostModel, args: &[Node<'_>], factor: f64) -> Option<CallEstimate> {
    let [a, b] = args else { return None };
    let pairs = price::size_of(model, a).times(price::size_of(model, b));
    Some(CallEstimate::of(pairs.times_factor(factor).plus(CostEstimate::fixed(1))))
}

fn track(args: &[Value<'_>], factor: f64) -> Option<u64> {
    let [a, b] = args else { return None };
    let pairs = a.size().saturating_mul(b.size());
    Some(((pairs as f64 * factor) as u64).saturating_add(1))
}
