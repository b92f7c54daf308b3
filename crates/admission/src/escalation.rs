//! Prevents privilege escalation: writing a role needs all rights in it or `escalate`, and binding a role needs its
//! rights or `bind`. This is not a plugin and cannot be disabled.

use crate::{Attributes, ClusterState, Operation};
use pintle_auth::authz::Attributes as Question;
use pintle_auth::authz::rbac::{Policy, PolicyKind, Rule, Rules};
use pintle_auth::{Authorizer, UserInfo};
use pintle_meta::Status;
use pintle_meta::field::quoted;
use pintle_value::Value;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Refuses a role or binding that grants more than its writer has.
pub(crate) fn check(
    request: &Attributes<'_>,
    object: &Value,
    cluster: &dyn ClusterState,
    authorizer: &dyn Authorizer,
) -> Result<(), Status> {
    let ours = request.kind.group == GROUP && request.subresource.is_empty();
    if !ours
        || request.user.in_group(UserInfo::MASTERS)
        || request.old.is_some_and(|old| only_for_gc(object, old))
    {
        return Ok(());
    }
    match request.kind.plural.as_str() {
        "roles" | "clusterroles" => check_role(request, object, cluster, authorizer),
        "rolebindings" | "clusterrolebindings" => check_binding(request, object, cluster, authorizer),
        _ => Ok(()),
    }
}

fn check_role(
    request: &Attributes<'_>,
    role: &Value,
    cluster: &dyn ClusterState,
    authorizer: &dyn Authorizer,
) -> Result<(), Status> {
    let name = if request.operation == Operation::Create { "" } else { request.name };
    if is_permitted(request, authorizer, "escalate", &request.kind.plural, name) {
        return Ok(());
    }
    let policy = load_policy(cluster);
    let rules: Vec<Rule> = role.items_at(&["rules"]).iter().map(Rule::from_value).collect();
    confirm(request, role, &policy, &rules)?;
    let aggregates = |role: &Value| !role.items_at(&["aggregationRule", "clusterRoleSelectors"]).is_empty();
    if aggregates(role) || request.old.is_some_and(aggregates) {
        let all = || vec!["*".to_string()];
        let of_resources = Rule { verbs: all(), api_groups: all(), resources: all(), ..no_rule() };
        let of_paths = Rule { verbs: all(), non_resource_urls: all(), ..no_rule() };
        if confirm(request, role, &policy, &[of_resources, of_paths]).is_err() {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(forbidden(request, role, why));
        }
    }
    Ok(())
}

fn check_binding(
    request: &Attributes<'_>,
    binding: &Value,
    cluster: &dyn ClusterState,
    authorizer: &dyn Authorizer,
) -> Result<(), Status> {
    let (kind, name) = (binding.str_at(&["roleRef", "kind"]), binding.str_at(&["roleRef", "name"]));
    let plural = match kind {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        _ => "",
    };
    if !plural.is_empty() && is_permitted(request, authorizer, "bind", plural, name) {
        return Ok(());
    }
    // kube-apiserver reads the role in the namespace of the binding, which has none.
    if plural == "roles" && request.namespace.is_empty() {
        return Err(Status::bad_request("Namespace parameter required."));
    }
    if !plural.is_empty() && name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    let policy = load_policy(cluster);
    let rules = match policy.role_rules(kind, name, request.namespace) {
        Ok(rules) => rules.to_vec(),
        Err(why) if plural.is_empty() => return Err(Status::unclassified(why)),
        Err(_) => return Err(Status::not_found(&request.kind.group_resource(), name)),
    };
    confirm(request, binding, &policy, &rules)
}

fn is_permitted(
    request: &Attributes<'_>,
    authorizer: &dyn Authorizer,
    verb: &str,
    resource: &str,
    name: &str,
) -> bool {
    let question = Question {
        user: request.user.clone().into(),
        verb: verb.to_string(),
        group: GROUP.to_string(),
        version: "*".to_string(),
        resource: resource.to_string(),
        name: name.to_string(),
        namespace: request.namespace.to_string(),
        resource_request: true,
        ..Question::default()
    };
    authorizer.authorize(&question).wait().is_allowed()
}

/// The RBAC policy from the current objects.
fn load_policy(cluster: &dyn ClusterState) -> Policy {
    let mut policy = Policy::default();
    for (plural, kind) in [
        ("roles", PolicyKind::Role),
        ("clusterroles", PolicyKind::ClusterRole),
        ("rolebindings", PolicyKind::RoleBinding),
        ("clusterrolebindings", PolicyKind::ClusterRoleBinding),
    ] {
        for object in cluster.objects(GROUP, plural, "") {
            policy.insert(kind, &object);
        }
    }
    policy
}

