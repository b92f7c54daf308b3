//! Plans loops: recognizes the expansions of the common macros and gives them faster forms.

use std::sync::Arc;

use super::{Fold, FoldKind, General, NewEntry, Node, Planner};
use crate::ast::{Comprehension, Expr, ExprKind, Literal, operators};
use crate::cost::{LIST_CREATE, MAP_CREATE};
use crate::program::PlanError;

impl Planner<'_> {
    pub(super) fn plan_fold(&mut self, comprehension: &Comprehension) -> Result<Node, PlanError> {
        let range = self.plan(&comprehension.iter_range)?;
        let variable = self.new_slot();
        let second = comprehension.iter_var2.is_some().then(|| self.new_slot());
        let kind = match Form::of(comprehension) {
            Some(form) => self.plan_special_fold(comprehension, form, variable, second)?,
            None => self.plan_general_fold(comprehension, variable, second)?,
        };
        Ok(Node::Fold(Box::new(Fold { range, variable, second, kind })))
    }

    fn new_slot(&mut self) -> usize {
        self.locals = self.locals.saturating_add(1);
        self.locals.saturating_sub(1)
    }

    /// Plans `expr` in the scope of the loop's variables.
    fn within(
        &mut self,
        expr: &Expr,
        variables: &[(Option<&Arc<str>>, Option<usize>)],
    ) -> Result<Node, PlanError> {
        let outer = self.scope.len();
        for (name, slot) in variables {
            if let (Some(name), Some(slot)) = (name, slot) {
                self.scope.push(((*name).clone(), *slot));
            }
        }
        let node = self.plan(expr);
        self.scope.truncate(outer);
        node
    }

    fn plan_special_fold(
        &mut self,
        loop_: &Comprehension,
        form: Form<'_>,
        variable: usize,
        second: Option<usize>,
    ) -> Result<FoldKind, PlanError> {
        let variables = [(Some(&loop_.iter_var), Some(variable)), (loop_.iter_var2.as_ref(), second)];
        Ok(match form {
            Form::All(predicate) => FoldKind::All(self.within(predicate, &variables)?),
            Form::Exists(predicate) => FoldKind::Exists(self.within(predicate, &variables)?),
            Form::ExistsOne(predicate) => FoldKind::ExistsOne(self.within(predicate, &variables)?),
            Form::Insert(filter, entry) => FoldKind::Insert {
                filter: filter.map(|filter| self.within(filter, &variables)).transpose()?,
                entry: match entry {
                    [key, value] => {
                        NewEntry::One(self.within(key, &variables)?, self.within(value, &variables)?)
                    }
                    [entries] => NewEntry::All(self.within(entries, &variables)?),
                    _ => return Err(PlanError("no such overload: cel.@mapInsert".into())),
                },
                init: if self.folds() { 0 } else { MAP_CREATE },
            },
            Form::Append(filter, items) => FoldKind::Append {
                filter: filter.map(|filter| self.within(filter, &variables)).transpose()?,
                items: self.within(items, &variables)?,
                init: if self.folds() { 0 } else { LIST_CREATE },
            },
        })
    }

    fn plan_general_fold(
        &mut self,
        loop_: &Comprehension,
        variable: usize,
        second: Option<usize>,
    ) -> Result<FoldKind, PlanError> {
        let init = self.plan(&loop_.accu_init)?;
        let accumulator = self.new_slot();
        let variables = [
            (Some(&loop_.iter_var), Some(variable)),
            (loop_.iter_var2.as_ref(), second),
            (Some(&loop_.accu_var), Some(accumulator)),
        ];
        Ok(FoldKind::General(General {
            accumulator,
            init,
            condition: self.within(&loop_.loop_condition, &variables)?,
            step: self.within(&loop_.loop_step, &variables)?,
            // The result cannot use the loop's own variables.
            result: self.within(&loop_.result, &variables[2..])?,
        }))
    }
}

