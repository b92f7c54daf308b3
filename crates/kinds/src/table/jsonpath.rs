//! Evaluates JSONPath as client-go does: fields, indexes and slices, wildcards, unions, filters, recursive descent.

use super::jsonpath_parse;
use pintle_value::{Str, Value};
use std::cell::Cell;
use std::cmp::Ordering;

/// How deep `..` descends.
const DEPTH_MAX: usize = 100;

/// How many values the paths of one row may visit together. A path such as `..a..a..a` visits a value once for each way
/// that leads to it, so the number grows with a power of the depth.
const ROW_STEPS_MAX: usize = 1_000_000;

/// How many values the paths of a row may still visit. A path that would visit more fails, and its cell is empty.
pub(super) struct Budget(Cell<usize>);

impl Budget {
    /// The budget of one row.
    pub(super) fn for_row() -> Self {
        Budget(Cell::new(ROW_STEPS_MAX))
    }

    /// Consumes `steps`; `None` if the budget is exhausted.
    fn spend(&self, steps: usize) -> Option<()> {
        let left = self.0.get().checked_sub(steps);
        self.0.set(left.unwrap_or(0));
        left.map(|_| ())
    }
}

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath {
    /// The actions in braces; only the result of the first one is used.
    pub(super) actions: Vec<Vec<Step>>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Field(Str),
    Slice(Slice),
    Wildcard,
    Recursive,
    Union(Vec<Vec<Step>>),
    Filter {
        left: Vec<Step>,
        operator: Str,
        right: Vec<Step>,
    },
    Exists(Vec<Step>),
    /// A literal string or number.
    Literal(Value),
    /// A keyword such as `range`, which columns cannot use.
    Word,
}

/// `[from:to:step]`
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slice {
    pub(super) from: Option<i64>,
    pub(super) to: Option<i64>,
    /// `to` was omitted: it is the one after `from`.
    pub(super) single: bool,
    pub(super) step: Option<i64>,
}

/// The values found. An error carries the values found before it: `[?(@.a[0])]` only checks whether there were any.
type Found<'a> = Result<Vec<&'a Value>, Vec<&'a Value>>;

impl JsonPath {
    /// Parses a path as written in a definition, without braces; `None` if it is invalid.
    pub(super) fn parse(path: &str) -> Option<Self> {
        jsonpath_parse::parse(path).map(|actions| JsonPath { actions })
    }

    /// The first value of the path.
    pub(super) fn first<'a>(&'a self, object: &'a Value, budget: &Budget) -> Option<&'a Value> {
        let mut results = self.actions.iter().map(|steps| follow_steps(vec![object], steps, budget));
        let first = results.next()?.ok()?.into_iter().next()?;
        // An unused action that fails also makes the cell empty.
        results.all(|result| result.is_ok()).then_some(first)
    }

    /// The member names that every result of the path is below.
    pub(super) fn leading_members(&self) -> Vec<&str> {
        let [steps] = self.actions.as_slice() else { return Vec::new() };
        let fields = steps.iter().map_while(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            _ => None,
        });
        fields.collect()
    }
}

fn follow_steps<'a>(mut values: Vec<&'a Value>, steps: &'a [Step], budget: &Budget) -> Found<'a> {
    for step in steps {
        if budget.spend(values.len().saturating_add(1)).is_none() {
            return Err(Vec::new());
        }
        values = match step {
            Step::Field(name) => values.iter().filter_map(|value| value.get(name)).collect(),
            Step::Slice(slice) => take_slice(values, *slice, budget)?,
            Step::Wildcard => {
                let count = values.iter().map(|value| children_count(value)).sum();
                budget.spend(count).ok_or_else(Vec::new)?;
                values.iter().flat_map(|value| children(value)).collect()
            }
            Step::Recursive => {
                let mut all = Vec::new();
                for value in &values {
                    descend(value, 0, budget, &mut all).ok_or_else(Vec::new)?;
                }
                all
            }
            Step::Union(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    match follow_steps(values.clone(), part, budget) {
                        Ok(found) => all.extend(found),
                        Err(_) => return Err(values),
                    }
                }
                all
            }
            Step::Exists(left) => filtered(values, budget, |item| {
                let found = follow_steps(vec![item], left, budget).unwrap_or_else(|at_hand| at_hand);
                Ok(!found.is_empty())
            })?,
            Step::Filter { left, operator, right } => filtered(values, budget, |item| {
                let side = |steps| match follow_steps(vec![item], steps, budget) {
                    Ok(found) if found.len() > 1 => Err(()),
                    Ok(found) => Ok(found.into_iter().next()),
                    Err(_) => Err(()),
                };
                let (Some(left), Some(right)) = (side(left)?, side(right)?) else { return Ok(false) };
                compare(left, operator, right).ok_or(())
            })?,
            Step::Literal(value) => values.iter().map(|_| value).collect(),
            Step::Word => return Err(values),
        };
    }
    Ok(values)
}

