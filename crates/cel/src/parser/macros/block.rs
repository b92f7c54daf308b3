//! `cel.block`: common subexpressions by number, as optimizers and the language's conformance tests write them.

use std::sync::Arc;

use super::{Expansion, Macro, Rewritten, bind_variable, is_ident, take};
use crate::ast::{Expr, ExprKind, Literal};
use crate::parser::tree::Builder;

/// cel.block, cel.index, cel.iterVar, cel.accuVar
pub(super) const MACROS: &[Macro] = &[
    Macro { name: "block", args: Some(2), receiver: true, rewrite: block },
    Macro { name: "index", args: Some(1), receiver: true, rewrite: index },
    Macro { name: "iterVar", args: Some(2), receiver: true, rewrite: iteration_variable },
    Macro { name: "accuVar", args: Some(2), receiver: true, rewrite: accumulator },
];

/// The result with `@index0`, `@index1`, … bound to the elements of the list; each can use those before it.
fn block(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    if !is_ident(target.as_ref(), "cel") {
        return Ok(Rewritten::Not(target, args));
    }
    let [list, mut result] = take(args)?;
    let elements = match list.kind {
        ExprKind::List { elements, optional } if optional.is_empty() => elements,
        _ => return Err((list.id, "cel.block requires the first arg to be a list literal".into())),
    };
    for (at, element) in elements.into_iter().enumerate().rev() {
        // cel-go declares the indices without a type.
        let element = tree.call("dyn", vec![element]);
        result = bind_variable(tree, format!("@index{at}").into(), element, result);
    }
    Ok(Rewritten::To(result))
}

fn index(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    numbered(tree, target, args, |numbers| format!("@index{}", numbers.join("")))
}

fn iteration_variable(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    numbered(tree, target, args, |numbers| format!("@it:{}", numbers.join(":")))
}

fn accumulator(tree: &mut Builder, target: Option<Expr>, args: Vec<Expr>) -> Expansion {
    numbered(tree, target, args, |numbers| format!("@ac:{}", numbers.join(":")))
}

/// The variable with these numbers.
fn numbered(
    tree: &mut Builder,
    target: Option<Expr>,
    args: Vec<Expr>,
    name: fn(&[String]) -> String,
) -> Expansion {
    if !is_ident(target.as_ref(), "cel") {
        return Ok(Rewritten::Not(target, args));
    }
    let number = |arg: &Expr| match &arg.kind {
        ExprKind::Literal(Literal::Int(number)) if *number >= 0 => Ok(number.to_string()),
        _ => Err((arg.id, "argument must be a non-negative int literal".to_owned())),
    };
    let numbers = args.iter().map(number).collect::<Result<Vec<_>, _>>()?;
    let name: Arc<str> = name(&numbers).into();
    Ok(Rewritten::To(tree.ident(&name)))
}
