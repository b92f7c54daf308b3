//! Objects that are computed when they are read and never stored: `componentstatuses`.

use crate::object;
use crate::select::Selects;
use crate::{ListRequest, Listed, Reader, Target};
use pintle_cache::Object;
use pintle_meta::Status;
use pintle_value::Value;
use std::sync::Arc;

impl Reader {
    /// Whether the objects of this resource are computed: they can be read but not created.
    pub fn is_computed(&self, target: &Target) -> bool {
        let verbs = target.kind.verbs;
        target.subresource.is_empty() && verbs.get && !verbs.create
    }

    /// An object of this tree, without a resourceVersion.
    pub fn computed_object(&self, target: &Target, tree: &Value) -> Result<Arc<Object>, Status> {
        object::unstored(target, &object::encode(&target.kind, tree), tree, 0)
    }

    /// The objects of these trees that a request selects, in their order. Revisions, limits and continuations have no
    /// meaning here, and kube-apiserver does not look at them.
    pub fn computed_list(&self, request: &ListRequest, trees: &[Value]) -> Result<Listed, Status> {
        let selects = Selects::new(request);
        let mut items = Vec::new();
        for tree in trees {
            let object = self.computed_object(&request.target, tree)?;
            if selects.matches(&object) {
                items.push(object);
            }
        }
        Ok(Listed { items, revision: 0, continue_token: String::new(), remaining: None, shard: None })
    }
}
