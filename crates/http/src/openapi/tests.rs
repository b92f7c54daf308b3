//! Tests of whole documents.

use super::v2::{v2, v2_hash};
use super::*;
use std::collections::BTreeSet;

fn state() -> DiscoveryState {
    let kinds: Vec<Arc<Kind>> = pintle_kinds::builtin().kinds.into_iter().map(Arc::new).collect();
    DiscoveryState::new(pintle_engine::Registry::new(kinds).kinds().groups(), &Default::default(), None)
}

fn parsed(rendered: &Rendered) -> Value {
    json::parse(&rendered.texts.whole()).unwrap().value
}

fn source(state: &DiscoveryState, cbor: bool) -> Source<'_> {
    Source { state, definitions: &|_| None, cbor, commit: "" }
}

#[test]
fn every_document_is_complete() {
    let state = state();
    for name in document_names(&state) {
        let document = parsed(&v3(source(&state, true), &name, Form::Json).unwrap());
        let known = document.at(&["components", "schemas"]).cloned().unwrap_or(Value::object());
        let text = json::bytes(&document);
        let text = String::from_utf8(text).unwrap();
        for target in text.split("\"#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next())
        {
            assert!(known.get(target).is_some(), "{name}: {target} is not there");
        }
    }
    assert!(v3(source(&state, true), "apis/none.example.com/v1", Form::Json).is_none());
}

#[test]
fn parameters_of_all_operations_are_written_once() {
    let document = parsed(&v3(source(&state(), false), "api/v1", Form::Json).unwrap());
    let item = document.at(&["paths", "/api/v1/namespaces/{namespace}/pods/{name}/proxy/{path}"]).unwrap();
    let names: Vec<&str> = item.items_at(&["parameters"]).iter().map(|p| p.str_at(&["name"])).collect();
    assert_eq!(names, ["name", "namespace", "path", "path"]);
    assert_eq!(item.str_at(&["head", "operationId"]), "connectCoreV1HeadNamespacedPodProxyWithPath");
    let list = document.at(&["paths", "/api/v1/pods", "get"]).unwrap();
    assert_eq!(list.str_at(&["operationId"]), "listCoreV1PodForAllNamespaces");
    assert!(list.get("parameters").is_none());
}

/// The targets of all references that begin with `prefix`.
fn targets(document: &[u8], prefix: &str) -> BTreeSet<String> {
    let text = String::from_utf8(document.to_vec()).unwrap();
    let mark = format!("\"$ref\":\"{prefix}");
    text.split(&mark).skip(1).map(|rest| rest.split('"').next().unwrap().to_string()).collect()
}

#[test]
fn operations_of_v2_refer_to_the_parameters_there_are() {
    let text = v2(source(&state(), true), Form::Json).texts.whole();
    let document = json::parse(&text).unwrap().value;
    let parameters = document.get("parameters").and_then(Value::as_object).unwrap();
    let known: BTreeSet<String> = parameters.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(targets(&text, "#/parameters/"), known);
    let definitions = document.get("definitions").and_then(Value::as_object).unwrap();
    let known: BTreeSet<String> = definitions.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(targets(&text, "#/definitions/"), known, "all that is referred to, and nothing else");
    let pod = document.at(&["paths", "/api/v1/namespaces/{namespace}/pods/{name}"]).unwrap();
    let names: Vec<String> = pod
        .items_at(&["parameters"])
        .iter()
        .map(|p| format!("{}{}", p.str_at(&["name"]), p.str_at(&["$ref"])))
        .collect();
    let [name, namespace, pretty] = &names[..] else { panic!("{names:?}") };
    assert_eq!((name.as_str(), namespace.as_str()), ("name", "#/parameters/namespace-vgWSWtn3"));
    assert!(pretty.starts_with("#/parameters/pretty-"), "{pretty}");
    let put = pod.items_at(&["put", "parameters"]);
    let inline: Vec<&str> = put.iter().map(|p| p.str_at(&["name"])).collect();
    assert_eq!(inline, ["body", "dryRun", "", "fieldValidation"]);
}

#[test]
fn types_and_fields_are_described() {
    let (state, path) = (state(), ["properties", "creationTimestamp", "description"]);
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let begin = "CreationTimestamp is a timestamp";
    let v3_document = parsed(&v3(source(&state, false), "api/v1", Form::Json).unwrap());
    let v2_document = parsed(&v2(source(&state, false), Form::Json));
    for meta in [v3_document.at(&["components", "schemas", name]), v2_document.at(&["definitions", name])] {
        let meta = meta.unwrap();
        assert!(meta.str_at(&path).starts_with(begin), "{meta:?}");
        assert!(!meta.str_at(&["description"]).is_empty());
    }
    let find = |bytes: &[u8]| bytes.windows(begin.len()).any(|window| window == begin.as_bytes());
    assert!(find(&v3(source(&state, false), "api/v1", Form::Protobuf).unwrap().texts.whole()));
    assert!(find(&v2(source(&state, false), Form::Protobuf).texts.whole()));
}

#[test]
fn hashes_are_known_before_documents_are_rendered() {
    let state = state();
    let all: Vec<_> = document_names(&state)
        .into_iter()
        .map(|name| (v3_hash(source(&state, false), &name), name))
        .collect();
    for (hash, name) in &all {
        let rendered = v3(source(&state, false), name, Form::Json).unwrap();
        assert_eq!(hash.as_deref(), Some(&*rendered.hash), "{name}");
    }
    let hashes: BTreeSet<_> = all.iter().map(|(hash, _)| hash.clone()).collect();
    assert_eq!(hashes.len(), all.len(), "documents differ");
    let other = Source { commit: "other", ..source(&state, false) };
    assert!(!hashes.contains(&v3_hash(other, "api/v1")), "a new build has new hashes");
}

/// Kinds as definitions make them: (group, plural, kind).
fn state_with(custom: &[(&str, &str, &str)], previous: Option<&DiscoveryState>) -> DiscoveryState {
    static BUILTIN: OnceLock<pintle_engine::Registry> = OnceLock::new();
    let registry = BUILTIN.get_or_init(|| {
        let kinds = pintle_kinds::builtin().kinds.into_iter().map(Arc::new);
        pintle_engine::Registry::new(kinds.collect())
    });
    let mut groups = registry.kinds().groups().clone();
    for (group, plural, kind) in custom {
        let known = previous.and_then(|state| state.group(group)?.version("v1")?.resource(plural));
        let made = known.map(|known| known.kind.clone()).unwrap_or_else(|| {
            let all = pintle_kinds::builtin().kinds;
            let mut made = all.into_iter().find(|k| k.plural == "leases").unwrap();
            (made.group, made.plural, made.kind) = ((*group).into(), (*plural).into(), (*kind).into());
            made.list_kind = format!("{kind}List").into();
            made.definition = format!("{plural}/1").into();
            made.versions.truncate(1);
            made.versions.iter_mut().for_each(|v| (v.group, v.name) = ((*group).into(), "v1".into()));
            Arc::new(made)
        });
        Arc::make_mut(groups.entry((*group).into()).or_default()).push(made);
    }
    DiscoveryState::new(&groups, &Default::default(), previous)
}

fn definition(kind: &Kind) -> Option<Value> {
    let text = format!(
        r#"{{"spec":{{"names":{{"plural":"{}","listKind":"{}"}},"versions":[{{"name":"v1","schema":{{"openAPIV3Schema":
        {{"type":"object","properties":{{"spec":{{"type":"object","properties":{{"n":{{"type":"number","maximum":1.5}}}}}}}}}}}}}}]}}}}"#,
        kind.plural, kind.list_kind
    );
    Some(json::parse(text.as_bytes()).unwrap().value)
}