/// The number of permissions that are looked at one by one. A rule of some kilobytes can have a hundred million, because each of its
/// groups is combined with each resource, verb and name.
const ATOMS_MAX: usize = 200_000;
/// The number of missing permissions that an answer lists.
const MISSING_MAX: usize = 10_000;

/// The permissions of `rules` that `owned` does not have, as rules of one verb on one resource, up to [`MISSING_MAX`]. A rule
/// with too many permissions is missing as a whole, unless one of the owned rules covers it.
pub fn uncovered(owned: &[Rules], rules: &[Rule]) -> Vec<Rule> {
    let is_covered =
        |wanted: &Rule| owned.iter().flat_map(|rules| rules.iter()).any(|rule| covers(rule, wanted));
    let mut missing = Vec::new();
    let mut examined = 0_usize;
    for rule in rules.iter().filter(|rule| !is_covered(rule)) {
        let end = try_each_atom(rule, |atom| {
            examined = examined.saturating_add(1);
            if examined > ATOMS_MAX {
                missing.push(rule.clone());
            } else if !is_covered(&atom) {
                missing.push(atom);
            }
            let is_enough = examined > ATOMS_MAX || missing.len() >= MISSING_MAX;
            if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if end.is_break() {
            break;
        }
    }
    missing
}

/// Refuses rules that the writer does not have.
fn confirm(request: &Attributes<'_>, object: &Value, policy: &Policy, rules: &[Rule]) -> Result<(), Status> {
    let (mut owned, errors) = policy.rules_for(request.user, request.namespace);
    let mut seen = HashSet::new();
    owned.retain(|rules| seen.insert(Arc::as_ptr(rules)));
    let missing = uncovered(&owned, rules);
    if missing.is_empty() {
        return Ok(());
    }
    let descriptions: BTreeSet<String> = compact(missing).iter().map(describe_rule).collect();
    let descriptions: Vec<String> = descriptions.into_iter().collect();
    let mut why = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quoted(&request.user.name),
        list(&request.user.groups),
        descriptions.join("\n")
    );
    if !errors.is_empty() {
        why.push_str(&format!("; resolution errors: [{}]", errors.join(" ")));
    }
    Err(forbidden(request, object, &why))
}

fn forbidden(request: &Attributes<'_>, object: &Value, why: &str) -> Status {
    Status::forbidden(&request.kind.group_resource(), object.str_at(&["metadata", "name"]), why)
}

fn no_rule() -> Rule {
    Rule {
        verbs: Vec::new(),
        api_groups: Vec::new(),
        resources: Vec::new(),
        resource_names: Vec::new(),
        non_resource_urls: Vec::new(),
    }
}

/// Calls `visit` with each rule of one verb on one resource that a rule consists of.
fn try_each_atom(rule: &Rule, mut visit: impl FnMut(Rule) -> ControlFlow<()>) -> ControlFlow<()> {
    let one = |text: &String| vec![text.clone()];
    let names: Vec<Vec<String>> = match rule.resource_names.as_slice() {
        [] => vec![Vec::new()],
        names => names.iter().map(one).collect(),
    };
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                for name in &names {
                    visit(Rule {
                        api_groups: one(group),
                        resources: one(resource),
                        verbs: one(verb),
                        resource_names: name.clone(),
                        ..no_rule()
                    })?;
                }
            }
        }
    }
    for url in &rule.non_resource_urls {
        for verb in &rule.verbs {
            visit(Rule { non_resource_urls: one(url), verbs: one(verb), ..no_rule() })?;
        }
    }
    ControlFlow::Continue(())
}

/// Returns whether a rule covers another one: all its verbs on all its resources.
fn covers(rule: &Rule, atom: &Rule) -> bool {
    let has = |set: &[String], item: &str| set.iter().any(|own| own == item);
    let any = |set: &[String]| has(set, "*");
    let all = |set: &[String], wanted: &[String]| wanted.iter().all(|item| has(set, item));
    let resource = |wanted: &String| {
        let by_sub = wanted.split_once('/').is_some_and(|(_, sub)| has(&rule.resources, &format!("*/{sub}")));
        has(&rule.resources, wanted) || by_sub
    };
    let url = |wanted: &String| {
        rule.non_resource_urls
            .iter()
            .any(|own| own == wanted || (own.ends_with('*') && wanted.starts_with(own.trim_end_matches('*'))))
    };
    let names = if atom.resource_names.is_empty() {
        rule.resource_names.is_empty()
    } else {
        rule.resource_names.is_empty() || all(&rule.resource_names, &atom.resource_names)
    };
    (any(&rule.verbs) || all(&rule.verbs, &atom.verbs))
        && (any(&rule.api_groups) || all(&rule.api_groups, &atom.api_groups))
        && (any(&rule.resources) || atom.resources.iter().all(resource))
        && atom.non_resource_urls.iter().all(url)
        && names
}

