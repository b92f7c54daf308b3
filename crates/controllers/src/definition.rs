//! Custom resource definitions: accepts or rejects their names, serves the kinds that they define, and removes their
//! objects before a terminating definition is removed.
//!
//! One task follows the definitions in order, so no two of them can get the same name; each terminating definition has
//! its own task, because it may have to wait for finalizers of its objects.

mod apiservice;
mod ending;
mod names;

use apiservice::next_registration;
use names::Claims;
use pintle_cache::{CloseReason, Filter, Item, Resource, WatchStart, Watcher};
use pintle_engine::{Engine, Target};
use pintle_kinds::Kind;
use pintle_kinds::definition::{CLEANUP_FINALIZER, Condition};
use pintle_meta::Status;
use pintle_value::{Str, Value};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// The delay before a failed definition is retried.
const RETRY: Duration = Duration::from_secs(1);

const PREFIX: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
const MANAGER: &str = "kube-apiserver";

/// The state of the definition controller.
pub(crate) struct Definitions {
    engine: Arc<Engine>,
    watcher: Watcher,
    claims: Claims,
    /// The served kinds, by name of the definition.
    served: HashMap<Str, Served>,
    /// The registered versions, by name of the definition.
    registered: HashMap<Str, Vec<Str>>,
    /// Definitions to process.
    due: BTreeSet<Str>,
    /// The revision up to which events were received.
    seen: u64,
    endings: JoinSet<Str>,
    ending: BTreeSet<Str>,
}

/// The inputs of compilation: a kind is compiled again if one of them changes.
#[derive(PartialEq)]
struct Served {
    uid: Str,
    generation: i64,
    accepted: Value,
    terminating: bool,
}

impl Definitions {
    /// Serves the existing definitions. `run` keeps them up to date.
    pub(crate) fn load(engine: &Arc<Engine>) -> Option<Definitions> {
        let resource = engine.storage().cache().resource(PREFIX)?;
        let watcher = follow(&resource)?;
        let mut definitions = Definitions {
            engine: engine.clone(),
            watcher,
            claims: Claims::default(),
            served: HashMap::new(),
            registered: HashMap::new(),
            due: BTreeSet::new(),
            seen: engine.storage().cache().revision(),
            endings: JoinSet::new(),
            ending: BTreeSet::new(),
        };
        engine.storage().registry().mark_applied(engine.storage().cache().revision());
        definitions.enqueue_all(&resource);
        let mut all = read_all(engine, &definitions.due);
        for (name, definition, kind) in &mut all {
            definitions.claims.put(definition);
            definitions.serve(name, definition, kind.take());
        }
        // Names can conflict, so this needs the claims of all definitions.
        for (name, definition, _) in &all {
            definitions.skip_if_current(name, definition);
        }
        Some(definitions)
    }

    /// Skips a definition that needs no change: at start, nearly all of thousands are in that state.
    fn skip_if_current(&mut self, name: &Str, definition: &Value) {
        let ends = definition.at(&["metadata", "deletionTimestamp"]).is_some();
        let group = definition.str_at(&["spec", "group"]);
        let versions = version_names(definition);
        if !ends
            && versions.iter().all(|version| self.is_registered(group, version))
            && self.update_conditions(definition, &self.engine.storage().now_text()) == *definition
        {
            self.registered.insert(name.clone(), versions);
            self.due.remove(name);
        }
    }

    fn enqueue_all(&mut self, resource: &Resource) {
        self.due.extend(resource.view().iter().map(|object| Str::from(object.name())));
        self.due.extend(self.served.keys().cloned());
    }

