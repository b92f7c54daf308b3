//! Macros: calls that the parser rewrites into other expressions, mostly loops.

mod block;

use std::sync::Arc;

use super::tree::Builder;
use crate::ast::{Comprehension, Expr, ExprKind, Id, Literal, operators};

/// A macro: the calls that it applies to, and the expansion.
#[derive(Clone, Copy)]
pub struct Macro {
    name: &'static str,
    /// Number of arguments; `None` for any number.
    args: Option<usize>,
    /// Whether the macro is called with a dot.
    receiver: bool,
    rewrite: Rewrite,
}

/// Expands a call, given its target and arguments.
type Rewrite = fn(&mut Builder, Option<Expr>, Vec<Expr>) -> Expansion;

/// The expansion of a call, or an error and its node.
type Expansion = Result<Rewritten, (Id, String)>;

pub(super) enum Rewritten {
    To(Expr),
    /// The macro does not apply to this call after all.
    Not(Option<Expr>, Vec<Expr>),
}

/// The name under which a loop accumulates.
pub const ACCUMULATOR: &str = "@result";
/// The accumulator of older versions; the name is still reserved.
const OLD_ACCUMULATOR: &str = "__result__";
/// The loop variable of loops that do not loop.
const UNUSED: &str = "#unused";

/// has, all, exists, exists_one, existsOne, map, filter
pub const STANDARD: &[Macro] = &[
    Macro { name: "has", args: Some(1), receiver: false, rewrite: expand_has },
    Macro { name: "all", args: Some(2), receiver: true, rewrite: all },
    Macro { name: "exists", args: Some(2), receiver: true, rewrite: exists },
    Macro { name: "exists_one", args: Some(2), receiver: true, rewrite: exists_one },
    Macro { name: "existsOne", args: Some(2), receiver: true, rewrite: exists_one },
    Macro { name: "map", args: Some(2), receiver: true, rewrite: expand_map },
    Macro { name: "map", args: Some(3), receiver: true, rewrite: expand_map },
    Macro { name: "filter", args: Some(2), receiver: true, rewrite: filter },
];

/// all, exists, existsOne, exists_one, transformList, transformMap, transformMapEntry over two variables
pub const TWO_VARIABLES: &[Macro] = &[
    Macro { name: "all", args: Some(3), receiver: true, rewrite: all2 },
    Macro { name: "exists", args: Some(3), receiver: true, rewrite: exists2 },
    Macro { name: "existsOne", args: Some(3), receiver: true, rewrite: exists_one2 },
    Macro { name: "exists_one", args: Some(3), receiver: true, rewrite: exists_one2 },
    Macro { name: "transformList", args: Some(3), receiver: true, rewrite: transform_list },
    Macro { name: "transformList", args: Some(4), receiver: true, rewrite: transform_list },
    Macro { name: "transformMap", args: Some(3), receiver: true, rewrite: transform_map },
    Macro { name: "transformMap", args: Some(4), receiver: true, rewrite: transform_map },
    Macro { name: "transformMapEntry", args: Some(3), receiver: true, rewrite: transform_map_entry },
    Macro { name: "transformMapEntry", args: Some(4), receiver: true, rewrite: transform_map_entry },
];

/// cel.bind
pub const BINDINGS: &[Macro] = &[Macro { name: "bind", args: Some(3), receiver: true, rewrite: expand_bind }];

/// cel.block, cel.index, cel.iterVar, cel.accuVar
pub const BLOCKS: &[Macro] = block::MACROS;

/// optMap, optFlatMap
pub const OPTIONAL: &[Macro] = &[
    Macro { name: "optMap", args: Some(2), receiver: true, rewrite: opt_map },
    Macro { name: "optFlatMap", args: Some(2), receiver: true, rewrite: opt_flat_map },
];

/// sortBy
pub const LISTS: &[Macro] = &[Macro { name: "sortBy", args: Some(2), receiver: true, rewrite: sort_by }];

/// math.greatest, math.least
pub const MATH: &[Macro] = &[
    Macro { name: "greatest", args: None, receiver: true, rewrite: math_greatest },
    Macro { name: "least", args: None, receiver: true, rewrite: math_least },
];

/// The macro for the call; one with a fixed number of arguments takes precedence over one with any number.
pub(super) fn find(macros: &[Macro], name: &str, args: usize, receiver: bool) -> Option<Rewrite> {
    let named = || macros.iter().rev().filter(|it| it.receiver == receiver && it.name == name);
    named()
        .find(|it| it.args == Some(args))
        .or_else(|| named().find(|it| it.args.is_none()))
        .map(|it| it.rewrite)
}

