//! Label selectors: requirements on labels, validated and matched as `k8s.io/apimachinery/pkg/labels` does.

use super::label_text;
use crate::{FieldErrors, names};
use pintle_value::{Map, Path, Str, Value};
use std::fmt;

/// How a requirement relates its key to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    GreaterThan,
    LessThan,
    Exists,
    DoesNotExist,
}

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: Str,
    operator: Operator,
    values: Vec<Str>,
    /// The values in ascending order, unless that is their own order. A list compares each of its objects with the values,
    /// of which a request can have a hundred thousand.
    sorted: Option<Vec<Str>>,
}

impl Requirement {
    /// Creates a requirement and validates its key and values; `path` is its field in an object, if it is part of one.
    pub fn new(
        key: &str,
        operator: Operator,
        values: Vec<Str>,
        path: Option<&Path<'_>>,
    ) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::new();
        let child = |name| path.map_or_else(|| Path::of(name), |p| p.field(name));
        check_key(key, &child("key"), &mut errors);
        let values_path = child("values");
        if let Some(complaint) = count_complaint(operator, values.len()) {
            errors.invalid(&values_path, values.as_slice(), complaint);
        }
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            for (i, value) in values.iter().enumerate().filter(|(_, v)| v.parse::<i64>().is_err()) {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.invalid(&values_path.index(i), value, detail);
            }
        }
        for (i, value) in values.iter().enumerate() {
            let complaints = names::is_label_value(value);
            if !complaints.is_empty() {
                errors.invalid(&values_path.index(i).key(key), value, &complaints.join("; "));
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let sorted = (!values.is_sorted()).then(|| {
            let mut sorted = values.clone();
            sorted.sort_unstable();
            sorted
        });
        Ok(Requirement { key: key.into(), operator, values, sorted })
    }

    /// The key of the label.
    pub fn key(&self) -> &Str {
        &self.key
    }

    /// How the label relates to the values.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values in their original order.
    pub fn values(&self) -> &[Str] {
        &self.values
    }

    /// Whether a label with this value (`None` for no such label) meets it.
    pub fn matches(&self, label: Option<&str>) -> bool {
        let sorted = self.sorted.as_deref().unwrap_or(&self.values);
        let has = |value: &str| sorted.binary_search_by(|v| v.as_str().cmp(value)).is_ok();
        match (self.operator, label) {
            (Operator::In | Operator::Equals | Operator::DoubleEquals, label) => label.is_some_and(has),
            (Operator::NotIn | Operator::NotEquals, label) => !label.is_some_and(has),
            (Operator::Exists, label) => label.is_some(),
            (Operator::DoesNotExist, label) => label.is_none(),
            (Operator::GreaterThan, label) => self.compare(label).is_some_and(|(l, v)| l > v),
            (Operator::LessThan, label) => self.compare(label).is_some_and(|(l, v)| l < v),
        }
    }

    fn compare(&self, label: Option<&str>) -> Option<(i64, i64)> {
        match self.values.as_slice() {
            [value] => Some((label?.parse().ok()?, value.parse().ok()?)),
            _ => None,
        }
    }
}

/// Validates a label key; all messages become one error.
pub(super) fn check_key(key: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let complaints = names::is_qualified_name(key);
    if !complaints.is_empty() {
        errors.invalid(path, key, &complaints.join("; "));
    }
}

fn count_complaint(operator: Operator, count: usize) -> Option<&'static str> {
    match (operator, count) {
        (Operator::In | Operator::NotIn, 0) => Some("for 'in', 'notin' operators, values set can't be empty"),
        (Operator::Equals | Operator::DoubleEquals | Operator::NotEquals, n) if n != 1 => {
            Some("exact-match compatibility requires one single value")
        }
        (Operator::Exists | Operator::DoesNotExist, n) if n != 0 => {
            Some("values set must be empty for exists and does not exist")
        }
        (Operator::GreaterThan | Operator::LessThan, n) if n != 1 => {
            Some("for 'Gt', 'Lt' operators, exactly one value is required")
        }
        _ => None,
    }
}

impl fmt::Display for Requirement {
    /// Prints the requirement as `a=b`, `!a` or `a in (b,c)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<&str> = self.values.iter().map(Str::as_str).collect();
        sorted.sort_unstable();
        let (key, values) = (&self.key, sorted.join(","));
        match self.operator {
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Exists => write!(f, "{key}"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
        }
    }
}

