//! Decoded trees are equal to what Go would decode, and errors have the texts of Go's decoder.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test")]

use pintle_kinds::{Types, builtin};
use pintle_schema::typed;
use pintle_value::{Value, json};

fn decode(types: &Types, api_version: &str, kind: &str, text: &str) -> (Result<String, String>, Vec<String>) {
    let schema = types.by_kind(api_version, kind).unwrap();
    let mut strict = typed::Strict::default();
    let tree = json::parse(text.as_bytes()).unwrap().value;
    let typed = typed::decode(&schema, tree, Some(&mut strict));
    let printed = typed.map(|tree| {
        let mut out = Vec::new();
        typed::encode_json(&schema, &tree, &mut out);
        String::from_utf8(out).unwrap()
    });
    (printed.map_err(|e| e.to_string()), strict.unknown.iter().map(ToString::to_string).collect())
}

#[test]
fn trees_are_written_as_go_writes_them() {
    let types = builtin().types;
    for (api_version, kind, text, expected) in [
        ("v1", "ConfigMap", r#"{}"#, r#"{"metadata":{}}"#),
        (
            "v1",
            "ConfigMap",
            r#"{"data":{"b":"1","a":null},"kind":"ConfigMap","metadata":{"labels":{},"name":"x","creationTimestamp":null},"immutable":false}"#,
            r#"{"kind":"ConfigMap","metadata":{"name":"x"},"immutable":false,"data":{"a":"","b":"1"}}"#,
        ),
        (
            "v1",
            "Secret",
            r#"{"data":{"a":null,"b":"YQ==\n"}}"#,
            r#"{"metadata":{},"data":{"a":"","b":"YQ=="}}"#,
        ),
        ("v1", "Pod", r#"{"spec":null}"#, r#"{"metadata":{},"spec":{"containers":null},"status":{}}"#),
        (
            "v1",
            "Pod",
            r#"{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1000m","memory":1024}}}]}}"#,
            r#"{"metadata":{},"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1","memory":"1024"}}}]},"status":{}}"#,
        ),
        (
            "v1",
            "Pod",
            r#"{"metadata":{"creationTimestamp":"2024-01-02T03:04:05.9+01:00"},"spec":{"containers":[],"hostNetwork":null}}"#,
            r#"{"metadata":{"creationTimestamp":"2024-01-02T02:04:05Z"},"spec":{"containers":null},"status":{}}"#,
        ),
        ("v1", "PodList", r#"{"items":[]}"#, r#"{"metadata":{},"items":[]}"#),
        ("rbac.authorization.k8s.io/v1", "Role", r#"{"rules":[]}"#, r#"{"metadata":{},"rules":null}"#),
        (
            "v1",
            "Service",
            r#"{"spec":{"ports":[{"port":80,"targetPort":"http"},{"port":81}]}}"#,
            r#"{"metadata":{},"spec":{"ports":[{"port":80,"targetPort":"http"},{"port":81,"targetPort":0}]},"status":{"loadBalancer":{}}}"#,
        ),
        (
            "v1",
            "Node",
            r#"{"status":{"conditions":[{"type":"Ready"}]}}"#,
            r#"{"metadata":{},"spec":{},"status":{"conditions":[{"type":"Ready","status":"","lastHeartbeatTime":null,"lastTransitionTime":null}],"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}}"#,
        ),
    ] {
        let (printed, unknown) = decode(&types, api_version, kind, text);
        assert_eq!(printed.as_deref(), Ok(expected));
        assert!(unknown.is_empty());
    }
}

#[test]
fn unknown_fields_are_dropped_and_reported() {
    let types = builtin().types;
    let text = r#"{"a":{"b":1},"metadata":{"labels":{"x":"y"},"nmae":"x"},"spec":{"containers":[{"name":"a"},{"Name":"b"}]}}"#;
    let (printed, unknown) = decode(&types, "v1", "Pod", text);
    assert_eq!(
        printed.unwrap(),
        r#"{"metadata":{"labels":{"x":"y"}},"spec":{"containers":[{"name":"a","resources":{}},{"name":"","resources":{}}]},"status":{}}"#
    );
    assert_eq!(unknown, ["a", "metadata.nmae", "spec.containers[1].Name"]);
}

#[test]
fn type_errors_have_the_texts_of_go() {
    let types = builtin().types;
    for (api_version, kind, text, expected) in [
        (
            "apps/v1",
            "Deployment",
            r#"{"spec":{"replicas":"3"}}"#,
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps/v1",
            "Deployment",
            r#"{"spec":{"replicas":3000000000}}"#,
            "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps/v1",
            "Deployment",
            r#"{"spec":{"replicas":1.5}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "v1",
            "ConfigMap",
            r#"{"data":{"a":1}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "v1",
            "ConfigMap",
            r#"{"data":["a"]}"#,
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
        ),
        ("v1", "ConfigMap", r#"[]"#, "json: cannot unmarshal array into Go value of type v1.ConfigMap"),
        (
            "v1",
            "Pod",
            r#"{"spec":{"volumes":[{"name":"a","emptyDir":"x"}]}}"#,
            "json: cannot unmarshal string into Go struct field Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource",
        ),
        (
            "v1",
            "Pod",
            r#"{"spec":{"containers":{}}}"#,
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "v1",
            "Pod",
            r#"{"spec":{"dnsPolicy":1}}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.dnsPolicy of type v1.DNSPolicy",
        ),
        (
            "v1",
            "Pod",
            r#"{"metadata":{"name":1},"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}"#,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("v1", "Secret", r#"{"data":{"a":"!"}}"#, "illegal base64 data at input byte 0"),
        (
            "v1",
            "Secret",
            r#"{"data":{"a":1}}"#,
            "json: cannot unmarshal number into Go struct field Secret.data of type []uint8",
        ),
        (
            "v1",
            "Pod",
            r#"{"metadata":{"creationTimestamp":1}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            "v1",
            "Pod",
            r#"{"metadata":{"creationTimestamp":"x"}}"#,
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
        ),
        (
            "v1",
            "Service",
            r#"{"spec":{"ports":[{"targetPort":true}]}}"#,
            "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
        ),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"additionalProperties":1}}}]}}"#,
            "boolean or JSON schema expected",
        ),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":{"type":1}}}}]}}"#,
            "json: cannot unmarshal number into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items.type of type string",
        ),
    ] {
        assert_eq!(decode(&types, api_version, kind, text).0, Err(expected.to_string()));
    }
}

