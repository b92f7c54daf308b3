//! Lists of metadata in protobuf, assembled from cached messages.

use super::json::write_list_metadata;
use super::{Source, Transformer, api_version, read};
use crate::Body;
use crate::resources::encode::exact;
use crate::resources::protobuf;
use pintle_cache::Object;
use pintle_engine::Listed;
use pintle_meta::Status;
use pintle_schema::proto;

/// The list as a whole document.
pub(super) fn list(transformer: Transformer, listed: Listed) -> Result<Body, Status> {
    let mut head = b"{\"metadata\":".to_vec();
    write_list_metadata(&listed, &mut head);
    head.push(b'}');
    let mut message = Vec::new();
    proto::encode_message(&transformer.partial_list, &read(&head)?, &mut message);
    let names = (api_version(transformer.version), "PartialObjectMetadataList");
    let item = move |object: &Object| {
        object.encoded(transformer.key(), |object| {
            let mut compact = Vec::new();
            transformer.write_partial(Source::Stored(object, object.revision()), &mut compact)?;
            let mut message = Vec::new();
            proto::encode_message(&transformer.partial, &read(&compact)?, &mut message);
            Ok(exact(&message))
        })
    };
    protobuf::list(names, &message, listed.items, Box::new(item))
}
