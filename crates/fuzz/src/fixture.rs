//! The sources of inputs: the schemas of the built-in kinds, and the bodies of the repository's transcripts.

use pintle_kinds::builtin;
use pintle_schema::{Arena, Schema, structural};
use pintle_value::{Value, json, yaml};
use std::path::Path;
use std::sync::Arc;

/// Larger bodies are skipped: mutations of small ones cover more in the same time.
const BODY_BYTES_MAX: usize = 8 << 10;

/// A kind and its schema.
pub(crate) struct Kind {
    /// `apps/v1 Deployment`: its name in inputs.
    pub(crate) name: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) schema: Schema,
}

/// All sources, built once.
pub(crate) struct Fixture {
    pub(crate) kinds: Vec<Kind>,
    /// Bodies that clients sent in the transcripts.
    pub(crate) bodies: Vec<Vec<u8>>,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let mut kinds = Vec::new();
        let builtin = builtin();
        for kind in &builtin.kinds {
            for version in &kind.versions {
                let gvk = version.gvk(kind);
                let api_version = gvk.group_version().to_string();
                let (kind, schema) = (gvk.kind.to_string(), version.schema.clone());
                kinds.push(Kind { name: format!("{api_version} {kind}"), api_version, kind, schema });
            }
        }
        kinds.push(custom());
        let mut bodies = Vec::new();
        collect_bodies(
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/transcripts")),
            &mut bodies,
        );
        bodies.sort();
        bodies.dedup();
        Fixture { kinds, bodies }
    }

    /// The kind with this name; the first one for an unknown name.
    pub(crate) fn kind(&self, name: &[u8]) -> Option<&Kind> {
        self.kinds.iter().find(|kind| kind.name.as_bytes() == name).or_else(|| self.kinds.first())
    }
}

/// A custom resource with every kind of list and map.
fn custom() -> Kind {
    let text = r#"
type: object
properties:
  items: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name, port],
    items: {type: object, required: [name], properties: {name: {type: string}, port: {type: integer, default: 80}, value: {type: string}}}}
  tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  whole: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
  map: {type: object, additionalProperties: {type: object, properties: {n: {type: number}}}}
  open: {type: object, x-kubernetes-preserve-unknown-fields: true}
  either: {x-kubernetes-int-or-string: true}
  plain: {type: array, items: {type: integer, minimum: 0}}
"#;
    let mut arena = Arena::default();
    let schema = yaml::parse(text.as_bytes()).map(|parsed| parsed.value).unwrap_or_default();
    let metadata = arena.push(pintle_schema::Node::of(pintle_schema::Shape::Any));
    let root = structural::compile(&schema, metadata, &mut arena);
    arena.seal();
    let schema = Schema::new(Arc::new(arena), root);
    let (api_version, kind) = ("fuzz.example/v1".to_string(), "Custom".to_string());
    Kind { name: format!("{api_version} {kind}"), api_version, kind, schema }
}

fn collect_bodies(folder: &Path, bodies: &mut Vec<Vec<u8>>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_bodies(&path, bodies);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            bodies.extend(bodies_of(&text));
        }
    }
}

/// The text after the `>` lines of a step, up to its `<` line.
fn bodies_of(transcript: &str) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut body: Option<Vec<&str>> = None;
    for line in transcript.lines() {
        if line.starts_with("> ") {
            body = Some(Vec::new());
        } else if line.starts_with("< ") || line.starts_with("=== ") {
            let text = body.take().unwrap_or_default().join("\n");
            if !text.is_empty() && text.len() <= BODY_BYTES_MAX {
                out.push(text.into_bytes());
            }
        } else if let Some(lines) = &mut body {
            lines.push(line);
        }
    }
    out
}

/// A tree as JSON.
pub(crate) fn text(value: &Value) -> Vec<u8> {
    json::bytes(value)
}

/// JSON as a tree.
pub(crate) fn parsed(bytes: &[u8]) -> Option<Value> {
    json::parse(bytes).ok().map(|parsed| parsed.value)
}
