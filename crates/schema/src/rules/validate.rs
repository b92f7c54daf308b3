//! Evaluates the rules of a schema on an object, with kube-apiserver's error texts.

use super::compile::{Compiled, Message, OLD_SELF, Reason, Rule, SELF};
use super::scope::Scope;
use super::{CALL_COST_MAX, MESSAGE_BYTES_MAX, counts};
use crate::correlate::{Correlation, Pair, same_item};
use crate::{Arena, NodeId};
use pintle_cel::value::{EvalError, Value as CelValue};
use pintle_meta::FieldErrors;
use pintle_meta::field::{ERROR_BYTES_MAX, ERRORS_MAX, ErrorKind, ErrorText, quoted};
use pintle_value::{Path, Value};
use std::sync::Arc;
use std::time::Instant;

/// The field of errors of the object as a whole.
const NO_FIELD: &str = "<nil>";
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The result of evaluating rules.
#[derive(Debug)]
pub struct Outcome {
    /// The violated rules.
    pub errors: FieldErrors,
    /// The rules that are violated by unchanged values, which violated them before.
    pub warnings: Vec<String>,
    /// The rest of the budget; negative if it is exhausted.
    pub budget: i64,
}

/// The old object, and the schema by which its parts are correlated.
#[derive(Clone, Copy)]
pub struct Before<'a> {
    /// The schema's nodes.
    pub arena: &'a Arena,
    /// The schema's root.
    pub root: NodeId,
    /// The old object.
    pub old: &'a Value,
}

/// Evaluates all rules. With `before`, a rule that an unchanged value violates only becomes a warning.
pub fn validate(
    scope: &Scope,
    object: &Value,
    before: Option<Before<'_>>,
    path: &Path<'_>,
    budget: i64,
) -> Outcome {
    let correlation = before.map_or_else(Correlation::default, |before| {
        Correlation::of(Pair { node: before.root, value: object, old: before.old })
    });
    let old = before.map(|before| before.old);
    run(scope, object, old, before.map(|b| b.arena), correlation, path, budget)
}

/// Evaluates all rules for a value that may be new or replace `old`; unchanged values are not exempt.
pub fn validate_strictly(
    scope: &Scope,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    budget: i64,
) -> Outcome {
    run(scope, value, old, None, Correlation::default(), path, budget)
}

fn run<'a>(
    scope: &Scope,
    value: &'a Value,
    old: Option<&'a Value>,
    arena: Option<&Arena>,
    correlation: Correlation<'a>,
    path: &Path<'_>,
    budget: i64,
) -> Outcome {
    let out = Outcome { errors: FieldErrors::new(), warnings: Vec::new(), budget };
    let mut walk = Walk { arena, out, warning_bytes: 0 };
    walk.validate_value(scope, value, old, correlation, path);
    walk.out
}

struct Walk<'a> {
    /// Used to find what changed; without it, unchanged values are not exempt.
    arena: Option<&'a Arena>,
    out: Outcome,
    /// The size of all warnings, also of those that were dropped.
    warning_bytes: usize,
}

/// The budget is used up: evaluation ends.
struct Stop;

/// A value with its rules' context.
struct Subject<'a, 'p> {
    value: &'a Value,
    old: Option<&'a Value>,
    correlation: Correlation<'a>,
    type_name: &'a str,
    path: &'p Path<'p>,
}

/// The variables of expressions.
struct Values<'v> {
    this: CelValue<'v>,
    old: Option<CelValue<'v>>,
    /// The value of an optional `oldSelf`.
    optional_old: Option<CelValue<'v>>,
    /// Whether a rule of this value uses the old value.
    knows_old: bool,
}

/// The value within an optional `oldSelf`. Quirk of cel-go: a variable that is an optional is unwrapped to its native value, so
/// lists and maps have no schema: no formats, no sets, no escaped names, and members that are null or unknown.
fn within_optional<'v>(read: CelValue<'v>, tree: &'v Value) -> CelValue<'v> {
    match read {
        CelValue::List(_) | CelValue::Map(_) | CelValue::Object(_) => CelValue::any(tree),
        scalar => scalar,
    }
}

impl<'v> Values<'v> {
    fn variables(&self, optional_old_self: bool) -> Vec<(&'static str, CelValue<'v>)> {
        let mut out = vec![(SELF, self.this.clone())];
        if optional_old_self && self.knows_old {
            out.push((OLD_SELF, CelValue::Optional(self.optional_old.clone().map(Arc::new))));
        } else {
            out.extend(self.old.clone().map(|old| (OLD_SELF, old)));
        }
        out
    }
}

