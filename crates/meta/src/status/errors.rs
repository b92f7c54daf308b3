//! Constructors of errors, one for each of kube-apiserver's.

use super::{Cause, Reason, Status};
use crate::field::quoted;
use crate::{FieldErrors, GroupKind, GroupResource};

impl Status {
    fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        self.details.group = resource.group.clone();
        self.details.kind = resource.resource.clone();
        self.details.name = name.into();
        self
    }

    /// 404 for an object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Status::new(404, Reason::NotFound, format!("{resource} {} not found", quoted(name)))
            .about(resource, name)
    }

    /// 409 for a name that exists.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Status::new(409, Reason::AlreadyExists, format!("{resource} {} already exists", quoted(name)))
            .about(resource, name)
    }

    /// 409 for a write that is based on an outdated object or violates a precondition.
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quoted(name));
        Status::new(409, Reason::Conflict, message).about(resource, name)
    }

    /// 403 for an object: `pods "a" is forbidden: why`.
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = if resource.resource.is_empty() && resource.group.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", quoted(name))
        };
        Status::new(403, Reason::Forbidden, message).about(resource, name)
    }

    /// 422 for an invalid object.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &FieldErrors) -> Self {
        let head = format!("{kind} {} is invalid", quoted(name));
        let message =
            if errors.is_empty() { head } else { format!("{head}: {}", errors.aggregate_message()) };
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

    /// 410 for a list or watch whose revision was compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Status::new(410, Reason::Expired, message)
    }

    /// 500 with kube-apiserver's prefix.
    pub fn internal(why: &str) -> Self {
        let mut status = Status::new(500, Reason::InternalError, format!("Internal error occurred: {why}"));
        status.details.causes = vec![Cause { message: why.to_string(), ..Cause::default() }];
        status
    }

    /// An error without a reason: 500.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Status::new(500, Reason::Unknown, message)
    }

    /// 409 for a `generateName` for which no free name was found.
    pub fn generate_name_conflict(resource: &GroupResource, name: &str, retry_seconds: i32) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quoted(name)
        );
        Status::new(409, Reason::AlreadyExists, message).about(resource, name).retry_after(retry_seconds)
    }

    /// 409 for an apply that changes fields of other managers.
    pub fn apply_conflict(causes: Vec<Cause>, message: impl Into<String>) -> Self {
        let mut status = Status::new(409, Reason::Conflict, message);
        status.details.causes = causes;
        status.empty_details = true;
        status
    }

    /// 401
    pub fn unauthorized(why: &str) -> Self {
        Status::new(401, Reason::Unauthorized, if why.is_empty() { "not authorized" } else { why })
    }

    /// 410 for a resource that is permanently gone.
    pub fn gone(message: impl Into<String>) -> Self {
        Status::new(410, Reason::Gone, message)
    }

    /// 429 with the time to wait.
    pub fn too_many_requests(message: impl Into<String>, retry_seconds: i32) -> Self {
        Status::new(429, Reason::TooManyRequests, message).retry_after(retry_seconds)
    }

    /// 429 with kube-apiserver's prefix.
    pub fn too_many_requests_error(message: &str) -> Self {
        Status::new(429, Reason::TooManyRequests, format!("Too many requests: {message}"))
    }

    /// 413
    pub fn entity_too_large(message: &str) -> Self {
        let message = format!("Request entity too large: {message}");
        Status::new(413, Reason::RequestEntityTooLarge, message)
    }

    /// 503
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Status::new(503, Reason::ServiceUnavailable, message)
    }

    /// 405 for a verb that a resource does not have.
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message =
            format!("{action} is not supported on resources of kind {}", quoted(&resource.to_string()));
        Status::new(405, Reason::MethodNotAllowed, message).about(resource, "")
    }

    /// 504
    pub fn timeout(message: &str, retry_seconds: i32) -> Self {
        Status::new(504, Reason::Timeout, format!("Timeout: {message}")).retry_after(retry_seconds)
    }

    /// 500 for a stored object that cannot be decoded.
    pub fn store_read_error(message: impl Into<String>) -> Self {
        Status::new(500, Reason::StoreReadError, message)
    }

    /// 406 for an `Accept` that no encoding matches.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Status::new(406, Reason::NotAcceptable, message)
    }

    /// 415 for an unsupported `Content-Type`.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Status::new(415, Reason::UnsupportedMediaType, message)
    }

    /// The status for an answer of another server that has only a code.
    pub fn generic_response(
        code: u16,
        verb: &str,
        resource: &GroupResource,
        name: &str,
        server_message: &str,
    ) -> Self {
        let (reason, mut message) = generic_reason_and_message(code, verb, server_message);
        let verb = verb.to_lowercase();
        if !resource.resource.is_empty() || !resource.group.is_empty() {
            let name = if name.is_empty() { String::new() } else { format!(" {name}") };
            message = format!("{message} ({verb} {resource}{name})");
        }
        let mut status = Status::new(code, reason, message).about(resource, name);
        status.empty_details = true;
        status
    }

    /// Sets the time after which to retry.
    fn retry_after(mut self, seconds: i32) -> Self {
        self.details.retry_after_seconds = seconds;
        self.empty_details = true;
        self
    }
}

fn generic_reason_and_message(code: u16, verb: &str, server_message: &str) -> (Reason, String) {
    let (reason, message) = match code {
        409 if verb == "POST" => (Reason::AlreadyExists, "the server reported a conflict"),
        409 => (Reason::Conflict, "the server reported a conflict"),
        404 => (Reason::NotFound, "the server could not find the requested resource"),
        400 => (Reason::BadRequest, "the server rejected our request for an unknown reason"),
        401 => (Reason::Unauthorized, "the server has asked for the client to provide credentials"),
        403 => (Reason::Forbidden, server_message),
        406 if matches!(server_message, "" | "unknown") => (
            Reason::NotAcceptable,
            "the server was unable to respond with a content type that the client supports",
        ),
        406 => (Reason::NotAcceptable, server_message),
        415 => (Reason::UnsupportedMediaType, server_message),
        405 => (Reason::MethodNotAllowed, "the server does not allow this method on the requested resource"),
        422 => (Reason::Invalid, "the server rejected our request due to an error in our request"),
        503 => (Reason::ServiceUnavailable, "the server is currently unable to handle the request"),
        504 => (
            Reason::Timeout,
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        429 => (
            Reason::TooManyRequests,
            "the server has received too many requests and has asked us to try again later",
        ),
        500.. => {
            let server_message = quoted(server_message);
            let message = format!(
                "an error on the server ({server_message}) has prevented the request from succeeding"
            );
            return (Reason::InternalError, message);
        }
        _ => {
            let message = format!(
                "the server responded with the status code {code} but did not return more information"
            );
            return (Reason::Unknown, message);
        }
    };
    (reason, message.to_string())
}
