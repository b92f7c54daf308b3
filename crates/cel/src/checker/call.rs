//! Resolves calls: the function, and the overloads that accept the arguments.

use std::sync::Arc;

use super::assign::{collect_params, instantiate};
use super::{Checker, is_exact, names};
use crate::ast::{Expr, ExprKind, Id, Literal, operators};
use crate::decl::{Function, Overload};
use crate::env::Reference;
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn check_call(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Call { function, target, args } = &mut expr.kind else { return };
        if &**function == operators::OPT_SELECT {
            return self.optional_select(id, target.is_some(), args);
        }
        args.iter_mut().for_each(|arg| self.check_expr(arg));
        let Some(receiver) = target else {
            match self.function(function) {
                Some(found) => {
                    use_full_name(function, &found);
                    self.resolve_overload(id, &found, None, args);
                }
                None => {
                    self.report_undeclared(id, &function.clone());
                    self.set(id, Type::Error);
                }
            }
            return;
        };
        // `a.b.f()` can be the function `a.b.f`.
        if let Some(namespace) = names::qualified(receiver)
            && let Some(found) = self.function(&format!("{namespace}.{function}"))
        {
            use_full_name(function, &found);
            *target = None;
            return self.resolve_overload(id, &found, None, args);
        }
        self.check_expr(receiver);
        match self.function(function) {
            Some(found) => self.resolve_overload(id, &found, Some(receiver.id), args),
            None => {
                self.set(id, Type::Error);
                self.report_undeclared(id, &function.clone());
            }
        }
    }

    fn optional_select(&mut self, id: Id, member: bool, args: &mut [Expr]) {
        let count = args.len();
        let ([operand, field], false) = (args, member) else {
            let with = if member { " member call with" } else { "" };
            let message = format!(
                "unsupported optional field selection: incorrect signature.{with} argument count: {count}"
            );
            return self.report(id, message);
        };
        let ExprKind::Literal(Literal::String(name)) = &field.kind else {
            return self.report(field.id, "unsupported optional field selection".into());
        };
        let name = name.clone();
        let ty = self.field(id, operand, &name, true);
        let ty = self.variables.substitute(&ty);
        self.set(id, ty);
        if let Some(function) = self.function(operators::OPT_SELECT) {
            self.set_reference(id, Reference::Function(function, vec![0]));
        }
    }

    fn resolve_overload(&mut self, id: Id, function: &Arc<Function>, target: Option<Id>, args: &[Expr]) {
        let found = if [operators::AND, operators::OR].contains(&function.name) {
            self.logical(args)
        } else {
            self.overloads(id, function, target, args)
        };
        match found {
            Some((ty, overloads)) => {
                self.set(id, ty);
                self.set_reference(id, Reference::Function(function.clone(), overloads));
            }
            None => self.set(id, Type::Error),
        }
    }

    /// Reports each argument of `&&` and `||` that is not a bool.
    fn logical(&mut self, args: &[Expr]) -> Option<(Type, Vec<u16>)> {
        let mut fits = true;
        for arg in args {
            let ty = self.type_of(arg.id);
            if !self.variables.assignable(&ty, &Type::Bool) {
                self.mismatch(arg.id, &Type::Bool, &ty);
                fits = false;
            }
        }
        fits.then(|| (Type::Bool, vec![0]))
    }

    /// The overloads that accept the arguments, and the result type: that of the first, or `dyn` if they differ.
    fn overloads(
        &mut self,
        id: Id,
        function: &Function,
        target: Option<Id>,
        args: &[Expr],
    ) -> Option<(Type, Vec<u16>)> {
        let given: Vec<Type> =
            target.into_iter().chain(args.iter().map(|arg| arg.id)).map(|id| self.type_of(id)).collect();
        let mut result: Option<Type> = None;
        let mut taken = Vec::new();
        for (index, overload) in function.overloads.iter().enumerate() {
            if overload.member != target.is_some()
                || overload.params.len() != given.len()
                || self.disabled(overload)
            {
                continue;
            }
            let Some(ty) = self.apply(overload, &given) else { continue };
            taken.push(u16::try_from(index).unwrap_or(u16::MAX));
            result = Some(match result {
                None => ty,
                Some(before) if matches!(before, Type::Dyn | Type::Any) || is_exact(&ty, &before) => before,
                Some(_) => Type::Dyn,
            });
        }
        if result.is_none() {
            self.no_overload(id, function.name, target.is_some(), &given);
        }
        Some((result?, taken))
    }

    /// The result type of the overload for arguments of these types.
    fn apply(&mut self, overload: &Overload, given: &[Type]) -> Option<Type> {
        let mut names = Vec::new();
        overload.params.iter().chain([&overload.result]).for_each(|ty| collect_params(ty, &mut names));
        if names.is_empty() {
            return self.variables.assignable_all(given, &overload.params).then(|| overload.result.clone());
        }
        let fresh: Vec<Type> = names.iter().map(|_| self.variables.fresh()).collect();
        let params: Vec<Type> = overload.params.iter().map(|ty| instantiate(ty, &names, &fresh)).collect();
        let fits = self.variables.assignable_all(given, &params);
        fits.then(|| self.variables.substitute(&instantiate(&overload.result, &names, &fresh)))
    }

    fn no_overload(&mut self, id: Id, function: &str, member: bool, given: &[Type]) {
        let mut given: Vec<String> =
            given.iter().map(|ty| self.variables.substitute_all(ty).to_string()).collect();
        let target =
            if member && !given.is_empty() { format!("{}.", given.remove(0)) } else { String::new() };
        let message = format!(
            "found no matching overload for '{function}' applied to '{target}({})'",
            given.join(", ")
        );
        self.report(id, message);
    }

    /// Comparisons of two kinds of numbers can be disabled. cel-go loses that setting in the first scope of a macro,
    /// because scopes do not inherit it, and so do we (`numbers_of_two_kinds`).
    fn disabled(&self, overload: &Overload) -> bool {
        !self.env.options().cross_type_comparisons && !self.scoped && is_number_comparison(overload.id)
    }
}

/// `less_int64_double` and the like: a comparison of two different kinds of numbers.
fn is_number_comparison(id: &str) -> bool {
    let sides =
        ["less_equals_", "less_", "greater_equals_", "greater_"].iter().find_map(|it| id.strip_prefix(it));
    matches!(
        sides,
        Some(
            "int64_double"
                | "int64_uint64"
                | "uint64_double"
                | "uint64_int64"
                | "double_int64"
                | "double_uint64"
        )
    )
}

fn use_full_name(name: &mut Arc<str>, function: &Function) {
    if &**name != function.name {
        *name = function.name.into();
    }
}
