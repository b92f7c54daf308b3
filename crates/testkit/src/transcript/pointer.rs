//! Pointers into responses: `/a/b/0`, `/conditions[type=Ready]/status`, and `*` in pointers of values to ignore.

use serde_json::Value;

struct Segment {
    key: String,
    selector: Option<(String, String)>,
}

/// The value at a pointer; a null counts as missing.
pub fn lookup<'a>(doc: &'a Value, pointer: &str) -> Option<&'a Value> {
    let mut doc = doc;
    for segment in parse_segments(pointer) {
        if !segment.key.is_empty() {
            doc = match doc {
                Value::Array(items) => items.get(index(&segment.key)?)?,
                Value::Object(map) => map.get(&segment.key)?,
                _ => return None,
            };
        }
        if let Some((key, value)) = &segment.selector {
            let items = doc.as_array()?;
            doc = items.iter().find(|item| item.get(key).is_some_and(|v| plain(v) == *value))?;
        }
    }
    (!doc.is_null()).then_some(doc)
}

/// A value in the form of selectors and variables of transcripts. They were recorded with Python: strings have no quotes,
/// everything else is in Python's notation (`True`, `{'name': 'x'}`).
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        other => to_notation(other),
    }
}

fn to_notation(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => quoted(s),
        Value::Array(items) => format!("[{}]", items.iter().map(to_notation).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entry = |(key, item): (&String, &Value)| format!("{}: {}", quoted(key), to_notation(item));
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

fn quoted(s: &str) -> String {
    let s = s.replace('\\', "\\\\").replace('\n', "\\n");
    if s.contains('\'') && !s.contains('"') {
        format!("\"{s}\"")
    } else {
        format!("'{}'", s.replace('\'', "\\'"))
    }
}

fn index(key: &str) -> Option<usize> {
    if key.bytes().all(|b| b.is_ascii_digit()) { key.parse().ok() } else { None }
}

fn unescape(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}

/// A `[` opens a selector only if `key=` follows it; otherwise it is part of the name.
fn selector_at(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('[') else { return false };
    matches!(rest.find(['=', ']']), Some(at) if at > 0 && rest[at..].starts_with('='))
}

fn parse_segments(pointer: &str) -> Vec<Segment> {
    let mut out = Vec::new();
    let mut rest = pointer;
    while let Some(slash) = rest.find('/') {
        rest = &rest[slash + 1..];
        let end = rest
            .char_indices()
            .find(|(at, c)| *c == '/' || (*c == '[' && selector_at(&rest[*at..])))
            .map_or(rest.len(), |(at, _)| at);
        let key = unescape(&rest[..end]);
        rest = &rest[end..];
        let mut selector = None;
        if let Some(close) = rest.find(']').filter(|_| rest.starts_with('[')) {
            selector = rest[1..close].split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()));
            rest = &rest[close + 1..];
        }
        out.push(Segment { key, selector });
    }
    out
}

/// Removes the values at a pointer from a document; `*` matches every key or index.
pub fn remove(doc: &mut Value, pointer: &str) {
    let parts: Vec<&str> = pointer.split('/').skip(1).collect();
    remove_parts(doc, &parts);
}

fn remove_parts(doc: &mut Value, parts: &[&str]) {
    let Some((first, rest)) = parts.split_first() else { return };
    let key = unescape(first);
    match doc {
        Value::Object(map) if key == "*" => map.values_mut().for_each(|v| remove_parts(v, rest)),
        Value::Array(items) if key == "*" => items.iter_mut().for_each(|v| remove_parts(v, rest)),
        Value::Object(map) if rest.is_empty() => {
            map.shift_remove(&key);
        }
        Value::Object(map) => {
            if let Some(v) = map.get_mut(&key) {
                remove_parts(v, rest);
            }
        }
        Value::Array(items) => {
            if let Some(v) = index(&key).and_then(|i| items.get_mut(i)) {
                remove_parts(v, rest);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn looks_up() {
        let doc = json!({"a": {"b": [{"c": 1}, {"type": "Ready", "status": "True"}]}, "x/y": "z", "n": null,
                         "m": [{"metadata": {"name": "x"}, "v": 9}], "f[0]": 5, "t": [{"ok": true, "v": 7}], "p": [{"type": "a/b", "v": 8}]});
        let cases = [
            ("/a/b/0/c", Some(json!(1))),
            ("/a/b/2", None),
            ("/a/b/x", None),
            ("/a/b[type=Ready]/status", Some(json!("True"))),
            ("/a/b[type=Gone]/status", None),
            ("/x~1y", Some(json!("z"))),
            ("/n", None),
            ("/f[0]", Some(json!(5))),
            ("/t[ok=True]/v", Some(json!(7))),
            ("/p[type=a/b]/v", Some(json!(8))),
            ("/m[metadata={'name': 'x'}]/v", Some(json!(9))),
            ("/x~1y/deeper", None),
        ];
        for (pointer, want) in cases {
            assert_eq!(lookup(&doc, pointer), want.as_ref(), "{pointer}");
        }
        assert_eq!(lookup(&doc, ""), Some(&doc));
    }

    #[test]
    fn notations() {
        let cases = [
            (json!("a'b"), "a'b"),
            (json!(["a'b", "a'\"", null, true, 1.5]), r#"["a'b", 'a\'"', None, True, 1.5]"#),
            (json!({"b": {}, "a": []}), "{'b': {}, 'a': []}"),
        ];
        for (value, want) in cases {
            assert_eq!(plain(&value), want);
        }
    }

    #[test]
    fn removes() {
        let cases = [
            ("/a", json!({"b": 1})),
            ("/a/0", json!({"a": [{"t": 1, "u": 2}, {"t": 3}], "b": 1})),
            ("/a/0/t", json!({"a": [{"u": 2}, {"t": 3}], "b": 1})),
            ("/a/*/t", json!({"a": [{"u": 2}, {}], "b": 1})),
            ("/*/0/t", json!({"a": [{"u": 2}, {"t": 3}], "b": 1})),
            ("/c/d", json!({"a": [{"t": 1, "u": 2}, {"t": 3}], "b": 1})),
        ];
        for (pointer, want) in cases {
            let mut doc = json!({"a": [{"t": 1, "u": 2}, {"t": 3}], "b": 1});
            remove(&mut doc, pointer);
            assert_eq!(doc, want, "{pointer}");
        }
    }
}