/// Merges rules for one resource that differ only in their verbs.
fn compact(rules: Vec<Rule>) -> Vec<Rule> {
    let mut out: Vec<Rule> = Vec::new();
    let mut positions = HashMap::new();
    for rule in rules {
        let subject = (rule.api_groups.clone(), rule.resources.clone(), rule.resource_names.clone());
        let known = match rule.non_resource_urls.as_slice() {
            [] => *positions.entry(subject).or_insert(out.len()),
            _ => out.len(),
        };
        match out.get_mut(known) {
            Some(known) => known.verbs.extend(rule.verbs),
            None => out.push(rule),
        }
    }
    out
}

fn describe_rule(rule: &Rule) -> String {
    let parts = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let parts = parts
        .iter()
        .filter(|(_, items)| !items.is_empty())
        .map(|(key, items)| format!("{key}:{}", list(items)));
    format!("{{{}}}", parts.collect::<Vec<_>>().join(", "))
}

/// A list of strings in Go's `%q` format.
fn list(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", items.join(" "))
}

/// Returns whether an update only changes fields that garbage collection changes.
pub(crate) fn only_for_gc(object: &Value, old: &Value) -> bool {
    let stripped = |value: &Value| {
        let mut value = value.clone();
        for key in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
            value.remove_at(&["metadata", key]);
        }
        value
    };
    stripped(object) == stripped(old)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    fn rule(text: &str) -> Rule {
        Rule::from_value(&json::parse(text.as_bytes()).unwrap().value)
    }

    fn atoms(rule: &Rule) -> Vec<Rule> {
        let mut out = Vec::new();
        _ = try_each_atom(rule, |atom| {
            out.push(atom);
            ControlFlow::Continue(())
        });
        out
    }

    #[test]
    fn permissions_are_not_multiplied_without_limit() {
        let words = |prefix: &str| (0..30).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
        let bomb = Rule {
            verbs: words("v"),
            api_groups: words("g"),
            resources: words("r"),
            resource_names: words("n"),
            ..no_rule()
        };
        let all = rule(r#"{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}"#);
        assert!(uncovered(&[[all].into()], std::slice::from_ref(&bomb)).is_empty());
        assert_eq!(uncovered(&[], std::slice::from_ref(&bomb)).len(), MISSING_MAX);
        // Each of thirty rules covers a part, so that no permission is missing.
        let parts: Rules =
            words("v").into_iter().map(|verb| Rule { verbs: vec![verb], ..bomb.clone() }).collect();
        let missing = uncovered(&[parts], std::slice::from_ref(&bomb));
        assert!(matches!(missing.as_slice(), [one] if one.verbs.len() == 30), "refused as a whole");
    }

    #[test]
    fn what_a_rule_covers() {
        let own = rule(r#"{"verbs":["get","list"],"apiGroups":[""],"resources":["pods","*/status"]}"#);
        for (wanted, covered) in [
            (r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}"#, true),
            (r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":["x"]}"#, true),
            (r#"{"verbs":["get"],"apiGroups":[""],"resources":["nodes/status"]}"#, true),
            (r#"{"verbs":["get"],"apiGroups":["apps"],"resources":["pods"]}"#, false),
            (r#"{"verbs":["watch"],"apiGroups":[""],"resources":["pods"]}"#, false),
            (r#"{"verbs":["*"],"apiGroups":[""],"resources":["pods"]}"#, false),
            (r#"{"verbs":["get"],"nonResourceURLs":["/x"]}"#, false),
        ] {
            assert_eq!(atoms(&rule(wanted)).iter().all(|atom| covers(&own, atom)), covered, "{wanted}");
        }
    }

    #[test]
    fn missing_rules_are_told_compactly() {
        let wanted = rule(
            r#"{"verbs":["get","list"],"apiGroups":[""],"resources":["pods","secrets"],"nonResourceURLs":["/x"]}"#,
        );
        let descriptions: Vec<String> = compact(atoms(&wanted)).iter().map(describe_rule).collect();
        assert_eq!(
            descriptions,
            [
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}"#,
                r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#,
                r#"{NonResourceURLs:["/x"], Verbs:["list"]}"#,
            ]
        );
    }
}
