//! Decodes a custom resource: its metadata as a Go type, the rest pruned and defaulted.

use super::{UnknownFields, default, prune, prune_nulls};
use crate::typed::{self, Strict, TypeError};
use crate::{NodeId, Schema, Shape};
use pintle_meta::field::ErrorText;
use pintle_value::{Map, Path, Str, Value};

/// Converts an untyped tree to the canonical tree of a custom resource. Unknown fields are dropped and collected.
pub fn decode(schema: &Schema, mut tree: Value, strict: &mut Strict) -> Result<Value, TypeError> {
    let metadata = take_metadata(schema, &mut tree, strict)?;
    // Defaults come first: those inside the metadata of embedded objects are pruned and decoded like values of the
    // client.
    default(schema.arena(), schema.root(), &mut tree)?;
    let mut unknown = UnknownFields::default();
    prune(schema.arena(), schema.root(), &mut tree, &Path::ROOT, &mut unknown);
    unknown.sort();
    if let Some(metadata) = schema.node().metadata {
        let coerce = Coerce { schema, metadata: &schema.at(metadata) };
        coerce.decode_node(schema.root(), &mut tree, &Path::ROOT, &mut unknown)?;
    }
    strict.unknown.append(&mut unknown.into_paths());
    prune_nulls(schema.arena(), schema.root(), &mut tree);
    if let Some(metadata) = metadata {
        tree.set_at(&["metadata"], metadata);
    }
    Ok(tree)
}

/// Converts the result of an apply to a custom resource: decodes only its metadata and applies defaults.
pub fn decode_applied(schema: &Schema, mut tree: Value) -> Result<Value, TypeError> {
    let metadata = take_metadata(schema, &mut tree, &mut Strict::default())?;
    default(schema.arena(), schema.root(), &mut tree)?;
    coerce_embedded(schema, &mut tree);
    if let Some(metadata) = metadata {
        tree.set_at(&["metadata"], metadata);
    }
    Ok(tree)
}

/// Removes unknown fields and disallowed nulls, as kube-apiserver does when it reads from etcd.
pub fn coerce(schema: &Schema, tree: &mut Value) {
    let metadata = tree.as_object_mut().and_then(|map| map.remove("metadata"));
    prune(schema.arena(), schema.root(), tree, &Path::ROOT, &mut UnknownFields::ignored());
    coerce_embedded(schema, tree);
    prune_nulls(schema.arena(), schema.root(), tree);
    if let Some(metadata) = metadata {
        tree.set_at(&["metadata"], metadata);
    }
}

/// Removes unknown fields from the metadata of embedded objects. Invalid metadata is left unchanged.
fn coerce_embedded(schema: &Schema, tree: &mut Value) {
    if let Some(metadata) = schema.node().metadata {
        let coerce = Coerce { schema, metadata: &schema.at(metadata) };
        _ = coerce.decode_node(schema.root(), tree, &Path::ROOT, &mut UnknownFields::ignored());
    }
}

/// Takes the metadata out of a custom resource and decodes it as a Go type.
fn take_metadata(schema: &Schema, tree: &mut Value, strict: &mut Strict) -> Result<Option<Value>, TypeError> {
    let metadata = tree.as_object_mut().and_then(|map| map.remove("metadata"));
    let Shape::Struct(root) = &schema.node().shape else { return Ok(metadata) };
    let Some(field) = root.field("metadata") else { return Ok(metadata) };
    let Some(metadata) = metadata.filter(|metadata| !metadata.is_null()) else { return Ok(None) };
    let mut unknown = Strict::default();
    let metadata = typed::decode(&schema.at(field.node), metadata, Some(&mut unknown))?;
    strict.unknown.extend(unknown.unknown.iter().map(|path| Str::from(format!("metadata.{path}"))));
    Ok(Some(metadata))
}

/// Decodes the metadata of embedded objects as a Go type.
struct Coerce<'a> {
    schema: &'a Schema,
    metadata: &'a Schema,
}

impl Coerce<'_> {
    fn decode_node(
        &self,
        id: NodeId,
        value: &mut Value,
        path: &Path<'_>,
        unknown: &mut UnknownFields,
    ) -> Result<(), TypeError> {
        let node = self.schema.arena().node(id);
        match (&node.shape, value) {
            (shape, Value::Object(map)) => {
                if node.embedded {
                    self.object(map, path, unknown)?;
                }
                for (key, member) in map.iter_mut() {
                    match shape {
                        Shape::Struct(known) => {
                            if let Some(field) = known.field(key).filter(|f| Some(f.node) != node.metadata) {
                                self.decode_node(field.node, member, &path.field(key), unknown)?;
                            }
                        }
                        Shape::Map { value: each, .. } => {
                            self.decode_node(*each, member, &path.key(key), unknown)?
                        }
                        _ => {}
                    }
                }
            }
            (Shape::List { item, .. }, Value::Array(items)) => {
                for (at, member) in items.iter_mut().enumerate() {
                    self.decode_node(*item, member, &path.index(at), unknown)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks the types of what every object has, and decodes its metadata.
    fn object(&self, map: &mut Map, path: &Path<'_>, unknown: &mut UnknownFields) -> Result<(), TypeError> {
        for key in ["apiVersion", "kind"] {
            if let Some(other) = map.get(key).filter(|word| word.as_str().is_none()) {
                let value_text = ErrorText::error_text(&other);
                return Err(TypeError::new("must be a string").within(&path.field(key).to_str(), &value_text));
            }
        }
        let Some(metadata) = map.get_mut("metadata") else { return Ok(()) };
        if metadata.is_null() {
            *metadata = Value::object();
        }
        self.metadata_of(metadata, &path.field("metadata"), unknown)
    }

    fn metadata_of(
        &self,
        value: &mut Value,
        path: &Path<'_>,
        unknown: &mut UnknownFields,
    ) -> Result<(), TypeError> {
        let mut strict = Strict::default();
        let decoded = typed::decode(self.metadata, value.clone(), Some(&mut strict))
            .map_err(|error| error.within(&path.to_str(), &ErrorText::error_text(&&*value)))?;
        strict.unknown.iter().for_each(|field| unknown.add(&path.field(field)));
        *value = decoded;
        Ok(())
    }
}
