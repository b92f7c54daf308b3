//! Builds answers: `Status` in the negotiated encoding, plain text, raw JSON documents.

use crate::api::ApiResponse;
use crate::negotiate::{Encoding, Media};
use crate::statuspb;
use pintle_meta::{Cause, GroupResource, Reason, Status};
use pintle_value::{Value, cbor, json, yaml};

/// Answers with a `Status`. `encoding` is the result of `Accept::for_errors`; `None` is indented JSON.
pub fn status(status: &Status, encoding: Option<Encoding>) -> ApiResponse {
    let body = match encoding {
        Some(Encoding::Json { pretty: false }) => status_json(status, false),
        None | Some(Encoding::Json { pretty: true }) => status_json(status, true),
        Some(Encoding::Protobuf) => statuspb::encode(status),
        Some(other) => encode(&status.to_value(), other),
    };
    let media = encoding.map_or(Media::Json, Encoding::media);
    let mut response = ApiResponse::new(status.code, media.name(), body);
    if status.details.retry_after_seconds > 0 {
        response.set_header("retry-after", &status.details.retry_after_seconds.to_string());
    }
    response.warnings.extend(status.warnings.iter().cloned());
    response.is_acceptable = encoding.is_some();
    response
}

/// Encodes a tree in a media type that needs no schema (all but protobuf).
pub fn encode(value: &Value, encoding: Encoding) -> Vec<u8> {
    let mut out = Vec::new();
    match encoding {
        Encoding::Yaml => yaml::print(value, &mut out),
        Encoding::Json { pretty: true } => json::print_pretty(value, &mut out),
        Encoding::Cbor => cbor::encode(value, &mut out),
        Encoding::Json { pretty: false } | Encoding::Protobuf => {
            json::print(value, &mut out);
            out.push(b'\n');
        }
    }
    out
}

/// Plain text, as Go's `http.Error` writes it.
pub fn text(code: u16, text: &str) -> ApiResponse {
    let mut response = ApiResponse::new(code, "text/plain; charset=utf-8", format!("{text}\n"));
    response.set_header("x-content-type-options", "nosniff");
    response
}

/// The error of a handler whose time is over, which is not always what the client receives.
pub(crate) fn handler_timed_out() -> Status {
    Status::timeout("request did not complete within requested timeout - context deadline exceeded", 0)
}

/// The answer to a request that timed out. As in kube-apiserver, its Status has neither kind nor version and is sent as
/// text.
pub fn timed_out() -> ApiResponse {
    let status = Status::timeout("request did not complete within the allotted timeout", 0);
    let body = format!(
        r#"{{"metadata":{{}},"status":"Failure","message":"{}","reason":"{}","details":{{}},"code":{}}}"#,
        status.message,
        status.reason.as_str(),
        status.code
    );
    ApiResponse::new(status.code, "text/plain; charset=utf-8", format!("{body}\n"))
}

/// `404 page not found`, the answer outside the API.
pub fn page_not_found() -> ApiResponse {
    text(404, "404 page not found")
}

/// A JSON document that is not an API object.
pub fn raw_json(code: u16, body: impl Into<crate::Body>) -> ApiResponse {
    ApiResponse::new(code, "application/json", body)
}

/// 404 of the router.
pub fn route_not_found() -> Status {
    router(404, "")
}

/// 405 of the router.
pub fn method_not_allowed() -> Status {
    router(405, "")
}

/// The router's 406: no media type in `Accept` literally equals one of these.
pub fn route_not_acceptable(available: &[&str]) -> Status {
    router(406, &format!("406: Not Acceptable\n\nAvailable representations: {}", available.join(", ")))
}

/// The error for an object of this Go type that is requested as a list.
pub(crate) fn no_list(go_type: &str) -> Status {
    let why = format!(
        "you requested PartialObjectMetadataList, but the requested object is not a list ({go_type})"
    );
    Status::new(406, Reason::NotAcceptable, why)
}

/// 415 of the router.
pub fn route_unsupported_media_type() -> Status {
    router(415, "415: Unsupported Media Type")
}

fn router(code: u16, message: &str) -> Status {
    Status::generic_response(code, "", &GroupResource::default(), "", message)
}

/// 401. The client does not learn the reason.
pub fn unauthorized() -> Status {
    Status::unauthorized("Unauthorized")
}

/// 413 for a body over the limit.
pub fn too_large(limit: usize) -> Status {
    Status::entity_too_large(&format!("limit is {limit}"))
}

