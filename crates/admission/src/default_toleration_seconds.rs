//! DefaultTolerationSeconds: lets pods tolerate nodes that are not ready or unreachable for some time.

use crate::{Mutation, Plugin, Resources};
use pintle_meta::Status;
use pintle_value::Value;

pub(crate) struct DefaultTolerationSeconds {
    pub(crate) not_ready_seconds: i64,
    pub(crate) unreachable_seconds: i64,
}

impl Plugin for DefaultTolerationSeconds {
    fn resources(&self) -> Resources {
        &[("", "pods")]
    }

    fn mutate(&self, Mutation { request, object: pod, .. }: Mutation<'_>) -> Result<(), Status> {
        if !request.is("", "pods") || !request.subresource.is_empty() {
            return Ok(());
        }
        let mut tolerations = pod.items_at(&["spec", "tolerations"]).to_vec();
        let given = tolerations.len();
        for (key, seconds) in [
            ("node.kubernetes.io/not-ready", self.not_ready_seconds),
            ("node.kubernetes.io/unreachable", self.unreachable_seconds),
        ] {
            let tolerates = |t: &Value| {
                let (own, effect) = (t.str_at(&["key"]), t.str_at(&["effect"]));
                (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
            };
            if !tolerations.iter().take(given).any(tolerates) {
                tolerations.push(new_toleration(key, seconds));
            }
        }
        if tolerations.len() > given {
            pod.set_at(&["spec", "tolerations"], Value::Array(tolerations));
        }
        Ok(())
    }
}

fn new_toleration(key: &str, seconds: i64) -> Value {
    let mut out = Value::object();
    for (name, text) in [("key", key), ("operator", "Exists"), ("effect", "NoExecute")] {
        out.set_at(&[name], text.into());
    }
    out.set_at(&["tolerationSeconds"], Value::Int(seconds));
    out
}
