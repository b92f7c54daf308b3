//! Kubernetes' costs of calls: estimated from sizes, and actual from values.
//!
//! The numbers are part of the API: they decide which rules a definition may have.

use super::{authorizer, cidr, format, ip, quantity, semver, url};
use crate::ast::{ExprKind, Literal};
use crate::cost::{
    CallEstimate, CostEstimate, CostModel, LIST_CREATE, Node, OBJECT_CREATE, REGEX_LENGTH_FACTOR,
    STRING_TRAVERSAL_FACTOR, SizeEstimate,
};
use crate::library::operand::own;
use crate::library::price::{Tracker, size_of};
use crate::types::Type;
use crate::value::{Map, Object, Value};

/// The cost of an authorization check: an expression can afford two.
const CHECK: u64 = 350_000;
/// The shortest requirement of a selector has two characters.
const REQUIREMENTS_PER_CHARACTER: f64 = 0.5;
/// The assumed size of a format's name in estimates.
const FORMAT_SIZE_MAX: u64 = 64;
/// The assumed size of a format's pattern in estimates.
const FORMAT_PATTERN_MAX: f64 = 128.0;

/// Kubernetes' cost model, on top of a model of sizes.
pub struct Kubernetes<S>(pub S);

impl<S: CostModel> CostModel for Kubernetes<S> {
    fn estimate_size(&self, node: &Node<'_>) -> Option<SizeEstimate> {
        self.0.estimate_size(node)
    }

    fn estimate_call(
        &self,
        function: &str,
        overload: &str,
        target: Option<&Node<'_>>,
        args: &[Node<'_>],
    ) -> Option<CallEstimate> {
        estimate(&self.0, function, overload, target, args)
    }
}

fn estimate(
    sizes: &dyn CostModel,
    function: &str,
    overload: &str,
    target: Option<&Node<'_>>,
    args: &[Node<'_>],
) -> Option<CallEstimate> {
    let traversed =
        |node: &Node<'_>, times: f64| size_of(sizes, node).times_factor(times * STRING_TRAVERSAL_FACTOR);
    let of_argument = |times: f64| args.first().map(|arg| CallEstimate::of(traversed(arg, times)));
    match function {
        "check" => Some(CallEstimate::of(CostEstimate::fixed(CHECK))),
        "fieldSelector" | "labelSelector" => match args {
            [selector] => Some(CallEstimate::of(selector_cost(size_of(sizes, selector)))),
            _ => None,
        },
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            Some(estimate_traversal(sizes, target?))
        }
        "url" | "jsonpatch.escapeKey" => match args {
            [arg] => Some(CallEstimate { cost: traversed(arg, 1.0), result: Some(size_of(sizes, arg)) }),
            _ => None,
        },
        "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            Some(CallEstimate { cost: traversed(target?, 1.0), result: Some(size_of(sizes, target?)) })
        }
        "replace" => estimate_replace(sizes, target?, args),
        "split" => {
            let most = args.get(1).and_then(literal_int).map(|most| most as u64);
            let max = most.unwrap_or(size_of(sizes, target?).max);
            Some(CallEstimate { cost: traversed(target?, 2.0), result: Some(SizeEstimate { min: 0, max }) })
        }
        "join" => Some(estimate_join(sizes, target?, args)),
        "find" | "findAll" => {
            let size = size_of(sizes, target?);
            let text = size.plus(SizeEstimate::fixed(1)).times_factor(STRING_TRAVERSAL_FACTOR);
            let pattern = size_of(sizes, args.first()?).times_factor(REGEX_LENGTH_FACTOR);
            let result = Some(SizeEstimate { min: 0, max: size.max });
            Some(CallEstimate { cost: text.times(pattern), result })
        }
        "ip" if overload == "cidr_ip" => Some(nominal()),
        "cidr" | "isIP" | "isCIDR" | "ip" => of_argument(1.0),
        "ip.isCanonical" => of_argument(2.0),
        "containsIP" | "containsCIDR" => Some(estimate_containment(sizes, function, overload, args.first()?)),
        "quantity" | "isQuantity" | "semver" | "isSemver" => of_argument(1.0),
        "validate" => args.first().map(|arg| {
            CallEstimate::of(traversed(arg, 1.0).times_factor(FORMAT_PATTERN_MAX * REGEX_LENGTH_FACTOR))
        }),
        "_==_" => match args {
            [a, b] if a.ty == b.ty => estimate_equality(&a.ty, b),
            _ => None,
        },
        function if is_nominal(function) => Some(nominal()),
        _ => None,
    }
}

