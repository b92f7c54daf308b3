//! Field selectors: `metadata.name=a,spec.nodeName!=b`, parsed and matched as `k8s.io/apimachinery/pkg/fields` does.

use pintle_value::Str;
use std::fmt;

/// One term of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The field that the requirement is about.
    pub field: Str,
    /// Whether the field must have the value (or must not).
    pub equal: bool,
    /// The value.
    pub value: Str,
}

/// All terms together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

impl FieldSelector {
    /// Selects everything.
    pub const fn everything() -> Self {
        FieldSelector { terms: Vec::new() }
    }

    /// Selects objects whose field has this value.
    pub fn equal(field: &str, value: &str) -> Self {
        FieldSelector { terms: vec![Term { field: field.into(), equal: true, value: value.into() }] }
    }

    /// Creates a selector with these terms.
    pub fn of(terms: Vec<Term>) -> Self {
        FieldSelector { terms }
    }

    /// Parses a query parameter. A term without field and value selects everything. The error is kube-apiserver's message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|p| !p.is_empty()) {
            let Some((field, equal, value)) = split_term(part) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
            };
            let value = unescape(value)?;
            if !(field.is_empty() && value.is_empty()) {
                terms.push(Term { field: field.into(), equal, value });
            }
        }
        Ok(FieldSelector { terms })
    }

    /// The terms, sorted by their text.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Adds the terms of another selector.
    pub fn and(mut self, other: FieldSelector) -> Self {
        self.terms.extend(other.terms);
        self
    }

    /// Whether the selector selects everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether the selector selects an object whose field values `lookup` returns; a missing field is "".
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> &'a str) -> bool {
        self.terms.iter().all(|t| (lookup(&t.field) == t.value.as_str()) == t.equal)
    }

    /// The value that the selector requires for a field, if it requires one.
    pub fn required_value(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|t| t.equal && t.field == field).map(|t| t.value.as_str())
    }

    /// Passes every field and value through `change`. A term of which both become empty is removed.
    pub fn transform<E>(
        &self,
        mut change: impl FnMut(&str, &str) -> Result<(Str, Str), E>,
    ) -> Result<Self, E> {
        let mut terms = Vec::with_capacity(self.terms.len());
        for term in &self.terms {
            let (field, value) = change(&term.field, &term.value)?;
            if !(field.is_empty() && value.is_empty()) {
                terms.push(Term { field, equal: term.equal, value });
            }
        }
        Ok(FieldSelector { terms })
    }

    /// Checks that only fields of `known` are used. The message depends on whether the kind has selectable fields of its
    /// own.
    pub fn check(&self, known: &[&str]) -> Result<(), String> {
        let has_own = known.iter().any(|f| !matches!(*f, "metadata.name" | "metadata.namespace"));
        match self.terms.iter().find(|t| !known.contains(&t.field.as_str())) {
            None => Ok(()),
            Some(term) if has_own => Err(not_supported(&term.field)),
            Some(term) => Err(not_known(&term.field)),
        }
    }
}

/// The message of a kind that has selectable fields of its own.
pub fn not_supported(field: &str) -> String {
    format!("field label not supported: {field}")
}

/// The message of a kind that has none.
pub fn not_known(field: &str) -> String {
    let field = crate::field::quoted(field);
    format!("{field} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                out.extend(text.get(start..i));
                start = i.saturating_add(1);
            }
            _ => {}
        }
    }
    out.extend(text.get(start..));
    out
}

/// Splits at the first operator.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (i, _) in term.char_indices() {
        let (field, rest) = term.split_at_checked(i)?;
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((field, equal, value));
            }
        }
    }
    None
}

fn unescape(text: &str) -> Result<Str, String> {
    let invalid = |sequence: &str| format!("invalid field selector: invalid escape sequence: {sequence}");
    let mut out = Str::default();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                Some(other) => return Err(invalid(&format!("\\{other}"))),
                None => return Err(invalid("\\")),
            },
            // Go prints the character as its code point here.
            ',' | '=' => {
                return Err(format!("invalid field selector: unescaped character in value: {}", c as u32));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let operator = if term.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        for (text, expected) in [
            ("", ""),
            (",", ""),
            ("b==c,a=b", "a=b,b=c"),
            ("a!=b", "a!=b"),
            ("a=", "a="),
            ("=b", "=b"),
            (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("n in (a,b)", "invalid selector: 'n in (a,b)'; can't understand 'b)'"),
            (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
            (r"a=\", r"invalid field selector: invalid escape sequence: \"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ] {
            let got = FieldSelector::parse(text).map_or_else(|e| e, |s| s.to_string());
            assert_eq!(got, expected, "{text}");
        }
    }

    #[test]
    fn fields_are_matched_and_checked() {
        let selector = FieldSelector::parse("metadata.name=a,spec.x!=b").unwrap();
        let lookup = |field: &str| if field == "metadata.name" { "a" } else { "" };
        assert!(selector.matches(lookup));
        assert_eq!(selector.required_value("metadata.name"), Some("a"));
        assert_eq!(selector.required_value("spec.x"), None);
        assert_eq!(
            selector.check(&["metadata.name", "metadata.namespace"]),
            Err("\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                .into())
        );
        assert_eq!(
            selector.check(&["metadata.name", "spec.y"]),
            Err("field label not supported: spec.x".into())
        );
        let renamed = selector.transform(|f, v| Ok::<_, ()>((f.replace("spec.x", "").into(), v.into())));
        assert_eq!(renamed.unwrap().to_string(), "metadata.name=a,!=b");
    }
}
