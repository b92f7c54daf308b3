//! Admission: the chain of built-in plugins that may change or refuse a write. One file a plugin.
//!
//! Plugins see trees in the stored version and read other objects through [`ClusterState`]. They do no I/O, but for ImagePolicyWebhook,
//! which asks a webhook.

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
mod escalation;
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

pub use chain::{Chain, Settings, SettingsError};
pub use config::{AdmissionConfiguration, ConfigError};
pub use request::{Options, admission_request};
pub use webhook_config::WebhookConfig;

use pintle_auth::UserInfo;
use pintle_kinds::{Kind, KindVersion};
use pintle_meta::{GroupVersion, GroupVersionKind, Status};
use pintle_value::Value;
use std::future::Future;
use std::pin::Pin;

/// What a request does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// What a plugin knows of a request beside the object.
pub struct Attributes<'a> {
    /// What is done.
    pub operation: Operation,
    /// The kind that is written.
    pub kind: &'a Kind,
    /// The version the request is in.
    pub version: &'a KindVersion,
    /// Namespace of the request; "" for cluster-scoped kinds. For a namespace itself: its name.
    pub namespace: &'a str,
    /// Name of the object; "" while it is not yet generated.
    pub name: &'a str,
    /// Subresource; "" for the object itself.
    pub subresource: &'a str,
    /// The object as it is, on update and delete.
    pub old: Option<&'a Value>,
    /// Who asks.
    pub user: &'a UserInfo,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// What else the client asked for.
    pub options: Options<'a>,
}

impl Attributes<'_> {
    /// Whether the request is about this resource (any subresource).
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.kind.group == group && self.kind.plural == plural
    }

    /// The kind of the request's object as it is called in a version: that of the subresource, where it has its own.
    pub fn kind_in(&self, version: &KindVersion) -> GroupVersionKind {
        let sub = version.subresource(self.subresource).filter(|_| !self.subresource.is_empty());
        sub.map_or_else(|| version.gvk(self.kind), |sub| sub.gvk.clone())
    }

    /// The refusal of a request; `object` is what it would have stored.
    pub fn forbidden(&self, object: Option<&Value>, why: &str) -> Status {
        let given = |key: &str| object.map_or("", |o| o.str_at(&["metadata", key]));
        let names = [self.name, given("name"), given("generateName"), "Unknown"];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        Status::forbidden(&self.kind.group_resource(), name, why)
    }
}

/// The other objects, as plugins may look at them.
pub trait ClusterState: Send + Sync {
    /// One object.
    fn object(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value>;

    /// All objects of a kind, in one namespace or in all ("").
    fn objects(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value>;

    /// Objects of a kind in one of its versions: in one namespace or in all (""), of one name or all ("").
    fn objects_in(&self, version: &GroupVersion, kind: &str, namespace: &str, name: &str) -> Vec<Value>;

    /// Plural name of a kind, and whether it lives in namespaces; `None` where it is not served.
    fn resource(&self, version: &GroupVersion, kind: &str) -> Option<(String, bool)>;

    /// A random number.
    fn random(&self) -> u64;
}

/// One admission plugin.
pub trait Plugin: Send + Sync {
    /// The name that flags know it by.
    fn name(&self) -> &'static str;

    /// Changes or refuses an object before it is validated. Not called for deletions.
    fn mutate(
        &self,
        _request: &Attributes<'_>,
        _object: &mut Value,
        _world: &dyn ClusterState,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Refuses an object (none on deletion) after it is validated; may add warnings.
    fn validate(
        &self,
        _request: &Attributes<'_>,
        _object: Option<&Value>,
        _world: &dyn ClusterState,
        _warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Asks somebody outside of the server whether to refuse an object, after `validate`; none where nobody is asked.
    fn review<'a>(
        &'a self,
        _request: &'a Attributes<'a>,
        _object: Option<&'a Value>,
    ) -> Option<Reviewing<'a>> {
        None
    }
}

/// A question to somebody outside of the server.
pub type Reviewing<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'a>>;

/// Why a plugin cannot be made, in kube-apiserver's words; which of them depends on when it finds out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PluginError {
    /// Its configuration cannot be read.
    Init(String),
    /// Its configuration makes no sense.
    Initialize(String),
}

impl From<String> for PluginError {
    fn from(why: String) -> Self {
        PluginError::Init(why)
    }
}
