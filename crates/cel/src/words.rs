//! Keywords and reserved words of the language, and the escapes of field names that are not identifiers.

use pintle_value::Str;

/// Words that are reserved for future use.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Keywords, which the grammar does not accept as identifiers.
const KEYWORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Texts that no identifier of a field has, and the words that stand for them between double underscores.
const ESCAPES: [(&str, &str); 4] = [("__", "underscores"), (".", "dot"), ("-", "dash"), ("/", "slash")];

/// Whether an identifier cannot be the name of a variable.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// Whether a word cannot be the name of anything.
pub fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word) || is_reserved(word)
}

/// The identifier of a field: `a__dot__b` for `a.b`. `None` if the name cannot be escaped.
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
        rest = if let Some((text, word)) = ESCAPES.iter().find(|(text, _)| rest.starts_with(text)) {
            out.extend(["__", word, "__"]);
            rest.get(text.len()..)?
        } else if c == '_' || c.is_ascii_alphanumeric() {
            out.push(c);
            rest.get(1..)?
        } else {
            return None;
        };
    }
    Some(out.into())
}

/// The unescaped form of a name: `a.b` for `a__dot__b`. `None` if it has an unknown escape.
pub fn unescape(name: &str) -> Option<String> {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let Some((escape, after)) = leading_escape(rest) else {
            out.push(c);
            rest = rest.get(c.len_utf8()..)?;
            continue;
        };
        out.push_str(match ESCAPES.iter().find(|(_, word)| *word == escape) {
            Some((text, _)) => text,
            // Only a whole name can be a keyword.
            None if is_keyword(escape) && name.len() == escape.len().saturating_add(4) => escape,
            None => return None,
        });
        rest = after;
    }
    Some(out)
}

/// The text between the double underscores with which a name begins, and what follows them.
fn leading_escape(text: &str) -> Option<(&str, &str)> {
    let (escape, after) = text.strip_prefix("__")?.split_once('_')?;
    let after = after.strip_prefix('_')?;
    (!escape.is_empty()).then_some((escape, after))
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

    #[test]
    fn names_are_unescaped_as_kube_apiserver_does() {
        for (name, want) in [
            ("plain_name", Some("plain_name")),
            ("a__dot__b__slash__c", Some("a.b/c")),
            ("a__underscores___b__dash__", Some("a___b-")),
            ("__if__", Some("if")),
            ("a__if__", None),
            ("__foo__", None),
            ("a___b__", None),
            ("a__b", Some("a__b")),
            ("____", Some("____")),
            ("__dot_", Some("__dot_")),
        ] {
            assert_eq!(unescape(name).as_deref(), want, "{name}");
        }
    }
}
