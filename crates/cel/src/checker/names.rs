//! Name resolution: variables of macros, declared variables, types; the innermost container comes first.

use std::sync::Arc;

use super::{Checker, Named};
use crate::ast::{Expr, ExprKind};
use crate::decl::{Constant, Function};
use crate::types::Type;
use crate::value::Value;

impl Checker<'_> {
    /// The meaning of the name of a variable or type.
    pub(super) fn lookup(&self, name: &str) -> Option<Named> {
        candidates(self.env.container(), name, |candidate| self.find_declaration(candidate))
    }

    /// A function by name.
    pub(super) fn function(&self, name: &str) -> Option<Arc<Function>> {
        candidates(self.env.container(), name, |candidate| self.env.function(candidate).cloned())
    }

    fn find_declaration(&self, name: &str) -> Option<Named> {
        if let Some((name, ty)) = self.locals.iter().rev().find(|(local, _)| &**local == name) {
            return Some(Named::Variable(name.clone(), ty.clone()));
        }
        if let Some(variable) = self.env.variable(name) {
            return Some(Named::Variable(variable.name.clone(), variable.ty.clone()));
        }
        if let Some(constant) = self.env.constant(name) {
            return Some(Named::Constant(constant.clone()));
        }
        let provider = self.env.provider();
        let name: Arc<str> = match provider.objects.get_key_value(name) {
            Some((name, _)) => name.clone(),
            None if provider.is_open(name) => name.into(),
            None => return None,
        };
        let ty = Type::Object(name.clone());
        let value = Value::Type(ty.clone());
        Some(Named::Constant(Constant { name, ty: Type::Type(Some(Arc::new(ty))), value }))
    }
}

/// The first of the possible full names of `name` in `container` for which `find` returns something: in `a.b`, `x` can be
/// `a.b.x`, `a.x` or `x`; `.x` is only `x`.
fn candidates<T>(container: &str, name: &str, find: impl Fn(&str) -> Option<T>) -> Option<T> {
    if let Some(name) = name.strip_prefix('.') {
        return find(name);
    }
    let mut outer = container;
    while !outer.is_empty() {
        if let Some(found) = find(&format!("{outer}.{name}")) {
            return Some(found);
        }
        outer = outer.rfind('.').and_then(|dot| outer.get(..dot)).unwrap_or_default();
    }
    find(name)
}

/// `a.b.c` as one name.
pub(super) fn qualified(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.to_string()),
        ExprKind::Select { operand, field, test_only: false } => {
            let mut name = qualified(operand)?;
            name.push('.');
            name.push_str(field);
            Some(name)
        }
        _ => None,
    }
}
