//! Match conditions of an authorization webhook: CEL expressions over the review to send.

use super::Attributes;
use super::webhook::{field_requirements, label_requirements, resource_attributes};
use pintle_cel::env::Env;
use pintle_cel::program::Program;
use pintle_cel::types::Type;
use pintle_cel::value::Value as CelValue;
use pintle_kinds::admission_expressions::review_spec_shape;
use pintle_meta::FieldErrors;
use pintle_metrics::families;
use pintle_value::{Map, Path, Value};
use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Instant;

/// The limit of conditions of a webhook.
const CONDITIONS_MAX: usize = 64;
/// The cost limit of one evaluation, as in kube-apiserver.
const COST_MAX: u64 = 1_000_000;

/// The conditions of a webhook, compiled. Without any, every request matches.
#[derive(Default)]
pub struct Conditions {
    expressions: Vec<(String, Program)>,
    /// The name of the webhook in metrics.
    counted_as: Option<String>,
}

impl Conditions {
    /// Compiles the expressions and appends their errors. `path` is that of the authorizer.
    pub fn compile(texts: &[String], path: &Path<'_>, errors: &mut FieldErrors) -> Self {
        let list = path.field("matchConditions");
        let mut out = Conditions::default();
        if texts.len() > CONDITIONS_MAX {
            errors.too_many(&list, texts.len(), CONDITIONS_MAX);
            return out;
        }
        let mut seen = BTreeSet::new();
        for (index, text) in texts.iter().enumerate() {
            let item = list.index(index);
            let place = item.field("expression");
            if text.trim().is_empty() {
                errors.required(&place, "");
            } else if !seen.insert(text) {
                errors.duplicate(&place, text.as_str());
            } else if let Err(why) = out.add(text) {
                errors.invalid(&place, text.as_str(), &why);
            }
        }
        out
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        let checked =
            condition_env().compile(text).map_err(|issues| format!("compilation failed: {issues}"))?;
        if *checked.output_type() != Type::Bool {
            return Err(format!("must evaluate to bool but got {}", checked.output_type().declared_name()));
        }
        let program = checked.plan().map_err(|why| format!("program instantiation failed: {why}"))?;
        self.expressions.push((text.to_string(), program));
        Ok(())
    }

    /// Counts evaluations under the name of the webhook.
    pub(super) fn count_as(&mut self, name: &str) {
        self.counted_as = Some(name.to_string());
    }

    /// Returns whether all conditions are true. A false one takes precedence over failing ones.
    pub(super) fn matches(&self, attributes: &Attributes) -> Result<bool, String> {
        if self.expressions.is_empty() {
            return Ok(true);
        }
        let begin = Instant::now();
        let outcome = self.evaluate(&request(attributes));
        if let Some(name) = &self.counted_as {
            let labels = [name.as_str(), "Webhook"];
            families::MATCH_CONDITION_SECONDS.observe(&labels, begin.elapsed().as_secs_f64());
            match &outcome {
                Ok(true) => {}
                Ok(false) => families::MATCH_CONDITION_EXCLUSIONS.inc(&labels),
                Err(_) => families::MATCH_CONDITION_ERRORS.inc(&labels),
            }
        }
        outcome
    }

    fn evaluate(&self, request: &Value) -> Result<bool, String> {
        let mut errors = Vec::new();
        for (text, program) in &self.expressions {
            let variables = [("request", CelValue::any(request))];
            match program.eval(&variables, Some(COST_MAX)).result {
                Ok(CelValue::Bool(true)) => {}
                Ok(CelValue::Bool(false)) => return Ok(false),
                Ok(other) => errors.push(format!(
                    "cel evaluation error: expression '{text}' eval result type should be bool but got {}",
                    other.type_name()
                )),
                Err(why) => {
                    errors.push(format!("cel evaluation error: expression '{text}' resulted in error: {why}"))
                }
            }
        }
        if errors.is_empty() { Ok(true) } else { Err(crate::aggregate(errors)) }
    }
}

