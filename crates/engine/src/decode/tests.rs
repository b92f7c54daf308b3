//! Tests of bodies in all encodings: which are refused and with which messages, and that no input makes the server
//! panic.

use super::*;
use crate::Target;
use crate::convert::Conversions;
use crate::propose::{Body, Configuration, Context, PatchType, patch_object};
use pintle_kinds::builtin;
use pintle_value::Map;
use std::sync::{Arc, OnceLock};

fn kinds() -> &'static [Arc<Kind>] {
    static KINDS: OnceLock<Vec<Arc<Kind>>> = OnceLock::new();
    KINDS.get_or_init(|| builtin().kinds.into_iter().map(Arc::new).collect())
}

fn kind(plural: &str) -> Arc<Kind> {
    kinds().iter().find(|kind| kind.plural == plural).cloned().unwrap()
}

fn registered(kind: &str, version: &GroupVersion) -> bool {
    let same = |k: &&Arc<Kind>| k.kind == kind && k.group == version.group.as_str();
    kinds().iter().find(same).is_some_and(|k| k.version(&version.version).is_some())
}

fn decoded(plural: &str, body: &[u8], media: Media, validation: FieldValidation) -> Result<Decoded, Status> {
    let kind = kind(plural);
    let expected = expected_object(&kind, kind.storage_version(), &registered);
    decode(body, media, &expected, validation)
}

fn refusal(plural: &str, body: &[u8], media: Media) -> String {
    match decoded(plural, body, media, FieldValidation::Strict) {
        Ok(decoded) => format!("taken: {:?}", decoded.complaints),
        Err(status) => status.message,
    }
}

