//! Field errors: what is wrong with an object and where, with kube-apiserver's messages.
//!
//! Errors of the user accumulate here; the whole list becomes one 422 `Status`.

use pintle_value::{Path, Str, Value, json};
use std::collections::HashSet;

use pintle_value::quote::go_general;
pub use pintle_value::quote::go_quoted as quoted;

/// The maximum number of errors that are listed for one object. kube-apiserver lists all; an object of 3 MB can have
/// millions, each of them hundreds of bytes long.
pub const ERRORS_MAX: usize = 10_000;
/// The maximum size of the errors of one object besides the first. An error can quote a long text of the definition (an enum, a
/// pattern, the message of a rule) for each of many small values.
pub const ERROR_BYTES_MAX: usize = 8 << 20;

/// The type of an error. It determines the reason of the cause and the start of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The value refers to something that does not exist.
    NotFound,
    /// A value is missing.
    Required,
    /// The value occurs twice.
    Duplicate,
    /// The value does not follow the rules.
    Invalid,
    /// The value is not one of the allowed ones.
    NotSupported,
    /// The value may be valid, but not for this request.
    Forbidden,
    /// The text is too long.
    TooLong,
    /// There are too many items.
    TooMany,
    /// The value has the wrong type.
    TypeInvalid,
    /// The check itself failed.
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

    fn text(self) -> &'static str {
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

/// One error.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The type of the error.
    pub kind: ErrorKind,
    /// Path of the field, as text.
    pub field: Str,
    /// The message without the path: `Invalid value: -1: must be …`.
    pub body: String,
}

impl FieldError {
    fn bytes(&self) -> usize {
        self.field.len().saturating_add(self.body.len())
    }
}

/// All errors of one object. The list is public for reading; it grows through the methods, which enforce the limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldErrors(pub Vec<FieldError>, usize);

impl FieldErrors {
    /// Creates an empty list.
    pub const fn new() -> Self {
        FieldErrors(Vec::new(), 0)
    }

    /// Whether there is no error.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether further errors are dropped: there are [`ERRORS_MAX`], or they take [`ERROR_BYTES_MAX`].
    pub fn is_full(&self) -> bool {
        self.0.len() >= ERRORS_MAX || self.1 >= ERROR_BYTES_MAX
    }

    /// Adds an error, unless the list is full.
    pub fn add(&mut self, error: FieldError) {
        let bytes = self.1.saturating_add(error.bytes());
        let fits = self.0.len() < ERRORS_MAX && bytes <= ERROR_BYTES_MAX;
        // The first error is reported, however long it is.
        if fits || self.0.is_empty() {
            self.0.push(error);
        }
        // An error that does not fit is the end of the list: smaller ones do not take its place.
        self.1 = bytes;
    }

    /// Adds all errors of another list.
    pub fn append(&mut self, others: FieldErrors) {
        self.extend(others.0);
    }

    /// Removes all errors.
    pub fn clear(&mut self) {
        *self = FieldErrors::new();
    }

    /// Adds an error whose message is `text: value: detail`; `value_text` is the text of the value in the message. A full list
    /// does not take it.
    pub fn push(&mut self, kind: ErrorKind, path: &Path<'_>, value_text: Option<&str>, detail: &str) {
        if self.is_full() {
            return;
        }
        let mut body = kind.text().to_string();
        if let Some(value_text) = value_text {
            body.push_str(": ");
            body.push_str(value_text);
        }
        if !detail.is_empty() {
            body.push_str(": ");
            body.push_str(detail);
        }
        self.add(FieldError { kind, field: path.to_str(), body });
    }

    /// Adds `Required value: detail`.
    pub fn required(&mut self, path: &Path<'_>, detail: &str) {
        self.push(ErrorKind::Required, path, None, detail);
    }

    /// Adds `Invalid value: <value>: detail`.
    pub fn invalid(&mut self, path: &Path<'_>, value: impl ErrorText, detail: &str) {
        // The text of a large value is not even made if it would be dropped: each of its items may have an error that prints all of it.
        if !self.is_full() {
            self.push(ErrorKind::Invalid, path, Some(&value.error_text()), detail);
        }
    }