/// A `Status` in JSON, fields in the order of the type.
pub(crate) fn status_json(status: &Status, pretty: bool) -> Vec<u8> {
    let mut out = JsonWriter { out: Vec::with_capacity(256), pretty, depth: 0, first: true };
    out.open();
    out.write_string("kind", "Status");
    out.write_string("apiVersion", "v1");
    out.write_key("metadata");
    out.open();
    if let Some(other) = &status.other_metadata {
        out.write_nonempty("selfLink", &other.self_link);
        out.write_nonempty("resourceVersion", &other.resource_version);
    }
    out.write_nonempty("continue", &status.continue_token);
    if let Some(count) = status.other_metadata.as_ref().and_then(|other| other.remaining_item_count) {
        out.write_int("remainingItemCount", count);
    }
    out.close();
    out.write_string("status", if status.success { "Success" } else { "Failure" });
    out.write_nonempty("message", &status.message);
    out.write_nonempty("reason", status.reason_text());
    let details = &status.details;
    if status.empty_details || **details != pintle_meta::Details::default() {
        out.write_key("details");
        out.open();
        out.write_nonempty("name", &details.name);
        out.write_nonempty("group", &details.group);
        out.write_nonempty("kind", &details.kind);
        out.write_nonempty("uid", &details.uid);
        if !details.causes.is_empty() {
            out.write_causes(&details.causes);
        }
        if details.retry_after_seconds != 0 {
            out.write_int("retryAfterSeconds", i64::from(details.retry_after_seconds));
        }
        out.close();
    }
    if status.written_code() != 0 {
        out.write_int("code", i64::from(status.written_code()));
    }
    out.close();
    if !pretty {
        out.out.push(b'\n');
    }
    out.out
}

/// Writes the members of an object in the order of calls, on one line or indented by two spaces.
struct JsonWriter {
    out: Vec<u8>,
    pretty: bool,
    depth: usize,
    first: bool,
}

impl JsonWriter {
    fn open(&mut self) {
        self.out.push(b'{');
        self.depth = self.depth.saturating_add(1);
        self.first = true;
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if !self.first {
            self.break_line();
        }
        self.out.push(b'}');
        self.first = false;
    }

    fn break_line(&mut self) {
        if self.pretty {
            self.out.push(b'\n');
            self.out.extend(std::iter::repeat_n(b' ', self.depth.saturating_mul(2)));
        }
    }

    fn begin_item(&mut self) {
        if !std::mem::replace(&mut self.first, false) {
            self.out.push(b',');
        }
        self.break_line();
    }

    fn write_key(&mut self, key: &str) {
        self.begin_item();
        json::write_string(key, &mut self.out);
        self.out.extend_from_slice(if self.pretty { b": " } else { b":" });
    }

    fn write_string(&mut self, key: &str, text: &str) {
        self.write_key(key);
        json::write_string(text, &mut self.out);
    }

    fn write_nonempty(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.write_string(key, text);
        }
    }

    fn write_int(&mut self, key: &str, value: i64) {
        self.write_key(key);
        json::write_int(value, &mut self.out);
    }

    fn write_causes(&mut self, causes: &[Cause]) {
        self.write_key("causes");
        self.out.push(b'[');
        self.depth = self.depth.saturating_add(1);
        self.first = true;
        for cause in causes {
            self.begin_item();
            self.open();
            self.write_nonempty("reason", &cause.reason);
            self.write_nonempty("message", &cause.message);
            self.write_nonempty("field", &cause.field);
            self.close();
        }
        self.depth = self.depth.saturating_sub(1);
        self.break_line();
        self.out.push(b']');
        self.first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn fields_come_in_the_order_of_the_type() {
        let line = |s: &Status| String::from_utf8(status_json(s, false)).unwrap();
        expect![[r#"
            {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}
        "#]]
        .assert_eq(&line(&route_not_found()));
        expect![[r#"
            {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"a\" not found","reason":"NotFound","details":{"name":"a","kind":"pods"},"code":404}
        "#]]
        .assert_eq(&line(&Status::not_found(&GroupResource::new("", "pods"), "a")));
        expect![[r#"
            {
              "kind": "Status",
              "apiVersion": "v1",
              "metadata": {},
              "status": "Failure",
              "message": "Unauthorized",
              "reason": "Unauthorized",
              "code": 401
            }"#]]
        .assert_eq(&String::from_utf8(status_json(&unauthorized(), true)).unwrap());
    }

    #[test]
    fn one_line_and_indented_are_the_same_tree() {
        let status = Status::internal("it broke");
        let (line, pretty) = (status_json(&status, false), status_json(&status, true));
        assert_eq!(json::parse(&line).unwrap().value, json::parse(&pretty).unwrap().value);
        assert_eq!(json::parse(&line).unwrap().value, status.to_value());
    }
}