fn expand_has(tree: &mut Builder, _target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    let [arg] = take(args)?;
    match arg.kind {
        ExprKind::Select { operand, field, .. } => {
            Ok(Rewritten::To(tree.at(tree.macro_at, ExprKind::Select { operand, field, test_only: true })))
        }
        _ => Err((arg.id, "invalid argument to has() macro".into())),
    }
}

/// The quantifier of a loop over one or two variables.
#[derive(Clone, Copy)]
enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

struct Variables {
    first: Arc<str>,
    second: Option<Arc<str>>,
}

fn all(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    quantify_one(tree, Quantifier::All, target, args)
}

fn exists(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    quantify_one(tree, Quantifier::Exists, target, args)
}

fn exists_one(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    quantify_one(tree, Quantifier::ExistsOne, target, args)
}

fn all2(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    quantify_two(tree, Quantifier::All, target, args)
}

fn exists2(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    quantify_two(tree, Quantifier::Exists, target, args)
}

fn exists_one2(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    quantify_two(tree, Quantifier::ExistsOne, target, args)
}

fn quantify_one(
    tree: &mut Builder,
    quantifier: Quantifier,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Expansion {
    let [variable, predicate] = take(args)?;
    let first = loop_variable(&variable, "argument must be a simple name")?;
    expand_quantifier(tree, quantifier, target, Variables { first, second: None }, predicate)
}

fn quantify_two(
    tree: &mut Builder,
    quantifier: Quantifier,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Expansion {
    let [first, second, predicate] = take(args)?;
    expand_quantifier(tree, quantifier, target, two_variables(&first, &second)?, predicate)
}

fn expand_quantifier(
    tree: &mut Builder,
    quantifier: Quantifier,
    target: Option<Expr>,
    variables: Variables,
    predicate: Expr,
) -> Expansion {
    let accu: Arc<str> = ACCUMULATOR.into();
    let accu_init = tree.literal(match quantifier {
        Quantifier::All => Literal::Bool(true),
        Quantifier::Exists => Literal::Bool(false),
        Quantifier::ExistsOne => Literal::Int(0),
    });
    let value = tree.ident(&accu);
    let (loop_condition, loop_step, result) = match quantifier {
        Quantifier::All => {
            let condition = tree.call(operators::NOT_STRICTLY_FALSE, vec![value]);
            let value = tree.ident(&accu);
            (condition, tree.call(operators::AND, vec![value, predicate]), tree.ident(&accu))
        }
        Quantifier::Exists => {
            let not = tree.call(operators::NOT, vec![value]);
            let condition = tree.call(operators::NOT_STRICTLY_FALSE, vec![not]);
            let value = tree.ident(&accu);
            (condition, tree.call(operators::OR, vec![value, predicate]), tree.ident(&accu))
        }
        Quantifier::ExistsOne => {
            let condition = tree.literal(Literal::Bool(true));
            let one = tree.literal(Literal::Int(1));
            let counted = tree.call(operators::ADD, vec![value, one]);
            let uncounted = tree.ident(&accu);
            let step = tree.call(operators::CONDITIONAL, vec![predicate, counted, uncounted]);
            let (value, one) = (tree.ident(&accu), tree.literal(Literal::Int(1)));
            (condition, step, tree.call(operators::EQUALS, vec![value, one]))
        }
    };
    make_fold(tree, target, variables, accu_init, loop_condition, loop_step, Some(result))
}

fn expand_map(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    let (variable, condition, transform) = match <[Expr; 3]>::try_from(args) {
        Ok([variable, condition, transform]) => (variable, Some(condition), transform),
        Err(args) => {
            let [variable, transform] = take(args)?;
            (variable, None, transform)
        }
    };
    let first = loop_variable(&variable, "argument is not an identifier")?;
    let variables = Variables { first, second: None };
    collect(tree, target, variables, condition, transform)
}

fn filter(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    let [variable, condition] = take(args)?;
    let first = loop_variable(&variable, "argument is not an identifier")?;
    collect(tree, target, Variables { first, second: None }, Some(condition), variable)
}

fn transform_list(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    let (variables, condition, transform) = transformation(args)?;
    collect(tree, target, variables, condition, transform)
}

/// A loop that builds a list of the results of `transform` for the elements that `condition` accepts.
fn collect(
    tree: &mut Builder,
    target: Option<Expr>,
    variables: Variables,
    condition: Option<Expr>,
    transform: Expr,
) -> Expansion {
    let accu_init = tree.list(Vec::new());
    let always = tree.literal(Literal::Bool(true));
    let value = tree.ident(&ACCUMULATOR.into());
    let element = tree.list(vec![transform]);
    let step = tree.call(operators::ADD, vec![value, element]);
    let step = conditionally(tree, condition, step);
    make_fold(tree, target, variables, accu_init, always, step, None)
}

fn transform_map(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    let (variables, condition, transform) = transformation(args)?;
    let value = tree.ident(&ACCUMULATOR.into());
    let key = tree.ident(&variables.first);
    insert(tree, target, variables, condition, vec![value, key, transform])
}

fn transform_map_entry(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    let (variables, condition, transform) = transformation(args)?;
    let value = tree.ident(&ACCUMULATOR.into());
    insert(tree, target, variables, condition, vec![value, transform])
}

fn insert(
    tree: &mut Builder,
    target: Option<Expr>,
    variables: Variables,
    condition: Option<Expr>,
    args: Vec<Expr>,
) -> Expansion {
    let step = tree.call("cel.@mapInsert", args);
    let step = conditionally(tree, condition, step);
    let accu_init = tree.at(tree.macro_at, ExprKind::Map(Vec::new()));
    let always = tree.literal(Literal::Bool(true));
    make_fold(tree, target, variables, accu_init, always, step, None)
}

/// Builds `condition ? step : @result`.
fn conditionally(tree: &mut Builder, condition: Option<Expr>, step: Expr) -> Expr {
    match condition {
        Some(condition) => {
            let value = tree.ident(&ACCUMULATOR.into());
            tree.call(operators::CONDITIONAL, vec![condition, step, value])
        }
        None => step,
    }
}

fn make_fold(
    tree: &mut Builder,
    target: Option<Expr>,
    variables: Variables,
    accu_init: Expr,
    loop_condition: Expr,
    loop_step: Expr,
    result: Option<Expr>,
) -> Expansion {
    let iter_range = target.ok_or((0, String::new()))?;
    let accu_var: Arc<str> = ACCUMULATOR.into();
    let result = result.unwrap_or_else(|| tree.ident(&accu_var));
    Ok(Rewritten::To(tree.comprehension(Comprehension {
        iter_range,
        iter_var: variables.first,
        iter_var2: variables.second,
        accu_var,
        accu_init,
        loop_condition,
        loop_step,
        result,
    })))
}

fn expand_bind(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    if !is_ident(target.as_ref(), "cel") {
        return Ok(Rewritten::Not(target, args));
    }
    let [variable, init, result] = take(args)?;
    let name = simple_name(&variable)
        .ok_or_else(|| (variable.id, "cel.bind() variable names must be simple identifiers".to_owned()))?;
    Ok(Rewritten::To(bind_variable(tree, name, init, result)))
}

/// A loop without iterations: `result` with `name` bound to `init`.
fn bind_variable(tree: &mut Builder, name: Arc<str>, init: Expr, result: Expr) -> Expr {
    let iter_range = tree.list(Vec::new());
    let loop_condition = tree.literal(Literal::Bool(false));
    let loop_step = tree.ident(&name);
    tree.comprehension(Comprehension {
        iter_range,
        iter_var: UNUSED.into(),
        iter_var2: None,
        accu_var: name,
        accu_init: init,
        loop_condition,
        loop_step,
        result,
    })
}

/// Binds the target to a name, and sorts it by the list of its elements' keys.
fn sort_by(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    let name: Arc<str> = "@__sortBy_input__".into();
    let input = tree.ident(&name);
    let target = target.ok_or((0, String::new()))?;
    if matches!(target.kind, ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Struct { .. }) {
        let report_error =
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err((target.id, report_error.into()));
    }
    let range = tree.copy(&input);
    let Rewritten::To(keys) = expand_map(tree, Some(range), args)? else {
        return Err((target.id, String::new()));
    };
    let sorted = tree.copy(&input);
    let sorted = tree.at(
        tree.macro_at,
        ExprKind::Call {
            function: "@sortByAssociatedKeys".into(),
            target: Some(Box::new(sorted)),
            args: vec![keys],
        },
    );
    Ok(Rewritten::To(bind_variable(tree, name, target, sorted)))
}

fn opt_map(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    let (present, value) =
        unwrapped(tree, target, args, "optMap() variable name must be a simple identifier")?;
    let value = tree.call("optional.of", vec![value]);
    let none = tree.call("optional.none", Vec::new());
    Ok(Rewritten::To(tree.call(operators::CONDITIONAL, vec![present, value, none])))
}

fn opt_flat_map(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    let (present, value) =
        unwrapped(tree, target, args, "optFlatMap() variable name must be a simple identifier")?;
    let none = tree.call("optional.none", Vec::new());
    Ok(Rewritten::To(tree.call(operators::CONDITIONAL, vec![present, value, none])))
}

/// `target.hasValue()`, and the second argument with the first bound to `target.value()`.
fn unwrapped(
    tree: &mut Builder,
    target: Option<Expr>,
    args: Vec<Expr>,
    not_simple: &str,
) -> Result<(Expr, Expr), (Id, String)> {
    let target = target.ok_or((0, String::new()))?;
    let [variable, transform] = take(args)?;
    let name = simple_name(&variable).ok_or_else(|| (variable.id, not_simple.to_owned()))?;
    let again = tree.copy(&target);
    let present = tree.method("hasValue", target);
    let init = tree.method("value", again);
    Ok((present, bind_variable(tree, name, init, transform)))
}

fn math_greatest(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    expand_extreme(tree, "math.greatest()", "math.@max", target, args)
}

fn math_least(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    expand_extreme(tree, "math.least()", "math.@min", target, args)
}

fn expand_extreme(
    tree: &mut Builder,
    name: &str,
    function: &str,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Expansion {
    if !is_ident(target.as_ref(), "math") {
        return Ok(Rewritten::Not(target, args));
    }
    if let [arg] = args.as_slice() {
        let numbers = matches!(&arg.kind, ExprKind::List { elements, .. }
            if !elements.is_empty() && elements.iter().all(may_be_number));
        if !numbers && !may_be_number(arg) {
            return Err((arg.id, format!("{name} invalid single argument value")));
        }
    } else if let Some(arg) = args.iter().find(|arg| !may_be_number(arg)) {
        return Err((arg.id, format!("{name} simple literal arguments must be numeric")));
    }
    match args.len() {
        0 => Err((target.map_or(0, |target| target.id), format!("{name} requires at least one argument"))),
        1 | 2 => Ok(Rewritten::To(tree.call(function, args))),
        _ => {
            let list = tree.list(args);
            Ok(Rewritten::To(tree.call(function, vec![list])))
        }
    }
}

fn may_be_number(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Literal(literal) => {
            matches!(literal, Literal::Int(_) | Literal::Uint(_) | Literal::Double(_))
        }
        ExprKind::List { .. } | ExprKind::Map(_) | ExprKind::Struct { .. } => false,
        _ => true,
    }
}

fn is_ident(expr: Option<&Expr>, name: &str) -> bool {
    matches!(expr, Some(Expr { kind: ExprKind::Ident(ident), .. }) if &**ident == name)
}

fn simple_name(expr: &Expr) -> Option<Arc<str>> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.clone()),
        _ => None,
    }
}

