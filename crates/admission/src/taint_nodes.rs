//! TaintNodesByCondition: adds the not-ready taint to new nodes.

use crate::{Mutation, Operation, Plugin, Resources};
use pintle_meta::Status;
use pintle_value::Value;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub(crate) struct TaintNodesByCondition;

impl Plugin for TaintNodesByCondition {
    fn resources(&self) -> Resources {
        &[("", "nodes")]
    }

    fn mutate(&self, Mutation { request, object: node, .. }: Mutation<'_>) -> Result<(), Status> {
        let ours = request.is("", "nodes") && request.subresource.is_empty();
        if !ours || request.operation != Operation::Create {
            return Ok(());
        }
        let mut taints = node.items_at(&["spec", "taints"]).to_vec();
        let is_ours = |t: &Value| t.str_at(&["key"]) == NOT_READY && t.str_at(&["effect"]) == "NoSchedule";
        if !taints.iter().any(is_ours) {
            let mut taint = Value::object();
            taint.set_at(&["key"], NOT_READY.into());
            taint.set_at(&["effect"], "NoSchedule".into());
            taints.push(taint);
            node.set_at(&["spec", "taints"], Value::Array(taints));
        }
        Ok(())
    }
}
