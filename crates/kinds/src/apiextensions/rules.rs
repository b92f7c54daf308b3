//! Validates the CEL rules in a definition's schema: whether they compile, may use `oldSelf` at their position, and
//! stay within the cost limits.

use super::props::Props;
use crate::error_text::Internal;
use pintle_cel::shape::{Shape, ShapeKind};
use pintle_cel::words::escape;
use pintle_meta::FieldErrors;
use pintle_schema::rules::{self, Compiled, Compiler, Rule};
use pintle_value::{Path, Str, Value};
use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

/// The cost limit of one rule for all values of an object.
pub const RULE_COST_MAX: u64 = 10_000_000;
/// The cost limit of all rules of a version for one object.
pub const VERSION_COST_MAX: u64 = 100_000_000;
/// How many expensive rules the error about the total cost names.
const NAMED_MAX: usize = 4;
/// The error about the total cost does not name rules that cost less than this.
const NAMED_COST_MIN: u64 = VERSION_COST_MAX / 100;
const RULES: &str = "x-kubernetes-validations";

/// The estimated cost of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCost {
    /// The version whose schema contains the rule.
    pub version: Str,
    /// The rule's path in the schema: `.properties[spec].x-kubernetes-validations[0].rule`.
    pub path: Str,
    /// The expression.
    pub expression: Str,
    /// The rule's cost for all values of one object, compared with `RULE_COST_MAX`.
    pub cost: u64,
}

/// The estimated costs of a definition's valid expressions, by version. The sum of a version is compared with
/// `VERSION_COST_MAX`.
pub fn rule_costs(definition: &Value) -> Vec<RuleCost> {
    let mut out = Vec::new();
    for version in definition.items_at(&["spec", "versions"]) {
        let Some(schema) = version.at(&["schema", "openAPIV3Schema"]).map(Props) else { continue };
        let tally = RefCell::new(Tally::default());
        validate_schema(&Context::of_root(schema, &tally), &Path::ROOT, 0);
        let costs = tally.into_inner().costs;
        let name = Str::from(version.str_at(&["name"]));
        out.extend(costs.into_iter().map(|cost| RuleCost { version: name.clone(), ..cost }));
    }
    out
}

fn validate_schema(context: &Context<'_>, path: &Path<'_>, depth: usize) {
    let schema = context.schema;
    if depth > super::props::DEPTH_MAX {
        return;
    }
    if let Some(each) = schema.below("additionalProperties") {
        validate_schema(
            &context.element(each, false, path),
            &path.field("additionalProperties"),
            depth.saturating_add(1),
        );
    }
    for (name, property) in schema.members("properties") {
        validate_schema(
            &context.property(property, name),
            &path.field("properties").key(name),
            depth.saturating_add(1),
        );
    }
    if let Some(item) = schema.item() {
        validate_schema(&context.element(item, true, path), &path.field("items"), depth.saturating_add(1));
    }
    context.check(path);
}

/// The costs of one schema's rules.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The errors of the rules.
    pub(super) errors: FieldErrors,
    /// Whether rules may exceed the limit, because they did before.
    unlimited: bool,
    total: u64,
    expensive: Vec<(Str, u64)>,
    costs: Vec<RuleCost>,
}

impl Tally {
    pub(super) fn new(unlimited: bool) -> Self {
        Tally { unlimited, ..Tally::default() }
    }

    fn record_cost(&mut self, path: &Path<'_>, expression: &str, cost: u64) {
        self.total = self.total.saturating_add(cost);
        let path = path.to_str();
        if cost >= NAMED_COST_MIN {
            self.expensive.push((path.clone(), cost));
            self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.expensive.truncate(NAMED_MAX);
        }
        self.costs.push(RuleCost { version: Str::default(), path, expression: expression.into(), cost });
    }

    fn report_cost_limit(&mut self, path: &Path<'_>, what: &str, cost: u64) {
        if !self.unlimited && cost > RULE_COST_MAX {
            self.errors.forbidden(path, &too_expensive(what, cost, RULE_COST_MAX));
        }
    }

