//! Admission: the chain of built-in plugins that may change or refuse a write. One file a plugin.
//!
//! Plugins see trees in the stored version and read other objects through [`World`]; they do no I/O.

mod namespace_lifecycle;

use pintle_auth::UserInfo;
use pintle_kinds::{Kind, KindVersion};
use pintle_meta::Status;
use pintle_value::Value;

/// What a request does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum Operation {
    Create,
    Update,
    Delete,
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
}

impl Attributes<'_> {
    /// Whether the request is about this resource (any subresource).
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.kind.group == group && self.kind.plural == plural
    }
}

/// The other objects, as plugins may look at them.
pub trait World: Send + Sync {
    /// One object.
    fn object(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value>;

    /// All objects of a kind, in one namespace or in all ("").
    fn objects(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value>;
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
        _world: &dyn World,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Refuses an object (none on deletion) after it is validated; may add warnings.
    fn validate(
        &self,
        _request: &Attributes<'_>,
        _object: Option<&Value>,
        _world: &dyn World,
        _warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        Ok(())
    }
}

/// The plugins in force, in kube-apiserver's order.
pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
}

impl Chain {
    /// All built-in plugins but the `disabled` ones.
    pub fn new(disabled: &[String]) -> Self {
        let all: Vec<Box<dyn Plugin>> = vec![Box::new(namespace_lifecycle::NamespaceLifecycle)];
        Chain { plugins: all.into_iter().filter(|p| !disabled.iter().any(|d| d == p.name())).collect() }
    }

    /// Lets every plugin change the object.
    pub fn mutate(
        &self,
        request: &Attributes<'_>,
        object: &mut Value,
        world: &dyn World,
    ) -> Result<(), Status> {
        self.plugins.iter().try_for_each(|plugin| plugin.mutate(request, object, world))
    }

    /// Lets every plugin refuse the object.
    pub fn validate(
        &self,
        request: &Attributes<'_>,
        object: Option<&Value>,
        world: &dyn World,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        self.plugins.iter().try_for_each(|plugin| plugin.validate(request, object, world, warnings))
    }
}
