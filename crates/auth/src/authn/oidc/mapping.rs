//! Maps claims to a user, by claim names or CEL expressions.

use crate::UserInfo;
use crate::authn::jwt::json_kind;
use pintle_cel::program::Program;
use pintle_cel::value::{Object, Value as CelValue};
use pintle_value::{Map, Value};

/// A compiled expression.
pub(super) struct Expression {
    pub(super) text: String,
    pub(super) program: Program,
    /// The message of a rule, or the key of an extra.
    pub(super) label: String,
    /// Whether the result is a list made by a library function.
    pub(super) is_native_list: bool,
}

/// The variable of an expression.
#[derive(Clone, Copy)]
pub(super) enum Variable {
    Claims,
    User,
}

impl Expression {
    /// Evaluates the expression with its only variable.
    pub(super) fn evaluate<'a>(
        &'a self,
        variable: Variable,
        value: &'a Value,
    ) -> Result<CelValue<'a>, String> {
        let (name, of_type) = match variable {
            Variable::Claims => ("claims", "kubernetes.claims"),
            Variable::User => ("user", "kubernetes.UserInfo"),
        };
        let value = match value {
            Value::Object(members) => CelValue::Object(Object::Lazy(members, of_type)),
            other => CelValue::any(other),
        };
        self.program
            .eval(&[(name, value)], Some(COST_MAX))
            .result
            .map_err(|why| format!("expression '{}' resulted in error: {why}", self.text))
    }
}

/// The cost limit of one evaluation.
const COST_MAX: u64 = 10_000_000;

/// The source of a user attribute.
#[derive(Default)]
pub(super) struct Source {
    pub(super) claim: String,
    pub(super) prefix: String,
    pub(super) expression: Option<Expression>,
}

/// How claims become a user, and which users are accepted.
#[derive(Default)]
pub(super) struct Mapping {
    pub(super) username: Source,
    pub(super) groups: Source,
    pub(super) uid: Source,
    pub(super) extra: Vec<Expression>,
    /// Required claims and their values, in the order of the file.
    pub(super) required: Vec<(String, String)>,
    pub(super) claim_rules: Vec<Expression>,
    pub(super) user_rules: Vec<Expression>,
}

impl Mapping {
    /// The user in verified claims.
    pub(super) fn user(&self, claims: &Value) -> Result<UserInfo, String> {
        let claims = &numbers_as_doubles(claims);
        let mut user = UserInfo { name: self.map_username(claims)?, ..UserInfo::default() };
        user.groups = self.map_groups(claims)?;
        user.uid = self.map_uid(claims)?;
        self.map_extra(claims, &mut user)?;
        for (claim, wanted) in &self.required {
            let Some(value) = claims.get(claim) else {
                return Err(format!("oidc: required claim {claim} not present in ID token"));
            };
            let value = text(value).map_err(|why| format!("oidc: parse claim {claim}: {why}"))?;
            if value != *wanted {
                return Err(format!(
                    "oidc: required claim {claim} value does not match. Got = {value}, want = {wanted}"
                ));
            }
        }
        check_rules(&self.claim_rules, Variable::Claims, claims)
            .map_err(|why| format!("oidc: error evaluating claim validation expression: {why}"))?;
        if !self.user_rules.is_empty() {
            check_rules(&self.user_rules, Variable::User, &user_value(&user))
                .map_err(|why| format!("oidc: error evaluating user info validation rule: {why}"))?;
        }
        Ok(user)
    }

    fn map_username(&self, claims: &Value) -> Result<String, String> {
        if let Some(expression) = &self.username.expression {
            let failed = |why: String| format!("oidc: error evaluating username claim expression: {why}");
            let value = expression.evaluate(Variable::Claims, claims).map_err(failed)?;
            let name = value.as_str().ok_or("username claim expression must return a string");
            let name = name.map_err(|why| failed(why.to_string()))?;
            return match name {
                "" => Err("oidc: empty username via CEL expression is not allowed".to_string()),
                name => Ok(name.to_string()),
            };
        }
        let claim = &self.username.claim;
        let name = match claims.get(claim) {
            Some(value) => text(value),
            None => Err("claim not present".to_string()),
        };
        let name = name.map_err(|why| format!("oidc: parse username claims \"{claim}\": {why}"))?;
        // An e-mail address is accepted unless the provider says that it is not verified.
        if claim == "email" {
            match claims.get("email_verified") {
                None | Some(Value::Bool(true)) => {}
                Some(Value::Bool(false) | Value::Null) => return Err("oidc: email not verified".to_string()),
                Some(other) => {
                    let kind = json_kind(other);
                    return Err(format!(
                        "oidc: parse 'email_verified' claim: json: cannot unmarshal {kind} into Go value of type bool"
                    ));
                }
            }
        }
        Ok(format!("{}{name}", self.username.prefix))
    }