    /// Runs until the cache shuts down.
    pub(crate) async fn run(mut self) {
        let mut failed = BTreeSet::new();
        let mut swept = false;
        let mut registrations = self.follow_registrations();
        loop {
            while let Some(name) = self.due.pop_first() {
                if let Err(status) = self.reconcile(&name).await {
                    tracing::warn!(definition = %name, error = %status.message, "definition failed, will retry");
                    failed.insert(name);
                }
            }
            self.engine.storage().registry().mark_applied(self.seen);
            if !swept {
                swept = true;
                self.sweep_registrations().await;
            }
            let item = tokio::select! {
                item = self.watcher.next() => item,
                registration = next_registration(&mut registrations) => {
                    match registration {
                        Some(name) => self.restore_registration(&name).await,
                        None => registrations = self.follow_registrations(),
                    }
                    continue;
                }
                Some(ended) = self.endings.join_next() => {
                    self.ended(ended.ok());
                    continue;
                }
                () = tokio::time::sleep(RETRY), if !failed.is_empty() => {
                    self.due.append(&mut failed);
                    continue;
                }
            };
            match item {
                Some(Item::Event(delivery)) => {
                    self.seen = self.seen.max(delivery.revision());
                    self.due.insert(delivery.object().name().into());
                }
                Some(Item::Closed(CloseReason::Slow)) => {
                    let Some(resource) = self.engine.storage().cache().resource(PREFIX) else { return };
                    let Some(watcher) = follow(&resource) else { return };
                    self.seen = self.seen.max(resource.view().revision());
                    self.watcher = watcher;
                    self.enqueue_all(&resource);
                }
                Some(Item::InitialEventsEnd(_) | Item::Bookmark(_)) => {}
                Some(Item::Closed(_)) | None => return,
            }
        }
    }

    /// A termination has finished; process the definition once more in case it still exists.
    fn ended(&mut self, name: Option<Str>) {
        match name {
            Some(name) => {
                self.ending.remove(&name);
                self.due.insert(name);
            }
            None => {
                self.due.append(&mut self.ending);
            }
        }
    }

    /// Reconciles one definition.
    async fn reconcile(&mut self, name: &Str) -> Result<(), Status> {
        let Some(target) = target(&self.engine, name) else { return Ok(()) };
        let Some(mut definition) = self.engine.reader().object_tree(&target)? else {
            return self.forget(name).await;
        };
        let now = self.engine.storage().now_text();
        // A client may have changed the accepted names: those that it replaced are free again.
        let changed = self.claims.put(&definition);
        let updated = self.update_conditions(&definition, &now);
        if updated != definition {
            // Serve it first: a client that sees the condition Established must find the resource.
            self.serve(name, &updated, None);
            let claims = &self.claims;
            self.engine
                .writer()
                .mutate(&target.sub("status"), Some(MANAGER), |live| {
                    *live = update_conditions(claims, live, &now);
                })
                .await?;
            match self.engine.reader().object_tree(&target)? {
                Some(written) => definition = written,
                None => return self.forget(name).await,
            }
        }
        if self.claims.put(&definition) || changed {
            self.due.extend(self.claims.others_waiting(definition.str_at(&["spec", "group"]), name));
        }
        self.serve(name, &definition, None);
        let versions = version_names(&definition);
        self.register_versions(name, definition.str_at(&["spec", "group"]), versions).await?;
        let finalizers = definition.items_at(&["metadata", "finalizers"]);
        let ends = definition.at(&["metadata", "deletionTimestamp"]).is_some();
        if ends
            && finalizers.iter().any(|f| f.as_str() == Some(CLEANUP_FINALIZER))
            && self.ending.insert(name.clone())
        {
            self.endings.spawn(ending::end(self.engine.clone(), target));
        }
        Ok(())
    }

    fn update_conditions(&self, definition: &Value, now: &str) -> Value {
        update_conditions(&self.claims, definition, now)
    }

    /// Handles a deleted definition: unregisters its resource and frees its names.
    async fn forget(&mut self, name: &Str) -> Result<(), Status> {
        let (_, group) = name.split_once('.').unwrap_or((name, ""));
        self.withdraw(name);
        if self.claims.remove(group, name) {
            self.due.extend(self.claims.others_waiting(group, name));
        }
        self.register_versions(name, group, Vec::new()).await
    }