#[test]
fn strict_errors_are_in_the_order_of_the_body() {
    let types = builtin().types;
    let schema = types.by_kind("v1", "Pod").unwrap();
    for (text, strict) in [
        (r#"{"spec":{"containers":[]}, "a" : 1 }"#, &[r#"unknown field "a""#][..]),
        (
            r#" {"z":{"metadata":1},"metadata":{"wrong":[{"x":"\\\"}"}],"name":"a","name":"b"},"a":null,"spec":{"nodeSelector":{"x":"1","x":"2"}}}"#,
            &[
                r#"unknown field "z""#,
                r#"unknown field "metadata.wrong""#,
                r#"duplicate field "metadata.name""#,
                r#"unknown field "a""#,
                r#"duplicate field "spec.nodeSelector.x""#,
            ],
        ),
        (r#"{"metadata":{"managedFields":[{"fieldsV1":{"a":1,"a":2}}]}}"#, &[]),
    ] {
        assert_eq!(typed::decode_json(&schema, text.as_bytes()).unwrap().strict, strict);
    }
    for (text, error) in [
        (
            r#"{"spec":{"priority":1e3,"hostNetwork":1},"metadata":1}"#,
            "json: cannot unmarshal number 1e3 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            r#"{"spec":{"hostNetwork":1,"priority":1.0},"metadata":1}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (
            r#"{"spec":{"priority":99999999999999999999}}"#,
            "json: cannot unmarshal number 99999999999999999999 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (r#"{"spec":{"#, "unexpected end of JSON input"),
    ] {
        assert_eq!(typed::decode_json(&schema, text.as_bytes()).unwrap_err().to_string(), error);
    }
}

#[test]
fn of_repeated_objects_all_members_count() {
    let types = builtin().types;
    let schema = types.by_kind("v1", "ConfigMap").unwrap();
    let text =
        r#"{"data":{"a":"1","b":"1"},"metadata":{"name":"x"},"data":{"a":"2"},"metadata":{"uid":"u"}}"#;
    let decoded = typed::decode_json(&schema, text.as_bytes()).unwrap();
    let mut out = Vec::new();
    typed::encode_json(&schema, &decoded.value, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"{"metadata":{"name":"x","uid":"u"},"data":{"a":"2","b":"1"}}"#
    );
    assert_eq!(decoded.strict, [r#"duplicate field "data""#, r#"duplicate field "metadata""#]);
}

#[test]
fn a_stored_object_has_a_place_for_its_revision() {
    let types = builtin().types;
    let schema = types.by_kind("v1", "ConfigMap").unwrap();
    for (text, expected) in [
        (
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"1","creationTimestamp":"2024-01-02T02:04:05Z"}}"#,
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"42","creationTimestamp":"2024-01-02T02:04:05Z"}}"#,
        ),
        (
            r#"{"metadata":{"name":"a","uid":"u"}}"#,
            r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"42"}}"#,
        ),
        (r#"{"metadata":{"generation":1}}"#, r#"{"metadata":{"resourceVersion":"42","generation":1}}"#),
        (r#"{"metadata":{}}"#, r#"{"metadata":{"resourceVersion":"42"}}"#),
    ] {
        let tree: Value = json::parse(text.as_bytes()).unwrap().value;
        let mut out = Vec::new();
        let slot = typed::encode_stored(&schema, &tree, &mut out);
        let mut spliced = out[..slot.at].to_vec();
        slot.write(42, &mut spliced);
        spliced.extend_from_slice(&out[slot.at..]);
        assert_eq!(String::from_utf8(spliced).unwrap(), expected);
    }
}
