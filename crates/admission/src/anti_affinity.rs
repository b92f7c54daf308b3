//! LimitPodHardAntiAffinityTopology: required pod anti-affinity may only use the topology of a single node.

use crate::{Plugin, Validation};
use pintle_meta::Status;

const HOST: &str = "kubernetes.io/hostname";
const TERMS: [&str; 4] =
    ["spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];

pub(crate) struct LimitPodHardAntiAffinityTopology;

impl Plugin for LimitPodHardAntiAffinityTopology {
    fn validate(&self, Validation { request, object, .. }: Validation<'_>) -> Result<(), Status> {
        let ours = request.is("", "pods") && request.subresource.is_empty();
        let Some(pod) = object.filter(|_| ours) else { return Ok(()) };
        let mut keys = pod.items_at(&TERMS).iter().map(|term| term.str_at(&["topologyKey"]));
        let Some(key) = keys.find(|key| *key != HOST) else { return Ok(()) };
        let why = format!(
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOST} is allowed"
        );
        Err(Status::forbidden(&request.kind.group_resource(), pod.str_at(&["metadata", "name"]), &why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, admitted, kind};

    #[test]
    fn only_hosts_may_be_kept() {
        let pods = kind("", "pods");
        let of = |key: &str| {
            format!(
                r#"{{"metadata":{{"name":"x"}},"spec":{{"affinity":{{"podAntiAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[{{"topologyKey":"{key}"}}]}}}}}}}}"#
            )
        };
        let ask = |key: &str| {
            admitted(&LimitPodHardAntiAffinityTopology, &pods, &of(key), &Objects::of(&[])).map(drop)
        };
        assert_eq!(ask(HOST), Ok(()));
        assert_eq!(
            ask("zone"),
            Err("pods \"x\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone \
                 but only key kubernetes.io/hostname is allowed"
                .to_string())
        );
    }
}
