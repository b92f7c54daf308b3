//! Admission: the chain of built-in plugins that may change or reject a write. One file per plugin.
//!
//! Plugins receive trees in the stored version and read other objects through [`ClusterState`]. They do no I/O, except
//! for ImagePolicyWebhook, which calls a webhook.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod always_deny;
mod always_pull_images;
mod anti_affinity;
pub mod cel;
mod certificates;
mod chain;
mod config;
mod default_classes;
mod default_toleration_seconds;
mod durations;
pub mod escalation;
mod event_rate_limit;
mod extended_resource_toleration;
mod external_ips;
mod image_policy;
mod limit_ranger;
pub mod manifest;
pub mod matching;
mod namespace_exists;
mod namespace_lifecycle;
mod node_declared_features;
mod node_restriction;
mod owner_references;
mod pod_groups;
mod pod_node_selector;
mod pod_resize;
mod pod_security;
mod pod_toleration_restriction;
mod pod_topology_labels;
pub mod policy;
mod priority;
pub mod quota;
mod request;
mod resources;
mod runtime_class;
mod service_account;
mod storage;
mod taint_nodes;
#[cfg(test)]
mod testing;
mod tolerations;
pub mod webhook;
mod webhook_config;

pub use chain::{Chain, Settings, SettingsError, plugin_faults};
pub use config::{AdmissionConfiguration, ConfigError};
pub use durations::{EnginePlugin, Measuring, Step, observe_first_plugin};
pub use request::{Options, admission_request};
pub use webhook_config::WebhookConfig;

use pintle_auth::UserInfo;
use pintle_kinds::{Kind, KindVersion};
use pintle_meta::{GroupVersion, GroupVersionKind, Status};
use pintle_value::{Map, Str, Value};
use std::future::Future;
use std::pin::Pin;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// The attributes of a request that plugins see beside the object.
pub struct Attributes<'a> {
    /// The operation.
    pub operation: Operation,
    /// The kind of the object.
    pub kind: &'a Kind,
    /// The version of the request.
    pub version: &'a KindVersion,
    /// The namespace of the request; "" for cluster-scoped kinds. For a Namespace, its own name.
    pub namespace: &'a str,
    /// The name of the object; "" before it is generated.
    pub name: &'a str,
    /// Subresource; "" for the object itself.
    pub subresource: &'a str,
    /// The current object, on update and delete.
    pub old: Option<&'a Value>,
    /// The user who sent the request.
    pub user: &'a UserInfo,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// The options of the request.
    pub options: Options<'a>,
}

impl Attributes<'_> {
    /// Whether the request is for this resource (or one of its subresources).
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.kind.group == group && self.kind.plural == plural
    }

    /// The kind of the request's object in a version; for a subresource with a kind of its own, that kind.
    pub fn kind_in(&self, version: &KindVersion) -> GroupVersionKind {
        let sub = version.subresource(self.subresource).filter(|_| !self.subresource.is_empty());
        sub.map_or_else(|| version.gvk(self.kind), |sub| sub.gvk.clone())
    }

    /// The rejection of a request; `object` is the object that it would have stored.
    pub fn forbidden(&self, object: Option<&Value>, why: &str) -> Status {
        let given = |key: &str| object.map_or("", |o| o.str_at(&["metadata", key]));
        let names = [self.name, given("name"), given("generateName"), "Unknown"];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        Status::forbidden(&self.kind.group_resource(), name, why)
    }
}

/// Read access of plugins to other objects.
pub trait ClusterState: Send + Sync {
    /// Returns one object.
    fn object(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value>;

    /// The `status.phase` of a namespace; `None` if it does not exist. Most writes need it.
    fn namespace_phase(&self, name: &str) -> Option<Str> {
        self.object("", "namespaces", "", name).map(|namespace| namespace.str_at(&["status", "phase"]).into())
    }

    /// The labels of a namespace; `None` if it does not exist. Every write of a pod or of a pod template needs them.
    fn namespace_labels(&self, name: &str) -> Option<Vec<(Str, Str)>> {
        let namespace = self.object("", "namespaces", "", name)?;
        let labels = namespace.at(&["metadata", "labels"]).and_then(Value::as_object);
        let labels = labels.map(Map::as_slice).unwrap_or_default();
        let text = |value: &Value| Str::from(value.as_str().unwrap_or_default());
        Some(labels.iter().map(|(key, value)| (key.clone(), text(value))).collect())
    }

    /// The cluster-scoped objects of a kind whose stored JSON contains a text, in whichever field. Few objects do, so the
    /// others need not be decoded.
    fn objects_containing(&self, group: &str, plural: &str, _json: &str) -> Vec<Value> {
        self.objects(group, plural, "")
    }

    /// All objects of a kind, in one namespace or in all ("").
    fn objects(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value>;

    /// Returns objects of a kind in one of its versions: in one namespace or in all (""), with one name or any ("").
    fn objects_in(&self, version: &GroupVersion, kind: &str, namespace: &str, name: &str) -> Vec<Value>;

    /// Returns the plural name of a kind, and whether it is namespaced; `None` if it is not served.
    fn resource(&self, version: &GroupVersion, kind: &str) -> Option<(String, bool)>;

    /// Returns a random number.
    fn random(&self) -> u64;

    /// Returns the time, in seconds since 1970.
    fn now(&self) -> i64;
}

/// A request whose object a plugin may change.
#[expect(missing_docs, reason = "the names say it")]
pub struct Mutation<'a> {
    pub request: &'a Attributes<'a>,
    pub object: &'a mut Value,
    pub cluster: &'a dyn ClusterState,
}

/// A request whose object a plugin may refuse. A deletion has no object.
#[expect(missing_docs, reason = "the names say it")]
pub struct Validation<'a> {
    pub request: &'a Attributes<'a>,
    pub object: Option<&'a Value>,
    pub cluster: &'a dyn ClusterState,
    pub warnings: &'a mut Vec<String>,
}

/// One admission plugin.
pub trait Plugin: Send + Sync {
    /// The name of the plugin in flags.
    fn name(&self) -> &'static str;

    /// The resources that the plugin looks at. For all others it is not called.
    fn resources(&self) -> Resources {
        ALL_RESOURCES
    }

    /// Changes or rejects an object before validation. Not called for deletions.
    fn mutate(&self, _mutation: Mutation<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Rejects a deletion before webhooks are called.
    fn admit_deletion(&self, _request: &Attributes<'_>, _cluster: &dyn ClusterState) -> Result<(), Status> {
        Ok(())
    }

    /// Rejects an object after validation; may add warnings.
    fn validate(&self, _validation: Validation<'_>) -> Result<(), Status> {
        Ok(())
    }

    /// Calls an external service that may reject an object, after `validate`; `None` if the plugin has no such
    /// service.
    fn review<'a>(
        &'a self,
        _request: &'a Attributes<'a>,
        _object: Option<&'a Value>,
    ) -> Option<Reviewing<'a>> {
        None
    }
}

/// The groups and plurals of resources; an empty list stands for all.
pub type Resources = &'static [(&'static str, &'static str)];

/// All resources.
const ALL_RESOURCES: Resources = &[];

/// A pending call of an external service.
pub type Reviewing<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'a>>;

/// Why a plugin cannot be built, with kube-apiserver's message, which depends on the phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PluginError {
    /// The plugin's configuration cannot be read.
    Init(String),
    /// The plugin's configuration is invalid.
    Initialize(String),
}

impl From<String> for PluginError {
    fn from(why: String) -> Self {
        PluginError::Init(why)
    }
}