fn loop_variable(expr: &Expr, not_simple: &str) -> Result<Arc<str>, (Id, String)> {
    let name = simple_name(expr).ok_or_else(|| (expr.id, not_simple.to_owned()))?;
    if [ACCUMULATOR, OLD_ACCUMULATOR].contains(&&*name) {
        return Err((expr.id, "iteration variable overwrites accumulator variable".into()));
    }
    Ok(name)
}

fn two_variables(first: &Expr, second: &Expr) -> Result<Variables, (Id, String)> {
    const NOT_SIMPLE: &str = "argument must be a simple name";
    let names = [first, second].map(simple_name);
    if let [Some(one), Some(other)] = &names
        && one == other
    {
        return Err((second.id, format!("duplicate variable name: {one}")));
    }
    // An invalid name is reported before a reserved one.
    for (expr, name) in [first, second].into_iter().zip(names) {
        name.ok_or_else(|| (expr.id, NOT_SIMPLE.to_owned()))?;
    }
    Ok(Variables {
        first: loop_variable(first, NOT_SIMPLE)?,
        second: Some(loop_variable(second, NOT_SIMPLE)?),
    })
}

/// The variables, the condition and the transformation of `transform…(a, b[, condition], transformation)`.
fn transformation(args: Vec<Expr>) -> Result<(Variables, Option<Expr>, Expr), (Id, String)> {
    match <[Expr; 4]>::try_from(args) {
        Ok([first, second, condition, transform]) => {
            Ok((two_variables(&first, &second)?, Some(condition), transform))
        }
        Err(args) => {
            let [first, second, transform] = take(args)?;
            Ok((two_variables(&first, &second)?, None, transform))
        }
    }
}

/// Converts to the number of arguments that the table guarantees.
fn take<const N: usize>(args: Vec<Expr>) -> Result<[Expr; N], (Id, String)> {
    <[Expr; N]>::try_from(args).map_err(|_| (0, String::new()))
}
