use super::*;
use crate::{FieldErrors, GroupKind};
use pintle_value::{Path, json};

fn written(status: &Status) -> String {
    json::text(&status.to_value())
}

#[test]
fn errors_are_written_as_kube_apiserver_writes_them() {
    let pods = GroupResource::new("", "pods");
    let leases = GroupResource::new("coordination.k8s.io", "leases");
    let mut errors = FieldErrors::new();
    errors.required(&Path::of("b"), "");
    errors.invalid(&Path::of("a"), 1, "bad");
    errors.required(&Path::of("b"), "");
    for (status, expected) in [
        (
            Status::not_found(&leases, "l"),
            r#"{"apiVersion":"v1","code":404,"details":{"group":"coordination.k8s.io","kind":"leases","name":"l"},"kind":"Status","message":"leases.coordination.k8s.io \"l\" not found","metadata":{},"reason":"NotFound","status":"Failure"}"#,
        ),
        (
            Status::invalid(&GroupKind::new("", "Pod"), "p", &errors),
            r#"{"apiVersion":"v1","code":422,"details":{"causes":[{"field":"b","message":"Required value","reason":"FieldValueRequired"},{"field":"a","message":"Invalid value: 1: bad","reason":"FieldValueInvalid"},{"field":"b","message":"Required value","reason":"FieldValueRequired"}],"kind":"Pod","name":"p"},"kind":"Status","message":"Pod \"p\" is invalid: [b: Required value, a: Invalid value: 1: bad]","metadata":{},"reason":"Invalid","status":"Failure"}"#,
        ),
        (
            Status::timeout("request did not complete within the allotted timeout", 0),
            r#"{"apiVersion":"v1","code":504,"details":{},"kind":"Status","message":"Timeout: request did not complete within the allotted timeout","metadata":{},"reason":"Timeout","status":"Failure"}"#,
        ),
        (
            Status::unclassified("oh"),
            r#"{"apiVersion":"v1","code":500,"kind":"Status","message":"oh","metadata":{},"status":"Failure"}"#,
        ),
        (
            Status::internal("oh"),
            r#"{"apiVersion":"v1","code":500,"details":{"causes":[{"message":"oh"}]},"kind":"Status","message":"Internal error occurred: oh","metadata":{},"reason":"InternalError","status":"Failure"}"#,
        ),
        (
            crate::rv::too_large(9, 1, 1),
            r#"{"apiVersion":"v1","code":504,"details":{"causes":[{"message":"Too large resource version","reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1},"kind":"Status","message":"Timeout: Too large resource version: 9, current: 1","metadata":{},"reason":"Timeout","status":"Failure"}"#,
        ),
        (
            Status::deleted(&pods, "p", "u"),
            r#"{"apiVersion":"v1","details":{"kind":"pods","name":"p","uid":"u"},"kind":"Status","metadata":{},"status":"Success"}"#,
        ),
    ] {
        assert_eq!(written(&status), expected);
    }
}

#[test]
fn sentences() {
    let pods = GroupResource::new("", "pods");
    let none = GroupResource::default();
    for (status, code, message) in [
        (Status::unauthorized(""), 401, "not authorized"),
        (Status::forbidden(&none, "", "no"), 403, "forbidden: no"),
        (Status::forbidden(&pods, "", "no"), 403, "pods is forbidden: no"),
        (Status::forbidden(&pods, "p", "no"), 403, "pods \"p\" is forbidden: no"),
        (
            Status::method_not_supported(&pods, "watch"),
            405,
            "watch is not supported on resources of kind \"pods\"",
        ),
        (Status::entity_too_large("limit is 3"), 413, "Request entity too large: limit is 3"),
        (
            Status::generic_response(404, "GET", &pods, "p", ""),
            404,
            "the server could not find the requested resource (get pods p)",
        ),
        (
            Status::generic_response(500, "GET", &none, "", "x"),
            500,
            "an error on the server (\"x\") has prevented the request from succeeding",
        ),
        (
            Status::not_acceptable(&["application/json", "application/yaml"]),
            406,
            "only the following media types are accepted: application/json, application/yaml",
        ),
        (
            Status::generate_name_conflict(&pods, "p", 1),
            409,
            "pods \"p\" already exists, the server was not able to generate a unique name for the object",
        ),
    ] {
        assert_eq!((status.code, status.message.as_str()), (code, message));
    }
}