    fn map_groups(&self, claims: &Value) -> Result<Vec<String>, String> {
        let Source { claim, prefix, expression } = &self.groups;
        if let Some(value) = claims.get(claim).filter(|_| !claim.is_empty()) {
            let texts: Option<Vec<&str>> = match value {
                Value::Array(all) => {
                    all.iter().map(|one| one.as_str().or(one.is_null().then_some(""))).collect()
                }
                Value::Null => Some(Vec::new()),
                _ => None,
            };
            let texts = match texts {
                Some(texts) => texts.into_iter().map(str::to_string).collect(),
                None => {
                    let one = text(value);
                    vec![one.map_err(|why| format!("oidc: parse groups claim \"{claim}\": {why}"))?]
                }
            };
            return Ok(texts.into_iter().map(|group: String| format!("{prefix}{group}")).collect());
        }
        let Some(expression) = expression else { return Ok(Vec::new()) };
        let failed = |why: String| format!("oidc: error evaluating group claim expression: {why}");
        string_list(expression, &expression.evaluate(Variable::Claims, claims).map_err(failed)?)
            .map_err(failed)
    }

    fn map_uid(&self, claims: &Value) -> Result<String, String> {
        let Source { claim, expression, .. } = &self.uid;
        if !claim.is_empty() {
            let uid = match claims.get(claim) {
                Some(value) => text(value),
                None => Err("claim not present".to_string()),
            };
            return uid.map_err(|why| format!("oidc: parse uid claim \"{claim}\": {why}"));
        }
        let Some(expression) = expression else { return Ok(String::new()) };
        let failed = |why: String| format!("oidc: error evaluating uid claim expression: {why}");
        let value = expression.evaluate(Variable::Claims, claims).map_err(failed)?;
        let uid = value.as_str().ok_or_else(|| failed("uid claim expression must return a string".into()))?;
        Ok(uid.to_string())
    }

    fn map_extra(&self, claims: &Value, user: &mut UserInfo) -> Result<(), String> {
        if let Some(Value::String(id)) = claims.get("jti").filter(|id| id.as_str() != Some("")) {
            user.extra.insert(UserInfo::CREDENTIAL_ID.to_string(), vec![format!("JTI={id}")]);
        }
        // All are evaluated before the first result is used.
        let mut values = Vec::new();
        for expression in &self.extra {
            values.push((expression, expression.evaluate(Variable::Claims, claims)?));
        }
        for (expression, value) in values {
            let texts = string_list(expression, &value).map_err(|why| {
                format!("oidc: error evaluating extra claim expression: {}: {why}", expression.text)
            })?;
            if !texts.is_empty() {
                user.extra.insert(expression.label.clone(), texts);
            }
        }
        Ok(())
    }
}

/// Claims as expressions see them: Go decodes every number of JSON as a double.
fn numbers_as_doubles(value: &Value) -> Value {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "a double is what Go decodes")]
        Value::Int(number) => Value::Float(*number as f64),
        Value::Array(items) => Value::Array(items.iter().map(numbers_as_doubles).collect()),
        Value::Object(members) => Value::Object(
            members.iter().map(|(key, value)| (key.as_str(), numbers_as_doubles(value))).collect(),
        ),
        other => other.clone(),
    }
}

fn check_rules(rules: &[Expression], variable: Variable, value: &Value) -> Result<(), String> {
    let mut results = Vec::new();
    for rule in rules {
        results.push((rule, rule.evaluate(variable, value)?));
    }
    for (rule, result) in results {
        match result {
            CelValue::Bool(true) => {}
            CelValue::Bool(false) => {
                return Err(format!("validation expression '{}' failed: {}", rule.text, rule.label));
            }
            _ => return Err("validation expression must return a boolean".to_string()),
        }
    }
    Ok(())
}

/// A user as rules see it.
fn user_value(user: &UserInfo) -> Value {
    let texts = |all: &[String]| Value::Array(all.iter().map(|text| text.as_str().into()).collect());
    let extra: Map = user.extra.iter().map(|(key, values)| (key.as_str(), texts(values))).collect();
    let mut out = Value::object();
    out.set_at(&["username"], user.name.as_str().into());
    out.set_at(&["uid"], user.uid.as_str().into());
    out.set_at(&["groups"], texts(&user.groups));
    out.set_at(&["extra"], Value::Object(extra));
    out
}

/// A string or several; empty ones are dropped. Quirk of kube-apiserver: it refuses a list that a function such as
/// `split` returns, and only accepts claims and list literals.
fn string_list(expression: &Expression, value: &CelValue<'_>) -> Result<Vec<String>, String> {
    const WHY: &str = "expression must return a string or a list of strings";
    if let Some(text) = value.as_str() {
        return Ok(Some(text.to_string()).filter(|text| !text.is_empty()).into_iter().collect());
    }
    match value {
        CelValue::Null => Ok(Vec::new()),
        CelValue::List(list) if !expression.is_native_list => {
            let mut out = Vec::new();
            for element in list.iter() {
                let element = element.map_err(|why| why.to_string())?;
                let text = element.as_str().ok_or(WHY)?;
                out.extend(Some(text.to_string()).filter(|text| !text.is_empty()));
            }
            Ok(out)
        }
        _ => Err(WHY.to_string()),
    }
}

/// A claim as Go decodes it into a string: null is empty.
fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.to_string()),
        Value::Null => Ok(String::new()),
        other => Err(format!("json: cannot unmarshal {} into Go value of type string", json_kind(other))),
    }
}
