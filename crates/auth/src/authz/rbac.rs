//! Role-based access: rules of roles, bound to users, groups and service accounts.
//!
//! A `Policy` is compiled from Role, ClusterRole and binding objects. A watcher of those objects updates it in place, so that
//! an update costs no more than the objects that changed.

mod bindings;

use self::bindings::{Bindings, Source, binding_of};
use super::{Attributes, Authorizer, Authorizing, Decision, RulesFound};
use crate::{UserInfo, aggregate};
use pintle_meta::field::quoted;
use pintle_value::Value;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

/// One rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct Rule {
    pub verbs: Vec<String>,
    pub api_groups: Vec<String>,
    pub resources: Vec<String>,
    pub resource_names: Vec<String>,
    pub non_resource_urls: Vec<String>,
}

/// The rules of a role, shared with the bindings that refer to it.
pub type Rules = Arc<[Rule]>;

/// How many roles a decision looks at before it remembers those that do not allow the request. Most users have fewer, but
/// thousands of bindings can refer to one role with a hundred thousand names.
const ROLES_FORGOTTEN: usize = 8;
/// How many errors about missing roles a decision lists.
const ERRORS_MAX: usize = 1000;
/// How long the rules may be that are listed for a user, with the memory that they take. A role is listed once for each binding.
const LISTED_BYTES_MAX: usize = 8 << 20;
const NOT_ALL_LISTED: &str = "the rules are too long, so only the first ones are listed";

/// An immutable snapshot of all roles and bindings.
#[derive(Clone, Default)]
pub struct Policy {
    cluster_roles: HashMap<String, Rules>,
    roles: HashMap<String, HashMap<String, Rules>>,
    cluster_bindings: Bindings,
    bindings: HashMap<String, Bindings>,
}

/// Authorizes by a policy that can change at run time.
#[derive(Default)]
pub struct Rbac(RwLock<Policy>);

impl Rbac {
    /// Changes the policy; decisions wait until the change is complete.
    pub fn update(&self, change: impl FnOnce(&mut Policy)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn read<T>(&self, look: impl FnOnce(&Policy) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Authorizer for Rbac {
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a> {
        self.read(|policy| policy.authorize(attributes)).into()
    }

    fn rules_for(&self, user: &UserInfo, namespace: &str) -> RulesFound {
        let (roles, errors) = self.read(|policy| policy.rules_for(user, namespace));
        let mut found = RulesFound { rules: Vec::new(), incomplete: false, errors };
        let mut bytes = 0_usize;
        for rule in roles.iter().flat_map(|rules| rules.iter()) {
            bytes = bytes.saturating_add(rule.bytes());
            if bytes > LISTED_BYTES_MAX {
                found.incomplete = true;
                found.errors.push(NOT_ALL_LISTED.to_string());
                break;
            }
            found.rules.push(rule.clone());
        }
        found
    }
}

/// The four kinds of RBAC objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum PolicyKind {
    ClusterRole,
    Role,
    ClusterRoleBinding,
    RoleBinding,
}

impl Policy {
    /// Adds or updates an object.
    pub fn insert(&mut self, kind: PolicyKind, object: &Value) {
        let namespace = object.str_at(&["metadata", "namespace"]).to_string();
        let name = object.str_at(&["metadata", "name"]).to_string();
        match kind {
            PolicyKind::ClusterRole => _ = self.cluster_roles.insert(name, rules_of(object)),
            PolicyKind::Role => _ = self.roles.entry(namespace).or_default().insert(name, rules_of(object)),
            PolicyKind::ClusterRoleBinding => self.cluster_bindings.insert(binding_of(object), ""),
            PolicyKind::RoleBinding => {
                let bindings = self.bindings.entry(namespace.clone()).or_default();
                bindings.insert(binding_of(object), &namespace);
            }
        }
    }

    /// Removes an object.
    pub fn remove(&mut self, kind: PolicyKind, namespace: &str, name: &str) {
        match kind {
            PolicyKind::ClusterRole => _ = self.cluster_roles.remove(name),
            PolicyKind::Role => {
                if let Some(roles) = self.roles.get_mut(namespace) {
                    roles.remove(name);
                }
            }
            PolicyKind::ClusterRoleBinding => self.cluster_bindings.remove(name, ""),
            PolicyKind::RoleBinding => {
                if let Some(bindings) = self.bindings.get_mut(namespace) {
                    bindings.remove(name, namespace);
                }
            }
        }
    }

    /// Whether a rule allows this.
    pub fn authorize(&self, attributes: &Attributes) -> Decision {
        let mut reason = None;
        let mut errors = Vec::new();
        let (mut looked_at, mut not_allowing) = (0_usize, HashSet::new());
        self.visit(&attributes.user, &attributes.namespace, |source, rules| {
            match rules {
                Ok(rules) if not_allowing.contains(&Arc::as_ptr(rules)) => {}
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    reason = Some(source.reason())
                }
                Ok(_) if looked_at < ROLES_FORGOTTEN => looked_at = looked_at.saturating_add(1),
                Ok(rules) => _ = not_allowing.insert(Arc::as_ptr(rules)),
                Err(error) if errors.len() < ERRORS_MAX => errors.push(error),
                Err(_) => {}
            }
            reason.is_none()
        });
        match reason {
            Some(reason) => Decision::Allow(reason),
            None if errors.is_empty() => Decision::NoOpinion(String::new()),
            None => Decision::NoOpinion(format!("RBAC: {}", aggregate(errors))),
        }
    }

    /// The rules for a user in a namespace ("" for none), once for each binding, and errors.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<Rules>, Vec<String>) {
        let mut found = Vec::new();
        let mut errors = Vec::new();
        self.visit(user, namespace, |_, rules| {
            match rules {
                Ok(rules) => found.push(Arc::clone(rules)),
                Err(error) if errors.len() < ERRORS_MAX => errors.push(error),
                Err(_) => {}
            }
            true
        });
        (found, errors)
    }