    /// Adds `Duplicate value: <value>`.
    pub fn duplicate(&mut self, path: &Path<'_>, value: impl ErrorText) {
        if !self.is_full() {
            self.push(ErrorKind::Duplicate, path, Some(&value.error_text()), "");
        }
    }

    /// Adds `Not found: <value>`.
    pub fn not_found(&mut self, path: &Path<'_>, value: impl ErrorText) {
        if !self.is_full() {
            self.push(ErrorKind::NotFound, path, Some(&value.error_text()), "");
        }
    }

    /// Adds `Forbidden: detail`.
    pub fn forbidden(&mut self, path: &Path<'_>, detail: &str) {
        self.push(ErrorKind::Forbidden, path, None, detail);
    }

    /// `Unsupported value: <value>: supported values: "a", "b"`, in the order given. kube-apiserver sorts the values in
    /// most places; the caller must sort them there.
    pub fn not_supported(&mut self, path: &Path<'_>, value: impl ErrorText, supported: &[&str]) {
        if self.is_full() {
            return;
        }
        let list = supported.iter().map(|s| quoted(s)).collect::<Vec<_>>().join(", ");
        let detail = if supported.is_empty() { String::new() } else { format!("supported values: {list}") };
        self.push(ErrorKind::NotSupported, path, Some(&value.error_text()), &detail);
    }

    /// `Too long: may not be more than N bytes`. kube-apiserver no longer prints the value itself.
    pub fn too_long(&mut self, path: &Path<'_>, max_bytes: usize) {
        let detail = format!("may not be more than {}", count_text(max_bytes, "byte"));
        self.push(ErrorKind::TooLong, path, None, &detail);
    }

    /// Adds `Too many: N: must have at most M items`.
    pub fn too_many(&mut self, path: &Path<'_>, actual: usize, max: usize) {
        let detail = format!("must have at most {}", count_text(max, "item"));
        self.push(ErrorKind::TooMany, path, Some(&actual.to_string()), &detail);
    }

    /// Adds `Internal error: detail`.
    pub fn internal(&mut self, path: &Path<'_>, detail: &str) {
        self.push(ErrorKind::Internal, path, None, detail);
    }

    /// The errors as one text: the only error, or `[a, b]` without repetitions.
    pub fn aggregate_message(&self) -> String {
        let mut seen = HashSet::with_capacity(self.0.len());
        let texts: Vec<String> =
            self.0.iter().map(FieldError::to_string).filter(|text| seen.insert(text.clone())).collect();
        match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        }
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<T: IntoIterator<Item = FieldError>>(&mut self, errors: T) {
        errors.into_iter().for_each(|error| self.add(error));
    }
}

impl FromIterator<FieldError> for FieldErrors {
    fn from_iter<T: IntoIterator<Item = FieldError>>(errors: T) -> Self {
        let mut out = FieldErrors::new();
        out.extend(errors);
        out
    }
}

impl std::fmt::Display for FieldError {
    /// Prints the error as `spec.replicas: Invalid value: -1: must be …`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

/// A value that an error can quote.
pub trait ErrorText {
    /// The text that appears in the message.
    fn error_text(&self) -> String;
}

fn count_text(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Whether Go's `unicode.IsPrint` holds: letters, marks, numbers, punctuation, symbols and the ASCII space.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || c.is_ascii_graphic();
    }
    // Rust's `escape_debug` escapes exactly the others; the leading letter keeps it from escaping combining marks.
    let pair = pintle_value::Str::from_iter(['a', c]);
    pair.escape_debug().count() == 2
}

impl ErrorText for &str {
    fn error_text(&self) -> String {
        quoted(self)
    }
}

impl ErrorText for &Str {
    fn error_text(&self) -> String {
        quoted(self)
    }
}

impl ErrorText for i64 {
    fn error_text(&self) -> String {
        self.to_string()
    }
}

