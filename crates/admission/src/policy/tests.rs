#![allow(clippy::unwrap_used, reason = "a check fails where it unwraps")]

use super::mutating::{Errors, Mutator, Patched};
use super::validating::{Validator, Verdict};
use super::*;
use crate::admission_request;
use crate::cel::{Inputs, RequestAuthorizer};
use crate::testing::{Objects, kind, text, tree, with_request};
use pintle_auth::Authorizer;
use pintle_auth::authz::AlwaysAllow;

const ALL: &str = r#""matchConstraints":{"namespaceSelector":{},"objectSelector":{},"resourceRules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*"]}]}"#;
const CLUSTER: &str = r#"{"metadata":{"name":"n","labels":{"team":"a"}}}"#;

fn cluster() -> Objects {
    Objects::of(&[
        ("", "namespaces", CLUSTER),
        (
            "",
            "configmaps",
            r#"{"metadata":{"name":"one","namespace":"n","labels":{"p":"1"}},"data":{"max":"1"}}"#,
        ),
        (
            "",
            "configmaps",
            r#"{"metadata":{"name":"two","namespace":"n","labels":{"p":"1"}},"data":{"max":"2"}}"#,
        ),
    ])
}

fn policies<E: Evaluator>(spec: &str, bindings: &[&str]) -> Policies<E> {
    let policy = tree(&format!(r#"{{"metadata":{{"name":"pol"}},"spec":{{{ALL},{spec}}}}}"#));
    let bindings: Vec<Value> = bindings
        .iter()
        .enumerate()
        .map(|(at, spec)| {
            tree(&format!(r#"{{"metadata":{{"name":"b{at}"}},"spec":{{"policyName":"pol"{spec}}}}}"#))
        })
        .collect();
    Policies::read(vec![policy], &bindings, None)
}

/// The answer of a policy to a new pod (`422 Invalid: …`), and the warnings.
fn said(spec: &str, bindings: &[&str]) -> (String, Vec<String>) {
    let policies = policies::<Validator>(spec, bindings);
    let pods = kind("", "pods");
    let object = tree(r#"{"metadata":{"name":"x"},"spec":{"replicas":2}}"#);
    let authorizer: Arc<dyn Authorizer> = Arc::new(AlwaysAllow);
    with_request(&pods, None, |request| {
        let mut verdict = Verdict::default();
        for found in policies.found(request, Some(&object), &cluster()) {
            let application = match &found {
                Found::Broken(broken) => {
                    verdict.broken(broken);
                    continue;
                }
                Found::Applicable(application) => application,
            };
            let request_value = admission_request(request, &application.matched, "");
            let (request_authorizer, namespace) =
                (RequestAuthorizer::new(&authorizer, request), namespace_object(&tree(CLUSTER)));
            for params in &application.params {
                let inputs = Inputs {
                    object: Some(&object),
                    old: None,
                    request: &request_value,
                    namespace: Some(&namespace),
                    params: params.as_ref(),
                    request_authorizer: Some(&request_authorizer),
                };
                verdict.evaluate(application, &inputs, &request_value);
            }
        }
        let warnings = std::mem::take(&mut verdict.warnings);
        let said = match verdict.refusal(request, Some(&object)) {
            Ok(()) => String::new(),
            Err(status) => {
                let why = status.message.trim_start_matches("pods \"x\" is forbidden: ");
                format!("{} {}: {why}", status.code, status.reason.as_str())
            }
        };
        (said, warnings)
    })
}

#[test]
fn validations_refuse_for_their_reasons_and_in_their_words() {
    let bound = "ValidatingAdmissionPolicy 'pol' with binding 'b0' denied request:";
    for (validation, expected) in [
        (r#""expression":"true""#, String::new()),
        (r#""expression":" false ""#, format!("422 Invalid: {bound} failed expression: false")),
        (r#""expression":"false","message":" no ""#, format!("422 Invalid: {bound} no")),
        (
            r#""expression":"false","reason":"Forbidden""#,
            format!("403 Forbidden: {bound} failed expression: false"),
        ),
        (
            r#""expression":"false","reason":"RequestEntityTooLarge","message":"m""#,
            format!("413 RequestEntityTooLarge: {bound} m"),
        ),
        (
            r#""expression":"false","messageExpression":"' ' + string(object.spec.replicas)","message":"m""#,
            format!("422 Invalid: {bound} 2"),
        ),
        (
            r#""expression":"false","messageExpression":"object.nope","message":"m""#,
            format!("422 Invalid: {bound} m"),
        ),
        (
            r#""expression":"false","messageExpression":"'a\\nb'","message":"m""#,
            format!("422 Invalid: {bound} m"),
        ),
        (
            r#""expression":"false","messageExpression":"'  '","message":"m""#,
            format!("422 Invalid: {bound} m"),
        ),
        (
            r#""expression":"object.nope == 1""#,
            format!(
                "422 Invalid: {bound} expression 'object.nope == 1' resulted in error: no such key: nope"
            ),
        ),
        (r#""expression":"namespaceObject.metadata.labels.team == 'a'""#, String::new()),
    ] {
        let (found, _) =
            said(&format!(r#""validations":[{{{validation}}}]"#), &[r#","validationActions":["Deny"]"#]);
        assert_eq!(found, expected, "{validation}");
    }
}

#[test]
fn bindings_deny_warn_or_only_note() {
    let spec =
        r#""validations":[{"expression":"false","message":"one"},{"expression":"false","message":"two"}]"#;
    let denied = "422 Invalid: ValidatingAdmissionPolicy 'pol' with binding 'b0' denied request: one";
    let warning = |text: &str| {
        format!("Validation failed for ValidatingAdmissionPolicy 'pol' with binding 'b0': {text}")
    };
    for (actions, expected, warnings) in [
        (r#"["Deny"]"#, denied, vec![]),
        (r#"["Deny","Audit"]"#, denied, vec![]),
        (r#"["Warn","Audit"]"#, "", vec![warning("one"), warning("two")]),
        (r#"["Audit"]"#, "", vec![]),
    ] {
        let found = said(spec, &[&format!(r#","validationActions":{actions}"#)]);
        assert_eq!(found, (expected.to_string(), warnings), "{actions}");
    }
}

#[test]
fn what_fails_is_refused_unless_it_is_ignored() {
    let deny = r#","validationActions":["Deny"]"#;
    for spec in [
        r#""validations":[{"expression":"object.nope == 1"}]"#,
        r#""validations":[{"expression":"true"}],"auditAnnotations":[{"key":"k","valueExpression":"object.nope.x + ''"}]"#,
        r#""validations":[{"expression":"true"}],"matchConditions":[{"name":"m","expression":"object.nope == 1"}]"#,
        r#""validations":[{"expression":"variables.v == 1"}],"variables":[{"name":"v","expression":"object.nope"}]"#,
        r#""validations":[{"expression":"true"}],"paramKind":{"apiVersion":"v1","kind":"Nope"}"#,
    ] {
        assert!(said(spec, &[deny]).0.starts_with("422 Invalid"), "{spec}");
        assert_eq!(said(&format!(r#"{spec},"failurePolicy":"Ignore""#), &[deny]).0, "", "{spec}");
    }
}

#[test]
fn parameters_are_found_by_name_or_label() {
    let spec = r#""paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"params == null || object.spec.replicas < int(params.data.max)","messageExpression":"'over ' + params.metadata.name"}]"#;
    let denied = |why: &str| {
        format!("422 Invalid: ValidatingAdmissionPolicy 'pol' with binding 'b0' denied request: {why}")
    };
    let none =
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    for (reference, expected) in [
        ("", String::new()),
        (r#","paramRef":{"name":"one","parameterNotFoundAction":"Deny"}"#, denied("over one")),
        (
            r#","paramRef":{"selector":{"matchLabels":{"p":"1"}},"parameterNotFoundAction":"Deny"}"#,
            denied("over one"),
        ),
        (r#","paramRef":{"name":"nope","parameterNotFoundAction":"Deny"}"#, denied(none)),
        (r#","paramRef":{"name":"one","namespace":"m","parameterNotFoundAction":"Deny"}"#, denied(none)),
        (r#","paramRef":{"name":"nope","parameterNotFoundAction":"Allow"}"#, String::new()),
    ] {
        let (found, _) = said(spec, &[&format!(r#","validationActions":["Deny"]{reference}"#)]);
        assert_eq!(found, expected, "{reference}");
    }
    let unknown =
        r#""paramKind":{"apiVersion":"a.b/v1","kind":"Nope"},"validations":[{"expression":"true"}]"#;
    let why =
        "failed to configure policy: failed to find resource referenced by paramKind: 'a.b/v1, Kind=Nope'";
    let expected = format!("422 Invalid: ValidatingAdmissionPolicy 'pol' denied request: {why}");
    assert_eq!(said(unknown, &[r#","validationActions":["Deny"]"#]).0, expected);
}

#[test]
fn policies_are_compiled_once() {
    let first = policies::<Validator>(r#""validations":[{"expression":"true"}]"#, &[""]);
    let again = |expression: &str| {
        let spec = format!(r#"{{{ALL},"validations":[{{"expression":"{expression}"}}]}}"#);
        let policy = tree(&format!(r#"{{"metadata":{{"name":"pol"}},"spec":{spec}}}"#));
        let binding = tree(r#"{"metadata":{"name":"other"},"spec":{"policyName":"pol"}}"#);
        Policies::read(vec![policy], &[binding], Some(&first))
    };
    let same = |second: &Policies<Validator>| {
        Arc::ptr_eq(&first.0.first().unwrap().evaluator, &second.0.first().unwrap().evaluator)
    };
    assert!(same(&again("true")));
    assert!(!same(&again("false")));
    let unbound =
        Policies::<Validator>::read(vec![tree(r#"{"metadata":{"name":"pol"},"spec":{}}"#)], &[], None);
    assert!(unbound.0.is_empty());
}

/// The result of a mutation of a pod as JSON, or the error.
fn mutated(patch: &str) -> String {
    let (form, key) = if patch.starts_with('[') {
        ("JSONPatch", "jsonPatch")
    } else {
        ("ApplyConfiguration", "applyConfiguration")
    };
    let patch = patch.replace('\\', "\\\\").replace('"', "\\\"");
    let spec = format!(r#""mutations":[{{"patchType":"{form}","{key}":{{"expression":"{patch}"}}}}]"#);
    let policies = policies::<Mutator>(&spec, &[""]);
    let pods = kind("", "pods");
    let object = tree(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
    );
    let request = Value::object();
    let inputs = Inputs {
        object: Some(&object),
        old: None,
        request: &request,
        namespace: None,
        params: None,
        request_authorizer: None,
    };
    let policy = policies.0.first().unwrap();
    let version = pods.storage_version();
    let mutation = policy.evaluator.mutations.first().unwrap();
    match policy.evaluator.patch(mutation, &inputs, &version.gvk(&pods), Some(&version.schema)) {
        Ok(Patched::Untouched) => "untouched".to_string(),
        Ok(Patched::Document(tree) | Patched::Merged(tree)) => text(&tree),
        Err(why) => why,
    }
}

#[test]
fn mutations_set_fields_or_patch() {
    let pod = |metadata: &str, containers: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{{metadata}"name":"x"}},"spec":{{"containers":[{containers}]}}}}"#
        )
    };
    let c = r#"{"image":"i","name":"c"}"#;
    let refused = |why: &str| format!("error applying patch: {why}");
    let untyped = |why: &str| refused(&format!("failed to convert patch object to typed object: {why}"));
    let unconverted = |why: &str| {
        format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")
    };
    for (patch, expected) in [
        (r#"Object{metadata: Object.metadata{labels: {"a": "b"}}}"#, pod(r#""labels":{"a":"b"},"#, c)),
        (
            r#"Object{spec: Object.spec{containers: [Object.spec.containers{name: "d", image: "j"}]}}"#,
            pod("", &format!(r#"{c},{{"image":"j","name":"d"}}"#)),
        ),
        (r#"Object{spec: Object.spec{nope: 1}}"#, untyped(".spec.nope: field not declared in schema")),
        (
            r#"Object{spec: Object.spec{priority: "x"}}"#,
            untyped(".spec.priority: expected numeric (int or float), got string"),
        ),
        (
            r#"Object{metadata: Object.metadata{labels: {"a": dyn(null)}}}"#,
            untyped(".metadata.labels.a: expected string, got &value.valueUnstructured{Value:0}"),
        ),
        (r#"Object{metadata: dyn(null)}"#, untyped(".metadata: expected map, got &{NULL_VALUE}")),
        (r#"Object{spec: duration("90m")}"#, untyped(".spec: expected map, got &{1h30m0s}")),
        (r#"Object{spec: b"xy"}"#, untyped(".spec: expected map, got &{[120 121]}")),
        (r#"Object{spec: [1u, 2u]}"#, untyped(".spec: expected map, got &{[1 2]}")),
        (r#"Object{spec: quantity("1000m")}"#, untyped(".spec: expected map, got &{1}")),
        (r#"Object{spec: url("http://x")}"#, untyped(".spec: expected map, got &{http://x}")),
        (r#"Object{spec: cidr("10.0.0.0/8")}"#, untyped(".spec: expected map, got &{10.0.0.0/8}")),
        (r#"Object{spec: semver("1.2.3-a.1")}"#, untyped(".spec: expected map, got &{1.2.3-a.1}")),
        (
            r#"Object{spec: Object.spec{hostNetwork: {"a": 1u}}}"#,
            untyped(".spec.hostNetwork: expected boolean, got &{map[a:1]}"),
        ),
        (
            r#"Object{spec: Object.spec{priority: [1u]}}"#,
            untyped(".spec.priority: expected numeric (int or float), got []interface {}"),
        ),
        (
            r#"Object{metadata: Object.metadata{labels: {"a": {"b": 1u}}}}"#,
            untyped(
                r#".metadata.labels.a: expected string, got &value.valueUnstructured{Value:map[ref.Val]ref.Val{"b":0x1}}"#,
            ),
        ),
        (
            r#"Object{metadata: Object.metadata{labels: {"a": timestamp("2020-01-02T03:04:05+02:00")}}}"#,
            untyped(
                r#".metadata.labels.a: expected string, got &value.valueUnstructured{Value:time.Date(2020, time.January, 2, 3, 4, 5, 0, time.Location(""))}"#,
            ),
        ),
        (
            r#"Object{metadata: Object.metadata{finalizers: [duration("1h")]}}"#,
            untyped(
                ".metadata.finalizers[={{undefined}}]: expected string, got &value.valueUnstructured{Value:3600000000000}",
            ),
        ),
        (
            r#"Object{spec: Object.spec{containers: [Object.spec.containers{name: "c", stdin: 1u}]}}"#,
            untyped(r#".spec.containers[name="c"].stdin: expected boolean, got &{1}"#),
        ),
        (r#"Object{metadata: Object.metadata{labels: {"a": type(1)}}}"#, pod(r#""labels":{"a":"int"},"#, c)),
        (
            r#"Object{spec: Object.spec{containers: [Object.spec.containers{name: "c", args: ["x"]}]}}"#,
            refused(
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].args",
            ),
        ),
        (
            r#"Object{spec: Object.wrong{}}"#,
            r#"type mismatch: unexpected type name "Object.wrong", expected "Object.spec", which matches field name path from root Object type"#.to_string(),
        ),
        (
            r#"[JSONPatch{op: "add", path: "/metadata/labels", value: {jsonpatch.escapeKey("a/b"): 1}}]"#,
            pod(r#""labels":{"a~1b":1},"#, c),
        ),
        (r#"[JSONPatch{op: "test", path: "/kind", value: "x"}]"#, "untouched".to_string()),
        (r#"[JSONPatch{op: "test", path: "/metadata/uid", value: null}]"#, "untouched".to_string()),
        (
            r#"[JSONPatch{op: "add", path: "/a", value: timestamp("2020-01-02T03:04:05.5+02:00")}]"#,
            pod("", c).replacen('{', r#"{"a":"2020-01-02T03:04:05.5+02:00","#, 1),
        ),
        (r#"[JSONPatch{op: "add", path: "/a", value: {1: "x"}}]"#, unconverted("unsupported type conversion from 'int' to string")),
        (r#"[JSONPatch{op: "add", path: "/a", value: ip("::1")}]"#, unconverted("type conversion error from 'IP' to '*structpb.Value'")),
        (
            r#"[JSONPatch{op: "add", path: "/a/b", value: 1}]"#,
            r#"JSON Patch: add operation does not apply: doc is missing path: "/a/b": missing value"#.to_string(),
        ),
        (
            r#"[JSONPatch{op: "add", path: "/a", value: object.nope}]"#,
            r#"expression '[JSONPatch{op: "add", path: "/a", value: object.nope}]' resulted in error: no such key: nope"#.to_string(),
        ),
    ] {
        assert_eq!(mutated(patch), expected, "{patch}");
    }
}

#[test]
fn errors_of_mutations_are_told_together() {
    let policies = policies::<Mutator>(r#""mutations":[]"#, &[""]);
    let pods = kind("", "pods");
    let status = with_request(&pods, None, |request| {
        let found = policies.found(request, None, &cluster());
        let mut errors = Errors::default();
        for found in &found {
            let Found::Applicable(application) = found else { continue };
            errors.failed(application, "first");
            errors.failed(application, "second");
        }
        errors.refusal(request, None).unwrap_err()
    });
    let message = |why: &str| format!("policy 'pol' with binding 'b0' denied request: {why}");
    assert_eq!((status.code, status.reason.as_str(), &status.message), (403, "Invalid", &message("first")));
    let causes: Vec<&str> = status.details.causes.iter().map(|cause| cause.message.as_str()).collect();
    assert_eq!(causes, [message("first"), message("second")]);
}
