//! Name conflicts between definitions: of two that claim the same name in a group, the first keeps it.

use pintle_kinds::definition::{Condition, has_invalid_webhook_ca_bundle};
use pintle_value::{Str, Value};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The accepted names of all definitions.
#[derive(Default)]
pub(super) struct Claims {
    /// The claims by group and name of the definition.
    groups: HashMap<Str, BTreeMap<Str, Claim>>,
}

#[derive(Clone, PartialEq)]
struct Claim {
    accepted: Value,
    /// Whether the definition requests other names than it has.
    waits: bool,
    served: Vec<Str>,
}

impl Claims {
    /// Records the names of a definition; returns whether they changed.
    pub(super) fn put(&mut self, definition: &Value) -> bool {
        let accepted = definition.at(&["status", "acceptedNames"]).cloned().unwrap_or_default();
        let is_served = |v: &&Value| v.get("served").and_then(Value::as_bool) == Some(true);
        let versions = definition.items_at(&["spec", "versions"]).iter().filter(is_served);
        let claim = Claim {
            waits: Some(&accepted) != definition.at(&["spec", "names"]),
            accepted,
            served: versions.map(|v| Str::from(v.str_at(&["name"]))).collect(),
        };
        let group = self.groups.entry(definition.str_at(&["spec", "group"]).into()).or_default();
        let old = group.insert(definition.str_at(&["metadata", "name"]).into(), claim.clone());
        old.is_none_or(|old| old.accepted != claim.accepted)
    }

    /// Frees the names of a definition; returns whether it had any.
    pub(super) fn remove(&mut self, group: &str, name: &str) -> bool {
        let Some(claims) = self.groups.get_mut(group) else { return false };
        let had = claims.remove(name).is_some();
        if claims.is_empty() {
            self.groups.remove(group);
        }
        had
    }

    /// The other definitions of a group that lack some of their requested names.
    pub(super) fn others_waiting(&self, group: &str, name: &str) -> Vec<Str> {
        let Some(claims) = self.groups.get(group) else { return Vec::new() };
        claims
            .iter()
            .filter(|(other, claim)| *other != name && claim.waits)
            .map(|(other, _)| other.clone())
            .collect()
    }

    /// Returns whether any definition of the group serves the version.
    pub(super) fn serves(&self, group: &str, version: &str) -> bool {
        let Some(claims) = self.groups.get(group) else { return false };
        claims.values().any(|claim| claim.served.iter().any(|v| v == version))
    }

    /// The resource names and kinds that are taken in a group.
    fn taken(&self, group: &str) -> (HashSet<&str>, HashSet<&str>) {
        let (mut resources, mut kinds) = (HashSet::new(), HashSet::new());
        for Claim { accepted, .. } in self.groups.get(group).into_iter().flat_map(BTreeMap::values) {
            resources.extend([accepted.str_at(&["plural"]), accepted.str_at(&["singular"])]);
            resources.extend(accepted.items_at(&["shortNames"]).iter().filter_map(Value::as_str));
            kinds.extend([accepted.str_at(&["kind"]), accepted.str_at(&["listKind"])]);
        }
        (resources, kinds)
    }
}

/// Accepts the requested names of a definition that are free, and sets its conditions accordingly.
pub(super) fn update_conditions(claims: &Claims, definition: &mut Value, now: &str) {
    let requested = definition.at(&["spec", "names"]).cloned().unwrap_or_default();
    let had = definition.at(&["status", "acceptedNames"]).cloned().unwrap_or_default();
    if requested == had {
        establish(definition, now);
        return;
    }
    let (accepted, conflict) = accept(claims, definition.str_at(&["spec", "group"]), &requested, &had);
    let naming = match &conflict {
        Some((reason, message)) => Condition { kind: "NamesAccepted", status: "False", reason, message },
        None => Condition {
            kind: "NamesAccepted",
            status: "True",
            reason: "NoConflicts",
            message: "no conflicts found",
        },
    };
    if accepted == had && Condition::of(definition, "NamesAccepted").as_ref() == Some(&naming) {
        return;
    }
    definition.set_at(&["status", "acceptedNames"], accepted);
    naming.set(definition, now);
    if conflict.is_some() {
        let refused = Condition {
            kind: "Established",
            status: "False",
            reason: "NotAccepted",
            message: "not all names are accepted",
        };
        // Setting the same condition again gives it a time if a client wrote it without one.
        let live = definition.clone();
        Condition::of(&live, "Established").unwrap_or(refused).set(definition, now);
    }
    establish(definition, now);
}

