//! The APIServices of definitions, which are created and deleted with them.

use super::Definitions;
use pintle_cache::{CloseReason, Filter, Item, WatchStart, Watcher};
use pintle_meta::Status;
use pintle_meta::options::DeleteOptions;
use pintle_value::{Str, Value};

const PREFIX: &str = "/registry/apiregistration.k8s.io/apiservices/";
/// The label of APIServices that the server manages itself.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Groups of definitions sort after all built-in groups.
const GROUP_PRIORITY: i64 = 1000;
const VERSION_PRIORITY: i64 = 100;

impl Definitions {
    /// Registers the served versions of a definition and removes other registrations that it had.
    pub(super) async fn register_versions(
        &mut self,
        name: &Str,
        group: &str,
        versions: Vec<Str>,
    ) -> Result<(), Status> {
        let old = self.registered.get(name).cloned().unwrap_or_default();
        let mut all: Vec<&Str> = old.iter().chain(&versions).collect();
        all.sort();
        all.dedup();
        for version in all {
            self.register_version(group, version).await?;
        }
        if versions.is_empty() {
            _ = self.registered.remove(name)
        } else {
            _ = self.registered.insert(name.clone(), versions)
        }
        Ok(())
    }

    /// Returns whether a version's APIService exists exactly if the version is served. Its content is checked by the
    /// sweep.
    pub(super) fn is_registered(&self, group: &str, version: &str) -> bool {
        let resource = self.engine.storage().cache().resource(PREFIX);
        let stored = resource.and_then(|resource| resource.get(&format!("{version}.{group}")));
        let is_ours = stored.is_some_and(|object| object.label(AUTOMANAGED) == Some("true"));
        is_ours == self.claims.serves(group, version)
    }

    /// Removes APIServices that are left over from the last run.
    pub(super) async fn sweep_registrations(&self) {
        let Some(resource) = self.engine.storage().cache().resource(PREFIX) else { return };
        for object in resource.view().iter().filter(|object| object.label(AUTOMANAGED) == Some("true")) {
            let Some((version, group)) = object.name().split_once('.') else { continue };
            if let Err(status) = self.register_version(group, version).await {
                tracing::warn!(registration = object.name(), error = %status.message, "registration stays for now");
            }
        }
    }

    /// Watches APIServices; `None` if they are not served.
    pub(super) fn follow_registrations(&self) -> Option<Watcher> {
        self.engine.storage().cache().resource(PREFIX)?.watch(WatchStart::FromNow, Filter::default()).ok()
    }

    /// Restores an APIService that was deleted or changed, if a definition still serves its version.
    pub(super) async fn restore_registration(&self, name: &str) {
        let Some((version, group)) = name.split_once('.') else { return };
        if !self.claims.serves(group, version) {
            return;
        }
        let Some(target) =
            self.engine.storage().target("apiregistration.k8s.io", "v1", "apiservices", "", name)
        else {
            return;
        };
        let wanted = new_api_service(name, group, version);
        let restored = match self.engine.writer().ensure(&target, "kube-apiserver", wanted.clone()).await {
            Ok(()) => {
                let spec = wanted.get("spec").cloned().unwrap_or_default();
                let change = |live: &mut Value| {
                    if live.str_at(&["metadata", "labels", AUTOMANAGED]) == "true" {
                        live.set_at(&["spec"], spec.clone());
                    }
                };
                self.engine.writer().mutate(&target, Some("kube-apiserver"), change).await
            }
            failed => failed,
        };
        if let Err(status) = restored {
            tracing::warn!(registration = name, error = %status.message, "registration could not be restored");
        }
    }

    /// Reconciles the APIService of one version with the definitions.
    async fn register_version(&self, group: &str, version: &str) -> Result<(), Status> {
        let name = format!("{version}.{group}");
        let Some(target) =
            self.engine.storage().target("apiregistration.k8s.io", "v1", "apiservices", "", &name)
        else {
            return Ok(());
        };
        if self.claims.serves(group, version) {
            return self
                .engine
                .writer()
                .ensure(&target, "kube-apiserver", new_api_service(&name, group, version))
                .await;
        }
        let Some(stored) = self.engine.reader().object_tree(&target)? else { return Ok(()) };
        if stored.str_at(&["metadata", "labels", AUTOMANAGED]) != "true" {
            return Ok(());
        }
        match self
            .engine
            .writer()
            .delete(&target, &DeleteOptions::default(), &self.engine.storage().system_user(), &mut Vec::new())
            .await
        {
            Err(status) if status.code != 404 => Err(status),
            _ => Ok(()),
        }
    }
}

/// The name of the next changed APIService; `None` if the watch must be restarted.
pub(super) async fn next_registration(watcher: &mut Option<Watcher>) -> Option<Str> {
    let Some(watcher) = watcher else { return std::future::pending().await };
    loop {
        match watcher.next().await {
            Some(Item::Event(delivery)) => return Some(delivery.object().name().into()),
            Some(Item::InitialEventsEnd(_) | Item::Bookmark(_)) => {}
            Some(Item::Closed(CloseReason::Slow)) => return None,
            // The watch of definitions ends with the cache as well, so just wait.
            Some(Item::Closed(_)) | None => return std::future::pending().await,
        }
    }
}

fn new_api_service(name: &str, group: &str, version: &str) -> Value {
    let mut out = Value::object();
    out.set_at(&["apiVersion"], "apiregistration.k8s.io/v1".into());
    out.set_at(&["kind"], "APIService".into());
    out.set_at(&["metadata", "name"], name.into());
    out.set_at(&["metadata", "labels", AUTOMANAGED], "true".into());
    out.set_at(&["spec", "group"], group.into());
    out.set_at(&["spec", "version"], version.into());
    out.set_at(&["spec", "groupPriorityMinimum"], Value::Int(GROUP_PRIORITY));
    out.set_at(&["spec", "versionPriority"], Value::Int(VERSION_PRIORITY));
    out
}