/// All requirements together, sorted by key; or a selector that selects nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl LabelSelector {
    /// Selects everything.
    pub const fn everything() -> Self {
        LabelSelector { requirements: Vec::new(), nothing: false }
    }

    /// Selects nothing.
    pub const fn nothing() -> Self {
        LabelSelector { requirements: Vec::new(), nothing: true }
    }

    /// Parses a query parameter. The error is kube-apiserver's message.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(LabelSelector::of(label_text::parse(text)?))
    }

    /// The selector with these requirements.
    pub fn of(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements, nothing: false }
    }

    /// Selects objects that have all of these labels, as the map selectors of services do. Does not validate them.
    pub fn from_labels(labels: &Map) -> Self {
        let equal = |(key, value): (&Str, &Value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: vec![value.as_str().unwrap_or("").into()],
            sorted: None,
        };
        LabelSelector::of(labels.iter().map(equal).collect())
    }

    /// The selector of a `LabelSelector` object. `null` selects nothing, an empty one everything.
    pub fn from_value(selector: &Value) -> Result<Self, String> {
        if selector.is_null() {
            return Ok(LabelSelector::nothing());
        }
        let mut requirements = Vec::new();
        if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
            for (key, value) in labels.iter() {
                let values = vec![Str::from(value.as_str().unwrap_or(""))];
                requirements.push(checked(key, Operator::Equals, values)?);
            }
        }
        for expression in selector.items_at(&["matchExpressions"]) {
            let operator = match expression.str_at(&["operator"]) {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let other = crate::field::quoted(other);
                    return Err(format!("{other} is not a valid label selector operator"));
                }
            };
            let values = expression.items_at(&["values"]).iter().filter_map(|v| v.as_str().map(Str::from));
            requirements.push(checked(expression.str_at(&["key"]), operator, values.collect())?);
        }
        Ok(LabelSelector::of(requirements))
    }

    /// Whether the selector selects everything.
    pub fn is_empty(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// The requirements; empty also for a selector that selects nothing.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether the selector selects nothing.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// Whether the selector selects an object with these labels.
    pub fn matches(&self, labels: Option<&Map>) -> bool {
        let lookup = |key: &str| labels?.get(key)?.as_str();
        !self.nothing && self.requirements.iter().all(|r| r.matches(lookup(&r.key)))
    }

    /// Whether the selector selects this object by its `metadata.labels`.
    pub fn matches_object(&self, object: &Value) -> bool {
        self.matches(object.at(&["metadata", "labels"]).and_then(Value::as_object))
    }

    /// The value that the selector requires for a label, if it requires one.
    pub fn required_value(&self, key: &str) -> Option<&str> {
        let requirement = self.requirements.iter().find(|r| r.key == key)?;
        match (requirement.operator, requirement.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

fn checked(key: &str, operator: Operator, values: Vec<Str>) -> Result<Requirement, String> {
    Requirement::new(key, operator, values, None).map_err(|errors| errors.aggregate_message())
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Map {
        pairs.iter().map(|(k, v)| (*k, Value::from(*v))).collect()
    }

    #[test]
    fn requirements_match() {
        let have = labels(&[("a", "b"), ("n", "5"), ("e", "")]);
        for (selector, expected) in [
            ("", true),
            ("a", true),
            ("!a", false),
            ("a=b", true),
            ("a==b,n", true),
            ("a!=b", false),
            ("x!=b", true),
            ("a in (b,c)", true),
            ("x in (b)", false),
            ("x notin (b)", true),
            ("a notin (b)", false),
            ("n>4", true),
            ("n<5", false),
            ("a>1", false),
            ("e=", true),
        ] {
            assert_eq!(LabelSelector::parse(selector).unwrap().matches(Some(&have)), expected, "{selector}");
        }
        assert!(!LabelSelector::nothing().matches(Some(&have)));
        assert_eq!(LabelSelector::parse("b,a=1").unwrap().required_value("a"), Some("1"));
    }

    #[test]
    fn many_values_are_not_compared_one_by_one() {
        let selector = |count: usize| {
            let values: Vec<Str> = (0..count).rev().map(|n| Str::from(format!("v{n}"))).collect();
            let requirement = Requirement::new("a", Operator::NotIn, values, None).unwrap();
            assert!(
                !requirement.matches(Some("v0")) && !requirement.matches(Some(&format!("v{}", count - 1)))
            );
            assert_eq!(requirement.values().last().unwrap(), "v0", "the original order");
            requirement
        };
        let time = |selector: &Requirement| {
            let begin = std::time::Instant::now();
            assert!((0..2000).all(|n| selector.matches(Some(&format!("w{n}")))));
            begin.elapsed()
        };
        let (few, many) = (selector(200), selector(20_000));
        // One by one it takes a hundred times as long. Other processes may disturb some of the measurements.
        assert!((0..5).any(|_| time(&many) < time(&few) * 20));
    }

    #[test]
    fn selector_objects() {
        let object = |operator: &str, values: &[&str]| {
            let mut expression = Value::object();
            expression.set_at(&["key"], "k".into());
            expression.set_at(&["operator"], operator.into());
            expression.set_at(&["values"], Value::Array(values.iter().map(|v| Value::from(*v)).collect()));
            let mut selector = Value::object();
            selector.set_at(&["matchLabels", "a"], "b".into());
            selector.set_at(&["matchExpressions"], Value::Array(vec![expression]));
            LabelSelector::from_value(&selector).map(|s| s.to_string())
        };
        assert_eq!(object("In", &["z", "y"]), Ok("a=b,k in (y,z)".to_string()));
        assert_eq!(object("Exists", &[]), Ok("a=b,k".to_string()));
        assert_eq!(object("Near", &[]), Err("\"Near\" is not a valid label selector operator".to_string()));
        assert_eq!(
            object("In", &[]),
            Err("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
                .to_string())
        );
        assert_eq!(
            object("Exists", &["x"]),
            Err("values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist"
                .to_string())
        );
        assert!(LabelSelector::from_value(&Value::Null).unwrap().is_nothing());
        assert!(LabelSelector::from_value(&Value::object()).unwrap().is_empty());
    }
}
