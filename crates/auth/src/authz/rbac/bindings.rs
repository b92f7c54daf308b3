//! Role bindings: their subjects, an index by user and group, and the text that names a binding in decisions.

use crate::UserInfo;
use pintle_meta::field::quoted;
use pintle_value::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub(super) role_kind: String,
    pub(super) role_name: String,
    pub(super) subjects: Vec<Subject>,
}

#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) namespace: String,
}

/// Bindings of the cluster or of one namespace, indexed by the users and groups they name. A decision only costs the
/// user's own bindings, however many others there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Bindings {
    pub(super) all: BTreeMap<String, Binding>,
    /// Names of bindings by the name of a user, or of a service account's user.
    of_users: HashMap<String, BTreeSet<String>>,
    of_groups: HashMap<String, BTreeSet<String>>,
}

impl Bindings {
    /// `namespace` is that of the binding, "" for a cluster binding.
    pub(super) fn insert(&mut self, name: String, binding: Binding, namespace: &str) {
        self.remove(&name, namespace);
        for subject in &binding.subjects {
            if let Some((is_group, key)) = subject.key(namespace) {
                let index = if is_group { &mut self.of_groups } else { &mut self.of_users };
                index.entry(key).or_default().insert(name.clone());
            }
        }
        self.all.insert(name, binding);
    }

    pub(super) fn remove(&mut self, name: &str, namespace: &str) {
        let Some(binding) = self.all.remove(name) else { return };
        for subject in &binding.subjects {
            let Some((is_group, key)) = subject.key(namespace) else { continue };
            let index = if is_group { &mut self.of_groups } else { &mut self.of_users };
            if let Some(names) = index.get_mut(&key) {
                names.remove(name);
                if names.is_empty() {
                    index.remove(&key);
                }
            }
        }
    }

    /// The bindings of this user and their groups, by name.
    pub(super) fn of<'a>(&'a self, user: &UserInfo) -> impl Iterator<Item = (&'a str, &'a Binding)> {
        let by_name = self.of_users.get(&user.name);
        let by_group = user.groups.iter().filter_map(|group| self.of_groups.get(group));
        let mut names: Vec<&'a String> = by_name.into_iter().chain(by_group).flatten().collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().filter_map(|name| Some((name.as_str(), self.all.get(name)?)))
    }
}

/// The binding and subject that a rule comes from.
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) binding: &'a Binding,
    pub(super) subject: &'a Subject,
    pub(super) namespace: &'a str,
}

impl Source<'_> {
    pub(super) fn describe(&self) -> String {
        let (kind, full_name) = match self.namespace {
            "" => ("ClusterRoleBinding", self.name.to_string()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let subject = match self.subject.kind.as_str() {
            "ServiceAccount" => {
                let own = self.subject.namespace.as_str();
                format!("{}/{}", self.subject.name, if own.is_empty() { self.namespace } else { own })
            }
            _ => self.subject.name.clone(),
        };
        format!(
            "{kind} {} of {} {} to {} {}",
            quoted(&full_name),
            self.binding.role_kind,
            quoted(&self.binding.role_name),
            self.subject.kind,
            quoted(&subject)
        )
    }
}

impl Subject {
    /// Whether it is a group, and the name of the group or user; `None` matches no user.
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

    pub(super) fn is(&self, user: &UserInfo, binding_namespace: &str) -> bool {
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
    };
    Binding {
        role_kind: object.str_at(&["roleRef", "kind"]).to_string(),
        role_name: object.str_at(&["roleRef", "name"]).to_string(),
        subjects: object.items_at(&["subjects"]).iter().map(subject).collect(),
    }
}
