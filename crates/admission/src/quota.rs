//! ResourceQuota: computes the usage of an object and checks it against the quotas of its namespace.
//!
//! Nothing is written here: the caller stores the new usage in the same transaction as the object.

mod counted;
mod devices;
mod limits;
mod usage;

pub use limits::LimitedResource;
pub(crate) use usage::is_best_effort;

use crate::resources::{self, ResourceList};
use crate::{Attributes, ClusterState};
use counted::Counted;
use pintle_meta::quantity::Format;
use pintle_meta::{Quantity, Status};
use pintle_value::{Map, Str, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The new usage of a quota.
pub struct Charge {
    /// The quota at the time when its usage was computed.
    pub quota: Value,
    /// The quota's `status.used`.
    pub used: Value,
}

/// Computes the quota usage of a write, or denies it if a quota is exceeded or a quota that `limited` requires is
/// missing.
pub fn charge(
    request: &Attributes<'_>,
    object: &Value,
    limited: &[LimitedResource],
    cluster: &dyn ClusterState,
) -> Result<Vec<Charge>, Status> {
    if request.namespace.is_empty() {
        return Ok(Vec::new());
    }
    let kind = Counted::of(&request.kind.group, &request.kind.plural);
    if kind == Counted::Nothing || !kind.handles(request, object) {
        return Ok(Vec::new());
    }
    let quotas = cluster.objects("", "resourcequotas", request.namespace);
    if quotas.is_empty() && limited.is_empty() {
        return Ok(Vec::new());
    }
    let mut matched = Vec::new();
    for quota in &quotas {
        matched.extend(Matched::of(request, &kind, object, quota, cluster)?);
    }
    let usage = kind.usage_of(object, cluster);
    let negative: Vec<&str> = usage.iter().filter(|(_, q)| q.sign() < 0).map(|(n, _)| n.as_str()).collect();
    if !negative.is_empty() {
        let why = format!("quota usage is negative for resource(s): {}", negative.join(","));
        return Err(request.forbidden(Some(object), &why));
    }
    let less = |old: Option<&Value>| {
        let mut delta = usage.clone();
        for (resource, before) in old.map(|old| kind.usage_of(old, cluster)).unwrap_or_default() {
            if let Some(amount) = delta.get_mut(&resource) {
                amount.sub(&before);
            }
        }
        delta.retain(|_, amount| amount.sign() > 0);
        delta
    };
    for one in &mut matched {
        one.delta = less(request.old.filter(|old| kind.in_scopes(one.quota, old)));
    }
    let is_used = if matched.is_empty() {
        !less(request.old).is_empty()
    } else {
        matched.iter().any(|one| !one.delta.is_empty())
    };
    if !is_used {
        return Ok(Vec::new());
    }
    limits::check_covered(request, &kind, object, (limited, &quotas), &usage, &matched)?;
    let charges = matched.into_iter().filter_map(|one| one.charge(request, object).transpose());
    charges.collect()
}

/// A quota that counts a write.
struct Matched<'a> {
    quota: &'a Value,
    hard: ResourceList,
    used: ResourceList,
    /// The resources that the quota limits and the kind uses.
    tracked: Vec<String>,
    /// The usage that the write adds.
    delta: ResourceList,
}

impl<'a> Matched<'a> {
    fn of(
        request: &Attributes<'_>,
        kind: &Counted,
        object: &Value,
        quota: &'a Value,
        cluster: &dyn ClusterState,
    ) -> Result<Option<Self>, Status> {
        let hard = resources::list(quota.at(&["status", "hard"]));
        let used = resources::list(quota.at(&["status", "used"]));
        let tracked: Vec<String> = hard.keys().filter(|name| kind.tracks(name, cluster)).cloned().collect();
        if tracked.is_empty() || !kind.in_scopes(quota, object) {
            return Ok(None);
        }
        let name = quota.str_at(&["metadata", "name"]);
        let forbidden = |why: String| request.forbidden(Some(object), &why);
        if let Some(missing) = kind.unspecified(&tracked, object) {
            return Err(forbidden(format!("failed quota: {name}: must specify {missing}")));
        }
        if tracked.iter().any(|resource| !used.contains_key(resource)) {
            let names = tracked.join(",");
            return Err(forbidden(format!("status unknown for quota: {name}, resources: {names}")));
        }
        Ok(Some(Matched { quota, hard, used, tracked, delta: ResourceList::new() }))
    }