    /// Reports an excessive total cost; `path` is that of the schema.
    pub(super) fn validate_total_cost(&self, path: &Path<'_>, errors: &mut FieldErrors) {
        if self.total <= VERSION_COST_MAX {
            return;
        }
        for (path, _) in &self.expensive {
            let why =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.forbidden(&Path::of(path), why);
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.forbidden(path, &too_expensive(what, self.total, VERSION_COST_MAX));
    }
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a factor for people")]
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_string()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// How a schema is reached from its parent.
#[derive(Clone, Copy)]
enum Step<'a> {
    Property(&'a str),
    Element,
}

/// The position of a schema, as far as its rules depend on it.
pub(super) struct Context<'a> {
    schema: Props<'a>,
    enclosing: Option<(&'a Context<'a>, Step<'a>)>,
    /// Whether this schema or a parent has rules.
    in_scope: bool,
    /// The largest number of values; `None` if unbounded.
    cardinality: Option<u64>,
    /// The outermost list whose items cannot be correlated with old ones.
    uncorrelatable: Option<Str>,
    shape: OnceCell<Option<Arc<Shape>>>,
    tally: &'a RefCell<Tally>,
}

impl<'a> Context<'a> {
    pub(super) fn of_root(schema: Props<'a>, tally: &'a RefCell<Tally>) -> Self {
        Context {
            schema,
            enclosing: None,
            in_scope: !schema.list(RULES).is_empty(),
            cardinality: Some(1),
            uncorrelatable: None,
            shape: OnceCell::new(),
            tally,
        }
    }

    pub(super) fn property<'b>(&'b self, schema: Props<'b>, name: &'b str) -> Context<'b> {
        self.child_context(schema, Step::Property(name))
    }

    /// The context of a list's items or a map's values; `path` is that of the list or map.
    pub(super) fn element<'b>(&'b self, schema: Props<'b>, is_item: bool, path: &Path<'_>) -> Context<'b> {
        let mut below = self.child_context(schema, Step::Element);
        if is_item && self.schema.text("x-kubernetes-list-type") != "map" {
            below.uncorrelatable.get_or_insert_with(|| path.to_str());
        }
        below
    }

    fn child_context<'b>(&'b self, schema: Props<'b>, step: Step<'b>) -> Context<'b> {
        let factor = elements_max(self.schema);
        Context {
            schema,
            enclosing: Some((self, step)),
            in_scope: self.in_scope || !schema.list(RULES).is_empty(),
            cardinality: self.cardinality.and_then(|count| Some(count.saturating_mul(factor?))),
            uncorrelatable: self.uncorrelatable.clone(),
            shape: OnceCell::new(),
            tally: self.tally,
        }
    }

    /// The shape of `self`: derived from the parent's, or from the schema itself if the parent has none.
    fn shape(&self) -> Option<Arc<Shape>> {
        self.shape.get_or_init(|| self.find_shape()).clone()
    }

    fn find_shape(&self) -> Option<Arc<Shape>> {
        if let Some((enclosing, step)) = self.enclosing.filter(|(enclosing, _)| enclosing.in_scope) {
            let enclosing = enclosing.shape()?;
            let seen = match (&enclosing.kind, step) {
                (ShapeKind::Object(object), Step::Property(name)) => {
                    escape(name).and_then(|name| object.fields.get(&name)).map(|f| f.shape.clone())
                }
                (ShapeKind::List { element, .. }, Step::Element) => Some(element.clone()),
                (ShapeKind::Map { value }, Step::Element) => Some(value.clone()),
                _ => None,
            };
            if seen.is_some() {
                return seen;
            }
        }
        let is_root = self.enclosing.is_none() || self.schema.flag("x-kubernetes-embedded-resource");
        rules::shape(self.schema.0, is_root)
    }

    /// Checks the rules of this schema.
    pub(super) fn check(&self, path: &Path<'_>) {
        let rules = self.schema.list(RULES);
        if rules.is_empty() {
            return;
        }
        let at = path.field(RULES);
        let shape = self.shape();
        let mut tally = self.tally.borrow_mut();
        let Some(shape) = shape else {
            let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to \
                       convert structural schema to CEL declarations";
            return tally.errors.internal(&at, why);
        };
        let cardinality = self.cardinality.unwrap_or_else(|| rules::cardinality_max(&shape));
        let read: Vec<Rule> = rules.iter().map(|rule| Rule::read(rule, self.schema.0)).collect();
        let compiled = Compiler::new(shape).compile_all(&read);
        for (index, (rule, compiled)) in rules.iter().zip(compiled).enumerate() {
            self.check_rule(rule, compiled, cardinality, &at.index(index), &mut tally);
        }
    }

    fn check_rule(
        &self,
        rule: &Value,
        compiled: Option<Result<Compiled, String>>,
        cardinality: u64,
        path: &Path<'_>,
        tally: &mut Tally,
    ) {
        let at = path.field("rule");
        let mut uses_old_self = false;
        match compiled {
            None => {}
            Some(Err(why)) => {
                tally.errors.invalid(&at, Internal(Some(rule), "apiextensions/v1.ValidationRule"), &why)
            }
            Some(Ok(compiled)) => {
                uses_old_self = compiled.uses_old_self;
                let cost = compiled.cost_max.saturating_mul(cardinality);
                tally.report_cost_limit(&at, "estimated rule cost", cost);
                tally.record_cost(&at, rule.str_at(&["rule"]), cost);
                check_message(rule, &compiled, &path.field("messageExpression"), tally);
            }
        }
        if uses_old_self {
            if let Some(list) = &self.uncorrelatable {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                tally.errors.invalid(&at, rule.str_at(&["rule"]), &why);
            }
        } else if let Some(given) = rule.get("optionalOldSelf").and_then(Value::as_bool) {
            let at = path.field("optionalOldSelf");
            tally.errors.invalid(&at, given, "may not be set if oldSelf is not used in rule");
        }
    }
}

