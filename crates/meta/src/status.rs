//! `Status`: the one place that knows codes, reasons and the sentences of errors.

mod errors;

use crate::GroupResource;
use pintle_value::{Map, Str, Value};

/// The least code of an error.
const BAD_REQUEST: u16 = 400;

/// Why a request failed, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum Reason {
    Unknown,
    Unauthorized,
    Forbidden,
    NotFound,
    AlreadyExists,
    Conflict,
    Gone,
    Invalid,
    ServerTimeout,
    StoreReadError,
    Timeout,
    TooManyRequests,
    BadRequest,
    MethodNotAllowed,
    NotAcceptable,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    InternalError,
    Expired,
    ServiceUnavailable,
}

impl Reason {
    /// The word in the answer; "" for `Unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Unknown => "",
            Reason::Unauthorized => "Unauthorized",
            Reason::Forbidden => "Forbidden",
            Reason::NotFound => "NotFound",
            Reason::AlreadyExists => "AlreadyExists",
            Reason::Conflict => "Conflict",
            Reason::Gone => "Gone",
            Reason::Invalid => "Invalid",
            Reason::ServerTimeout => "ServerTimeout",
            Reason::StoreReadError => "StorageReadError",
            Reason::Timeout => "Timeout",
            Reason::TooManyRequests => "TooManyRequests",
            Reason::BadRequest => "BadRequest",
            Reason::MethodNotAllowed => "MethodNotAllowed",
            Reason::NotAcceptable => "NotAcceptable",
            Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
            Reason::UnsupportedMediaType => "UnsupportedMediaType",
            Reason::InternalError => "InternalError",
            Reason::Expired => "Expired",
            Reason::ServiceUnavailable => "ServiceUnavailable",
        }
    }
}

/// One cause within `details`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cause {
    /// Machine-readable word.
    pub reason: Str,
    /// Sentence.
    pub message: String,
    /// Field it is about.
    pub field: Str,
}

/// `details` of a `Status`.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct Details {
    pub name: Str,
    pub group: Str,
    pub kind: Str,
    pub uid: Str,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: i32,
}

impl Details {
    fn is_empty(&self) -> bool {
        *self == Details::default()
    }
}

/// An answer that is no object: every error, and the success of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Why, in one word.
    pub reason: Reason,
    /// Why, in a sentence.
    pub message: String,
    /// What it is about.
    pub details: Box<Details>,
    /// `metadata.continue`, where an expired list can be taken up again.
    pub continue_token: String,
    /// Whether this is no error.
    pub success: bool,
    /// Whether `details` are written even when empty, as some errors do.
    pub empty_details: bool,
    /// Whether its code is written even though it is no error.
    pub tells_code: bool,
    /// Warnings that go beside it, in headers.
    pub warnings: Vec<String>,
    /// The reason of a status that others made, where it is none of the API's own.
    pub other_reason: Str,
}

impl Status {
    /// An error of this code, reason and message, without details.
    pub fn new(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Status {
            code,
            reason,
            message: message.into(),
            details: Box::default(),
            continue_token: String::new(),
            success: false,
            empty_details: false,
            tells_code: false,
            warnings: Vec::new(),
            other_reason: Str::default(),
        }
    }

    /// The same with warnings before those it has.
    pub fn with_warnings(mut self, mut warnings: Vec<String>) -> Self {
        warnings.append(&mut self.warnings);
        Status { warnings, ..self }
    }

    /// `Success`, as a finished deletion answers it.
    pub fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Self {
        let details = Details {
            name: name.into(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            uid: uid.into(),
            ..Details::default()
        };
        Status {
            code: 200,
            reason: Reason::Unknown,
            message: String::new(),
            details: Box::new(details),
            continue_token: String::new(),
            success: true,
            empty_details: false,
            tells_code: false,
            warnings: Vec::new(),
            other_reason: Str::default(),
        }
    }

    /// `Success`, as the deletion of an object answers that nobody could read.
    pub fn deleted_unread(kind: &str, name: &str) -> Self {
        let resource = GroupResource { group: Str::default(), resource: kind.into() };
        Status { tells_code: true, ..Status::deleted(&resource, name, "") }
    }

    /// The code that is written; 0 where none is.
    pub fn written_code(&self) -> u16 {
        if self.success && !self.tells_code { 0 } else { self.code }
    }

    /// The tree of this answer, as `v1.Status` is written.
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        out.insert("kind", "Status".into());
        out.insert("apiVersion", "v1".into());
        let mut metadata = Map::new();
        if !self.continue_token.is_empty() {
            metadata.insert("continue", self.continue_token.clone().into());
        }
        out.insert("metadata", Value::Object(metadata));
        out.insert("status", if self.success { "Success" } else { "Failure" }.into());
        if !self.message.is_empty() {
            out.insert("message", self.message.clone().into());
        }
        if !self.reason_text().is_empty() {
            out.insert("reason", self.reason_text().into());
        }
        if self.empty_details || !self.details.is_empty() {
            out.insert("details", self.details_value());
        }
        if self.written_code() != 0 {
            out.insert("code", Value::Int(i64::from(self.written_code())));
        }
        Value::Object(out)
    }

    /// The reason in one word; "" where there is none.
    pub fn reason_text(&self) -> &str {
        if self.other_reason.is_empty() { self.reason.as_str() } else { &self.other_reason }
    }

    /// The error that a `v1.Status` of somebody else tells of. Its code is that of an error.
    pub fn from_value(tree: &Value) -> Self {
        let code = tree.get("code").and_then(Value::as_int).unwrap_or(0);
        let code = u16::try_from(code).unwrap_or(u16::MAX).max(BAD_REQUEST);
        let mut status = Status::new(code, Reason::Unknown, tree.str_at(&["message"]));
        status.other_reason = tree.str_at(&["reason"]).into();
        status.continue_token = tree.str_at(&["metadata", "continue"]).to_string();
        let Some(details) = tree.get("details") else { return status };
        let text = |key: &str| Str::from(details.str_at(&[key]));
        let retry = details.get("retryAfterSeconds").and_then(Value::as_int).unwrap_or(0);
        let cause = |cause: &Value| Cause {
            reason: cause.str_at(&["reason"]).into(),
            message: cause.str_at(&["message"]).to_string(),
            field: cause.str_at(&["field"]).into(),
        };
        status.details = Box::new(Details {
            name: text("name"),
            group: text("group"),
            kind: text("kind"),
            uid: text("uid"),
            causes: details.items_at(&["causes"]).iter().map(cause).collect(),
            retry_after_seconds: i32::try_from(retry).unwrap_or(0),
        });
        status.empty_details = true;
        status
    }

    fn details_value(&self) -> Value {
        let mut out = Map::new();
        let d = &self.details;
        for (key, text) in [("name", &d.name), ("group", &d.group), ("kind", &d.kind), ("uid", &d.uid)] {
            if !text.is_empty() {
                out.insert(key, text.clone().into());
            }
        }
        if !d.causes.is_empty() {
            out.insert("causes", Value::Array(d.causes.iter().map(cause_value).collect()));
        }
        if d.retry_after_seconds != 0 {
            out.insert("retryAfterSeconds", Value::Int(i64::from(d.retry_after_seconds)));
        }
        Value::Object(out)
    }
}

fn cause_value(cause: &Cause) -> Value {
    let mut out = Map::new();
    for (key, text) in
        [("reason", cause.reason.as_str()), ("message", &cause.message), ("field", &cause.field)]
    {
        if !text.is_empty() {
            out.insert(key, text.into());
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests;
