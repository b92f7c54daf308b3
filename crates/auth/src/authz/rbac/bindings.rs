//! Role bindings: their subjects, an index by user and group, and the text that names a binding in decisions.

use crate::UserInfo;
use pintle_meta::field::quoted;
use pintle_value::Value;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) role_kind: String,
    pub(super) role_name: String,
    pub(super) subjects: Vec<Subject>,
}

#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) namespace: String,
    /// The text that names this subject of the binding in decisions, made on first use: few subjects make requests, but
    /// these make many.
    reason: OnceLock<Arc<str>>,
}

/// Bindings of the cluster or of one namespace, indexed by the users and groups they name. A decision only costs the
/// user's own bindings, however many others there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Bindings {
    all: HashMap<String, Arc<Binding>>,
    /// Bindings by the name of a user, or of a service account's user; sorted by their own names.
    of_users: HashMap<String, Vec<Arc<Binding>>>,
    of_groups: HashMap<String, Vec<Arc<Binding>>>,
}

impl Bindings {
    /// `namespace` is that of the binding, "" for a cluster binding.
    pub(super) fn insert(&mut self, binding: Binding, namespace: &str) {
        self.remove(&binding.name, namespace);
        let binding = Arc::new(binding);
        for subject in &binding.subjects {
            if let Some((is_group, key)) = subject.key(namespace) {
                let index = if is_group { &mut self.of_groups } else { &mut self.of_users };
                let bindings = index.entry(key).or_default();
                // A binding may name a subject twice.
                if let Err(place) = bindings.binary_search_by(|other| other.name.cmp(&binding.name)) {
                    bindings.insert(place, Arc::clone(&binding));
                }
            }
        }
        self.all.insert(binding.name.clone(), binding);
    }

    pub(super) fn remove(&mut self, name: &str, namespace: &str) {
        let Some(binding) = self.all.remove(name) else { return };
        for subject in &binding.subjects {
            let Some((is_group, key)) = subject.key(namespace) else { continue };
            let index = if is_group { &mut self.of_groups } else { &mut self.of_users };
            if let Some(bindings) = index.get_mut(&key) {
                bindings.retain(|other| other.name != name);
                if bindings.is_empty() {
                    index.remove(&key);
                }
            }
        }
    }

    /// The bindings of this user and their groups, by name.
    pub(super) fn of<'a>(&'a self, user: &UserInfo) -> Vec<&'a Binding> {
        let by_name = self.of_users.get(&user.name);
        let by_group = user.groups.iter().filter_map(|group| self.of_groups.get(group));
        let mut all: Vec<&'a Binding> =
            by_name.into_iter().chain(by_group).flatten().map(|binding| &**binding).collect();
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        all.dedup_by(|a, b| std::ptr::eq(*a, *b));
        all
    }
}

/// The binding and subject that a rule comes from.
pub(super) struct Source<'a> {
    pub(super) binding: &'a Binding,
    pub(super) subject: &'a Subject,
    pub(super) namespace: &'a str,
}

impl Source<'_> {
    /// The reason of a decision that is based on the binding.
    pub(super) fn reason(&self) -> Arc<str> {
        Arc::clone(self.subject.reason.get_or_init(|| self.describe_binding().into()))
    }

    fn describe_binding(&self) -> String {
        let name = &self.binding.name;
        let (kind, full_name) = match self.namespace {
            "" => ("ClusterRoleBinding", name.clone()),
            namespace => ("RoleBinding", format!("{name}/{namespace}")),
        };
        let subject = match self.subject.kind.as_str() {
            "ServiceAccount" => {
                let own = self.subject.namespace.as_str();
                format!("{}/{}", self.subject.name, if own.is_empty() { self.namespace } else { own })
            }
            _ => self.subject.name.clone(),
        };
        format!(
            "RBAC: allowed by {kind} {} of {} {} to {} {}",
            quoted(&full_name),
            self.binding.role_kind,
            quoted(&self.binding.role_name),
            self.subject.kind,
            quoted(&subject)
        )
    }
}

impl Subject {
    /// Whether the subject is a group, and the name of the group or user; `None` matches no user.
    fn key(&self, binding_namespace: &str) -> Option<(bool, String)> {
        match self.kind.as_str() {
            "User" => Some((false, self.name.clone())),
            "Group" => Some((true, self.name.clone())),
            "ServiceAccount" => {
                let namespace = if self.namespace.is_empty() { binding_namespace } else { &self.namespace };
                let user = format!("system:serviceaccount:{namespace}:{}", self.name);
                (!namespace.is_empty()).then_some((false, user))
            }
            _ => None,
        }
    }

    pub(super) fn is_user(&self, user: &UserInfo, binding_namespace: &str) -> bool {
        match self.kind.as_str() {
            "User" => user.name == self.name,
            "Group" => user.in_group(&self.name),
            "ServiceAccount" => {
                let namespace = if self.namespace.is_empty() { binding_namespace } else { &self.namespace };
                let account = user.name.strip_prefix("system:serviceaccount:");
                !namespace.is_empty()
                    && account
                        .and_then(|rest| rest.strip_prefix(namespace))
                        .and_then(|rest| rest.strip_prefix(':'))
                        .is_some_and(|name| name == self.name)
            }
            _ => false,
        }
    }
}

pub(super) fn binding_of(object: &Value) -> Binding {
    let subject = |s: &Value| Subject {
        kind: s.str_at(&["kind"]).to_string(),
        name: s.str_at(&["name"]).to_string(),
        namespace: s.str_at(&["namespace"]).to_string(),
        reason: OnceLock::new(),
    };
    Binding {
        name: object.str_at(&["metadata", "name"]).to_string(),
        role_kind: object.str_at(&["roleRef", "kind"]).to_string(),
        role_name: object.str_at(&["roleRef", "name"]).to_string(),
        subjects: object.items_at(&["subjects"]).iter().map(subject).collect(),
    }
}