fn check_message(rule: &Value, compiled: &Compiled, path: &Path<'_>, tally: &mut Tally) {
    match &compiled.message {
        None => {}
        Some(Err(why)) => {
            tally.errors.invalid(path, Internal(Some(rule), "apiextensions/v1.ValidationRule"), why)
        }
        Some(Ok(message)) => {
            tally.report_cost_limit(path, "estimated messageExpression cost", message.cost_max);
            tally.record_cost(path, rule.str_at(&["messageExpression"]), message.cost_max);
        }
    }
}

/// The largest number of elements of a value.
fn elements_max(schema: Props<'_>) -> Option<u64> {
    let max = |key: &str| schema.get(key)?.as_int().map(|max| u64::try_from(max).unwrap_or(0));
    match schema.kind() {
        "object" if schema.has("additionalProperties") => max("maxProperties"),
        "array" => max("maxItems"),
        _ => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    fn tallied(schema: &str) -> (Vec<String>, Vec<(String, u64)>) {
        let schema = tree(schema);
        let tally = RefCell::new(Tally::default());
        validate_schema(&Context::of_root(Props(&schema), &tally), &Path::ROOT, 0);
        let Tally { errors, costs, .. } = tally.into_inner();
        let costs = costs.into_iter().map(|cost| (cost.path.to_string(), cost.cost)).collect();
        (errors.0.iter().map(ToString::to_string).collect(), costs)
    }

    #[test]
    fn a_rule_costs_as_often_as_it_can_run() {
        let item = r#"{"type":"integer","x-kubernetes-validations":[{"rule":"self > 1"}]}"#;
        let at = "items.x-kubernetes-validations[0].rule";
        let cases = [
            (format!(r#"{{"type":"array","maxItems":10,"items":{item}}}"#), 20),
            // As many as a request of 3 MiB can hold.
            (format!(r#"{{"type":"array","items":{item}}}"#), 2 * 3 * 1024 * 1024 / 2),
        ];
        for (schema, cost) in cases {
            assert_eq!(tallied(&schema), (vec![], vec![(at.to_string(), cost)]), "{schema}");
        }
    }

    #[test]
    fn invalid_validation_rules_are_refused() {
        let error_text = r#"{"Rule":"self","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}"#;
        let cases = [
            (
                r#"{"type":"integer","x-kubernetes-validations":[{"rule":"self"}]}"#,
                format!("rule: Invalid value: {error_text}: cel expression must evaluate to a bool"),
            ),
            (
                r#"{"type":"integer","x-kubernetes-validations":[{"rule":"self > 1","optionalOldSelf":true}]}"#,
                "optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"
                    .to_string(),
            ),
        ];
        for (schema, expected) in cases {
            let expected = format!("x-kubernetes-validations[0].{expected}");
            assert_eq!(tallied(schema).0, [expected], "{schema}");
        }
        let list = r#"{"type":"object","properties":{"l":{"type":"array","maxItems":1,"items":{"type":"integer","x-kubernetes-validations":[{"rule":"self > oldSelf"}]}}}}"#;
        let expected = "properties[l].items.x-kubernetes-validations[0].rule: Invalid value: \"self > oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within properties[l]";
        assert_eq!(tallied(list).0, [expected]);
    }

    #[test]
    fn factors_close_to_the_limit_are_printed_with_more_digits() {
        let factor = |cost: u64| {
            let text = too_expensive("it", cost, 100);
            text.split_whitespace().nth(6).unwrap_or_default().to_string()
        };
        assert_eq!([factor(101), factor(150), factor(10_001)], ["1.010000x", "1.5x", "more"]);
    }
}
