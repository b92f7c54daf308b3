//! Field errors: what is wrong with an object, where, in kube-apiserver's words.
//!
//! User mistakes accumulate here; the whole list becomes one 422 `Status`.

use pintle_value::{Path, Str, Value, json};

/// What kind of mistake it is; decides the cause's reason and the opening words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No such value is known elsewhere.
    NotFound,
    /// A value is missing.
    Required,
    /// The value occurs twice.
    Duplicate,
    /// The value does not follow the rules.
    Invalid,
    /// The value is none of the allowed ones.
    NotSupported,
    /// The value may be right, but not for this request.
    Forbidden,
    /// The text is too long.
    TooLong,
    /// There are too many items.
    TooMany,
    /// The value has the wrong type.
    TypeInvalid,
    /// Something failed on our side while checking.
    Internal,
}

impl ErrorKind {
    /// The `reason` of the cause.
    pub fn reason(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "FieldValueNotFound",
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::Invalid => "FieldValueInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            ErrorKind::Internal => "InternalError",
        }
    }

    fn words(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "Not found",
            ErrorKind::Required => "Required value",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooMany => "Too many",
            ErrorKind::Internal => "Internal error",
        }
    }
}

/// One mistake.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// What kind of mistake.
    pub kind: ErrorKind,
    /// Path of the field, as text.
    pub field: Str,
    /// The message without the path: `Invalid value: -1: must be …`.
    pub body: String,
}

/// All that is wrong with one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldErrors(pub Vec<FieldError>);

impl FieldErrors {
    /// Nothing wrong.
    pub const fn new() -> Self {
        FieldErrors(Vec::new())
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an error whose message is `words: value: detail`, where `value` is already written as it shall appear.
    pub fn push(&mut self, kind: ErrorKind, path: &Path<'_>, shown: Option<&str>, detail: &str) {
        let mut body = kind.words().to_string();
        if let Some(shown) = shown {
            body.push_str(": ");
            body.push_str(shown);
        }
        if !detail.is_empty() {
            body.push_str(": ");
            body.push_str(detail);
        }
        self.0.push(FieldError { kind, field: path.to_str(), body });
    }

    /// `Required value: detail`
    pub fn required(&mut self, path: &Path<'_>, detail: &str) {
        self.push(ErrorKind::Required, path, None, detail);
    }

    /// `Invalid value: <value>: detail`
    pub fn invalid(&mut self, path: &Path<'_>, value: impl Shown, detail: &str) {
        self.push(ErrorKind::Invalid, path, Some(&value.shown()), detail);
    }

    /// `Duplicate value: <value>`
    pub fn duplicate(&mut self, path: &Path<'_>, value: impl Shown) {
        self.push(ErrorKind::Duplicate, path, Some(&value.shown()), "");
    }

    /// `Not found: <value>`
    pub fn not_found(&mut self, path: &Path<'_>, value: impl Shown) {
        self.push(ErrorKind::NotFound, path, Some(&value.shown()), "");
    }

    /// `Forbidden: detail`
    pub fn forbidden(&mut self, path: &Path<'_>, detail: &str) {
        self.push(ErrorKind::Forbidden, path, None, detail);
    }

    /// `Unsupported value: <value>: supported values: "a", "b"`; the values are shown in the given order
    /// (kube-apiserver sorts them in most places: hand them over sorted there).
    pub fn not_supported(&mut self, path: &Path<'_>, value: impl Shown, supported: &[&str]) {
        let list = supported.iter().map(|s| quoted(s)).collect::<Vec<_>>().join(", ");
        let detail = if supported.is_empty() { String::new() } else { format!("supported values: {list}") };
        self.push(ErrorKind::NotSupported, path, Some(&value.shown()), &detail);
    }

    /// `Too long: may not be more than N bytes` (kube-apiserver no longer shows the value itself)
    pub fn too_long(&mut self, path: &Path<'_>, max_bytes: usize) {
        self.push(ErrorKind::TooLong, path, None, &format!("may not be more than {max_bytes} bytes"));
    }

    /// `Too many: N: must have at most M items`
    pub fn too_many(&mut self, path: &Path<'_>, actual: usize, max: usize) {
        let noun = if max == 1 { "item" } else { "items" };
        self.push(
            ErrorKind::TooMany,
            path,
            Some(&actual.to_string()),
            &format!("must have at most {max} {noun}"),
        );
    }

    /// `Internal error: detail`
    pub fn internal(&mut self, path: &Path<'_>, detail: &str) {
        self.push(ErrorKind::Internal, path, None, detail);
    }

    /// The errors as one sentence: alone, or as `[a, b]` without repetitions.
    pub fn sentence(&self) -> String {
        let mut seen: Vec<String> = Vec::new();
        for error in &self.0 {
            let text = error.to_string();
            if !seen.contains(&text) {
                seen.push(text);
            }
        }
        match seen.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        }
    }
}

impl std::fmt::Display for FieldError {
    /// `spec.replicas: Invalid value: -1: must be …`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

/// How a bad value appears inside an error.
pub trait Shown {
    /// The text that appears in the message.
    fn shown(&self) -> String;
}

/// A Go-quoted string.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c == '\u{7f}' => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if (0x80..0xa0).contains(&(c as u32)) => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

impl Shown for &str {
    fn shown(&self) -> String {
        quoted(self)
    }
}

impl Shown for &Str {
    fn shown(&self) -> String {
        quoted(self)
    }
}

impl Shown for i64 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for bool {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for &Value {
    /// Scalars as Go prints them, everything else as JSON; `null` as kube-apiserver's `null`.
    fn shown(&self) -> String {
        match self {
            Value::String(s) => quoted(s),
            other => {
                let mut out = Vec::new();
                json::print(other, &mut out);
                String::from_utf8_lossy(&out).into_owned()
            }
        }
    }
}

/// A text that is shown as it stands, without quotes.
pub struct Plain<'a>(pub &'a str);

impl Shown for Plain<'_> {
    fn shown(&self) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_kube_apiserver_writes_them() {
        let mut errors = FieldErrors::new();
        errors.invalid(&Path::of("a"), -1, "must be positive");
        errors.required(&Path::of("b"), "");
        errors.not_supported(&Path::of("c"), "x", &["y", "z"]);
        errors.duplicate(&Path::of("d"), "n");
        errors.required(&Path::of("b"), "");
        assert_eq!(
            errors.sentence(),
            r#"[a: Invalid value: -1: must be positive, b: Required value, c: Unsupported value: "x": supported values: "y", "z", d: Duplicate value: "n"]"#
        );
    }
}
