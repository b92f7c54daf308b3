//! Compares two responses: equal, equal except for messages, or different; and prints the difference.

use serde_json::Value;

use super::body::json_documents;
use super::pointer;

/// The largest table of the line diff; longer responses are printed whole.
const DIFF_CELLS_MAX: usize = 4_000_000;
const CONTEXT_LINES: usize = 2;

/// How a response compares with the recorded one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Same,
    /// Equal except for warnings and messages.
    Wording,
    /// Different.
    Different,
}

#[derive(Debug, Clone)]
enum Body {
    Documents(Vec<Value>),
    Text(String),
}

/// Compares two responses as lines; `ignored` are the arguments of the `ignore` directives.
pub fn compare(want: &[String], got: &[String], ignored: &[&str]) -> Comparison {
    let (want_head, want_body) = split_answer(want, ignored);
    let (got_head, got_body) = split_answer(got, ignored);
    if want_head == got_head && same_body(&want_body, &got_body) {
        return Comparison::Same;
    }
    let quiet = |head: &[&str]| -> Vec<String> {
        let is_warning = |line: &&&str| line.to_lowercase().starts_with("< warning");
        head.iter().filter(|line| !is_warning(line)).map(|line| (*line).to_owned()).collect()
    };
    if quiet(&want_head) == quiet(&got_head)
        && same_body(&without_messages(want_body), &without_messages(got_body))
    {
        return Comparison::Wording;
    }
    Comparison::Different
}

fn split_answer<'a>(lines: &'a [String], ignored: &[&str]) -> (Vec<&'a str>, Body) {
    let head: Vec<&str> = lines.iter().map(String::as_str).filter(|line| line.starts_with('<')).collect();
    let body = lines.get(head.len()..).unwrap_or_default().join("\n");
    let is_ignored = |line: &str| {
        let line = line.get(2..).unwrap_or_default().to_lowercase();
        ignored
            .iter()
            .filter_map(|i| i.strip_prefix("header "))
            .any(|name| line.starts_with(&name.to_lowercase()))
    };
    let head = head.into_iter().filter(|line| !is_ignored(line)).collect();
    let Ok(mut documents) = json_documents(&body) else { return (head, Body::Text(body)) };
    for path in ignored.iter().filter(|i| i.starts_with('/')) {
        documents.iter_mut().for_each(|document| pointer::remove(document, path));
    }
    (head, Body::Documents(documents))
}

fn same_body(a: &Body, b: &Body) -> bool {
    match (a, b) {
        (Body::Documents(a), Body::Documents(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Body::Text(a), Body::Text(b)) => a == b,
        _ => false,
    }
}

/// Equality of documents; 1 and 1.0 are the same number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            x == y || x.as_f64() == y.as_f64() && (x.is_f64() || y.is_f64())
        }
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| same(x, y)))
        }
        _ => a == b,
    }
}

fn without_messages(body: Body) -> Body {
    fn strip_ignored(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.shift_remove("message");
                map.values_mut().for_each(strip_ignored);
            }
            Value::Array(items) => items.iter_mut().for_each(strip_ignored),
            _ => {}
        }
    }
    match body {
        Body::Documents(mut documents) => {
            documents.iter_mut().for_each(strip_ignored);
            Body::Documents(documents)
        }
        text @ Body::Text(_) => text,
    }
}

/// A unified diff of two responses, without file names.
pub fn diff(want: &[String], got: &[String]) -> Vec<String> {
    let marked = marked_lines(want, got);
    let near_change = |at: usize| {
        let from = at.saturating_sub(CONTEXT_LINES);
        marked.iter().skip(from).take(at - from + CONTEXT_LINES + 1).any(|(mark, _)| *mark != ' ')
    };
    let mut out = Vec::new();
    let (mut want_line, mut got_line, mut open) = (1, 1, false);
    for (at, (mark, line)) in marked.iter().enumerate() {
        let shown = near_change(at);
        if shown && !open {
            out.push(format!("@@ -{want_line} +{got_line} @@"));
        }
        if shown {
            out.push(format!("{mark}{line}"));
        }
        open = shown;
        want_line += usize::from(*mark != '+');
        got_line += usize::from(*mark != '-');
    }
    out
}

