//! `Status`: the one place that knows the codes, reasons and messages of errors.

mod errors;

use crate::GroupResource;
use pintle_value::{Map, Str, Value};

/// The lowest code of an error.
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
    /// The reason as in the response; "" for `Unknown`.
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
    /// The machine-readable reason.
    pub reason: Str,
    /// The message for people.
    pub message: String,
    /// The field with the error.
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

/// Fields of a status' `metadata` that only other servers set, such as webhooks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct OtherMetadata {
    pub self_link: Str,
    pub resource_version: Str,
    pub remaining_item_count: Option<i64>,
}

impl OtherMetadata {
    fn from_value(metadata: &Value) -> Option<Box<Self>> {
        let text = |key: &str| Str::from(metadata.str_at(&[key]));
        let found = OtherMetadata {
            self_link: text("selfLink"),
            resource_version: text("resourceVersion"),
            remaining_item_count: metadata.get("remainingItemCount").and_then(Value::as_int),
        };
        (found != OtherMetadata::default()).then(|| Box::new(found))
    }
}

/// A response that is not an object: every error, and the success of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// The machine-readable reason.
    pub reason: Reason,
    /// The message for people.
    pub message: String,
    /// The object of the request and the causes.
    pub details: Box<Details>,
    /// `metadata.continue`: the token with which an expired list can be continued.
    pub continue_token: String,
    /// The rest of `metadata` of a status that another server made.
    pub other_metadata: Option<Box<OtherMetadata>>,
    /// Whether this is a success.
    pub success: bool,
    /// Whether `details` are written even when empty, as for some errors.
    pub empty_details: bool,
    /// Whether the code is written even for a success.
    pub tells_code: bool,
    /// Warnings that are sent as headers.
    pub warnings: Vec<String>,
    /// The reason of a status that another server made, if it is not one of the API's own.
    pub other_reason: Str,
}

impl Status {
    /// Creates an error without details.
    pub fn new(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Status {
            code,
            reason,
            message: message.into(),
            details: Box::default(),
            continue_token: String::new(),
            other_metadata: None,
            success: false,
            empty_details: false,
            tells_code: false,
            warnings: Vec::new(),
            other_reason: Str::default(),
        }
    }

    /// Adds warnings before the existing ones.
    pub fn with_warnings(mut self, mut warnings: Vec<String>) -> Self {
        warnings.append(&mut self.warnings);
        Status { warnings, ..self }
    }

    /// Turns the status into a rejection with one of the reasons that a policy can specify, and the code of that reason.
    pub fn refuse_for(&mut self, reason: Reason) {
        self.reason = reason;
        self.code = match reason {
            Reason::Unauthorized => 401,
            Reason::Forbidden => 403,
            Reason::RequestEntityTooLarge => 413,
            _ => 422,
        };
    }

    /// `Success`, the response to a completed deletion.
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
            other_metadata: None,
            success: true,
            empty_details: false,
            tells_code: false,
            warnings: Vec::new(),
            other_reason: Str::default(),
        }
    }

    /// `Success`, the response to the deletion of an object that could not be decoded.
    pub fn deleted_unread(kind: &str, name: &str) -> Self {
        let resource = GroupResource { group: Str::default(), resource: kind.into() };
        Status { tells_code: true, ..Status::deleted(&resource, name, "") }
    }

    /// The code that is written; 0 if none is.
    pub fn written_code(&self) -> u16 {
        if self.success && !self.tells_code { 0 } else { self.code }
    }

    /// The tree of this answer, as `v1.Status` is written.
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        out.insert("kind", "Status".into());
        out.insert("apiVersion", "v1".into());
        let mut metadata = Map::new();
        if let Some(other) = &self.other_metadata {
            for (key, text) in [("selfLink", &other.self_link), ("resourceVersion", &other.resource_version)]
            {
                if !text.is_empty() {
                    metadata.insert(key, text.clone().into());
                }
            }
        }
        if !self.continue_token.is_empty() {
            metadata.insert("continue", self.continue_token.clone().into());
        }
        if let Some(count) = self.other_metadata.as_ref().and_then(|other| other.remaining_item_count) {
            metadata.insert("remainingItemCount", Value::Int(count));
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

    /// The reason as text; "" if there is none.
    pub fn reason_text(&self) -> &str {
        if self.other_reason.is_empty() { self.reason.as_str() } else { &self.other_reason }
    }

    /// Converts a `v1.Status` of another server to an error. Its code is always one of an error.
    pub fn from_value(tree: &Value) -> Self {
        let code = tree.get("code").and_then(Value::as_int).unwrap_or(0);
        let code = u16::try_from(code).unwrap_or(u16::MAX).max(BAD_REQUEST);
        let mut status = Status::new(code, Reason::Unknown, tree.str_at(&["message"]));
        status.other_reason = tree.str_at(&["reason"]).into();
        status.continue_token = tree.str_at(&["metadata", "continue"]).to_string();
        status.other_metadata = tree.get("metadata").and_then(OtherMetadata::from_value);
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
