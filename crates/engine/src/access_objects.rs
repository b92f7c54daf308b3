//! Keeps the authorizers that are built from objects (RBAC roles and bindings, the node graph) in step with the watch
//! cache.

use crate::Writer;
use pintle_auth::authz::node::{GraphKind, NodeAuthorizer};
use pintle_auth::authz::rbac::{Policy, PolicyKind, Rbac};
use pintle_cache::{CloseReason, Event, Item, Object, Resource};
use pintle_value::{Value, json};
use std::sync::Arc;

/// The authorizers that are built from objects.
#[derive(Clone, Default)]
pub struct AccessObjects {
    /// Authorizes by roles and bindings.
    pub rbac: Arc<Rbac>,
    /// Authorizes nodes, if the Node authorizer is enabled.
    pub node: Option<Arc<NodeAuthorizer>>,
}

enum Use {
    Policy(PolicyKind),
    Graph(GraphKind),
}

fn use_of(prefix: &str) -> Option<Use> {
    Some(match prefix {
        ROLES => Use::Policy(PolicyKind::Role),
        CLUSTER_ROLES => Use::Policy(PolicyKind::ClusterRole),
        ROLE_BINDINGS => Use::Policy(PolicyKind::RoleBinding),
        CLUSTER_ROLE_BINDINGS => Use::Policy(PolicyKind::ClusterRoleBinding),
        PODS => Use::Graph(GraphKind::Pod),
        PERSISTENT_VOLUMES => Use::Graph(GraphKind::PersistentVolume),
        VOLUME_ATTACHMENTS => Use::Graph(GraphKind::VolumeAttachment),
        RESOURCE_SLICES => Use::Graph(GraphKind::ResourceSlice),
        POD_CERTIFICATE_REQUESTS => Use::Graph(GraphKind::PodCertificateRequest),
        _ => return None,
    })
}

const ROLES: &str = "/registry/roles/";
const CLUSTER_ROLES: &str = "/registry/clusterroles/";
const ROLE_BINDINGS: &str = "/registry/rolebindings/";
const CLUSTER_ROLE_BINDINGS: &str = "/registry/clusterrolebindings/";
const PODS: &str = "/registry/pods/";
const PERSISTENT_VOLUMES: &str = "/registry/persistentvolumes/";
const VOLUME_ATTACHMENTS: &str = "/registry/volumeattachments/";
const RESOURCE_SLICES: &str = "/registry/resourceslices/";
const POD_CERTIFICATE_REQUESTS: &str = "/registry/podcertificaterequests/";

/// All resources that [`use_of`] knows.
const WATCHED: &[&str] = &[
    ROLES,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    CLUSTER_ROLE_BINDINGS,
    PODS,
    PERSISTENT_VOLUMES,
    VOLUME_ATTACHMENTS,
    RESOURCE_SLICES,
    POD_CERTIFICATE_REQUESTS,
];

impl Writer {
    /// Updates the RBAC policy from one object, if it is a role or binding.
    pub(crate) fn refresh_policy(&self, prefix: &str, key: &str) {
        let Some(Use::Policy(kind)) = use_of(prefix) else { return };
        let Some(resource) = self.storage.cache.resource(prefix) else { return };
        self.access_objects.rbac.update(|policy| take_current(policy, kind, &resource, key));
    }

    /// Follows the watched objects and updates the authorizers until the cache shuts down.
    pub async fn follow_access_objects(self: Arc<Self>) {
        loop {
            let mut watcher = self.storage.cache.watch_resources(WATCHED);
            self.load_access_objects();
            loop {
                match watcher.next().await {
                    Some(Item::Event(delivery)) => {
                        if let Some(event) = delivery.source() {
                            self.take_event(event);
                        }
                    }
                    Some(Item::InitialEventsEnd(_) | Item::Bookmark(_)) => {}
                    Some(Item::Closed(CloseReason::Shutdown)) | None => return,
                    // When a watch ends, reload everything: revoked rights must not stay in force.
                    Some(Item::Closed(_)) => break,
                }
            }
        }
    }

    /// Loads everything anew.
    pub fn load_access_objects(&self) {
        self.load_policy();
        let Some(node) = &self.access_objects.node else { return };
        node.clear();
        for resource in self.storage.cache.resources() {
            let Some(Use::Graph(kind)) = use_of(resource.prefix()) else { continue };
            for object in resource.view().iter() {
                node.insert(kind, object.key(), &tree_of(object));
            }
        }
    }

    fn load_policy(&self) {
        self.access_objects.rbac.update(|policy| {
            *policy = Policy::default();
            for resource in self.storage.cache.resources() {
                let Some(Use::Policy(kind)) = use_of(resource.prefix()) else { continue };
                for object in resource.view().iter() {
                    policy.insert(kind, &tree_of(object));
                }
            }
        });
    }

    fn take_event(&self, event: &Event) {
        match (use_of(event.resource()), &self.access_objects.node) {
            (Some(Use::Policy(_)), _) => self.refresh_policy(event.resource(), event.key()),
            (Some(Use::Graph(kind)), Some(node)) => match event.object() {
                Some(object)
                    if kind == GraphKind::Pod
                        && node.knows_pod(event.key())
                        && is_same_pod(event.previous(), object) => {}
                // The nodes of these cannot change.
                Some(_)
                    if event.previous().is_some()
                        && matches!(kind, GraphKind::ResourceSlice | GraphKind::PodCertificateRequest) => {}
                Some(object) => node.insert(kind, event.key(), &tree_of(object)),
                None => node.remove(kind, event.key()),
            },
            _ => {}
        }
    }
}

/// Reads the current state from the cache instead of the event: a late event must not undo what a request has already
/// refreshed.
fn take_current(policy: &mut Policy, kind: PolicyKind, resource: &Resource, key: &str) {
    match resource.get(key) {
        Some(object) => policy.insert(kind, &tree_of(&object)),
        None => {
            let (namespace, name) = key.split_once('/').unwrap_or(("", key));
            policy.remove(kind, namespace, name);
        }
    }
}

/// Returns whether a change of a bound pod leaves its node's dependencies as they were. As in kube-apiserver, only new
/// ephemeral containers and other generated resource claims change them; an extended resource claim counts if it is there
/// when the pod is bound. Pods change often, and decoding them is expensive.
fn is_same_pod(previous: Option<&Arc<Object>>, object: &Object) -> bool {
    let Some(previous) = previous.filter(|previous| previous.uid() == object.uid()) else { return false };
    let mentions =
        |object: &Object, what: &str| memchr::memmem::find(object.json(), what.as_bytes()).is_some();
    let may_differ = mentions(object, "\"ephemeralContainers\":")
        || mentions(object, "\"resourceClaimStatuses\":")
        || mentions(previous, "\"resourceClaimStatuses\":");
    !may_differ || has_same_references(&tree_of(previous), &tree_of(object))
}

fn has_same_references(previous: &Value, pod: &Value) -> bool {
    let ephemeral = |pod: &Value| pod.items_at(&["spec", "ephemeralContainers"]).len();
    let claims = ["status", "resourceClaimStatuses"];
    ephemeral(pod) <= ephemeral(previous) && pod.items_at(&claims) == previous.items_at(&claims)
}

fn tree_of(object: &Object) -> Value {
    json::parse(object.json()).map_or(Value::Null, |parsed| parsed.value)
}