#[test]
fn documents_joined_from_parts_equal_whole_ones() {
    // The schema names of the second group sort between those of the first, and so do paths with a dash.
    let custom = [
        ("zz.example", "boxes", "Box"),
        ("zz.example", "boxes-a", "a"),
        ("zz.example", "Zs", "z"),
        ("v1.zz.example", "boxes", "Box"),
        ("a.example", "boxes", "Box"),
    ];
    let state = state_with(&custom, None);
    let source = Source { state: &state, definitions: &definition, cbor: false, commit: "" };
    let document = |dialect, form| match dialect {
        Dialect::V2 => v2(source, form),
        Dialect::V3 => v3(source, "apis/zz.example/v1", form).unwrap(),
    };
    for dialect in [Dialect::V2, Dialect::V3] {
        let text = document(dialect, Form::Json).texts.whole();
        let tree = json::parse(&text).unwrap().value;
        let again = json::bytes(&tree);
        assert!(text == again, "{dialect:?}: members are sorted, none twice");
        assert!(
            document(dialect, Form::Protobuf).texts.whole() == proto::encode(&tree, dialect),
            "{dialect:?}"
        );
    }
}

#[test]
fn a_change_renders_its_own_part_only() {
    let (one, two) = (("a.example", "boxes", "Box"), ("a.example", "jars", "Jar"));
    let rendered = std::sync::atomic::AtomicUsize::new(0);
    let counted = |kind: &Kind| {
        rendered.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        definition(kind)
    };
    let before = state_with(&[one], None);
    let first = v2(Source { state: &before, definitions: &counted, cbor: false, commit: "" }, Form::Json);
    let after = state_with(&[one, two], Some(&before));
    let source = Source { state: &after, definitions: &counted, cbor: false, commit: "" };
    assert_ne!(v2_hash(source, Form::Json), first.hash);
    assert_eq!(rendered.load(std::sync::atomic::Ordering::Relaxed), 1);
    let second = String::from_utf8(v2(source, Form::Json).texts.whole()).unwrap();
    assert_eq!(rendered.load(std::sync::atomic::Ordering::Relaxed), 2);
    assert!(second.contains("example.a.v1.Box") && second.contains("example.a.v1.Jar"));
}

