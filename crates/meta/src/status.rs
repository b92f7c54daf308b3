//! `Status`: the one place that knows codes, reasons and the sentences of errors.

use crate::{FieldErrors, GroupKind, GroupResource};
use pintle_value::{Map, Str, Value};

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
    pub details: Details,
    /// `metadata.continue`, where an expired list can be taken up again.
    pub continue_token: String,
    /// Whether this is a success.
    pub success: bool,
    /// Whether `details` are written even when empty, as for everything that is about a resource or a path.
    pub details_shown: bool,
}

impl Status {
    /// An error of this code, reason and message, without details.
    pub fn new(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Status {
            code,
            reason,
            message: message.into(),
            details: Details::default(),
            continue_token: String::new(),
            success: false,
            details_shown: false,
        }
    }

    /// An answer of the router, before any resource is known: `details` are written though there is nothing in them.
    pub fn generic(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Status { details_shown: true, ..Status::new(code, reason, message) }
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
            details,
            continue_token: String::new(),
            success: true,
            details_shown: true,
        }
    }

    fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        self.details.group = resource.group.clone();
        self.details.kind = resource.resource.clone();
        self.details.name = name.into();
        self.details_shown = true;
        self
    }

    /// 404 for an object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Status::new(404, Reason::NotFound, format!("{resource} {} not found", crate::field::quoted(name)))
            .about(resource, name)
    }

    /// 409 for a name that is taken.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Status::new(
            409,
            Reason::AlreadyExists,
            format!("{resource} {} already exists", crate::field::quoted(name)),
        )
        .about(resource, name)
    }

    /// 409 for a write that would undo another's.
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {resource} {}: {why}", crate::field::quoted(name));
        Status::new(409, Reason::Conflict, message).about(resource, name)
    }

    /// 403 for an object: `pods "a" is forbidden: why`.
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = if resource.resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", crate::field::quoted(name))
        };
        Status::new(403, Reason::Forbidden, message).about(resource, name)
    }

    /// 422 for an object with mistakes.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &FieldErrors) -> Self {
        let head = format!("{kind} {} is invalid", crate::field::quoted(name));
        let message = if errors.is_empty() { head } else { format!("{head}: {}", errors.sentence()) };
        let mut status = Status::new(422, Reason::Invalid, message);
        status.details.group = kind.group.clone();
        status.details.kind = kind.kind.clone();
        status.details.name = name.into();
        status.details.causes = errors
            .0
            .iter()
            .map(|e| Cause {
                reason: e.kind.reason().into(),
                message: e.body.clone(),
                field: e.field.clone(),
            })
            .collect();
        status
    }

    /// 400
    pub fn bad_request(message: impl Into<String>) -> Self {
        Status::new(400, Reason::BadRequest, message)
    }

    /// 405
    pub fn method_not_allowed(message: impl Into<String>) -> Self {
        Status::new(405, Reason::MethodNotAllowed, message)
    }

    /// 410 for a list or watch whose revision is gone.
    pub fn expired(message: impl Into<String>) -> Self {
        Status::new(410, Reason::Expired, message)
    }

    /// 500 with kube-apiserver's opening words.
    pub fn internal(why: &str) -> Self {
        let mut status = Status::new(500, Reason::InternalError, format!("Internal error occurred: {why}"));
        status.details.causes = vec![Cause { message: why.to_string(), ..Cause::default() }];
        status
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
        if self.reason != Reason::Unknown {
            out.insert("reason", self.reason.as_str().into());
        }
        if self.details_shown || !self.details.is_empty() {
            out.insert("details", self.details_value());
        }
        if !self.success {
            out.insert("code", Value::Int(i64::from(self.code)));
        }
        Value::Object(out)
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
