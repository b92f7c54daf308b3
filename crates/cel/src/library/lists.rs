//! cel-go's `ext.Lists`: parts, order and repetition.

use super::operand::{Outcome, elements, int_operand, list, value};
use super::{Library, price};
use crate::ast::{ExprKind, Literal};
use crate::cost::{
    CallEstimate, CostEstimate, CostModel, Estimator, LIST_CREATE, Node, STRING_TRAVERSAL_FACTOR,
    SizeEstimate,
};
use crate::decl::{Row, Run, declare};
use crate::parser::macros;
use crate::value::{EvalError, Value};

/// The maximum number of elements of `lists.range`. Go would continue until its memory is exhausted.
const RANGE_MAX: i64 = 1 << 24;
/// The deepest `flatten`; lists are never deeper, because expressions and trees are not.
const FLATTEN_DEPTH_MAX: i64 = 1 << 10;

const FLATTEN: [Row; 2] = [
    ("flatten", "list_flatten", "list(list(T)).() -> list(T)", |args| flatten(args, 1)),
    ("flatten", "list_flatten_int", "list(dyn).(int) -> list(dyn)", |args| {
        flatten(args, int_operand(args, 1)?)
    }),
];

const ORDER: [Row; 19] = [
    ("sort", "list_int_sort", "list(int).() -> list(int)", sort),
    ("sort", "list_uint_sort", "list(uint).() -> list(uint)", sort),
    ("sort", "list_double_sort", "list(double).() -> list(double)", sort),
    ("sort", "list_bool_sort", "list(bool).() -> list(bool)", sort),
    ("sort", "list_google.protobuf.Duration_sort", "list(duration).() -> list(duration)", sort),
    ("sort", "list_google.protobuf.Timestamp_sort", "list(timestamp).() -> list(timestamp)", sort),
    ("sort", "list_string_sort", "list(string).() -> list(string)", sort),
    ("sort", "list_bytes_sort", "list(bytes).() -> list(bytes)", sort),
    (BY_KEYS, "list_int_sortByAssociatedKeys", "list(T).(list(int)) -> list(T)", sort_by_keys),
    (BY_KEYS, "list_uint_sortByAssociatedKeys", "list(T).(list(uint)) -> list(T)", sort_by_keys),
    (BY_KEYS, "list_double_sortByAssociatedKeys", "list(T).(list(double)) -> list(T)", sort_by_keys),
    (BY_KEYS, "list_bool_sortByAssociatedKeys", "list(T).(list(bool)) -> list(T)", sort_by_keys),
    (
        BY_KEYS,
        "list_google.protobuf.Duration_sortByAssociatedKeys",
        "list(T).(list(duration)) -> list(T)",
        sort_by_keys,
    ),
    (
        BY_KEYS,
        "list_google.protobuf.Timestamp_sortByAssociatedKeys",
        "list(T).(list(timestamp)) -> list(T)",
        sort_by_keys,
    ),
    (BY_KEYS, "list_string_sortByAssociatedKeys", "list(T).(list(string)) -> list(T)", sort_by_keys),
    (BY_KEYS, "list_bytes_sortByAssociatedKeys", "list(T).(list(bytes)) -> list(T)", sort_by_keys),
    ("lists.range", "lists_range", "(int) -> list(int)", range),
    ("reverse", "list_reverse", "list(T).() -> list(T)", reverse),
    ("distinct", "list_distinct", "list(T).() -> list(T)", distinct),
];
/// The function that the macro `sortBy` calls.
const BY_KEYS: &str = "@sortByAssociatedKeys";

fn sort<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    sorted(args, 0)
}

fn sort_by_keys<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    sorted(args, 1)
}

/// The library as of `version`: 1 has `flatten`, 2 `sort`, `sortBy`, `range`, `reverse` and `distinct`, 3 costs.
pub fn library(version: u32) -> Library {
    let slice = ("slice", "list_slice", "list(T).(int, int) -> list(T)", slice as Run);
    let mut functions = declare(&[], &[slice]);
    let mut library = Library::default();
    if version >= 1 {
        functions.extend(declare(&[], &FLATTEN));
    }
    if version >= 2 {
        functions.extend(declare(&[], &ORDER));
        library.macros = macros::LISTS.to_vec();
    }
    if version >= 3 {
        library.estimators = estimators();
        library.trackers = trackers();
    }
    Library { functions, ..library }
}