fn nominal() -> CallEstimate {
    CallEstimate::of(CostEstimate::fixed(1))
}

/// Builders and accessors, whose estimated and actual cost is 1.
fn is_nominal(function: &str) -> bool {
    matches!(
        function,
        "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name" | "allowed" | "reason"
            | "error" | "errored"
            // Addresses and networks.
            | "masked" | "prefixLength" | "family" | "isUnspecified" | "isLoopback" | "isLinkLocalMulticast"
            | "isLinkLocalUnicast" | "isGlobalUnicast"
            | "format.named"
            // Quantities and versions.
            | "sign" | "asInteger" | "isInteger" | "asApproximateFloat" | "isGreaterThan" | "isLessThan" | "compareTo"
            | "add" | "sub" | "major" | "minor" | "patch"
            | "getScheme" | "getHostname" | "getHost" | "getPort" | "getEscapedPath" | "getQuery"
    )
}

/// The cost of parsing a selector and of its list of requirements.
fn selector_cost(length: SizeEstimate) -> CostEstimate {
    let parsed = length.times_factor(STRING_TRAVERSAL_FACTOR);
    let requirements =
        length.times_factor(REQUIREMENTS_PER_CHARACTER).times_factor((LIST_CREATE + OBJECT_CREATE) as f64);
    CostEstimate::fixed(LIST_CREATE).plus(parsed).plus(requirements)
}

/// The cost of traversing a list including its strings, or a string.
fn estimate_traversal(sizes: &dyn CostModel, target: &Node<'_>) -> CallEstimate {
    let size = size_of(sizes, target);
    let Some(element) = element_of(target) else {
        return CallEstimate::of(size.times_factor(STRING_TRAVERSAL_FACTOR));
    };
    let mut each = CostEstimate::fixed(1);
    if matches!(element.ty, Type::String | Type::Bytes) {
        each = each.plus(size_of(sizes, &element).times_factor(STRING_TRAVERSAL_FACTOR));
    }
    CallEstimate::of(size.times_cost(each))
}

/// An element of a list, as a node whose size a model can find.
fn element_of(list: &Node<'_>) -> Option<Node<'static>> {
    let ty = match &list.ty {
        Type::List(ty) => Type::clone(ty),
        Type::Map(ty) => ty.0.clone(),
        Type::Opaque(_, params) => params.first()?.clone(),
        _ => return None,
    };
    let mut path = list.path.clone();
    if !path.is_empty() {
        path.push("@items".into());
    }
    Some(Node { path, ty, expr: None, computed: None })
}

/// The result is longest if the shortest text is replaced by the longest as often as possible, and vice versa.
fn estimate_replace(sizes: &dyn CostModel, target: &Node<'_>, args: &[Node<'_>]) -> Option<CallEstimate> {
    let [old, new, ..] = args else { return None };
    let (size, old, new) = (size_of(sizes, target), size_of(sizes, old), size_of(sizes, new));
    let most = |length: u64, each: u64| (length as f64 / each as f64).ceil() as u64;
    // The number of replacements, and the size of the rest.
    let (max_times, max_kept) = if old.min == 0 {
        (size.max.saturating_add(1), size.max)
    } else if new.max <= old.min {
        (0, size.max)
    } else {
        (most(size.max, old.min), 0)
    };
    let (min_times, min_kept) = if old.max == 0 {
        (size.min.saturating_add(1), size.min)
    } else if old.max <= new.min {
        (0, size.min)
    } else {
        (most(size.min, old.max), 0)
    };
    let times = SizeEstimate { min: min_times, max: max_times };
    let result = times.times(new).plus(SizeEstimate { min: min_kept, max: max_kept });
    Some(CallEstimate { cost: size.times_factor(2.0 * STRING_TRAVERSAL_FACTOR), result: Some(result) })
}

