//! The options of requests: parsed from the query or a body, defaulted and validated, with the `Status` that
//! kube-apiserver returns for invalid ones.

mod delete;
mod list;
mod log;

pub use delete::{DeleteOptions, Preconditions, Propagation};
pub use list::{ListOptions, VersionMatch};
pub use log::LogOptions;

use crate::objectmeta::validate_field_manager;
use crate::{FieldErrors, GroupKind, Status};
use pintle_value::{Path, Str};

/// The decoded pairs of a query, in order.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a>(pub &'a [(String, String)]);

impl<'a> Query<'a> {
    /// The first value of a parameter; later ones are ignored.
    pub fn first(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first value of a parameter, or "".
    pub fn text(&self, name: &str) -> &'a str {
        self.first(name).unwrap_or("")
    }

    /// All values of a parameter.
    pub fn all(&self, name: &str) -> Vec<Str> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| Str::from(value)).collect()
    }

    /// A boolean: everything but `0` and `false` is true, even an empty value.
    pub fn switch(&self, name: &str) -> Option<bool> {
        self.first(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A whole number.
    pub fn int(&self, name: &str) -> Result<Option<i64>, Status> {
        let number = self.first(name).map(crate::strconv::parse_int).transpose();
        number.map_err(|e| Status::bad_request(e.to_string()))
    }
}

/// How fields that the kind does not have are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Such fields are dropped without a warning.
    Ignore,
    /// Such fields are dropped, with a warning.
    #[default]
    Warn,
    /// The request fails.
    Strict,
}

impl FieldValidation {
    /// The value of the query parameter.
    pub fn name(self) -> &'static str {
        match self {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        }
    }
}

/// Options of a get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// The minimum version; "" is the newest.
    pub resource_version: Str,
}

impl GetOptions {
    /// Reads the options from the query; their values are validated later.
    pub fn from_query(query: Query<'_>) -> Self {
        GetOptions { resource_version: query.text("resourceVersion").into() }
    }
}

/// The options that creates, updates and patches share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether the write is a dry run, which stores nothing.
    pub dry_run: bool,
    /// The manager of the fields that are written; if "", it is derived from the user agent.
    pub field_manager: Str,
    /// How unknown fields are handled, if the client specifies it.
    pub field_validation: Option<FieldValidation>,
}

/// Options of a create.
pub type CreateOptions = WriteOptions;
/// Options of an update.
pub type UpdateOptions = WriteOptions;

/// Options of a patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchOptions {
    /// The options that all writes share.
    pub write: WriteOptions,
    /// Whether an apply takes over fields that other managers own.
    pub force: bool,
}

impl WriteOptions {
    /// Reads and checks the options of a create.
    pub fn create(query: Query<'_>) -> Result<CreateOptions, Status> {
        let mut errors = FieldErrors::new();
        let options = write_options(query, &mut errors);
        check_options("CreateOptions", options, errors)
    }

    /// Reads and checks the options of an update.
    pub fn update(query: Query<'_>) -> Result<UpdateOptions, Status> {
        let mut errors = FieldErrors::new();
        let options = write_options(query, &mut errors);
        check_options("UpdateOptions", options, errors)
    }
}

impl PatchOptions {
    /// Reads and checks the options of a patch; an apply has additional rules.
    pub fn from_query(query: Query<'_>, apply: bool) -> Result<Self, Status> {
        let mut errors = FieldErrors::new();
        let force = query.switch("force");
        if apply && query.text("fieldManager").is_empty() {
            errors.required(&Path::of("fieldManager"), "is required for apply patch");
        }
        if !apply && force.is_some() {
            errors.forbidden(&Path::of("force"), "may not be specified for non-apply patch");
        }
        let write = write_options(query, &mut errors);
        check_options("PatchOptions", PatchOptions { write, force: force.unwrap_or(false) }, errors)
    }
}

