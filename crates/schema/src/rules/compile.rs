//! Rules as a definition has them, and their compilation.

use super::{counts, field_path};
use pintle_cel::cost::{CostModel, Node, SizeEstimate, size_on_path};
use pintle_cel::env::{Checked, Env};
use pintle_cel::library::kubernetes::cost::Kubernetes;
use pintle_cel::program::Program;
use pintle_cel::shape::Shape;
use pintle_cel::types::Type;
use pintle_value::{Str, Value};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The variable of the current value.
pub(super) const SELF: &str = "self";
/// The variable of the old value.
pub(super) const OLD_SELF: &str = "oldSelf";

/// The reason with which a violated rule is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `FieldValueInvalid`, which is also the default.
    Invalid,
    /// `FieldValueForbidden`
    Forbidden,
    /// `FieldValueRequired`
    Required,
    /// `FieldValueDuplicate`
    Duplicate,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The expression that must hold.
    pub rule: Str,
    /// The message for the client if it is violated.
    pub message: Str,
    /// The expression that computes the message for the client.
    pub message_expression: Str,
    /// The reason of the error.
    pub reason: Reason,
    /// The field that errors name, relative to the rule's position; empty for the value itself.
    pub field_path: Str,
    /// Whether `oldSelf` is optional, so that the rule also applies to new values.
    pub optional_old_self: bool,
}

impl Rule {
    /// Reads a rule of `schema`.
    pub fn read(rule: &Value, schema: &Value) -> Rule {
        let text = |key: &str| Str::from(rule.str_at(&[key]));
        let path = rule.str_at(&["fieldPath"]);
        let resolved = field_path::resolve(path, schema, true).map(|found| found.path);
        Rule {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: match rule.str_at(&["reason"]) {
                "FieldValueForbidden" => Reason::Forbidden,
                "FieldValueRequired" => Reason::Required,
                "FieldValueDuplicate" => Reason::Duplicate,
                _ => Reason::Invalid,
            },
            field_path: resolved.ok().filter(|_| !path.is_empty()).unwrap_or_default(),
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or(false),
        }
    }

    /// How errors identify the rule: by its message, or by its expression.
    pub(super) fn name(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }
}

/// A rule that compiled.
pub struct Compiled {
    /// Evaluates the rule.
    pub program: Program,
    /// Whether the rule uses `oldSelf`.
    pub uses_old_self: bool,
    /// The cost limit of one evaluation.
    pub cost_max: u64,
    /// The compiled expression of the message, if there is one, or why it does not compile.
    pub message: Option<Result<Message, String>>,
}

/// A compiled expression of a message.
pub struct Message {
    /// Computes the message.
    pub program: Program,
    /// The cost limit of one evaluation.
    pub cost_max: u64,
}

/// Compiles the rules of values of one shape.
pub struct Compiler {
    shape: Arc<Shape>,
    plain: OnceLock<Env>,
    optional: OnceLock<Env>,
}

impl Compiler {
    /// Creates a compiler for values of this shape.
    pub fn new(shape: Arc<Shape>) -> Self {
        Compiler { shape, plain: OnceLock::new(), optional: OnceLock::new() }
    }

    /// Compiles all rules of a node for the check of a definition, and counts that.
    pub fn compile_all(&self, rules: &[Rule]) -> Vec<Option<Result<Compiled, String>>> {
        let began = Instant::now();
        let compiled = rules.iter().map(|rule| self.compile(rule)).collect();
        counts::compiled(began.elapsed());
        compiled
    }

    /// Compiles a rule; `None` for an empty one.
    pub fn compile(&self, rule: &Rule) -> Option<Result<Compiled, String>> {
        if rule.rule.trim().is_empty() {
            return None;
        }
        let env = self.env_for(rule.optional_old_self);
        let checked = match compile_checked(env, &rule.rule, &Type::Bool) {
            Ok(checked) => checked,
            Err(ExpressionError::Issues(issues)) => {
                return Some(Err(format!("compilation failed: {issues}")));
            }
            Err(ExpressionError::Type) => {
                return Some(Err("cel expression must evaluate to a bool".to_string()));
            }
        };
        let program = match checked.plan() {
            Ok(program) => program,
            Err(why) => return Some(Err(format!("program instantiation failed: {why}"))),
        };
        let message = &rule.message_expression;
        let message = (!message.is_empty()).then(|| self.compile_message(env, message));
        let (uses_old_self, cost_max) = (checked.uses(OLD_SELF), cost_max(&checked, &self.shape));
        Some(Ok(Compiled { program, uses_old_self, cost_max, message }))
    }

    fn compile_message(&self, env: &Env, text: &str) -> Result<Message, String> {
        let checked = match compile_checked(env, text, &Type::String) {
            Ok(checked) => checked,
            Err(ExpressionError::Issues(issues)) => {
                return Err(format!("messageExpression compilation failed: {issues}"));
            }
            Err(ExpressionError::Type) => {
                return Err("messageExpression must evaluate to a string".to_string());
            }
        };
        let program =
            checked.plan().map_err(|why| format!("messageExpression instantiation failed: {why}"))?;
        Ok(Message { program, cost_max: cost_max(&checked, &self.shape) })
    }

    fn env_for(&self, optional_old_self: bool) -> &Env {
        let base = || Env::kubernetes().with_shape(SELF, self.shape.clone());
        if optional_old_self {
            let optional_self = || Type::optional(self.shape.cel_type());
            return self.optional.get_or_init(|| base().with_variable(OLD_SELF, optional_self()));
        }
        self.plain.get_or_init(|| base().with_shape(OLD_SELF, self.shape.clone()))
    }
}

/// The reason why an expression is rejected.
enum ExpressionError {
    Issues(String),
    Type,
}

fn compile_checked(env: &Env, text: &str, wanted: &Type) -> Result<Checked, ExpressionError> {
    let checked = env.compile(text).map_err(|issues| ExpressionError::Issues(issues.to_string()))?;
    if checked.output_type() == wanted { Ok(checked) } else { Err(ExpressionError::Type) }
}

/// The sizes of variables of one shape.
struct Sizes<'a>(&'a Shape);

impl CostModel for Sizes<'_> {
    fn estimate_size(&self, node: &Node<'_>) -> Option<SizeEstimate> {
        size_on_path(self.0, &node.path)
    }
}

/// The cost limit of one evaluation of an expression with variables of a shape.
fn cost_max(checked: &Checked, shape: &Shape) -> u64 {
    checked.estimate(&Kubernetes(Sizes(shape))).max
}
