//! Decoding of a custom resource: its metadata as Go reads it, the rest pruned and defaulted.

use super::{default, prune, prune_nulls};
use crate::typed::{self, Strict, TypeError};
use crate::{Schema, Shape};
use pintle_value::{Path, Str, Value};

/// Makes an untyped tree the canonical tree of a custom resource. Unknown fields are dropped and collected.
pub fn decode(schema: &Schema, mut tree: Value, strict: &mut Strict) -> Result<Value, TypeError> {
    if let Shape::Struct(root) = &schema.node().shape
        && let Some(field) = root.field("metadata")
        && let Some(metadata) = tree.as_object_mut().and_then(|map| map.remove("metadata"))
        && !metadata.is_null()
    {
        let mut unknown = Strict::default();
        let metadata = typed::decode(&schema.at(field.node), metadata, Some(&mut unknown))?;
        strict.unknown.extend(unknown.unknown.iter().map(|path| Str::from(format!("metadata.{path}"))));
        tree.set_at(&["metadata"], metadata);
    }
    let metadata = tree.as_object_mut().and_then(|map| map.remove("metadata"));
    let mut unknown = Vec::new();
    prune(schema.arena(), schema.root(), &mut tree, &Path::ROOT, &mut unknown);
    unknown.sort_unstable();
    strict.unknown.append(&mut unknown);
    default(schema.arena(), schema.root(), &mut tree);
    prune_nulls(schema.arena(), schema.root(), &mut tree);
    if let Some(metadata) = metadata {
        tree.set_at(&["metadata"], metadata);
    }
    Ok(tree)
}