    /// The new usage; `None` if the write adds nothing that this quota limits.
    fn charge(mut self, request: &Attributes<'_>, object: &Value) -> Result<Option<Charge>, Status> {
        self.delta.retain(|resource, _| self.hard.contains_key(resource));
        let Matched { quota, hard, used, delta, .. } = self;
        if delta.is_empty() {
            return Ok(None);
        }
        let mut total = used.clone();
        resources::add(&mut total, &delta);
        let over = |resource: &&String| matches!((total.get(*resource), hard.get(*resource)), (Some(t), Some(h)) if t > h);
        // As in kube-apiserver, the usage that a status reports is charged even beyond the limit.
        let is_checked = request.subresource != "status";
        let exceeded: BTreeSet<&String> = delta.keys().filter(|_| is_checked).filter(over).collect();
        if !exceeded.is_empty() {
            let listed = |list: &ResourceList| {
                let parts =
                    list.iter().filter(|(n, _)| exceeded.contains(n)).map(|(n, q)| format!("{n}={q}"));
                parts.collect::<Vec<_>>().join(",")
            };
            let why = format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                quota.str_at(&["metadata", "name"]),
                listed(&delta),
                listed(&used),
                listed(&hard)
            );
            return Err(request.forbidden(Some(object), &why));
        }
        Ok(Some(Charge { quota: quota.clone(), used: to_value(&total) }))
    }
}

/// A list of resources as the API writes it.
pub fn to_value(list: &BTreeMap<String, Quantity>) -> Value {
    let entries =
        list.iter().map(|(name, amount)| (Str::from(name.as_str()), Value::from(amount.to_string())));
    entries.collect::<Map>().into()
}

/// Recomputes `status.used` of a quota from all objects of a namespace.
pub fn recount(quota: &Value, namespace: &str, kinds: &[(Str, Str)], cluster: &dyn ClusterState) -> Value {
    let hard = resources::list(quota.at(&["spec", "hard"]));
    let mut used = ResourceList::new();
    for name in hard.keys() {
        used.insert(name.clone(), Quantity::new(0, Format::DecimalSI));
    }
    for (group, plural) in kinds {
        let kind = Counted::of(group, plural);
        if kind == Counted::Nothing || !hard.keys().any(|name| kind.tracks(name, cluster)) {
            continue;
        }
        for object in cluster.objects(group, plural, namespace) {
            if kind.in_scopes(quota, &object) {
                let mut usage = kind.usage_of(&object, cluster);
                usage.retain(|name, _| hard.contains_key(name));
                resources::add(&mut used, &usage);
            }
        }
    }
    to_value(&used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, kind, text, tree, with_request};

    fn used(plural: &str, object: &str, old: Option<&str>, hard: &str, used: &str) -> String {
        let quota = format!(r#"{{"metadata":{{"name":"q"}},"status":{{"hard":{hard},"used":{used}}}}}"#);
        let cluster = Objects::of(&[("", "resourcequotas", &quota)]);
        let (kind, object, old) = (kind("", plural), tree(object), old.map(tree));
        match with_request(&kind, old.as_ref(), |request| charge(request, &object, &[], &cluster)) {
            Ok(charges) => charges.iter().map(|c| text(&c.used)).collect(),
            Err(status) => status.message.split_once("forbidden: ").unwrap().1.to_string(),
        }
    }

    #[test]
    fn what_objects_use_and_what_is_left() {
        let pod = r#"{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"300m"}}},{"name":"b","resources":{"requests":{"cpu":"200m"}}}]}}"#;
        let balancer = r#"{"spec":{"type":"LoadBalancer","ports":[{},{}]}}"#;
        for (plural, object, old, hard, before, after) in [
            (
                "pods",
                pod,
                None,
                r#"{"pods":"2","requests.cpu":"1"}"#,
                r#"{"pods":"1","requests.cpu":"500m"}"#,
                r#"{"pods":"2","requests.cpu":"1"}"#,
            ),
            (
                "pods",
                pod,
                None,
                r#"{"pods":"2","requests.cpu":"1"}"#,
                r#"{"pods":"1","requests.cpu":"501m"}"#,
                "exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=501m, limited: requests.cpu=1",
            ),
            (
                "pods",
                pod,
                None,
                r#"{"limits.cpu":"1"}"#,
                r#"{"limits.cpu":"0"}"#,
                "failed quota: q: must specify limits.cpu for: a,b",
            ),
            ("pods", pod, None, r#"{"pods":"1"}"#, "{}", "status unknown for quota: q, resources: pods"),
            (
                "secrets",
                "{}",
                None,
                r#"{"secrets":"3","count/secrets":"3"}"#,
                r#"{"secrets":"1","count/secrets":"1"}"#,
                r#"{"count/secrets":"2","secrets":"2"}"#,
            ),
            ("secrets", "{}", None, r#"{"pods":"0"}"#, r#"{"pods":"0"}"#, ""),
            (
                "services",
                balancer,
                Some(r#"{"spec":{"type":"ClusterIP","ports":[{},{}]}}"#),
                r#"{"services":"1","services.nodeports":"2","services.loadbalancers":"1"}"#,
                r#"{"services":"1","services.nodeports":"0","services.loadbalancers":"0"}"#,
                r#"{"services":"1","services.loadbalancers":"1","services.nodeports":"2"}"#,
            ),
        ] {
            assert_eq!(used(plural, object, old, hard, before), after, "{plural} {hard}");
        }
    }
}