fn estimate_join(sizes: &dyn CostModel, target: &Node<'_>, args: &[Node<'_>]) -> CallEstimate {
    let list = size_of(sizes, target);
    let mut size = match element_of(target) {
        Some(element) => list.times(size_of(sizes, &element)),
        None => SizeEstimate::fixed(0),
    };
    if let Some(separator) = args.first() {
        let separators = SizeEstimate { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
        size = size.plus(size_of(sizes, separator).times(separators));
    }
    CallEstimate { cost: size.times_factor(STRING_TRAVERSAL_FACTOR), result: Some(size) }
}

/// Compares the bytes of two addresses; for a CIDR also its mask, and a string is parsed first.
fn estimate_containment(
    sizes: &dyn CostModel,
    function: &str,
    overload: &str,
    other: &Node<'_>,
) -> CallEstimate {
    let address = SizeEstimate { min: 4, max: 16 };
    let mut cost = address.plus(address).times_factor(STRING_TRAVERSAL_FACTOR);
    if function == "containsCIDR" {
        cost = cost.plus(address.times_factor(STRING_TRAVERSAL_FACTOR)).plus(CostEstimate::fixed(1));
    }
    if matches!(overload, "cidr_contains_ip_string" | "cidr_contains_cidr_string") {
        cost = cost.plus(size_of(sizes, other).times_factor(STRING_TRAVERSAL_FACTOR));
    }
    CallEstimate::of(cost)
}

fn estimate_equality(ty: &Type, right: &Node<'_>) -> Option<CallEstimate> {
    let text = |max| CallEstimate::of(CostEstimate { min: 1, max }.times_factor(STRING_TRAVERSAL_FACTOR));
    match ty {
        Type::Opaque(name, _) if matches!(&**name, ip::IP | cidr::CIDR) => Some(nominal()),
        Type::Object(name) => match &**name {
            quantity::QUANTITY
            | semver::SEMVER
            | authorizer::AUTHORIZER
            | authorizer::PATH_CHECK
            | authorizer::GROUP_CHECK
            | authorizer::RESOURCE_CHECK
            | authorizer::DECISION => Some(nominal()),
            format::FORMAT => Some(text(FORMAT_SIZE_MAX)),
            // Only the size of the right side matters.
            url::URL => Some(text(right.computed.map_or(1, |size| size.max))),
            _ => None,
        },
        _ => None,
    }
}

fn literal_int(node: &Node<'_>) -> Option<i64> {
    match node.expr.map(|expr| &expr.kind) {
        Some(ExprKind::Literal(Literal::Int(int))) => Some(*int),
        _ => None,
    }
}

/// The tracker of a call; `None` for functions of the language itself.
pub fn tracker(function: &str, overload: &str) -> Option<Tracker> {
    let tracker: Tracker = match (function, overload) {
        ("check", _) => |_, _| Some(CHECK),
        ("fieldSelector" | "labelSelector", _) => {
            |args, _| Some(selector_cost(SizeEstimate::fixed(args.get(1)?.size())).max)
        }
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", _) => {
            |args, _| args.first().map(traversed)
        }
        (
            "url"
            | "lowerAscii"
            | "upperAscii"
            | "substring"
            | "trim"
            | "jsonpatch.escapeKey"
            | "cidr"
            | "isIP"
            | "isCIDR"
            | "quantity"
            | "isQuantity"
            | "semver"
            | "isSemver",
            _,
        ) => |args, _| Some(read(args.first()?.size(), 1)),
        ("replace" | "split" | "ip.isCanonical", _) => |args, _| Some(read(args.first()?.size(), 2)),
        ("join", _) => |_, result| Some(read(result.size(), 2)),
        ("find" | "findAll", _) => |args, _| Some(matched(args.first()?, args.get(1)?.size())),
        ("ip", "cidr_ip") => |_, _| Some(1),
        ("ip", _) => |args, _| Some(read(args.first()?.size(), 1)),
        ("containsIP", "cidr_contains_ip_string") => {
            |args, _| Some(read(args.first()?.size(), 2).saturating_add(read(args.get(1)?.size(), 1)))
        }
        ("containsIP", _) => |args, _| Some(read(args.first()?.size(), 2)),
        ("containsCIDR", "cidr_contains_cidr_string") => {
            |args, _| Some(masked(args.first()?.size()).saturating_add(read(args.get(1)?.size(), 1)))
        }
        ("containsCIDR", _) => |args, _| Some(masked(args.first()?.size())),
        ("validate", _) => |args, _| {
            let format = own::<format::Named>(args.first()?)?.format()?;
            Some(matched(args.get(1)?, format.pattern_size))
        },
        ("_==_", _) => |args, _| matches!(args, [Value::Opaque(_), _]).then_some(1),
        (function, _) if is_nominal(function) => |_, _| Some(1),
        _ => return None,
    };
    Some(tracker)
}

