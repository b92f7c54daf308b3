//! Validators that run after the checker: literals that functions would reject at run time, and literals of mixed types.

use crate::ast::{Expr, ExprKind, Id, Literal, MapEntry};
use crate::checker::is_exact;
use crate::env::{Checked, Reference};
use crate::issue::Issues;
use crate::library::Validator;
use crate::regexp;
use crate::types::{OPTIONAL, Type};
use crate::value::{Text, Value};

/// The validators that Kubernetes uses for every expression.
pub(crate) const KUBERNETES: &[Validator] = &[durations, timestamps, patterns, homogeneous_literals];

/// Runs the environment's validators.
pub(crate) fn validate(checked: &Checked) -> Result<(), Issues> {
    let source = &checked.ast.source;
    let mut issues = Issues::new(source.text.clone());
    for validator in checked.env().validators() {
        validator(checked, &mut |id, message| {
            let offset = source.offsets.get(id as usize).copied().filter(|offset| *offset != u32::MAX);
            issues.report(offset, message);
        });
    }
    issues.unless_any(())
}

/// Reports calls of `duration` with an invalid literal: `duration('1 hour')`.
fn durations(checked: &Checked, report: &mut dyn FnMut(Id, String)) {
    first_literals(checked, "duration", report, |call, literal| runs(checked, call, literal));
}

/// Reports calls of `timestamp` with an invalid literal: `timestamp('today')`.
fn timestamps(checked: &Checked, report: &mut dyn FnMut(Id, String)) {
    first_literals(checked, "timestamp", report, |call, literal| runs(checked, call, literal));
}

/// `a.matches('(')`. For `matches(a, '(')` cel-go also checks the first argument, which is not the pattern.
fn patterns(checked: &Checked, report: &mut dyn FnMut(Id, String)) {
    first_literals(checked, "matches", report, |_, literal| match literal {
        Literal::String(pattern) => regexp::error(pattern).is_none(),
        _ => true,
    });
}

/// Reports the first arguments of calls of `function` that are literals and not valid.
fn first_literals(
    checked: &Checked,
    function: &str,
    report: &mut dyn FnMut(Id, String),
    valid: impl Fn(&Expr, &Literal) -> bool,
) {
    walk(&checked.ast.root, &mut |expr| {
        if let ExprKind::Call { function: called, args, .. } = &expr.kind
            && &**called == function
            && let Some(Expr { id, kind: ExprKind::Literal(literal) }) = args.first()
            && !valid(expr, literal)
        {
            report(*id, format!("invalid {function} argument"));
        }
    });
}

/// Whether a call of one literal succeeds.
fn runs(checked: &Checked, call: &Expr, literal: &Literal) -> bool {
    let Some(Reference::Function(function, overloads)) = checked.reference(call.id) else { return true };
    let Some(overload) = overloads.first().and_then(|index| function.overloads.get(*index as usize)) else {
        return true;
    };
    let value = match literal {
        Literal::String(text) => Value::String(Text::Borrowed(text)),
        Literal::Int(int) => Value::Int(*int),
        _ => return true,
    };
    (overload.run)(&[value]).is_ok()
}

/// `[1, 'a']`, `{'a': 1, 'b': 'c'}`, except in functions that accept mixed lists.
fn homogeneous_literals(checked: &Checked, report: &mut dyn FnMut(Id, String)) {
    check_homogeneous(checked, &checked.ast.root, report);
}

fn check_homogeneous(checked: &Checked, expr: &Expr, report: &mut dyn FnMut(Id, String)) {
    match &expr.kind {
        ExprKind::Call { function, .. } if checked.env().mixed_arguments().contains(&&**function) => return,
        ExprKind::List { elements, optional } => one_element_type(checked, elements, optional, report),
        ExprKind::Map(entries) => one_entry_type(checked, entries, report),
        _ => {}
    }
    for child in expr.children() {
        check_homogeneous(checked, child, report);
    }
}

fn one_element_type(
    checked: &Checked,
    elements: &[Expr],
    optional: &[u32],
    report: &mut dyn FnMut(Id, String),
) {
    let id_and_type = |(index, element): (usize, &Expr)| {
        let is_optional = optional.iter().any(|optional| *optional as usize == index);
        (element.id, optional_content(checked.type_of(element.id), is_optional).clone())
    };
    let mut types = elements.iter().enumerate().map(id_and_type);
    let Some((_, first)) = types.next() else { return };
    if let Some((id, found)) = types.find(|(_, found)| !is_exact(&first, found)) {
        report(id, mismatch(&first, &found));
    }
}

fn one_entry_type(checked: &Checked, entries: &[MapEntry], report: &mut dyn FnMut(Id, String)) {
    let Some(first) = entries.first() else { return };
    let key = checked.type_of(first.key.id);
    let value = optional_content(checked.type_of(first.value.id), first.optional);
    for entry in entries.iter().skip(1) {
        let found = checked.type_of(entry.key.id);
        if !is_exact(key, found) {
            report(entry.key.id, mismatch(key, found));
        }
        let found = optional_content(checked.type_of(entry.value.id), entry.optional);
        if !is_exact(value, found) {
            report(entry.value.id, mismatch(value, found));
        }
    }
}

/// The type of an optional's value; any other type itself.
fn optional_content(ty: &Type, optional: bool) -> &Type {
    match ty {
        Type::Opaque(name, params) if optional && &**name == OPTIONAL => params.first().unwrap_or(ty),
        ty => ty,
    }
}

fn mismatch(expected: &Type, found: &Type) -> String {
    format!("expected type '{expected}' but found '{found}'")
}

fn walk(expr: &Expr, visit: &mut dyn FnMut(&Expr)) {
    visit(expr);
    for child in expr.children() {
        walk(child, visit);
    }
}
