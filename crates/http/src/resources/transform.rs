//! Other forms of objects: Tables and metadata only.

use super::Resources;
use super::encode::write_tree;
use crate::api::ApiRequest;
use crate::negotiate::{MetaVersion, Transform};
use bytes::Bytes;
use pintle_cache::Object;
use pintle_engine::{Listed, Target};
use pintle_meta::Status;
use pintle_value::Value;
use std::sync::Arc;

impl Resources {
    /// Objects in the form that was asked for. `listed` is there for lists.
    pub(super) fn transformed(
        &self,
        request: &ApiRequest,
        target: &Target,
        objects: &[Arc<Object>],
        listed: Option<&Listed>,
        transform: Transform,
    ) -> Result<Bytes, Status> {
        let tree = match transform {
            Transform::PartialObjectMetadata(version) | Transform::PartialObjectMetadataList(version) => {
                self.partial(target, objects, listed, version)?
            }
            Transform::Table(_) | Transform::None => return Err(Status::internal("no Table yet")),
        };
        let schema = self.types.by_kind(tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]));
        let schema = schema.ok_or_else(|| Status::internal("the answer's kind is unknown"))?;
        let mut out = Vec::new();
        write_tree(&schema, &tree, request.accept.encoding, &mut out);
        Ok(out.into())
    }

    fn partial(
        &self,
        target: &Target,
        objects: &[Arc<Object>],
        listed: Option<&Listed>,
        version: MetaVersion,
    ) -> Result<Value, Status> {
        let mut items = Vec::with_capacity(objects.len());
        for object in objects {
            let tree = self.engine.tree_in(target, object, object.revision())?;
            items.push(partial_object(tree, version));
        }
        let Some(listed) = listed else { return Ok(items.pop().unwrap_or_default()) };
        let mut list = Value::object();
        list.set_at(&["kind"], "PartialObjectMetadataList".into());
        list.set_at(&["apiVersion"], api_version(version).into());
        list.set_at(&["metadata"], super::list::list_metadata(listed));
        list.set_at(&["items"], Value::Array(items));
        Ok(list)
    }
}

/// The metadata of an object, as an object.
pub(super) fn partial_object(mut tree: Value, version: MetaVersion) -> Value {
    let mut out = Value::object();
    out.set_at(&["kind"], "PartialObjectMetadata".into());
    out.set_at(&["apiVersion"], api_version(version).into());
    out.set_at(&["metadata"], tree.remove_at(&["metadata"]).unwrap_or_default());
    out
}

fn api_version(version: MetaVersion) -> &'static str {
    match version {
        MetaVersion::V1 => "meta.k8s.io/v1",
        MetaVersion::V1beta1 => "meta.k8s.io/v1beta1",
    }
}