/// The cost of traversing `size` units several times.
fn read(size: u64, times: u64) -> u64 {
    (size as f64 * times as f64 * STRING_TRAVERSAL_FACTOR).ceil() as u64
}

/// The cost of comparing two CIDRs: their bytes, then the mask.
fn masked(size: u64) -> u64 {
    read(size, 2).saturating_add(read(size, 1)).saturating_add(1)
}

/// The cost of matching a pattern of `pattern` units. The text counts one more, so that an empty one is not free.
fn matched(text: &Value<'_>, pattern: u64) -> u64 {
    let text = ((1.0 + text.size() as f64) * STRING_TRAVERSAL_FACTOR).ceil() as u64;
    text.saturating_mul((pattern as f64 * REGEX_LENGTH_FACTOR).ceil() as u64)
}

/// The cost of traversing a value as a tree: strings by length, everything else by count.
fn traversed(value: &Value<'_>) -> u64 {
    match value {
        Value::String(text) => (text.as_str().len() as f64 * STRING_TRAVERSAL_FACTOR) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * STRING_TRAVERSAL_FACTOR) as u64,
        Value::List(list) => {
            list.iter().map(|element| element.as_ref().map_or(1, traversed)).fold(0, u64::saturating_add)
        }
        Value::Map(map) => traversed_map(map),
        Value::Object(Object::Tree(map, shape)) => traversed_map(&Map::Tree(map, shape)),
        _ => 1,
    }
}

fn traversed_map(map: &Map<'_>) -> u64 {
    let entries =
        map.entries().map(|(key, value)| traversed(&key).saturating_add(value.as_ref().map_or(1, traversed)));
    entries.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::NoModel;

    #[test]
    fn a_replacement_is_sized_by_its_extremes() {
        let size = |min, max| SizeEstimate { min, max };
        let string_of =
            |computed| Node { path: Vec::new(), ty: Type::String, expr: None, computed: Some(computed) };
        for (target, old, new, expected) in [
            // "abc" becomes "_a_b_c_".
            (size(3, 3), size(0, 0), size(1, 1), size(7, 7)),
            (size(3, 3), size(1, 1), size(0, 0), size(0, 3)),
            (size(4, 4), size(2, 2), size(4, 4), size(4, 8)),
            (size(4, 4), size(0, 1), size(0, 2), size(0, 14)),
            (size(4, 4), size(1, 1), size(1, 2), size(4, 8)),
            (size(4, 4), size(1, 2), size(1, 1), size(2, 4)),
        ] {
            let found = estimate(
                &NoModel,
                "replace",
                "",
                Some(&string_of(target)),
                &[string_of(old), string_of(new)],
            );
            assert_eq!(found.and_then(|found| found.result), Some(expected));
        }
    }
}