fn slice<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (list, start, end) = (list(args, 0)?, int_operand(args, 1)?, int_operand(args, 2)?);
    let refuse = |why: &str| Err(EvalError::Failed(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return refuse("negative indexes not supported");
    };
    if start > end {
        return refuse("start index must be less than or equal to end index");
    }
    if list.len() < to {
        return refuse(&format!("list is length {}", list.len()));
    }
    let elements: Result<Vec<_>, _> = (from..to).filter_map(|index| list.get(index)).collect();
    elements.map(Value::list)
}

fn flatten<'a>(args: &[Value<'a>], depth: i64) -> Outcome<'a> {
    if depth < 0 {
        return Err(EvalError::Failed("level must be non-negative".into()));
    }
    let mut flat = Vec::new();
    flatten_into(value(args, 0)?, depth.min(FLATTEN_DEPTH_MAX), &mut flat)?;
    Ok(Value::list(flat))
}

fn flatten_into<'a>(value: &Value<'a>, depth: i64, flat: &mut Vec<Value<'a>>) -> Result<(), EvalError> {
    let Value::List(list) = value else {
        return Err(EvalError::NoSuchOverload);
    };
    for element in list.iter() {
        match element? {
            nested @ Value::List(_) if depth > 0 => flatten_into(&nested, depth.saturating_sub(1), flat)?,
            element => flat.push(element),
        }
    }
    Ok(())
}

/// The first argument sorted by the keys in the argument `keys`.
fn sorted<'a>(args: &[Value<'a>], keys: usize) -> Outcome<'a> {
    let (elements, keys) = (elements(args, 0)?, elements(args, keys)?);
    if elements.len() != keys.len() {
        return Err(EvalError::Failed(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            elements.len(),
            keys.len()
        )));
    }
    let Some(first) = keys.first() else {
        return value(args, 0).cloned();
    };
    if !is_ordered(first) {
        return Err(EvalError::Failed("list elements must be comparable".into()));
    }
    let ty = std::mem::discriminant(first);
    // Go notices it while comparing, so not in a list of one element.
    if keys.iter().any(|key| std::mem::discriminant(key) != ty) {
        return Err(EvalError::Failed("list elements must have the same type".into()));
    }
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = keys.into_iter().zip(elements).collect();
    pairs.sort_by(|(a, _), (b, _)| a.compare(b).unwrap_or(std::cmp::Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, element)| element).collect()))
}

fn is_ordered(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::Bool(_)
            | Value::Duration(_)
            | Value::Timestamp(_)
            | Value::String(_)
            | Value::Bytes(_)
    )
}

fn range<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let end = int_operand(args, 0)?;
    if end > RANGE_MAX {
        return Err(EvalError::Failed(format!("range of more than {RANGE_MAX} elements")));
    }
    Ok(Value::list((0..end).map(Value::Int).collect()))
}

fn reverse<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let mut elements = elements(args, 0)?;
    elements.reverse();
    Ok(Value::list(elements))
}

fn distinct<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let mut unique: Vec<Value<'a>> = Vec::new();
    for element in list(args, 0)?.iter() {
        let element = element?;
        if !unique.iter().any(|known| element.equals(known).unwrap_or(false)) {
            unique.push(element);
        }
    }
    Ok(Value::list(unique))
}