    /// The rules of the role that a binding in `namespace` ("" for a cluster binding) refers to.
    pub fn role_rules(&self, kind: &str, name: &str, namespace: &str) -> Result<&Rules, String> {
        let missing = |word: &str| format!("{word}.rbac.authorization.k8s.io {} not found", quoted(name));
        match kind {
            "ClusterRole" => self.cluster_roles.get(name).ok_or_else(|| missing("clusterrole")),
            "Role" => {
                self.roles.get(namespace).and_then(|roles| roles.get(name)).ok_or_else(|| missing("role"))
            }
            _ => Err(format!("unsupported role reference kind: {}", quoted(kind))),
        }
    }

    /// Calls `visitor` with each applicable binding until it returns that it has enough: first with the cluster
    /// bindings, then with the bindings of the namespace.
    fn visit<'a>(
        &'a self,
        user: &UserInfo,
        namespace: &'a str,
        mut visitor: impl FnMut(&Source<'a>, Result<&'a Rules, String>) -> bool,
    ) {
        let local = self.bindings.get(namespace).filter(|_| !namespace.is_empty());
        let all = [Some((&self.cluster_bindings, "")), local.map(|bindings| (bindings, namespace))];
        for (bindings, namespace) in all.into_iter().flatten() {
            for binding in bindings.of(user) {
                let Some(subject) = binding.subjects.iter().find(|s| s.is_user(user, namespace)) else {
                    continue;
                };
                let rules = self.role_rules(&binding.role_kind, &binding.role_name, namespace);
                let source = Source { binding, subject, namespace };
                if !visitor(&source, rules) {
                    return;
                }
            }
        }
    }
}

impl Rule {
    /// Reads a rule of a Role or ClusterRole.
    pub fn from_value(value: &Value) -> Self {
        let strings =
            |key: &str| value.items_at(&[key]).iter().filter_map(Value::as_str).map(str::to_string).collect();
        Rule {
            verbs: strings("verbs"),
            api_groups: strings("apiGroups"),
            resources: strings("resources"),
            resource_names: strings("resourceNames"),
            non_resource_urls: strings("nonResourceURLs"),
        }
    }

    /// About how much memory the rule takes.
    fn bytes(&self) -> usize {
        let Rule { verbs, api_groups, resources, resource_names, non_resource_urls } = self;
        let lists = [verbs, api_groups, resources, resource_names, non_resource_urls];
        let texts = lists.into_iter().flatten().map(|text| text.len().saturating_add(size_of::<String>()));
        texts.fold(size_of::<Rule>(), usize::saturating_add)
    }

    /// Whether the rule allows this.
    pub fn allows(&self, a: &Attributes) -> bool {
        if !has(&self.verbs, &a.verb) {
            return false;
        }
        if !a.resource_request {
            return self.non_resource_urls.iter().any(|url| path_matches(url, &a.path));
        }
        has(&self.api_groups, &a.group)
            && self.resources.iter().any(|r| resource_matches(r, &a.resource, &a.subresource))
            && (self.resource_names.is_empty() || self.resource_names.contains(&a.name))
    }
}

