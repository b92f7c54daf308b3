//! The checker: gives every node a type, resolves names and overloads, and reports errors as cel-go does.

mod assign;
mod call;
mod names;

use std::sync::Arc;

pub(crate) use assign::is_exact;
use assign::{Variables, is_dyn_or_error, most_general, optional_value};

use crate::ast::{Ast, Comprehension, Expr, ExprKind, Id, Literal, MapEntry, Source, StructField};
use crate::decl::Constant;
use crate::env::{Checked, Env, Reference};
use crate::issue::Issues;
use crate::types::Type;

/// Checks the tree, or returns its errors.
pub(crate) fn check(env: &Env, ast: Ast) -> Result<Checked, Issues> {
    let Ast { mut root, source } = ast;
    let nodes = source.offsets.len();
    let mut checker = Checker {
        env,
        issues: Issues::new(source.text.clone()),
        source: &source,
        variables: Variables::default(),
        types: vec![None; nodes],
        references: vec![None; nodes],
        locals: Vec::new(),
        scoped: false,
    };
    checker.check_expr(&mut root);
    let Checker { issues, variables, types, references, .. } = checker;
    // Types that are still unbound become `dyn`.
    let types = types.into_iter().map(|ty| ty.map(|ty| variables.substitute_all(&ty))).collect();
    issues.unless_any(Checked { ast: Ast { root, source }, env: env.clone(), types, references })
}

struct Checker<'a> {
    env: &'a Env,
    issues: Issues,
    source: &'a Source,
    variables: Variables,
    types: Vec<Option<Type>>,
    references: Vec<Option<Reference>>,
    /// Variables of the enclosing macros, the innermost last.
    locals: Vec<(Arc<str>, Type)>,
    /// Whether the scope of a macro was entered yet.
    scoped: bool,
}

/// The meaning of a name.
enum Named {
    Variable(Arc<str>, Type),
    Constant(Constant),
}

impl Named {
    fn ty(&self) -> &Type {
        match self {
            Named::Variable(_, ty) => ty,
            Named::Constant(constant) => &constant.ty,
        }
    }

    fn name(&self) -> &Arc<str> {
        match self {
            Named::Variable(name, _) => name,
            Named::Constant(constant) => &constant.name,
        }
    }

    fn into_reference(self) -> Reference {
        match self {
            Named::Variable(name, _) => Reference::Variable(name),
            Named::Constant(constant) => Reference::Constant(constant),
        }
    }
}

