//! Documents as a whole.

use super::v2::{v2, v2_hash};
use super::*;
use std::sync::OnceLock;

fn state() -> DiscoveryState {
    let kinds: Vec<Arc<Kind>> = pintle_kinds::builtin().kinds.into_iter().map(Arc::new).collect();
    DiscoveryState::new(pintle_engine::Registry::new(kinds).kinds().groups(), &Default::default(), None)
}

fn parsed(rendered: &Rendered) -> Value {
    json::parse(&rendered.texts.whole()).unwrap().value
}

fn source(state: &DiscoveryState, cbor: bool) -> Source<'_> {
    Source { state, definitions: &|_| None, cbor }
}

#[test]
fn every_document_is_whole() {
    let state = state();
    for name in document_names(&state) {
        let document = parsed(&v3(source(&state, true), &name, Form::Json).unwrap());
        let known = document.at(&["components", "schemas"]).cloned().unwrap_or(Value::object());
        let mut text = Vec::new();
        json::print(&document, &mut text);
        let text = String::from_utf8(text).unwrap();
        for target in text.split("\"#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next())
        {
            assert!(known.get(target).is_some(), "{name}: {target} is not there");
        }
    }
    assert!(v3(source(&state, true), "apis/none.example.com/v1", Form::Json).is_none());
}

#[test]
fn what_all_operations_take_is_said_once() {
    let document = parsed(&v3(source(&state(), false), "api/v1", Form::Json).unwrap());
    let item = document.at(&["paths", "/api/v1/namespaces/{namespace}/pods/{name}/proxy/{path}"]).unwrap();
    let names: Vec<&str> = item.items_at(&["parameters"]).iter().map(|p| p.str_at(&["name"])).collect();
    assert_eq!(names, ["name", "namespace", "path", "path"]);
    assert_eq!(item.str_at(&["head", "operationId"]), "connectCoreV1HeadNamespacedPodProxyWithPath");
    let list = document.at(&["paths", "/api/v1/pods", "get"]).unwrap();
    assert_eq!(list.str_at(&["operationId"]), "listCoreV1PodForAllNamespaces");
    assert!(list.get("parameters").is_none());
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
fn documents_of_parts_are_those_of_the_whole() {
    // The names of schemas of the second group lie between those of the first, and so do paths with a dash.
    let custom = [
        ("zz.example", "boxes", "Box"),
        ("zz.example", "boxes-a", "a"),
        ("zz.example", "Zs", "z"),
        ("v1.zz.example", "boxes", "Box"),
        ("a.example", "boxes", "Box"),
    ];
    let state = state_with(&custom, None);
    let source = Source { state: &state, definitions: &definition, cbor: false };
    let document = |dialect, form| match dialect {
        Dialect::V2 => v2(source, form),
        Dialect::V3 => v3(source, "apis/zz.example/v1", form).unwrap(),
    };
    for dialect in [Dialect::V2, Dialect::V3] {
        let text = document(dialect, Form::Json).texts.whole();
        let tree = json::parse(&text).unwrap().value;
        let mut again = Vec::new();
        json::print(&tree, &mut again);
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
    let first = v2(Source { state: &before, definitions: &counted, cbor: false }, Form::Json);
    let after = state_with(&[one, two], Some(&before));
    let source = Source { state: &after, definitions: &counted, cbor: false };
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
        let mut text = Vec::new();
        json::print(schema.at(&["properties", "spec"]).unwrap(), &mut text);
        String::from_utf8(text).unwrap()
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