#[test]
fn definitions_are_published() {
    let gvk = Gvk { group: "x.example.com".into(), version: "v1".into(), kind: "Box".into() };
    let definition =
        br#"{"spec":{"names":{"plural":"boxes","listKind":"BoxList"},"versions":[{"name":"v1","schema":
        {"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","required":["note","size"],
        "properties":{"port":{"x-kubernetes-int-or-string":true},"note":{"type":"string","nullable":true},
        "size":{"type":"integer","default":1}}}}}}}]}}"#;
    let definition = json::parse(definition).unwrap().value;
    let in_words = |dialect| {
        let schema = custom::schema(&definition, &gvk, dialect);
        json::text(schema.at(&["properties", "spec"]).unwrap())
    };
    assert_eq!(
        in_words(Dialect::V3),
        r#"{"properties":{"note":{"nullable":true,"type":"string"},"port":{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true},"size":{"default":1,"type":"integer"}},"required":["note","size"],"type":"object"}"#
    );
    assert_eq!(
        in_words(Dialect::V2),
        r#"{"properties":{"note":{},"port":{"x-kubernetes-int-or-string":true},"size":{"type":"integer"}},"required":["size"],"type":"object"}"#
    );
}

#[test]
fn both_documents_are_written_in_protobuf() {
    let state = state();
    // swagger: "2.0" and openapi: "3.0.0" are the first fields.
    let whole = v2(source(&state, false), Form::Protobuf).texts.whole();
    assert!(whole.starts_with(b"\x0a\x032.0\x12"));
    let policy = v3(source(&state, false), "apis/policy/v1", Form::Protobuf).unwrap().texts.whole();
    assert!(policy.starts_with(b"\x0a\x053.0.0\x12"));
}