/// Sets Established once all names are accepted and the webhook's CA bundle is valid. It is never unset.
fn establish(definition: &mut Value, now: &str) {
    let accepted = Condition::is_true(definition, "NamesAccepted");
    if !accepted || Condition::is_true(definition, "Established") {
        return;
    }
    let outcome = if has_invalid_webhook_ca_bundle(definition) {
        Condition {
            kind: "Established",
            status: "False",
            reason: "InvalidCABundle",
            message: "The conversion webhook CABundle is invalid",
        }
    } else {
        Condition {
            kind: "Established",
            status: "True",
            reason: "InitialNamesAccepted",
            message: "the initial names have been accepted",
        }
    };
    if Condition::of(definition, "Established").as_ref() != Some(&outcome) {
        outcome.set(definition, now);
    }
}

/// Returns the accepted names, and reason and message of the last conflict if some were not accepted.
fn accept(
    claims: &Claims,
    group: &str,
    requested: &Value,
    had: &Value,
) -> (Value, Option<(&'static str, String)>) {
    let (resources, kinds) = claims.taken(group);
    let mut accepted = had.clone();
    let text_conflict = |key: &str, taken: &HashSet<&str>| {
        let name = requested.str_at(&[key]);
        (name != had.str_at(&[key]) && taken.contains(name)).then(|| in_use(name))
    };
    let checks = [
        ("plural", "PluralConflict", text_conflict("plural", &resources)),
        ("singular", "SingularConflict", text_conflict("singular", &resources)),
        ("shortNames", "ShortNamesConflict", short_names_conflict(requested, had, &resources)),
        ("kind", "KindConflict", text_conflict("kind", &kinds)),
        ("listKind", "ListKindConflict", text_conflict("listKind", &kinds)),
    ];
    let mut conflict = None;
    for (key, reason, taken) in checks {
        match taken {
            Some(message) => conflict = Some((reason, message)),
            None => take(&mut accepted, requested, key),
        }
    }
    take(&mut accepted, requested, "categories");
    (accepted, conflict)
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", pintle_meta::field::quoted(name))
}

/// The conflict of newly requested short names, if there is one.
fn short_names_conflict(requested: &Value, had: &Value, taken: &HashSet<&str>) -> Option<String> {
    let own = had.items_at(&["shortNames"]);
    let mut messages: Vec<String> = Vec::new();
    for name in requested
        .items_at(&["shortNames"])
        .iter()
        .filter(|name| !own.contains(name))
        .filter_map(Value::as_str)
    {
        let message = in_use(name);
        if taken.contains(name) && !messages.contains(&message) {
            messages.push(message);
        }
    }
    match messages.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

/// Copies the member `key` from `from`, or removes it if absent.
fn take(object: &mut Value, from: &Value, key: &str) {
    match from.get(key) {
        Some(value) => object.set_at(&[key], value.clone()),
        None => _ = object.remove_at(&[key]),
    }
}

/// Sets the condition about API approval for definitions in protected groups.
pub(super) fn note_approval(definition: &mut Value, now: &str) {
    let Some((status, reason, message)) = pintle_kinds::approval::condition(definition) else { return };
    let condition =
        Condition { kind: "KubernetesAPIApprovalPolicyConformant", status, reason, message: &message };
    if Condition::of(definition, condition.kind).as_ref() != Some(&condition) {
        condition.set(definition, now);
    }
}