/// The spec of a review with all of its strings, including empty ones.
fn request(a: &Attributes) -> Value {
    let texts = |all: &[String]| Value::Array(all.iter().map(|text| text.as_str().into()).collect());
    let object =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(key, text)| (*key, Value::from(*text))).collect::<Map>();
    let mut out = object(&[("user", &a.user.name), ("uid", &a.user.uid)]);
    out.insert("groups", texts(&a.user.groups));
    let extra = a.user.extra.iter().map(|(key, values)| (key.as_str(), texts(values)));
    out.insert("extra", Value::Object(extra.collect()));
    if !a.resource_request {
        out.insert("nonResourceAttributes", Value::Object(object(&[("path", &a.path), ("verb", &a.verb)])));
        return Value::Object(out);
    }
    let mut resource = object(&resource_attributes(a));
    let mut select = |key: &str, requirements: Vec<Value>| {
        if !requirements.is_empty() {
            let mut selector = Map::default();
            selector.insert("requirements", Value::Array(requirements));
            resource.insert(key, Value::Object(selector));
        }
    };
    select("fieldSelector", field_requirements(a));
    select("labelSelector", label_requirements(a));
    out.insert("resourceAttributes", Value::Object(resource));
    Value::Object(out)
}

fn condition_env() -> &'static Env {
    static ENV: OnceLock<Env> = OnceLock::new();
    ENV.get_or_init(|| Env::kubernetes().with_shape("request", review_spec_shape()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserInfo;
    use pintle_meta::selector::{FieldSelector, LabelSelector};

    fn compile(texts: &[&str]) -> Result<Conditions, String> {
        let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
        let mut errors = FieldErrors::new();
        let conditions = Conditions::compile(&texts, &Path::of("a"), &mut errors);
        if errors.is_empty() { Ok(conditions) } else { Err(errors.aggregate_message()) }
    }

    #[test]
    fn conditions_that_are_refused() {
        for (text, want) in [
            (" ", "a.matchConditions[0].expression: Required value"),
            (
                "request.user",
                "a.matchConditions[0].expression: Invalid value: \"request.user\": must evaluate to bool but got string",
            ),
            ("null", "must evaluate to bool but got null_type"),
            ("request.name == 'x'", "undefined field 'name'"),
        ] {
            let why = compile(&[text]).err().unwrap_or_default();
            assert!(why.contains(want), "{text}: {why}");
        }
        let why = compile(&["true", "true"]).err().unwrap_or_default();
        assert_eq!(why, "a.matchConditions[1].expression: Duplicate value: \"true\"");
    }

    #[test]
    fn conditions_see_the_whole_request() {
        let lists = Attributes {
            user: UserInfo::new("alice", &["dev"]).into(),
            verb: "list".into(),
            resource_request: true,
            resource: "pods".into(),
            field_selector: FieldSelector::parse("spec.nodeName=n").unwrap(),
            label_selector: LabelSelector::parse("a in (b,c)").unwrap().requirements().to_vec(),
            ..Attributes::default()
        };
        let path = Attributes { verb: "get".into(), path: "/version".into(), ..Attributes::default() };
        for (texts, attributes, want) in [
            (&["request.user == 'alice' && 'dev' in request.groups"][..], &lists, Ok(true)),
            (&["request.resourceAttributes.name.startsWith('x')"], &lists, Ok(false)),
            (&["has(request.resourceAttributes)"], &path, Ok(false)),
            (&["request.resourceAttributes.name == 'x'", "false"], &path, Ok(false)),
            (
                &["request.resourceAttributes.name == 'x'"],
                &path,
                Err(
                    "cel evaluation error: expression 'request.resourceAttributes.name == 'x'' resulted in error: no such key: resourceAttributes",
                ),
            ),
            (
                &[
                    "request.resourceAttributes.fieldSelector.requirements.exists(r, r.key == 'spec.nodeName' && r.values == ['n'])",
                ],
                &lists,
                Ok(true),
            ),
            (
                &[
                    "request.resourceAttributes.?labelSelector.requirements.orValue([]).exists(r, r.operator == 'In' && 'c' in r.values)",
                ],
                &lists,
                Ok(true),
            ),
        ] {
            let found = compile(texts).unwrap().matches(attributes);
            assert_eq!(found, want.map_err(str::to_string), "{texts:?}");
        }
    }
}
