//! JSONPath as client-go evaluates it: fields, indexes and slices, wildcards, unions, filters, recursive descent.

use super::jsonpath_parse;
use pintle_value::{Str, Value};
use std::cmp::Ordering;

/// How deep `..` descends.
const DEPTH_MAX: usize = 100;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath {
    /// What stands in braces, one after another; only the first one's result is ever shown.
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
    /// A text or number that stands for itself.
    Literal(Value),
    /// A word such as `range`, which no column can use.
    Word,
}

/// `[from:to:step]`
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slice {
    pub(super) from: Option<i64>,
    pub(super) to: Option<i64>,
    /// `to` was not given: it is the one after `from`.
    pub(super) single: bool,
    pub(super) step: Option<i64>,
}

/// Values that were found. An error carries what was at hand when it came up: `[?(@.a[0])]` only asks whether
/// there was anything.
type Found<'a> = Result<Vec<&'a Value>, Vec<&'a Value>>;

impl JsonPath {
    /// Reads a path as it stands in a definition, without braces; `None` if it is none.
    pub(super) fn parse(path: &str) -> Option<Self> {
        jsonpath_parse::parse(path).map(|actions| JsonPath { actions })
    }

    /// The first value that the path leads to.
    pub(super) fn first<'a>(&'a self, object: &'a Value) -> Option<&'a Value> {
        let mut results = self.actions.iter().map(|steps| walk(vec![object], steps, 0));
        let first = results.next()?.ok()?.into_iter().next()?;
        // Also an action that is not shown spoils the cell when it fails.
        results.all(|result| result.is_ok()).then_some(first)
    }

    /// The names of the members that every result of the path lies below.
    pub(super) fn leading_members(&self) -> Vec<&str> {
        let [steps] = self.actions.as_slice() else { return Vec::new() };
        let fields = steps.iter().map_while(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            _ => None,
        });
        fields.collect()
    }
}

fn walk<'a>(mut values: Vec<&'a Value>, steps: &'a [Step], depth: usize) -> Found<'a> {
    for step in steps {
        values = match step {
            Step::Field(name) => values.iter().filter_map(|value| value.get(name)).collect(),
            Step::Slice(slice) => sliced(values, *slice)?,
            Step::Wildcard => values.iter().flat_map(|value| children(value)).collect(),
            Step::Recursive => {
                let mut all = Vec::new();
                values.iter().for_each(|value| descend(value, depth, &mut all));
                all
            }
            Step::Union(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    match walk(values.clone(), part, depth) {
                        Ok(found) => all.extend(found),
                        Err(_) => return Err(values),
                    }
                }
                all
            }
            Step::Exists(left) => filtered(values, |item| {
                let found = walk(vec![item], left, depth).unwrap_or_else(|at_hand| at_hand);
                Ok(!found.is_empty())
            })?,
            Step::Filter { left, operator, right } => filtered(values, |item| {
                let side = |steps| match walk(vec![item], steps, depth) {
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

/// A value with children, and all such below it.
fn descend<'a>(value: &'a Value, depth: usize, out: &mut Vec<&'a Value>) {
    let below = children(value);
    if below.is_empty() || depth > DEPTH_MAX {
        // A text counts as the list of its bytes.
        if value.as_str().is_some_and(|text| !text.is_empty()) {
            out.push(value);
        }
        return;
    }
    out.push(value);
    below.iter().for_each(|child| descend(child, depth + 1, out));
}

fn sliced(values: Vec<&Value>, slice: Slice) -> Found<'_> {
    let mut out = Vec::new();
    for value in &values {
        if value.is_null() {
            continue;
        }
        let Value::Array(items) = value else { return Err(values) };
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let mut from = slice.from.unwrap_or(0);
        if from < 0 {
            from += length;
        }
        let mut to =
            if slice.single { slice.from.unwrap_or(0).saturating_add(1) } else { slice.to.unwrap_or(length) };
        if to < 0 || (to == 0 && slice.single) {
            to += length;
        }
        if from == to {
            return Ok(out);
        }
        let step = usize::try_from(slice.step.unwrap_or(1)).unwrap_or(0);
        let (Ok(first), Ok(end)) = (usize::try_from(from), usize::try_from(to)) else { return Err(values) };
        let Some(part) = items.get(first..end).filter(|_| step > 0) else { return Err(values) };
        out.extend(part.iter().step_by(step));
    }
    Ok(out)
}

/// The items of lists that pass.
fn filtered<'a>(values: Vec<&'a Value>, passes: impl Fn(&'a Value) -> Result<bool, ()>) -> Found<'a> {
    let mut out = Vec::new();
    for value in &values {
        let Value::Array(items) = value else { return Err(values) };
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

/// Whether a comparison holds; `None` where the two cannot be compared.
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
        let shown = match JsonPath::parse(path) {
            None => "invalid".to_string(),
            Some(path) => match path.first(&object) {
                None => "-".to_string(),
                Some(value) => {
                    let mut out = Vec::new();
                    json::print(value, &mut out);
                    String::from_utf8(out).unwrap()
                }
            },
        };
        assert_eq!(shown, expected, "{path}");
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
    fn leading_members_are_those_before_the_first_other_step() {
        for (path, expected) in
            [(".a.b[0].n", &["a", "b"][..]), ("..n", &[]), (".s}{.l", &[]), (".d.e\\.f/g", &["d", "e.f/g"])]
        {
            assert_eq!(JsonPath::parse(path).unwrap().leading_members(), expected, "{path}");
        }
    }
}