impl ErrorText for bool {
    fn error_text(&self) -> String {
        self.to_string()
    }
}

impl ErrorText for &Value {
    /// Scalars as Go prints them, `null` as `null`, everything else as JSON.
    fn error_text(&self) -> String {
        match self {
            Value::String(s) => quoted(s),
            Value::Float(float) => go_general(*float),
            other => json::text(other),
        }
    }
}

/// A text of one of Go's named string types (enums, UIDs), which kube-apiserver prints as JSON.
#[derive(Clone, Copy)]
pub struct Named<'a>(pub &'a str);

impl ErrorText for Named<'_> {
    fn error_text(&self) -> String {
        let mut out = Vec::new();
        json::write_string(self.0, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}

impl ErrorText for &[Str] {
    /// A list of strings as JSON; an empty one is printed as Go's nil.
    fn error_text(&self) -> String {
        if self.is_empty() {
            return "null".to_string();
        }
        let items: Vec<String> = self.iter().map(|s| Named(s).error_text()).collect();
        format!("[{}]", items.join(","))
    }
}

impl ErrorText for Option<&Value> {
    /// A missing value is printed as `null`.
    fn error_text(&self) -> String {
        self.unwrap_or(&Value::Null).error_text()
    }
}

/// A text that is printed without quotes.
pub struct Plain<'a>(pub &'a str);

impl ErrorText for Plain<'_> {
    fn error_text(&self) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_all_errors_is_limited() {
        let path = Path::of("a");
        let long = "x".repeat(ERROR_BYTES_MAX / 4);
        let mut one = FieldErrors::new();
        one.required(&path, &"x".repeat(ERROR_BYTES_MAX * 2));
        assert_eq!(one.0.len(), 1, "the first error is listed, however long it is");
        assert!(one.is_full());
        let mut many = FieldErrors::new();
        (0..10).for_each(|_| many.required(&path, &long));
        assert_eq!(many.0.len(), 3);
        let mut joined = FieldErrors::new();
        (0..10).for_each(|_| joined.append(many.clone()));
        assert_eq!(joined.0.len(), 3, "also if lists are joined");
    }

    #[test]
    fn millions_of_errors_are_not_listed() {
        let mut errors = FieldErrors::new();
        (0..ERRORS_MAX + 5).for_each(|_| errors.required(&Path::of("a"), ""));
        assert_eq!(errors.0.len(), ERRORS_MAX);
    }

    #[test]
    fn errors_read_as_kube_apiserver_writes_them() {
        let mut errors = FieldErrors::new();
        errors.invalid(&Path::of("a"), -1, "must be positive");
        errors.required(&Path::of("b"), "");
        errors.not_supported(&Path::of("c"), "x", &["y", "z"]);
        errors.duplicate(&Path::of("d"), "n");
        errors.required(&Path::of("b"), "");
        assert_eq!(
            errors.aggregate_message(),
            r#"[a: Invalid value: -1: must be positive, b: Required value, c: Unsupported value: "x": supported values: "y", "z", d: Duplicate value: "n"]"#
        );
        let mut errors = FieldErrors::new();
        errors.too_long(&Path::of("a"), 1);
        errors.too_many(&Path::of("b"), 3, 2);
        errors.not_supported(&Path::of("e"), Named("<"), &[]);
        errors.invalid(&Path::of("f"), None::<&Value>, "");
        assert_eq!(
            errors.aggregate_message(),
            r#"[a: Too long: may not be more than 1 byte, b: Too many: 3: must have at most 2 items, e: Unsupported value: "\u003c", f: Invalid value: null]"#
        );
    }

    #[test]
    fn printable_is_what_go_prints() {
        for (c, expected) in [('a', true), (' ', true), ('é', true), ('\u{301}', true), ('😀', true)]
            .into_iter()
            .chain(['\t', '\u{7f}', '\u{a0}', '\u{200b}', '\u{e000}'].map(|c| (c, false)))
        {
            assert_eq!(is_print(c), expected, "{c:?}");
        }
    }
}