impl Walk<'_> {
    fn validate_value(
        &mut self,
        scope: &Scope,
        value: &Value,
        old: Option<&Value>,
        correlation: Correlation<'_>,
        path: &Path<'_>,
    ) {
        let began = Instant::now();
        if !value.is_null() {
            self.non_null(scope, value, old, correlation, path);
        }
        counts::evaluated(began);
    }

    fn non_null(
        &mut self,
        scope: &Scope,
        value: &Value,
        old: Option<&Value>,
        correlation: Correlation<'_>,
        path: &Path<'_>,
    ) {
        let old = old.filter(|old| !old.is_null());
        let nowhere = Path::of(NO_FIELD);
        let subject = Subject {
            value,
            old,
            correlation,
            type_name: &scope.type_name,
            path: if path.is_root() { &nowhere } else { path },
        };
        if self.rules(scope, &subject).is_err() {
            self.out.budget = -1;
            return;
        }
        match value {
            Value::Array(items) => self.validate_items(scope, items, old, correlation, path),
            Value::Object(_) => self.validate_members(scope, value, old, correlation, path),
            _ => {}
        }
    }

    fn validate_items(
        &mut self,
        scope: &Scope,
        items: &[Value],
        old: Option<&Value>,
        correlation: Correlation<'_>,
        path: &Path<'_>,
    ) {
        let Some(rules) = &scope.items else { return };
        let before = old.and_then(Value::as_array).unwrap_or(&[]);
        for (at, item) in items.iter().enumerate() {
            if self.out.budget < 0 {
                return;
            }
            let old = same_item(&scope.keys, before, item, at);
            let correlation = self.arena.map_or(correlation, |arena| correlation.index(arena, at));
            self.validate_value(rules, item, old, correlation, &path.index(at));
        }
    }

    fn validate_members(
        &mut self,
        scope: &Scope,
        value: &Value,
        old: Option<&Value>,
        correlation: Correlation<'_>,
        path: &Path<'_>,
    ) {
        let Value::Object(map) = value else { return };
        let mut member = |rules: &Scope, key: &str, value: &Value, path: &Path<'_>| {
            if self.out.budget < 0 {
                return;
            }
            let old = old.and_then(|old| old.get(key));
            let correlation = self.arena.map_or(correlation, |arena| correlation.key(arena, key));
            self.validate_value(rules, value, old, correlation, path);
        };
        if let Some(rules) = &scope.values {
            for (key, value) in map.iter() {
                member(rules, key, value, &path.key(key));
            }
        }
        for (key, rules) in &scope.properties {
            if let Some(value) = map.get(key) {
                member(rules, key, value, &path.field(key));
            }
        }
    }

    /// Evaluates the rules of one value.
    fn rules(&mut self, scope: &Scope, subject: &Subject<'_, '_>) -> Result<(), Stop> {
        if scope.rules.is_empty() {
            return Ok(());
        }
        let Some(shape) = &scope.shape else {
            let why =
                "rule compiler initialization error: failed to convert to declType for CEL validation rules";
            self.invalid(subject, why);
            return Ok(());
        };
        if self.out.budget <= 0 {
            self.invalid(subject, OUT_OF_BUDGET);
            return Err(Stop);
        }
        let compiled = scope.compiled();
        let knows_old = compiled.iter().any(|c| matches!(c, Some(Ok(c)) if c.uses_old_self));
        let this = CelValue::read(subject.value, shape);
        let old = subject.old.filter(|_| knows_old).map(|old| CelValue::read(old, shape)).transpose();
        let read = this.and_then(|this| {
            let old = old?;
            let optional_old = old.clone().zip(subject.old).map(|(read, tree)| within_optional(read, tree));
            Ok(Values { this, old, optional_old, knows_old })
        });
        for (rule, compiled) in scope.rules.iter().zip(compiled) {
            match compiled {
                None => {}
                Some(Err(why)) => self.invalid(subject, &format!("rule compile error: {why}")),
                Some(Ok(compiled)) => match &read {
                    Ok(values) => self.evaluate_rule(rule, compiled, values, subject)?,
                    Err(why) => self.report_failure(rule, why, subject),
                },
            }
        }
        Ok(())
    }

    fn evaluate_rule<'v>(
        &mut self,
        rule: &Rule,
        compiled: &'v Compiled,
        values: &Values<'v>,
        subject: &Subject<'_, '_>,
    ) -> Result<(), Stop> {
        if compiled.uses_old_self && subject.old.is_none() && !rule.optional_old_self {
            return Ok(());
        }
        let variables = values.variables(rule.optional_old_self);
        let evaluation = compiled.program.eval(&variables, Some(CALL_COST_MAX));
        self.charge(evaluation.cost).map_err(|Stop| {
            self.invalid(subject, OUT_OF_BUDGET);
            Stop
        })?;
        match evaluation.result {
            Ok(CelValue::Bool(true)) => Ok(()),
            Ok(_) => self.report_violation(rule, compiled, values, subject),
            Err(why @ EvalError::CostLimit) => {
                let why = format!(
                    "'{why}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    rule.name()
                );
                self.invalid(subject, &why);
                Err(Stop)
            }
            Err(why) => {
                self.report_failure(rule, &why, subject);
                Ok(())
            }
        }
    }

    /// Reports a rule whose evaluation failed.
    fn report_failure(&mut self, rule: &Rule, why: &EvalError, subject: &Subject<'_, '_>) {
        let why = why.to_string();
        let why = if why.starts_with("no such overload") {
            format!(
                "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                rule.name()
            )
        } else {
            format!("{why} evaluating rule: {}", rule.name())
        };
        self.invalid(subject, &why);
    }

    fn charge(&mut self, cost: u64) -> Result<(), Stop> {
        let cost = i64::try_from(cost).map_err(|_| Stop)?;
        if cost > self.out.budget {
            return Err(Stop);
        }
        self.out.budget = self.out.budget.saturating_sub(cost);
        Ok(())
    }

    /// Reports a violated rule.
    fn report_violation<'v>(
        &mut self,
        rule: &Rule,
        compiled: &'v Compiled,
        values: &Values<'v>,
        subject: &Subject<'_, '_>,
    ) -> Result<(), Stop> {
        let at = subject.path.field(&rule.field_path);
        let at = match (rule.field_path.is_empty(), subject.path.to_str().as_str()) {
            (true, _) => *subject.path,
            (false, NO_FIELD) => Path::of(&rule.field_path),
            (false, _) => at,
        };
        let custom = match &compiled.message {
            Some(Ok(message)) => self.message(rule, message, values),
            _ => Ok(None),
        };
        let mut error = FieldErrors::new();
        let stop = custom.is_err();
        match custom {
            Ok(custom) => {
                let message = custom.unwrap_or_else(|| {
                    let default = || format!("failed rule: {}", rule.name());
                    if rule.message.is_empty() { default() } else { rule.name().to_string() }
                });
                report(rule.reason, subject, &at, &message, &mut error);
            }
            Err(why) => error.invalid(&at, subject.type_name, &why),
        }
        let unchanged = || self.arena.is_some_and(|arena| subject.correlation.is_unchanged(arena));
        if !compiled.uses_old_self && unchanged() {
            self.warn(&error);
        } else {
            self.out.errors.append(error);
        }
        if stop { Err(Stop) } else { Ok(()) }
    }

    /// Adds warnings, which have the limits of errors.
    fn warn(&mut self, errors: &FieldErrors) {
        for warning in errors.0.iter().map(ToString::to_string) {
            self.warning_bytes = self.warning_bytes.saturating_add(warning.len());
            if self.out.warnings.len() < ERRORS_MAX && self.warning_bytes <= ERROR_BYTES_MAX {
                self.out.warnings.push(warning);
            }
        }
    }

    /// The result of the message expression; `None` if it is not usable. An exhausted budget ends the evaluation.
    fn message<'v>(
        &mut self,
        rule: &Rule,
        message: &'v Message,
        values: &Values<'v>,
    ) -> Result<Option<String>, String> {
        // In a message expression, the old value is never optional, even if the rule has `optionalOldSelf`.
        let variables = values.variables(false);
        let evaluation = message.program.eval(&variables, Some(CALL_COST_MAX));
        self.charge(evaluation.cost).map_err(|Stop| {
            "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
                .to_string()
        })?;
        let text = match evaluation.result {
            Ok(CelValue::String(text)) => text,
            Err(EvalError::CostLimit) => {
                return Err(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                    quoted(&rule.message_expression)
                ));
            }
            _ => return Ok(None),
        };
        let text = text.as_str().trim();
        let usable = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
        Ok(usable.then(|| text.to_string()))
    }

    /// Adds an error that quotes the type of the value.
    fn invalid(&mut self, subject: &Subject<'_, '_>, why: &str) {
        self.out.errors.invalid(subject.path, subject.type_name, why);
    }
}

fn report(reason: Reason, subject: &Subject<'_, '_>, at: &Path<'_>, message: &str, errors: &mut FieldErrors) {
    // Objects and lists are not quoted.
    let value_text = (!matches!(subject.type_name, "object" | "array")).then(|| subject.value.error_text());
    match reason {
        Reason::Invalid => errors.push(ErrorKind::Invalid, at, value_text.as_deref(), message),
        Reason::Forbidden => errors.forbidden(at, message),
        Reason::Required => errors.required(at, message),
        Reason::Duplicate => errors.push(ErrorKind::Duplicate, at, value_text.as_deref(), ""),
    }
}
