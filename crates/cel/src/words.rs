//! Keywords and reserved words of the language.

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

/// Whether an identifier cannot be the name of a variable.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// Whether a word cannot be the name of anything.
pub fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word) || is_reserved(word)
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
        out.push_str(match escape {
            "underscores" => "__",
            "dot" => ".",
            "dash" => "-",
            "slash" => "/",
            // Only a whole name can be a keyword.
            word if is_keyword(word) && name.len() == word.len().saturating_add(4) => word,
            _ => return None,
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
