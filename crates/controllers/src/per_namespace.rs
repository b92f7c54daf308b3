//! Objects that every namespace has: the service account `default`, without which no pod can be created, and the
//! ConfigMap `kube-root-ca.crt`, with which pods verify this server. Running beside a kube-controller-manager is
//! harmless: whichever is second finds the object and leaves it unchanged.

use crate::feed::Feed;
use pintle_cache::{CloseReason, Item};
use pintle_engine::Engine;
use pintle_meta::Status;
use pintle_value::{Str, Value};
use std::sync::Arc;

const NAMESPACES: &str = "/registry/namespaces/";
const SERVICE_ACCOUNTS: &str = "/registry/serviceaccounts/";
const CONFIG_MAPS: &str = "/registry/configmaps/";
/// The description that kube-controller-manager writes into the ConfigMap.
const ROOT_CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// An object that every namespace has.
pub(crate) struct PerNamespace {
    /// The store prefix of its resource.
    store_prefix: &'static str,
    /// The resources to watch: namespaces and the objects themselves.
    watched: &'static [&'static str],
    resource: &'static str,
    name: &'static str,
    /// The object, without its namespace.
    object: Value,
}

impl PerNamespace {
    /// The service account of pods that name no other.
    pub(crate) fn service_account() -> Self {
        let (resource, name) = ("serviceaccounts", "default");
        let object = new_object("ServiceAccount", name);
        PerNamespace {
            store_prefix: SERVICE_ACCOUNTS,
            watched: &[NAMESPACES, SERVICE_ACCOUNTS],
            resource,
            name,
            object,
        }
    }

    /// The ConfigMap with the CA of this server's certificate, in PEM.
    pub(crate) fn root_ca(authority: &str) -> Self {
        let (resource, name) = ("configmaps", "kube-root-ca.crt");
        let mut object = new_object("ConfigMap", name);
        object.set_at(&["metadata", "annotations", "kubernetes.io/description"], ROOT_CA_DESCRIPTION.into());
        object.set_at(&["data", "ca.crt"], authority.into());
        PerNamespace {
            store_prefix: CONFIG_MAPS,
            watched: &[NAMESPACES, CONFIG_MAPS],
            resource,
            name,
            object,
        }
    }

    /// Runs until the cache shuts down.
    pub(crate) async fn run(self, engine: Arc<Engine>) {
        let mut watcher = self.watch(&engine);
        self.ensure_all(&engine).await;
        while let Some(item) = watcher.next().await {
            match item {
                Item::Event(delivery) => {
                    let Some(event) = delivery.source() else { continue };
                    let object = delivery.object();
                    let is_gone = event.object().is_none();
                    let namespace = match &**event.resource() {
                        NAMESPACES if !is_gone => Some(Str::from(object.name())),
                        prefix if prefix == self.store_prefix && is_gone && object.name() == self.name => {
                            object.namespace().map(Str::from)
                        }
                        _ => None,
                    };
                    if let Some(namespace) = namespace {
                        self.ensure_object(&engine, &namespace).await;
                    }
                }
                Item::Closed(CloseReason::Slow) => {
                    watcher = self.watch(&engine);
                    self.ensure_all(&engine).await;
                }
                Item::Closed(_) => return,
                Item::InitialEventsEnd(_) | Item::Bookmark(_) => {}
            }
        }
    }

    fn watch(&self, engine: &Engine) -> Feed {
        Feed::new(engine.storage().cache().watch_resources(self.watched))
    }

    async fn ensure_all(&self, engine: &Engine) {
        let Some(resource) = engine.storage().cache().resource(NAMESPACES) else { return };
        let names: Vec<Str> = resource.view().iter().map(|object| Str::from(object.name())).collect();
        for name in names {
            self.ensure_object(engine, &name).await;
        }
    }

    async fn ensure_object(&self, engine: &Engine, namespace: &str) {
        if let Err(status) = self.try_ensure(engine, namespace).await {
            let (resource, name) = (self.resource, self.name);
            tracing::warn!(%namespace, error = %status.message, "{resource} {name} could not be made");
        }
    }

    /// Creates the object in a namespace that exists and is not being deleted.
    async fn try_ensure(&self, engine: &Engine, namespace: &str) -> Result<(), Status> {
        let Some(target) = engine.storage().target("", "v1", "namespaces", "", namespace) else {
            return Ok(());
        };
        let live = engine.reader().object_tree(&target)?;
        if live.is_none_or(|tree| tree.at(&["metadata", "deletionTimestamp"]).is_some()) {
            return Ok(());
        }
        let Some(target) = engine.storage().target("", "v1", self.resource, namespace, self.name) else {
            return Ok(());
        };
        let mut object = self.object.clone();
        object.set_at(&["metadata", "namespace"], namespace.into());
        engine.writer().ensure(&target, "kube-controller-manager", object).await
    }
}

fn new_object(kind: &str, name: &str) -> Value {
    let mut object = Value::object();
    object.set_at(&["kind"], kind.into());
    object.set_at(&["apiVersion"], "v1".into());
    object.set_at(&["metadata", "name"], name.into());
    object
}