fn check_options<T>(kind: &str, options: T, errors: FieldErrors) -> Result<T, Status> {
    if errors.is_empty() {
        return Ok(options);
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", &errors))
}

fn write_options(query: Query<'_>, errors: &mut FieldErrors) -> WriteOptions {
    let field_manager = query.text("fieldManager");
    validate_field_manager(field_manager, &Path::of("fieldManager"), errors);
    let dry_run = query.all("dryRun");
    validate_dry_run(&dry_run, errors);
    WriteOptions {
        dry_run: !dry_run.is_empty(),
        field_manager: field_manager.into(),
        field_validation: field_validation(query.text("fieldValidation"), errors),
    }
}

fn validate_dry_run(values: &[Str], errors: &mut FieldErrors) {
    if values.iter().any(|v| v != "All") {
        errors.not_supported(&Path::of("dryRun"), values, &["All"]);
    }
}

fn field_validation(text: &str, errors: &mut FieldErrors) -> Option<FieldValidation> {
    match text {
        "" => None,
        "Warn" => Some(FieldValidation::Warn),
        "Ignore" => Some(FieldValidation::Ignore),
        "Strict" => Some(FieldValidation::Strict),
        other => {
            let supported = ["", "Ignore", "Strict", "Warn"];
            errors.not_supported(&Path::of("fieldValidation"), other, &supported);
            None
        }
    }
}

/// How much of the object a row of a table includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The metadata of an object.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Reads and checks `includeObject`.
    pub fn from_query(query: Query<'_>) -> Result<Self, Status> {
        match query.text("includeObject") {
            "" | "Metadata" => Ok(IncludeObject::Metadata),
            "None" => Ok(IncludeObject::None),
            "Object" => Ok(IncludeObject::Object),
            other => {
                let mut errors = FieldErrors::new();
                let value_text = crate::field::Named(other);
                let detail = "must be 'Metadata', 'Object', 'None', or empty";
                errors.invalid(&Path::of("includeObject"), value_text, detail);
                let message =
                    format!("Unable to convert to Table as requested: {}", errors.aggregate_message());
                Err(Status::bad_request(message))
            }
        }
    }
}

#[cfg(test)]
pub(crate) fn pairs(query: &str) -> Vec<(String, String)> {
    let pair = |p: &str| p.split_once('=').map_or((p.into(), String::new()), |(k, v)| (k.into(), v.into()));
    query.split('&').filter(|p| !p.is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<T>(result: Result<T, Status>) -> String {
        result.map_or_else(|status| format!("{} {}", status.code, status.message), |_| "fine".to_string())
    }

    #[test]
    fn writes() {
        for (query, expected) in [
            ("", "fine"),
            ("dryRun=All&dryRun=All&fieldManager=me&fieldValidation=Strict&nonsense", "fine"),
            (
                "dryRun=",
                r#"422 CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: [""]: supported values: "All""#,
            ),
            (
                "dryRun=All&dryRun=Some",
                r#"422 CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["All","Some"]: supported values: "All""#,
            ),
            (
                "fieldValidation=strict",
                r#"422 CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "strict": supported values: "", "Ignore", "Strict", "Warn""#,
            ),
            (
                "fieldManager=tab\ttab",
                r#"422 CreateOptions.meta.k8s.io "" is invalid: fieldManager: Invalid value: "tab\ttab": invalid character U+0009 (at position 3)"#,
            ),
        ] {
            assert_eq!(said(WriteOptions::create(Query(&pairs(query)))), expected, "{query}");
        }
    }

    #[test]
    fn patches() {
        let required = "fieldManager: Required value: is required for apply patch";
        for (query, apply, expected) in [
            ("fieldManager=a&force=true", true, "fine".to_string()),
            ("", true, format!(r#"422 PatchOptions.meta.k8s.io "" is invalid: {required}"#)),
            (
                "force=0",
                false,
                r#"422 PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch"#.into(),
            ),
            (
                "dryRun=Some&fieldValidation=Loose",
                true,
                format!(
                    r#"422 PatchOptions.meta.k8s.io "" is invalid: [{required}, dryRun: Unsupported value: ["Some"]: supported values: "All", fieldValidation: Unsupported value: "Loose": supported values: "", "Ignore", "Strict", "Warn"]"#
                ),
            ),
        ] {
            assert_eq!(said(PatchOptions::from_query(Query(&pairs(query)), apply)), expected, "{query}");
        }
    }

    #[test]
    fn tables() {
        assert_eq!(IncludeObject::from_query(Query(&pairs("includeObject=None"))), Ok(IncludeObject::None));
        assert_eq!(
            said(IncludeObject::from_query(Query(&pairs("includeObject=All")))),
            "400 Unable to convert to Table as requested: includeObject: Invalid value: \"All\": must be 'Metadata', 'Object', 'None', or empty"
        );
    }
}
