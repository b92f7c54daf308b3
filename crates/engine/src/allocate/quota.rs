//! Resource quotas: the usage that an object adds is written to the quota's status in the same transaction as the
//! object.

use super::MANAGER;
use crate::write::{WriteRequest, attributes};
use crate::{Writer, object, ownership};
use pintle_admission::quota;
use pintle_meta::{Status, rv};
use pintle_schema::typed;
use pintle_store::{Expect, Revision, Write};
use pintle_value::Value;

impl Writer {
    /// Computes the quota usage of a write, or refuses it if a quota would be exceeded. A dry run charges nothing.
    pub(crate) fn charge(
        &self,
        request: &WriteRequest,
        old: Option<&Value>,
        object: &Value,
    ) -> Result<Vec<Write>, Status> {
        if !self.admission.plugins.is_on("ResourceQuota") {
            return Ok(Vec::new());
        }
        let name = match request.target.name.as_str() {
            "" => object.str_at(&["metadata", "name"]),
            name => name,
        };
        let limited = self.admission.plugins.limited_resources();
        let charges = quota::charge(&attributes(request, old, name), object, limited, &*self.storage)?;
        if request.dry_run {
            return Ok(Vec::new());
        }
        let namespace = &request.target.namespace;
        charges.into_iter().filter_map(|charge| self.charge_quota(namespace, &charge).transpose()).collect()
    }

    fn charge_quota(&self, namespace: &str, charge: &quota::Charge) -> Result<Option<Write>, Status> {
        let old = &charge.quota;
        let name = old.str_at(&["metadata", "name"]);
        let Some(target) = self.storage.target("", "v1", "resourcequotas", namespace, name) else {
            return Ok(None);
        };
        let target = target.sub("status");
        // If the quota has changed since its usage was computed, the transaction fails and the write is retried.
        let revision = rv::parse_of_object(old.str_at(&["metadata", "resourceVersion"]))?;
        let mut tree = old.clone();
        tree.set_at(&["status", "used"], charge.used.clone());
        typed::normalize(&target.kind.storage_version().schema, &mut tree);
        let now = self.storage.now_text();
        ownership::record(&target, ownership::Owner { manager: MANAGER, now: &now }, Some(old), &mut tree);
        tree.remove_at(&["metadata", "resourceVersion"]);
        let expect = Expect::Revision(Revision(revision));
        Ok(Some(Write::put(target.store_key(), expect, object::encode(&target.kind, &tree))))
    }
}