#[expect(clippy::indexing_slicing, reason = "the lengths of the equal parts are within both lists")]
fn marked_lines<'a>(want: &'a [String], got: &'a [String]) -> Vec<(char, &'a str)> {
    let start = want.iter().zip(got).take_while(|(a, b)| a == b).count();
    let (a, b) = (&want[start..], &got[start..]);
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, tail) = a.split_at(a.len() - end);
    let b = &b[..b.len() - end];
    let mut out: Vec<(char, &str)> = want[..start].iter().map(|line| (' ', line.as_str())).collect();
    middle(a, b, &mut out);
    out.extend(tail.iter().map(|line| (' ', line.as_str())));
    out
}

/// The longest common subsequence by table; both sides whole if the table would be too large.
#[expect(clippy::indexing_slicing, reason = "the table has a row and a column more than there are lines")]
fn middle<'a>(a: &'a [String], b: &'a [String], out: &mut Vec<(char, &'a str)>) {
    if a.len().saturating_mul(b.len()) > DIFF_CELLS_MAX {
        out.extend(a.iter().map(|line| ('-', line.as_str())));
        out.extend(b.iter().map(|line| ('+', line.as_str())));
        return;
    }
    let width = b.len() + 1;
    let mut common = vec![0u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i * width + j] = if a[i] == b[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            out.push((' ', &a[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < a.len() && (j == b.len() || common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            out.push(('-', &a[i]));
            i += 1;
        } else {
            out.push(('+', &b[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split('|').map(str::to_owned).collect()
    }

    #[test]
    fn comparison() {
        use Comparison::{Different, Same, Wording};
        let cases: [(&str, &str, &[&str], Comparison); 16] = [
            ("< 200|{\"a\": 1}", "< 200|{| \"a\": 1.0|}", &[], Same),
            ("< 200|{\"a\": 1}", "< 200|{\"a\": 2}", &[], Different),
            ("< 200|{\"a\": 1}", "< 201|{\"a\": 1}", &[], Different),
            ("< 200|{\"message\": \"a\"}", "< 200|{\"message\": \"b\"}", &[], Wording),
            ("< 200|{\"message\": \"a\"}", "< 200|{}", &[], Wording),
            ("< 200|[{\"x\": {\"message\": 1}}]", "< 200|[{\"x\": {}}]", &[], Wording),
            ("< 200|< Warning: 299 - \"a\"|1", "< 200|1", &[], Wording),
            ("< 200|{\"a\": [{\"t\": 1}]}", "< 200|{\"a\": [{\"t\": 2}]}", &["/a/*/t"], Same),
            ("< 200|{\"a\": 1}", "< 200|{}", &["/a"], Same),
            ("< 200|< Allow: GET|1", "< 200|< Allow: PUT|1", &["header allow"], Same),
            ("< 200|< Allow: GET|1", "< 200|< Allow: PUT|1", &["header Location"], Different),
            ("< 200|ok", "< 200|ok", &[], Same),
            ("< 200|ok", "< 200|no", &[], Different),
            ("< 200|404 page not found", "< 200|404 page not found", &[], Same),
            ("< 200", "< 200|", &[], Same),
            ("< 200|{}|{}", "< 200|{}", &[], Different),
        ];
        for (want, got, ignored, comparison) in cases {
            assert_eq!(compare(&lines(want), &lines(got), ignored), comparison, "{want} / {got}");
        }
    }

    #[test]
    fn diffs() {
        let cases = [
            ("a|b|c|d|e|f|g", "a|b|c|X|e|f|g", "@@ -2 +2 @@| b| c|-d|+X| e| f"),
            ("a", "a|b", "@@ -1 +1 @@| a|+b"),
            ("a|b", "b", "@@ -1 +1 @@|-a| b"),
            ("1|2|3|4|5|6|7|8|9", "0|2|3|4|5|6|7|8|0", "@@ -1 +1 @@|-1|+0| 2| 3|@@ -7 +7 @@| 7| 8|-9|+0"),
        ];
        for (want, got, diffed) in cases {
            assert_eq!(diff(&lines(want), &lines(got)).join("|"), diffed);
        }
        assert_eq!(diff(&lines("a|b"), &lines("a|b")), Vec::<String>::new());
    }
}