/// The recognized form of a loop.
enum Form<'x> {
    All(&'x Expr),
    Exists(&'x Expr),
    ExistsOne(&'x Expr),
    /// The filter, and the list that is appended.
    Append(Option<&'x Expr>, &'x Expr),
    /// The filter, and the arguments after the map.
    Insert(Option<&'x Expr>, &'x [Expr]),
}

impl<'x> Form<'x> {
    fn of(loop_: &'x Comprehension) -> Option<Form<'x>> {
        let name = &*loop_.accu_var;
        if *loop_.iter_var == *name {
            return None;
        }
        if let ExprKind::Literal(Literal::Int(0)) = loop_.accu_init.kind {
            return Form::exists_one(loop_, name);
        }
        if !is_ident(&loop_.result, name) {
            return None;
        }
        let condition = &loop_.loop_condition;
        match &loop_.accu_init.kind {
            ExprKind::Literal(Literal::Bool(true)) => {
                let [accumulated] = call(condition, operators::NOT_STRICTLY_FALSE)? else { return None };
                let [left, predicate] = call(&loop_.loop_step, operators::AND)? else { return None };
                let known = is_ident(accumulated, name) && is_ident(left, name) && !mentions(predicate, name);
                known.then_some(Form::All(predicate))
            }
            ExprKind::Literal(Literal::Bool(false)) => {
                let [not] = call(condition, operators::NOT_STRICTLY_FALSE)? else { return None };
                let [accumulated] = call(not, operators::NOT)? else { return None };
                let [left, predicate] = call(&loop_.loop_step, operators::OR)? else { return None };
                let known = is_ident(accumulated, name) && is_ident(left, name) && !mentions(predicate, name);
                known.then_some(Form::Exists(predicate))
            }
            ExprKind::List { elements, .. } if elements.is_empty() && is_true(condition) => {
                Form::as_append(&loop_.loop_step, name)
            }
            ExprKind::Map(entries) if entries.is_empty() && is_true(condition) => {
                Form::map_insertion(&loop_.loop_step, name)
            }
            _ => None,
        }
    }

    /// `predicate ? @result + 1 : @result`, and `@result == 1` at the end.
    fn exists_one(loop_: &'x Comprehension, name: &str) -> Option<Form<'x>> {
        let one = |expr: &Expr| expr.kind == ExprKind::Literal(Literal::Int(1));
        let [predicate, more, unchanged] = call(&loop_.loop_step, operators::CONDITIONAL)? else {
            return None;
        };
        let [counted, step] = call(more, operators::ADD)? else { return None };
        let [count, wanted] = call(&loop_.result, operators::EQUALS)? else { return None };
        let known = is_true(&loop_.loop_condition)
            && [unchanged, counted, count].into_iter().all(|expr| is_ident(expr, name))
            && one(step)
            && one(wanted)
            && !mentions(predicate, name);
        known.then_some(Form::ExistsOne(predicate))
    }

    fn map_insertion(step: &'x Expr, name: &str) -> Option<Form<'x>> {
        let (filter, step) = filtered(step, name);
        let (accumulated, entry) = call(step, MAP_INSERT)?.split_first()?;
        let known = is_ident(accumulated, name)
            && matches!(entry.len(), 1 | 2)
            && filter.into_iter().chain(entry).all(|part| !mentions(part, name));
        known.then_some(Form::Insert(filter, entry))
    }

    fn as_append(step: &'x Expr, name: &str) -> Option<Form<'x>> {
        let (filter, step) = filtered(step, name);
        let [accumulated, items] = call(step, operators::ADD)? else { return None };
        let list = matches!(&items.kind, ExprKind::List { optional, .. } if optional.is_empty());
        let known = list
            && is_ident(accumulated, name)
            && !mentions(items, name)
            && filter.is_none_or(|filter| !mentions(filter, name));
        known.then_some(Form::Append(filter, items))
    }
}

/// The function with which the macros of two variables build maps.
const MAP_INSERT: &str = "cel.@mapInsert";

/// The condition and the step of `condition ? step : accumulator`.
fn filtered<'x>(step: &'x Expr, name: &str) -> (Option<&'x Expr>, &'x Expr) {
    match call(step, operators::CONDITIONAL) {
        Some([filter, step, unchanged]) if is_ident(unchanged, name) => (Some(filter), step),
        _ => (None, step),
    }
}

fn is_true(expr: &Expr) -> bool {
    expr.kind == ExprKind::Literal(Literal::Bool(true))
}

fn is_ident(expr: &Expr, name: &str) -> bool {
    matches!(&expr.kind, ExprKind::Ident(ident) if **ident == *name)
}

fn call<'x>(expr: &'x Expr, name: &str) -> Option<&'x [Expr]> {
    match &expr.kind {
        ExprKind::Call { function, target: None, args } if **function == *name => Some(args),
        _ => None,
    }
}

/// Whether the variable is read; one with the same name in a nested loop is another variable.
fn mentions(expr: &Expr, name: &str) -> bool {
    match &expr.kind {
        ExprKind::Ident(ident) => **ident == *name,
        ExprKind::Comprehension(inner) => {
            let outside = mentions(&inner.iter_range, name) || mentions(&inner.accu_init, name);
            let shadowed = *inner.accu_var == *name;
            let within = [&inner.loop_condition, &inner.loop_step, &inner.result];
            outside || !shadowed && within.into_iter().any(|part| mentions(part, name))
        }
        _ => expr.children().into_iter().any(|child| mentions(child, name)),
    }
}