/// Members or items.
fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

fn children_count(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    }
}

/// Collects a value with children and all such values below it; `None` if the budget is exhausted.
fn descend<'a>(value: &'a Value, depth: usize, budget: &Budget, out: &mut Vec<&'a Value>) -> Option<()> {
    budget.spend(children_count(value).saturating_add(1))?;
    let below = children(value);
    if below.is_empty() || depth > DEPTH_MAX {
        // A string counts as the list of its bytes.
        if value.as_str().is_some_and(|text| !text.is_empty()) {
            out.push(value);
        }
        return Some(());
    }
    out.push(value);
    below.iter().try_for_each(|child| descend(child, depth.saturating_add(1), budget, out))
}

fn take_slice<'a>(values: Vec<&'a Value>, slice: Slice, budget: &Budget) -> Found<'a> {
    let mut out = Vec::new();
    for value in &values {
        if value.is_null() {
            continue;
        }
        let Value::Array(items) = value else { return Err(values) };
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let mut from = slice.from.unwrap_or(0);
        if from < 0 {
            from = from.saturating_add(length);
        }
        let mut to =
            if slice.single { slice.from.unwrap_or(0).saturating_add(1) } else { slice.to.unwrap_or(length) };
        if to < 0 || (to == 0 && slice.single) {
            to = to.saturating_add(length);
        }
        if from == to {
            return Ok(out);
        }
        let step = usize::try_from(slice.step.unwrap_or(1)).unwrap_or(0);
        let (Ok(first), Ok(end)) = (usize::try_from(from), usize::try_from(to)) else { return Err(values) };
        let Some(part) = items.get(first..end).filter(|_| step > 0) else { return Err(values) };
        budget.spend(part.len().checked_div(step).unwrap_or(0)).ok_or_else(Vec::new)?;
        out.extend(part.iter().step_by(step));
    }
    Ok(out)
}

/// The items of lists that satisfy the filter.
fn filtered<'a>(
    values: Vec<&'a Value>,
    budget: &Budget,
    passes: impl Fn(&'a Value) -> Result<bool, ()>,
) -> Found<'a> {
    let mut out = Vec::new();
    for value in &values {
        let Value::Array(items) = value else { return Err(values) };
        budget.spend(items.len()).ok_or_else(Vec::new)?;
        for item in items {
            match passes(item) {
                Ok(true) => out.push(item),
                Ok(false) => {}
                Err(()) => return Err(values),
            }
        }
    }
    Ok(out)
}