#[test]
fn refusals_have_the_texts_of_each_encoding() {
    let cannot = |what: &str, why: &str| format!("{what} cannot be handled as a Service: {why}");
    for (body, media, expected) in [
        (
            &br#"{"spec":{"ports":[{"port":80.5,"nope":1}],"type":7}}"#[..],
            Media::Json,
            cannot(
                "Service in version \"v1\"",
                "json: cannot unmarshal number 80.5 into Go struct field ServicePort.spec.ports.port of type int32",
            ),
        ),
        (
            br#"{"z":1,"spec":{"b":1,"ports":[{"port":1,"port":2}],"a":1}}"#,
            Media::Json,
            cannot(
                "Service in version \"v1\"",
                "strict decoding error: unknown field \"z\", unknown field \"spec.b\", duplicate field \"spec.ports[0].port\", unknown field \"spec.a\"",
            ),
        ),
        (
            b"spec: {b: 1, a: 1}\nkind: Service\nkind: Service",
            Media::Yaml,
            cannot(
                "Service in version \"v1\"",
                "strict decoding error: yaml: unmarshal errors:\n  line 3: key \"kind\" already set in map, unknown field \"spec.a\", unknown field \"spec.b\"",
            ),
        ),
        (
            br#"{"kind":"Pod","apiVersion":"v1"}"#,
            Media::Json,
            cannot("Pod in version \"v1\"", "converting (v1.Pod) to (core.Service): unknown conversion"),
        ),
        (
            br#"{"kind":"List","apiVersion":"v1","items":[]}"#,
            Media::Json,
            cannot("List in version \"v1\"", "converting (v1.List) to (core.Service): unknown conversion"),
        ),
        (
            br#"{"kind":"Status","apiVersion":"v1"}"#,
            Media::Json,
            cannot(
                "Status in version \"v1\"",
                "converting (v1.Status) to (core.Service): unknown conversion",
            ),
        ),
        (
            br#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1"}"#,
            Media::Json,
            cannot(
                "CustomResourceDefinition in version \"v1\"",
                "no kind \"CustomResourceDefinition\" is registered for version \"apiextensions.k8s.io/v1\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            ),
        ),
        (
            br#"{"spec":{"ports":[{"port":1e999}]}}"#,
            Media::Json,
            cannot(
                "Service in version \"v1\"",
                "json: cannot unmarshal number 1e999 into Go struct field ServicePort.spec.ports.port of type int32",
            ),
        ),
        // {"spec": "x"}, its strings as bytes.
        (
            b"\xd9\xd9\xf7\xa1\x44spec\x41x",
            Media::Cbor,
            cannot(
                "Service in version \"v1\"",
                "cbor: cannot unmarshal byte string into Go struct field v1.Service.spec of type v1.ServiceSpec",
            ),
        ),
        // {"nope": 1}
        (
            b"\xa1\x64nope\x01",
            Media::Cbor,
            cannot(
                "Service in version \"v1\"",
                "strict decoding error: cbor: found unknown field at map element index 0",
            ),
        ),
        (
            b"k8s\0",
            Media::Protobuf,
            "the object provided is unrecognized (must be of type Service): empty body (6b387300)"
                .to_string(),
        ),
    ] {
        assert_eq!(refusal("services", body, media), expected, "{}", String::from_utf8_lossy(body));
    }
}

#[test]
fn a_version_that_is_known_but_not_served_is_the_wrong_one() {
    for (plural, body, data, expected) in [
        ("cronjobs", r#"{"apiVersion":"batch/v1beta1","kind":"CronJob"}"#, "batch/v1beta1", "batch/v1"),
        (
            "ingresses",
            r#"{"apiVersion":"extensions/v1beta1","kind":"Ingress"}"#,
            "extensions/v1beta1",
            "networking.k8s.io/v1",
        ),
        ("events", r#"{"apiVersion":"events.k8s.io/v1beta1","kind":"Event"}"#, "events.k8s.io/v1beta1", "v1"),
    ] {
        let kind = kind(plural);
        let version = kind.versions.iter().find(|v| api_version(&v.group, &v.name) == expected).unwrap();
        let refusal = decode(
            body.as_bytes(),
            Media::Json,
            &expected_object(&kind, version, &registered),
            FieldValidation::Warn,
        );
        let why = format!(
            "the API version in the data ({data}) does not match the expected API version ({expected})"
        );
        assert_eq!(refusal.err().map(|status| status.message), Some(why));
    }
}

#[test]
fn an_empty_list_of_managed_fields_is_noticed() {
    for (body, resets) in [
        (r#"{"metadata":{"managedFields":[]}}"#, true),
        (r#"{"metadata":{"managedFields":[{}]}}"#, true),
        (r#"{"metadata":{"managedFields":null}}"#, false),
        (r#"{"metadata":{"managedFields":[{},{}]}}"#, false),
        (r#"{}"#, false),
    ] {
        for media in [Media::Json, Media::Yaml] {
            let decoded = decoded("configmaps", body.as_bytes(), media, FieldValidation::Warn).ok();
            assert_eq!(decoded.map(|d| d.resets), Some(resets), "{body}");
        }
    }
}

#[test]
fn options_come_in_any_encoding() {
    let schema = builtin().types.by_go("meta/v1.DeleteOptions").unwrap();
    // The envelope with kind and version, and a message whose fifth member is "All".
    let protobuf = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x05\x2a\x03All";
    for (body, media) in [
        (&br#"{"kind":"DeleteOptions","dryRun":["All"],"nope":1}"#[..], Media::Json),
        (b"dryRun: [All]", Media::Yaml),
        (b"\xa1\x66dryRun\x81\x63All", Media::Cbor),
        (protobuf, Media::Protobuf),
    ] {
        let options = decode_options(body, media, &schema).map_err(|status| status.message).unwrap();
        assert_eq!(options.items_at(&["dryRun"]), ["All".into()], "{media:?}");
    }
    let refused = decode_options(b"nonsense", Media::Protobuf, &schema).map_err(|status| status.message);
    assert!(refused.unwrap_err().starts_with("provided data does not appear to be a protobuf message"));
}

#[test]
fn warnings_of_yaml_come_line_by_line() {
    let yaml = "yaml: unmarshal errors:\n  line 1: a\n  line 2: b".to_string();
    let conversion = format!("error converting YAML to JSON: {yaml}");
    assert_eq!(warnings(vec![yaml, "x\ny".into()]), ["line 1: a", "line 2: b", "x\ny"]);
    assert_eq!(warnings(vec![conversion]), ["line 1: a", "line 2: b"]);
}

#[test]
fn a_key_repeated_many_times_is_read_in_linear_time() {
    let repeated: Vec<String> = (0..20_000).map(|at| format!(r#""data":{{"k{at}":"v"}}"#)).collect();
    let body = format!(r#"{{"metadata":{{"name":"a"}},{}}}"#, repeated.join(","));
    let began = std::time::Instant::now();
    let decoded = decoded("configmaps", body.as_bytes(), Media::Json, FieldValidation::Warn);
    let decoded = decoded.map_err(|status| status.message).unwrap();
    assert_eq!(decoded.value.get("data").and_then(Value::as_object).map(Map::len), Some(20_000));
    assert_eq!(decoded.complaints, ["duplicate field \"data\""]);
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}

/// A small generator: the same numbers in every run.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % below.max(1)
    }

    /// Some bytes of `seed` are overwritten, left out, doubled, or the end is cut off.
    fn damage(&mut self, seed: &[u8]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=self.next(4) {
            if bytes.is_empty() {
                break;
            }
            let at = self.next(bytes.len());
            match self.next(5) {
                0 => bytes[at] = u8::try_from(self.next(256)).unwrap_or(0),
                1 => bytes[at] = b"{}[]\",:-0.en&*!|>$"[self.next(18)],
                2 => _ = bytes.remove(at),
                3 => {
                    let to = (at + self.next(24)).min(bytes.len());
                    let part = bytes[at..to].to_vec();
                    bytes.splice(at..at, part);
                }
                _ => bytes.truncate(at),
            }
        }
        bytes
    }
}

const DEPLOYMENT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","labels":{"a":"b"},"managedFields":[{"manager":"m","operation":"Update","apiVersion":"apps/v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{}}}}}}}}]},"spec":{"replicas":1,"paused":null,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":0.5,"memory":"1Gi"}},"ports":[{"containerPort":80}],"env":[{"name":"x","value":"\u00e9"}]}],"terminationGracePeriodSeconds":30}}}}"#;

/// How many damaged bodies of each sort are tried.
const ROUNDS: usize = 500;

#[test]
fn damaged_bodies_never_panic() {
    let whole = json::parse(DEPLOYMENT.as_bytes()).unwrap().value;
    let kind = kind("deployments");
    let (mut yaml_body, mut cbor_body, mut proto_body) = (Vec::new(), Vec::new(), Vec::new());
    yaml::print(&whole, &mut yaml_body);
    cbor::encode(&whole, &mut cbor_body);
    let typed =
        decoded("deployments", DEPLOYMENT.as_bytes(), Media::Json, FieldValidation::Warn).ok().unwrap();
    proto::encode(&kind.storage_version().schema, "apps/v1", "Deployment", &typed.value, &mut proto_body);
    let bodies = [
        (Media::Json, DEPLOYMENT.as_bytes()),
        (Media::Yaml, &yaml_body),
        (Media::Cbor, &cbor_body),
        (Media::Protobuf, &proto_body),
    ];
    let mut random = Seeded(7);
    for (media, body) in bodies {
        assert!(decoded("deployments", body, media, FieldValidation::Warn).is_ok(), "{media:?}");
        for _ in 0..ROUNDS {
            let damaged = random.damage(body);
            let validation = [FieldValidation::Ignore, FieldValidation::Warn, FieldValidation::Strict];
            _ = decoded("deployments", &damaged, media, validation[random.next(3)]);
            _ = decode_options(&damaged, media, &kind.storage_version().schema);
        }
    }
}

#[test]
fn damaged_patches_never_panic() {
    let live =
        decoded("deployments", DEPLOYMENT.as_bytes(), Media::Json, FieldValidation::Warn).ok().unwrap().value;
    let target = Target {
        kind: kind("deployments"),
        version: 0,
        namespace: "".into(),
        name: "d".into(),
        subresource: "".into(),
    };
    let patches: [(PatchType, &str); 3] = [
        (
            PatchType::Json,
            r#"[{"op":"replace","path":"/spec/replicas","value":3},{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"d"}},{"op":"copy","from":"/metadata","path":"/spec/x~1y"},{"op":"move","from":"/spec/paused","path":"/spec/p"},{"op":"test","path":"/kind","value":"Deployment"},{"op":"remove","path":"/metadata/labels/a"}]"#,
        ),
        (
            PatchType::Merge,
            r#"{"metadata":{"labels":{"a":null,"c":"d"}},"spec":{"replicas":2.0,"template":{"spec":{"containers":[{"name":"e","image":"f"}]}}}}"#,
        ),
        (
            PatchType::Strategic,
            r#"{"spec":{"$retainKeys":["replicas","template","selector"],"replicas":2.0,"template":{"spec":{"$setElementOrder/containers":[{"name":"d"},{"name":"c"}],"containers":[{"name":"d","image":"i","ports":[{"containerPort":1},{"$patch":"delete","containerPort":80}]},{"$patch":"delete","name":"c"}]}}},"metadata":{"$patch":"merge","finalizers":["x"],"$deleteFromPrimitiveList/finalizers":["y"]}}"#,
        ),
    ];
    let mut random = Seeded(11);
    for (kind, patch) in patches {
        for round in 0..ROUNDS {
            let damaged =
                if round == 0 { patch.as_bytes().to_vec() } else { random.damage(patch.as_bytes()) };
            for validation in [FieldValidation::Ignore, FieldValidation::Strict] {
                let cx = Context { target: &target, validation, registered: &registered };
                _ = patch_object(&cx, &live, kind, &damaged);
            }
            let body = Body { bytes: damaged.into(), media: Media::Yaml };
            if let Ok(configuration) = Configuration::decode(&body) {
                let owner = crate::ownership::Owner { manager: "m", now: "2026-01-01T00:00:00Z" };
                _ = crate::ownership::apply(
                    &target,
                    owner,
                    Some(&live),
                    &configuration.tree,
                    round % 2 == 0,
                    &Conversions::default(),
                );
            }
        }
    }
}