/// Returns whether a list contains this or `*`.
fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

/// Returns whether a rule's resource matches. A review may ask for `pods/exec` as one word, which is compared as one,
/// and `*/exec` only matches a separate subresource.
fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == "*" {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    let rule_resource = rule.strip_suffix(subresource).and_then(|rest| rest.strip_suffix('/'));
    rule_resource.is_some_and(|rule_resource| rule_resource == "*" || rule_resource == resource)
}

fn path_matches(rule: &str, path: &str) -> bool {
    rule == "*" || rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}

fn rules_of(role: &Value) -> Rules {
    role.items_at(&["rules"]).iter().map(Rule::from_value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    fn policy(objects: &[(PolicyKind, &str)]) -> Policy {
        let mut policy = Policy::default();
        for (kind, text) in objects {
            policy.insert(*kind, &json::parse(text.as_bytes()).unwrap().value);
        }
        policy
    }

    fn asked(user: &str, verb: &str, path: &str) -> Attributes {
        let mut parts = path.split('/').map(str::to_string);
        let mut next = || parts.next().unwrap_or_default();
        Attributes {
            user: UserInfo::new(user, &["dev"]).into(),
            verb: verb.into(),
            resource_request: true,
            namespace: next(),
            resource: next(),
            name: next(),
            subresource: next(),
            ..Attributes::default()
        }
    }

    #[test]
    fn rules_are_found_through_bindings() {
        let policy = policy(&[
            (
                PolicyKind::ClusterRole,
                r#"{"metadata":{"name":"view"},"rules":[{"verbs":["get","list"],"apiGroups":[""],"resources":["pods","*/scale"]}]}"#,
            ),
            (
                PolicyKind::ClusterRoleBinding,
                r#"{"metadata":{"name":"b"},"roleRef":{"kind":"ClusterRole","name":"view"},"subjects":[{"kind":"Group","name":"dev"}]}"#,
            ),
            (
                PolicyKind::Role,
                r#"{"metadata":{"name":"one","namespace":"x"},"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["secrets"],"resourceNames":["s"]}]}"#,
            ),
            (
                PolicyKind::RoleBinding,
                r#"{"metadata":{"name":"c","namespace":"x"},"roleRef":{"kind":"Role","name":"one"},"subjects":[{"kind":"ServiceAccount","name":"sa"}]}"#,
            ),
        ]);
        let allowed = |a: Attributes| matches!(policy.authorize(&a), Decision::Allow(_));
        assert!(allowed(asked("alice", "list", "x/pods")));
        assert!(allowed(asked("alice", "get", "/rs/a/scale")));
        assert!(!allowed(asked("alice", "get", "x/pods/a/log")));
        assert!(!allowed(asked("alice", "delete", "x/pods/a")));
        assert!(allowed(asked("system:serviceaccount:x:sa", "delete", "x/secrets/s")));
        assert!(!allowed(asked("system:serviceaccount:x:sa", "delete", "y/secrets/s")));
        assert!(!allowed(asked("system:serviceaccount:x:sa", "list", "x/secrets")));
        let Decision::Allow(why) =
            policy.authorize(&asked("system:serviceaccount:x:sa", "get", "x/secrets/s"))
        else {
            panic!("allowed")
        };
        assert_eq!(&*why, "RBAC: allowed by RoleBinding \"c/x\" of Role \"one\" to ServiceAccount \"sa/x\"");
    }

    #[test]
    fn resources_are_compared_with_their_subresources() {
        for (rule, resource, subresource, want) in [
            ("*", "pods", "exec", true),
            ("pods", "pods", "", true),
            ("pods", "pods", "exec", false),
            ("pods/exec", "pods", "exec", true),
            ("pods/exec", "pods", "", false),
            ("pods/exec", "pods/exec", "", true),
            ("*/exec", "pods", "exec", true),
            ("*/exec", "pods/exec", "", false),
            ("x/exec", "pods", "exec", false),
        ] {
            assert_eq!(
                resource_matches(rule, resource, subresource),
                want,
                "{rule} {resource} {subresource}"
            );
        }
    }

    #[test]
    fn missing_roles_are_the_reason() {
        let policy = policy(&[(
            PolicyKind::ClusterRoleBinding,
            r#"{"metadata":{"name":"b"},"roleRef":{"kind":"ClusterRole","name":"none"},"subjects":[{"kind":"User","name":"alice"}]}"#,
        )]);
        let want = "RBAC: clusterrole.rbac.authorization.k8s.io \"none\" not found";
        assert_eq!(policy.authorize(&asked("alice", "get", "x/pods/a")), Decision::NoOpinion(want.into()));
    }

    /// A thousand bindings to one role with ten thousand names.
    #[test]
    fn a_role_with_many_bindings_is_looked_at_once() {
        let rbac = Rbac::default();
        let names: Vec<String> = (0..10_000).map(|n| format!("\"name-{n}\"")).collect();
        rbac.update(|policy| {
            let mut insert = |kind, text: &str| policy.insert(kind, &json::parse(text.as_bytes()).unwrap().value);
            insert(
                PolicyKind::Role,
                &format!(
                    r#"{{"metadata":{{"name":"r","namespace":"x"}},"rules":[{{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":[{}]}}]}}"#,
                    names.join(",")
                ),
            );
            for n in 0..1000 {
                let binding = format!(
                    r#"{{"metadata":{{"name":"b{n}","namespace":"x"}},"roleRef":{{"kind":"Role","name":"r"}},"subjects":[{{"kind":"Group","name":"dev"}}]}}"#
                );
                insert(PolicyKind::RoleBinding, &binding);
            }
        });
        let found = rbac.rules_for(&UserInfo::new("alice", &["dev"]), "x");
        assert!(found.incomplete && (1..100).contains(&found.rules.len()), "{} rules", found.rules.len());
        assert_eq!(found.errors, [NOT_ALL_LISTED]);
        assert!(rbac.authorize(&asked("alice", "get", "x/pods/name-9999")).wait().is_allowed());
        let time = |user: &str, count: u32| {
            let question = asked(user, "get", "x/pods/name-none");
            let begin = std::time::Instant::now();
            assert!((0..count).all(|_| !rbac.authorize(&question).wait().is_allowed()));
            begin.elapsed() / count
        };
        // With each binding it takes a thousand times as long as one role.
        let one = {
            let rules = rbac.read(|policy| policy.role_rules("Role", "r", "x").unwrap().clone());
            let question = asked("alice", "get", "x/pods/name-none");
            let begin = std::time::Instant::now();
            assert!((0..10).all(|_| !rules.iter().any(|rule| rule.allows(&question))));
            begin.elapsed() / 10
        };
        assert!((0..5).any(|_| time("alice", 3) < one * 100), "{:?} {one:?}", time("alice", 3));
    }

    /// Measures decisions with 10,000 bindings of other users and a few of the user's own: `cargo nextest run
    /// --run-ignored only`.
    #[test]
    #[ignore = "measures; prints what a decision costs"]
    fn cost_of_a_decision() {
        let rbac = Rbac::default();
        rbac.update(|policy| {
            let mut insert = |kind, text: String| policy.insert(kind, &json::parse(text.as_bytes()).unwrap().value);
            for index in 0..10_000 {
                let role = format!(r#"{{"metadata":{{"name":"r{index}"}},"rules":[{{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}}]}}"#);
                insert(PolicyKind::ClusterRole, role);
                let binding = format!(r#"{{"metadata":{{"name":"b{index}"}},"roleRef":{{"kind":"ClusterRole","name":"r{index}"}},"subjects":[{{"kind":"User","name":"u{}"}}]}}"#, index / 4);
                insert(PolicyKind::ClusterRoleBinding, binding);
            }
        });
        let questions: Vec<Attributes> = (0..10_000)
            .map(|index| {
                asked(
                    &format!("u{}", index % 3000),
                    if index % 2 == 0 { "get" } else { "delete" },
                    "x/pods/a",
                )
            })
            .collect();
        let begin = std::time::Instant::now();
        let allowed = questions.iter().filter(|q| rbac.authorize(q).wait().is_allowed()).count();
        let each = begin.elapsed() / 10_000;
        println!("{each:?} per decision, {allowed} allowed");
        assert!(cfg!(debug_assertions) || each < std::time::Duration::from_micros(5));
    }

    #[test]
    fn paths_match_by_prefix() {
        for (rule, path, want) in [
            ("*", "/a", true),
            ("/healthz/*", "/healthz/x", true),
            ("/healthz/*", "/healthz", false),
            ("/version", "/version/", false),
        ] {
            assert_eq!(path_matches(rule, path), want, "{rule} {path}");
        }
    }
}
