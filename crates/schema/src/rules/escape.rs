//! Field names in expressions: names that are not CEL identifiers are escaped.

use pintle_cel::words::is_keyword;
use pintle_value::Str;

/// The identifier of a field; `None` if the name cannot be escaped.
pub fn escape(name: &str) -> Option<Str> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_keyword(name) {
        return Some(format!("__{name}__").into());
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (taken, written) = match c {
            '_' if rest.starts_with("__") => (2, "__underscores__"),
            '.' => (1, "__dot__"),
            '-' => (1, "__dash__"),
            '/' => (1, "__slash__"),
            '_' | 'a'..='z' | 'A'..='Z' | '0'..='9' => (1, rest.get(..1)?),
            _ => return None,
        };
        out.push_str(written);
        rest = rest.get(taken..)?;
    }
    Some(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_kube_apiserver_does() {
        let cases = [
            ("a", Some("a")),
            ("aB_9", Some("aB_9")),
            ("", None),
            ("9a", None),
            ("namespace", Some("__namespace__")),
            ("namespaces", Some("namespaces")),
            ("int", Some("int")),
            ("a-b", Some("a__dash__b")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("a___b", Some("a__underscores___b")),
            ("____", Some("__underscores____underscores__")),
            ("-", Some("__dash__")),
            ("a b", None),
            ("ä", None),
            ("a.ä", None),
            ("$ref", None),
        ];
        for (name, expected) in cases {
            assert_eq!(escape(name).as_deref(), expected, "{name}");
        }
    }
}