/// Evaluates a comparison; `None` if the operands cannot be compared.
fn compare(left: &Value, operator: &str, right: &Value) -> Option<bool> {
    let order = match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => {
            return match operator {
                "==" => Some(left == right),
                "!=" => Some(left != right),
                _ => None,
            };
        }
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Float(left), Value::Float(right)) => left.partial_cmp(right),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => return None,
    };
    Some(match operator {
        "==" => order == Some(Ordering::Equal),
        "!=" => order != Some(Ordering::Equal),
        "<" => order == Some(Ordering::Less),
        ">" => order == Some(Ordering::Greater),
        "<=" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        ">=" => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    const OBJECT: &str = r#"{"a":{"b":[{"n":"x","i":1},{"n":"y","i":2,"on":true},{"n":"z","f":1.5}]},"l":[1,2,3,4],
        "d":{"e.f/g":"dotted"},"s":"text","nil":null}"#;

    fn check(path: &str, expected: &str) {
        let object = json::parse(OBJECT.as_bytes()).unwrap().value;
        let found = match JsonPath::parse(path) {
            None => "invalid".to_string(),
            Some(path) => match path.first(&object, &Budget::for_row()) {
                None => "-".to_string(),
                Some(value) => json::text(value),
            },
        };
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn paths_lead_to_values() {
        for (path, expected) in [
            (".s", r#""text""#),
            ("$.s", r#""text""#),
            ("@.s", r#""text""#),
            (".none.deeper", "-"),
            (".s.deeper", "-"),
            (".nil", "null"),
            (".nil.x", "-"),
            (".nil[0]", "-"),
            (".a.b[1].n", r#""y""#),
            (".a.b[-1].n", r#""z""#),
            (".a.b[9].n", "-"),
            (".a.b[*].n", r#""x""#),
            (".a.b.n", "-"),
            (".l[1:3]", "2"),
            (".l[1:]", "2"),
            (".l[:-1]", "1"),
            (".l[::0]", "-"),
            (".l[2:2]", "-"),
            (".l[]", "1"),
            (".l[3,0]", "4"),
            (".s[0]", "-"),
            (".d.e\\.f/g", r#""dotted""#),
            (".d['e\\.f/g']", r#""dotted""#),
            ("['s']", r#""text""#),
            (".d.*", r#""dotted""#),
            (".a.b[?(@.n==\"y\")].i", "2"),
            (".a.b[?(@.n=='y')].i", "2"),
            (".a.b[?(@.i>1)].n", r#""y""#),
            (".a.b[?(@.i>=1)].n", r#""x""#),
            (".a.b[?(@.i!=1)].n", r#""y""#),
            (".a.b[?(@.f<2.5)].n", r#""z""#),
            (".a.b[?(@.f<2)].n", "-"),
            (".a.b[?(@.n==1)].n", "-"),
            (".a.b[?(@.on)].n", r#""y""#),
            (".a.b[?(@.on==true)].n", r#""y""#),
            (".a.b[?(@.none)].n", "-"),
            (".s[?(@.x)]", "-"),
            ("..n", r#""x""#),
            ("..f", "1.5"),
            ("...n", r#""x""#),
            ("....n", "invalid"),
            ("'word'", r#""word""#),
            ("range .l[*]", "-"),
            (".spec[[", "invalid"),
            (".l[a]", "invalid"),
            (".l[-]", "invalid"),
            (".l[", "invalid"),
            (".a.b[?(@.n==\"y\"]", "invalid"),
            (".s}{.a.b[9]", "-"),
            (".s} and {.l", r#""text""#),
            ("!", "invalid"),
            (".", "-"),
        ] {
            check(path, expected);
        }
    }

    #[test]
    fn the_work_of_a_row_is_limited() {
        // 90 levels and ten descents are billions of ways to the same values.
        let nested = format!("{}1{}", r#"{"a":"#.repeat(90), "}".repeat(90));
        let object = json::parse(nested.as_bytes()).unwrap().value;
        let (budget, path) = (Budget::for_row(), JsonPath::parse(&"..a".repeat(10)).unwrap());
        assert_eq!(path.first(&object, &budget), None);
        assert_eq!(budget.0.get(), 0);
        // The columns of a row share one budget.
        assert_eq!(JsonPath::parse(".a").unwrap().first(&object, &budget), None);
        assert!(JsonPath::parse("..a..a").unwrap().first(&object, &Budget::for_row()).is_some());
    }

    #[test]
    fn leading_members_are_those_before_the_first_other_step() {
        for (path, expected) in
            [(".a.b[0].n", &["a", "b"][..]), ("..n", &[]), (".s}{.l", &[]), (".d.e\\.f/g", &["d", "e.f/g"])]
        {
            assert_eq!(JsonPath::parse(path).unwrap().leading_members(), expected, "{path}");
        }
    }
}