fn estimators() -> Vec<(&'static str, Estimator)> {
    let mut estimators: Vec<(&'static str, Estimator)> = vec![
        ("list_slice", |model, target, args| {
            let (target, [start, end]) = (target?, args) else { return None };
            let start = literal_int(start).unwrap_or(0);
            let end = literal_int(end).unwrap_or(price::size_of(model, target).max);
            Some(estimate_with_allocation(1.0, SizeEstimate::fixed(end.wrapping_sub(start))))
        }),
        ("list_flatten", estimate_flatten),
        ("list_flatten_int", estimate_flatten),
        ("lists_range", |_, target, args| {
            let (None, [end]) = (target, args) else { return None };
            Some(estimate_with_allocation(1.0, SizeEstimate::fixed(literal_int(end).unwrap_or(u64::MAX))))
        }),
        ("list_reverse", |model, target, _| {
            Some(estimate_with_allocation(1.0, price::size_of(model, target?)))
        }),
        ("list_distinct", |model, target, _| Some(squared(price::size_of(model, target?), 2.0))),
    ];
    const OF_TEXTS: f64 = 2.0 + STRING_TRAVERSAL_FACTOR;
    for (name, id, ..) in ORDER {
        // Strings are traversed to be compared.
        let has_texts = id.starts_with("list_string") || id.starts_with("list_bytes");
        let estimator: Option<Estimator> = match (name, has_texts) {
            ("sort", false) => Some(|model, target, _| Some(squared(price::size_of(model, target?), 2.0))),
            ("sort", true) => {
                Some(|model, target, _| Some(squared(price::size_of(model, target?), OF_TEXTS)))
            }
            (BY_KEYS, false) => {
                Some(|model, _, args| Some(squared(price::size_of(model, args.first()?), 2.0)))
            }
            (BY_KEYS, true) => {
                Some(|model, _, args| Some(squared(price::size_of(model, args.first()?), OF_TEXTS)))
            }
            _ => None,
        };
        estimators.extend(estimator.map(|estimator| (id, estimator)));
    }
    estimators
}

fn estimate_flatten(
    model: &dyn CostModel,
    target: Option<&Node<'_>>,
    args: &[Node<'_>],
) -> Option<CallEstimate> {
    let depth = args.first().map_or(1, |depth| literal_int(depth).unwrap_or(u64::MAX));
    Some(estimate_with_allocation(depth as f64, price::size_of(model, target?)))
}

/// The cost of work that is quadratic in a list's size, with a list of the same size as the result.
fn squared(size: SizeEstimate, factor: f64) -> CallEstimate {
    estimate_with_allocation(factor, size.times(size))
}

fn estimate_with_allocation(factor: f64, size: SizeEstimate) -> CallEstimate {
    let cost = size.times_factor(factor).plus(CostEstimate::fixed(1)).plus(CostEstimate::fixed(LIST_CREATE));
    CallEstimate { cost, result: Some(size) }
}

/// The value of an integer literal; a negative one counts as 0.
fn literal_int(node: &Node<'_>) -> Option<u64> {
    match node.expr.map(|expr| &expr.kind) {
        Some(ExprKind::Literal(Literal::Int(int))) => Some(u64::try_from(*int).unwrap_or(0)),
        _ => None,
    }
}

fn trackers() -> Vec<(&'static str, price::Tracker)> {
    let mut trackers: Vec<(&'static str, price::Tracker)> = vec![
        ("list_slice", |_, result| Some(allocated(1.0, result.size()))),
        ("list_flatten", track_flatten),
        ("list_flatten_int", track_flatten),
        ("lists_range", |_, result| Some(allocated(1.0, result.size()))),
        ("list_reverse", |_, result| Some(allocated(1.0, result.size()))),
        ("list_distinct", |args, _| self_compared(args.first()?)),
    ];
    for (name, id, ..) in ORDER {
        match name {
            "sort" => trackers.push((id, |args, _| self_compared(args.first()?))),
            BY_KEYS => trackers.push((id, |args, _| self_compared(args.get(1)?))),
            _ => {}
        }
    }
    trackers
}

fn track_flatten(args: &[Value<'_>], _: &Value<'_>) -> Option<u64> {
    let depth = match args.get(1) {
        Some(Value::Int(depth)) => *depth as f64,
        _ => 1.0,
    };
    Some(allocated(depth, args.first()?.size()))
}

fn self_compared(keys: &Value<'_>) -> Option<u64> {
    let Value::List(list) = keys else { return None };
    let factor = match list.get(0) {
        Some(Ok(Value::String(_) | Value::Bytes(_))) => 2.0 + STRING_TRAVERSAL_FACTOR,
        _ => 2.0,
    };
    let size = list.len() as u64;
    Some(allocated(factor, size.saturating_mul(size)))
}

fn allocated(factor: f64, size: u64) -> u64 {
    ((size as f64 * factor) as u64).saturating_add(1 + LIST_CREATE)
}
