//! Validates constant formats against the types of their arguments at compile time.

use super::render::clause_type_error;
use super::{Clause, Dialect, interpolate};
use crate::ast::{Expr, ExprKind, Id, Literal};
use crate::env::Checked;
use crate::types::Type;

/// The validator of version 4.
pub(in super::super) fn validate_plain(checked: &Checked, report: &mut dyn FnMut(Id, String)) {
    validate(checked, report, Dialect::Plain);
}

/// The validator of versions 1 to 3.
pub(in super::super) fn validate_localized(checked: &Checked, report: &mut dyn FnMut(Id, String)) {
    validate(checked, report, Dialect::Localized);
}

/// An error, and its node if that is not the call.
struct FormatError {
    at: Option<Id>,
    message: String,
}

impl From<String> for FormatError {
    fn from(message: String) -> FormatError {
        FormatError { at: None, message }
    }
}

fn validate(checked: &Checked, report: &mut dyn FnMut(Id, String), dialect: Dialect) {
    let mut waiting = std::collections::VecDeque::from([&checked.ast.root]);
    while let Some(expr) = waiting.pop_front() {
        if let Some((format, args)) = constant_format(expr) {
            let mut used = 0;
            let result = interpolate(format, args.len(), false, |clause, index| {
                used = index.saturating_add(1);
                args.get(index).map_or(Ok(String::new()), |arg| check(checked, clause, arg, dialect))
            });
            match result {
                Err(mistake) => report(mistake.at.unwrap_or(expr.id), mistake.message),
                Ok(_) if args.len() > used => {
                    let given = args.len();
                    report(
                        expr.id,
                        format!(
                            "too many arguments supplied to string.format (expected {used}, got {given})"
                        ),
                    );
                }
                Ok(_) => {}
            }
        }
        waiting.extend(expr.children());
    }
}

/// Returns the format string and the arguments of a call `"…".format([…])` whose format is a literal.
fn constant_format(expr: &Expr) -> Option<(&str, &[Expr])> {
    let ExprKind::Call { function, target: Some(target), args } = &expr.kind else {
        return None;
    };
    match (&**function, &target.kind, args.as_slice()) {
        (
            "format",
            ExprKind::Literal(Literal::String(format)),
            [Expr { kind: ExprKind::List { elements, .. }, .. }],
        ) => Some((format, elements)),
        _ => None,
    }
}

fn check(checked: &Checked, clause: Clause, arg: &Expr, dialect: Dialect) -> Result<String, FormatError> {
    let misfitting = match clause {
        Clause::String => find_without_text(checked, arg),
        clause => (!is_formattable(clause, checked.type_of(arg.id), dialect)).then_some(arg.id),
    };
    match misfitting {
        None => Ok(String::new()),
        Some(id) => {
            let ty = checked.type_of(id).runtime_name();
            let message = format!("error during formatting: {}", clause_type_error(clause, dialect, &ty));
            Err(FormatError { at: Some(id), message })
        }
    }
}

fn is_formattable(clause: Clause, ty: &Type, dialect: Dialect) -> bool {
    let ty = match ty {
        Type::Wrapper(ty) => ty,
        ty => ty,
    };
    let integer = matches!(ty, Type::Int | Type::Uint);
    match clause {
        _ if *ty == Type::Dyn => true,
        Clause::String => true,
        Clause::Decimal => integer || (dialect == Dialect::Plain && *ty == Type::Double),
        // Strings are accepted, because they may be the text of an infinity or not-a-number.
        Clause::Fixed(_) | Clause::Scientific(_) if dialect == Dialect::Localized => {
            matches!(ty, Type::Double | Type::String)
        }
        Clause::Fixed(_) | Clause::Scientific(_) => integer || *ty == Type::Double,
        Clause::Binary => integer || *ty == Type::Bool,
        Clause::Hex { .. } => integer || matches!(ty, Type::String | Type::Bytes),
        Clause::Octal => integer,
    }
}

/// The part of an argument that has no text.
fn find_without_text(checked: &Checked, arg: &Expr) -> Option<Id> {
    let ty = match checked.type_of(arg.id) {
        Type::Wrapper(ty) => ty,
        ty => ty,
    };
    if matches!(ty, Type::Any | Type::Object(_) | Type::Opaque(..) | Type::Param(_) | Type::Error) {
        return Some(arg.id);
    }
    match &arg.kind {
        ExprKind::List { elements, .. } => elements.iter().find_map(|part| find_without_text(checked, part)),
        ExprKind::Map(entries) => entries
            .iter()
            .flat_map(|entry| [&entry.key, &entry.value])
            .find_map(|part| find_without_text(checked, part)),
        _ => None,
    }
}