    /// Unregisters the resource of a definition, if it is served.
    fn withdraw(&mut self, name: &Str) {
        let (plural, group) = name.split_once('.').unwrap_or((name, ""));
        if self.served.remove(name).is_some() {
            self.engine.storage().undefine(group, plural);
        }
    }

    /// Serves a definition with accepted names, unless that is already done. `kind` is its compiled form, if available.
    fn serve(&mut self, name: &Str, definition: &Value, kind: Option<Kind>) {
        if !is_accepted(definition) {
            // If a client removes the conditions, the resource is no longer served.
            self.withdraw(name);
            return;
        }
        let served = Served {
            uid: definition.str_at(&["metadata", "uid"]).into(),
            generation: definition.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0),
            accepted: definition.at(&["status", "acceptedNames"]).cloned().unwrap_or_default(),
            terminating: Condition::is_true(definition, "Terminating"),
        };
        let old = self.served.get(name);
        if old == Some(&served) {
            return;
        }
        // As in kube-apiserver, watches end when a definition changes, but they see the deletion of objects when it
        // terminates.
        let changed =
            old.is_some_and(|old| (&old.accepted, old.generation) != (&served.accepted, served.generation));
        let kind = kind.unwrap_or_else(|| self.engine.storage().compile(definition));
        if let Err(why) = self.engine.storage().define(Arc::new(kind), changed) {
            tracing::warn!(definition = %name, "{why}");
        }
        self.served.insert(name.clone(), served);
    }
}

/// A stack large enough for the deepest definition that the decoders accept.
const STACK_BYTES: usize = 64 << 20;

/// Reads and compiles all definitions on all processors. The returned definitions lack their schemas.
fn read_all(engine: &Arc<Engine>, names: &BTreeSet<Str>) -> Vec<(Str, Value, Option<Kind>)> {
    let names: Vec<&Str> = names.iter().collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = names.len().div_ceil(threads).max(1);
    let read = |name: &&Str| {
        let mut definition = engine.reader().object_tree(&target(engine, name)?).ok()??;
        let kind = is_accepted(&definition).then(|| engine.storage().compile(&definition));
        // The trees of thousands of definitions would take more memory than everything that is served.
        definition.remove_at(&["metadata", "managedFields"]);
        let versions = definition.at_mut(&["spec", "versions"]).and_then(Value::as_array_mut);
        versions.into_iter().flatten().for_each(|version| _ = version.remove_at(&["schema"]));
        Some(((*name).clone(), definition, kind))
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = names
            .chunks(share)
            .map(|part| {
                let work = || part.iter().filter_map(read).collect::<Vec<_>>();
                std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work)
            })
            .collect();
        readers.into_iter().flatten().filter_map(|reader| reader.join().ok()).flatten().collect()
    })
}

fn version_names(definition: &Value) -> Vec<Str> {
    definition.items_at(&["spec", "versions"]).iter().map(|v| Str::from(v.str_at(&["name"]))).collect()
}

/// Returns whether a definition can be served.
fn is_accepted(definition: &Value) -> bool {
    Condition::is_true(definition, "NamesAccepted") || Condition::is_true(definition, "Established")
}

/// Returns the definition with its desired status.
fn update_conditions(claims: &Claims, definition: &Value, now: &str) -> Value {
    let mut updated = definition.clone();
    names::update_conditions(claims, &mut updated, now);
    names::note_approval(&mut updated, now);
    updated
}

fn follow(resource: &Arc<Resource>) -> Option<Watcher> {
    resource.watch(WatchStart::FromNow, Filter::default()).ok()
}

fn target(engine: &Engine, name: &str) -> Option<Target> {
    engine.storage().target("apiextensions.k8s.io", "v1", "customresourcedefinitions", "", name)
}