impl Checker<'_> {
    fn report(&mut self, id: Id, message: String) {
        let offset = self.source.offsets.get(id as usize).copied().filter(|offset| *offset != u32::MAX);
        self.issues.report(offset, message);
    }

    fn report_undeclared(&mut self, id: Id, name: &str) {
        let container = self.env.container();
        self.report(id, format!("undeclared reference to '{name}' (in container '{container}')"));
    }

    fn set(&mut self, id: Id, ty: Type) {
        if let Some(slot) = self.types.get_mut(id as usize) {
            *slot = Some(ty);
        }
    }

    fn set_reference(&mut self, id: Id, reference: Reference) {
        if let Some(slot) = self.references.get_mut(id as usize) {
            *slot = Some(reference);
        }
    }

    fn type_of(&self, id: Id) -> Type {
        self.types.get(id as usize).and_then(Clone::clone).unwrap_or(Type::Error)
    }

    fn check_expr(&mut self, expr: &mut Expr) {
        let id = expr.id;
        match &mut expr.kind {
            ExprKind::Literal(literal) => self.set(id, literal_type(literal)),
            ExprKind::Ident(name) => self.check_ident(id, name),
            ExprKind::Select { .. } => self.check_select(expr),
            ExprKind::Call { .. } => self.check_call(expr),
            ExprKind::List { elements, optional } => self.check_list(id, elements, optional),
            ExprKind::Map(entries) => self.check_map(id, entries),
            ExprKind::Struct { name, fields } => self.check_object(id, name, fields),
            ExprKind::Comprehension(comprehension) => self.check_comprehension(id, comprehension),
        }
    }

    fn check_ident(&mut self, id: Id, name: &mut Arc<str>) {
        match self.lookup(name) {
            Some(named) => {
                self.set(id, named.ty().clone());
                *name = named.name().clone();
                self.set_reference(id, named.into_reference());
            }
            None => {
                self.set(id, Type::Error);
                self.report_undeclared(id, &name.clone());
            }
        }
    }

    fn check_select(&mut self, expr: &mut Expr) {
        // `a.b.c` can be the name of one variable.
        if let Some(name) = names::qualified(expr)
            && let Some(named) = self.lookup(&name)
        {
            self.set(expr.id, named.ty().clone());
            expr.kind = ExprKind::Ident(named.name().clone());
            self.set_reference(expr.id, named.into_reference());
            return;
        }
        let ExprKind::Select { operand, field, test_only } = &mut expr.kind else { return };
        let field = field.clone();
        let ty = self.field(expr.id, operand, &field, false);
        let ty = if *test_only { Type::Bool } else { self.variables.substitute(&ty) };
        self.set(expr.id, ty);
    }

    /// The type of `operand.field`, or of `operand.?field`.
    fn field(&mut self, id: Id, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check_expr(operand);
        let ty = self.variables.substitute(&self.type_of(operand.id));
        let inner = optional_value(&ty);
        let optional = optional || inner.is_some();
        let result = match inner.unwrap_or(&ty) {
            Type::Map(ty) => ty.1.clone(),
            Type::Object(name) => self.field_type(id, name, field),
            target @ Type::Param(_) => {
                // Bound to `dyn`, so that it cannot be bound to a narrower type later.
                self.variables.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            target => {
                if !is_dyn_or_error(target) {
                    let message = format!("type '{target}' does not support field selection");
                    self.report(id, message);
                }
                Type::Dyn
            }
        };
        if optional { Type::optional(result) } else { result }
    }

    fn field_type(&mut self, id: Id, object: &str, field: &str) -> Type {
        let provider = self.env.provider();
        let Some(shape) = provider.objects.get(object) else {
            if provider.is_open(object) {
                return Type::Dyn;
            }
            self.report(id, format!("unexpected failed resolution of '{object}'"));
            return Type::Error;
        };
        match shape.fields.get(field) {
            Some(field) => field.shape.cel_type(),
            // An open type has the field, but nothing can be assigned to it: its type has no name.
            None if provider.is_open(object) => Type::Object("".into()),
            None => {
                self.report(id, format!("undefined field '{field}'"));
                Type::Error
            }
        }
    }

    fn check_list(&mut self, id: Id, elements: &mut [Expr], optional: &[u32]) {
        let mut joined = None;
        for (index, element) in elements.iter_mut().enumerate() {
            self.check_expr(element);
            let is_optional = optional.iter().any(|optional| *optional as usize == index);
            let ty = self.value_type(element.id, is_optional);
            joined = Some(self.join(joined, ty));
        }
        let ty = joined.unwrap_or_else(|| self.variables.fresh());
        self.set(id, Type::list(ty));
    }

    /// The type of an element or entry, unwrapped where it is marked as optional.
    fn value_type(&mut self, id: Id, optional: bool) -> Type {
        let ty = self.type_of(id);
        if !optional {
            return ty;
        }
        match optional_value(&ty) {
            Some(ty) => ty.clone(),
            None => {
                if !matches!(ty, Type::Dyn | Type::Any) {
                    self.mismatch(id, &Type::optional(ty.clone()), &ty);
                }
                ty
            }
        }
    }

    fn check_map(&mut self, id: Id, entries: &mut [MapEntry]) {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check_expr(&mut entry.key);
            let key = self.type_of(entry.key.id);
            keys = Some(self.join(keys, key));
            self.check_expr(&mut entry.value);
            let value = self.value_type(entry.value.id, entry.optional);
            values = Some(self.join(values, value));
        }
        let key = keys.unwrap_or_else(|| self.variables.fresh());
        let value = values.unwrap_or_else(|| self.variables.fresh());
        self.set(id, Type::map(key, value));
    }

    /// The common type of both.
    fn join(&mut self, before: Option<Type>, ty: Type) -> Type {
        let Some(before) = before else { return ty };
        if self.variables.assignable(&before, &ty) {
            return most_general(before, ty);
        }
        Type::Dyn
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.report(id, format!("expected type '{expected}' but found '{found}'"));
    }

    fn check_object(&mut self, id: Id, name: &mut Arc<str>, fields: &mut [StructField]) {
        let Some(named) = self.lookup(name) else {
            self.report_undeclared(id, &name.clone());
            self.set(id, Type::Error);
            return;
        };
        *name = named.name().clone();
        let ty = match named.ty() {
            Type::Type(Some(ty)) => match &**ty {
                Type::Object(_) => (**ty).clone(),
                other => {
                    let message = format!("'{}' is not a message type", other.name());
                    self.report(id, message);
                    Type::Error
                }
            },
            Type::Error => Type::Error,
            other => {
                let message = format!("'{}' is not a type", other.name());
                self.report(id, message);
                Type::Error
            }
        };
        self.set_reference(id, named.into_reference());
        self.set(id, ty);
        for field in fields {
            self.check_expr(&mut field.value);
            let expected = self.field_type(field.id, &name.clone(), &field.name);
            let found = self.value_type(field.value.id, field.optional);
            if !self.variables.assignable(&expected, &found) {
                let message = format!(
                    "expected type of field '{}' is '{expected}' but provided type is '{found}'",
                    field.name
                );
                self.report(field.id, message);
            }
        }
    }

    fn check_comprehension(&mut self, id: Id, it: &mut Comprehension) {
        self.check_expr(&mut it.iter_range);
        self.check_expr(&mut it.accu_init);
        let range = self.variables.substitute(&self.type_of(it.iter_range.id));
        let accumulated = self.type_of(it.accu_init.id);
        let (first, second) = match &range {
            Type::List(ty) if it.iter_var2.is_some() => (Type::Int, (**ty).clone()),
            Type::List(ty) => ((**ty).clone(), Type::Error),
            Type::Map(ty) => (ty.0.clone(), ty.1.clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.variables.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(it.iter_range.id, message);
                (Type::Error, Type::Error)
            }
        };
        self.scoped = true;
        self.locals.push((it.accu_var.clone(), accumulated.clone()));
        let outside = self.locals.len();
        self.locals.push((it.iter_var.clone(), first));
        if let Some(variable) = &it.iter_var2 {
            self.locals.push((variable.clone(), second));
        }
        self.check_expr(&mut it.loop_condition);
        self.require_assignable(it.loop_condition.id, &Type::Bool);
        self.check_expr(&mut it.loop_step);
        self.require_assignable(it.loop_step.id, &accumulated);
        self.locals.truncate(outside);
        self.check_expr(&mut it.result);
        self.locals.pop();
        let ty = self.variables.substitute(&self.type_of(it.result.id));
        self.set(id, ty);
    }

    fn require_assignable(&mut self, id: Id, expected: &Type) {
        let found = self.type_of(id);
        if !self.variables.assignable(expected, &found) {
            self.mismatch(id, expected, &found);
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
