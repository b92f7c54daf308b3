//! Get and list, with the rules for resourceVersion, paging and selectors.

use crate::convert::InFlightConversions;
use crate::measures;
use crate::object;
use crate::select::Selects;
use crate::unreadable::Faults;
use crate::write::Live;
use crate::{Storage, Target};
use pintle_cache::{Object, Resource, RevisionError, View};
use pintle_meta::Status;
use pintle_meta::options::{ListOptions, VersionMatch};
use pintle_meta::rv::{self, ContinueToken};
use pintle_store::{ReadError, Revision};
use pintle_value::Str;
use pintle_webhook::Caller;
use std::sync::Arc;
use std::time::Duration;

/// How long a read waits for a future revision.
pub(crate) const FUTURE_WAIT: Duration = Duration::from_secs(3);
/// The `Retry-After` of a read whose revision was not reached in time.
const FUTURE_RETRY_SECONDS: i32 = 1;

/// Reads objects: get, list, watch and history, in any version of their kinds.
pub struct Reader {
    pub(crate) storage: Arc<Storage>,
    /// Calls conversion webhooks.
    pub(crate) webhooks: Arc<dyn Caller>,
    /// Conversions that several watches wait for.
    pub(crate) in_flight_conversions: InFlightConversions,
    /// Whether undecodable objects are reported as such and may be deleted with
    /// `ignoreStoreReadErrorWithClusterBreakingPotential`.
    pub(crate) unsafe_deletion: bool,
}

impl Reader {
    /// The live object of `target`: the cached object and its tree with resourceVersion.
    pub(crate) fn live(&self, target: &Target) -> Result<Option<Live>, Status> {
        target.check_path_name()?;
        let Some(object) = self.storage.cached(&target.kind, &target.object_key()) else { return Ok(None) };
        if let Some(why) = object.unreadable() {
            return Err(self.unreadable_error(target, &object, why));
        }
        let tree = object::tree(&target.kind, &object)?;
        Ok(Some(Live { object, tree }))
    }

    /// Returns whether undecodable objects may be deleted.
    pub fn unsafe_deletion(&self) -> bool {
        self.unsafe_deletion
    }
}

/// A list request: the target and its options.
#[derive(Clone)]
pub struct ListRequest {
    /// The collection.
    pub target: Target,
    /// Selectors, limit, continue token and revision. Field selectors use the field labels of the kind.
    pub options: ListOptions,
}

impl ListRequest {
    /// A request for the whole current collection.
    pub fn all(target: Target) -> Self {
        ListRequest { target, options: ListOptions::default() }
    }
}

/// A page of a list.
#[derive(Clone)]
pub struct Listed {
    /// The items, ordered by key.
    pub items: Vec<Arc<Object>>,
    /// Revision of the list; 0 is none.
    pub revision: u64,
    /// The token of the next page; "" on the last page.
    pub continue_token: String,
    /// The number of items after this page, if it is known.
    pub remaining: Option<i64>,
    /// The shard selector, if the list is a shard.
    pub shard: Option<Str>,
}

/// The objects that a list examines before it lets other requests run.
const EXAMINED_BETWEEN_YIELDS: usize = 4096;

/// The revision that a list reads, and the key at which the page begins.
struct Moment {
    view: View,
    after: Option<String>,
    revision: u64,
}

impl Reader {
    /// Returns one object, converted for the response.
    pub async fn get(&self, target: &Target, resource_version: &str) -> Result<Arc<Object>, Status> {
        target.check_path_name()?;
        let _span = pintle_trace::span("cacher.Get");
        let wanted = parse_version(target, resource_version)?;
        if resource_version.is_empty() {
            self.storage.catch_up(target).await?;
        }
        if wanted > 0 {
            wait_for(target, &*self.storage.resource(target)?, wanted).await?;
        }
        let found = self.storage.cached(&target.kind, &target.object_key());
        let found = found.ok_or_else(|| Status::not_found(&target.group_resource(), &target.name))?;
        // Without resourceVersion kube-apiserver reads from the store and calls a conversion webhook again; its cache
        // only serves reads with a resourceVersion.
        let found = if resource_version.is_empty() { self.unconverted(target, found) } else { found };
        self.prepare(target, std::slice::from_ref(&found)).await?;
        Ok(found)
    }

    /// Returns one page of a collection, converted for the response.
    pub async fn list(&self, request: &ListRequest) -> Result<Listed, Status> {
        let options = &request.options;
        let target = &request.target;
        let namespace = list_namespace(target);
        let selects = Selects::with_shard(request)?;
        let shard = selects.shard_text().map(Into::into);
        let resource = self.storage.resource(target)?;
        if is_served_from_cache(options) {
            self.check_followable(target, &resource)?;
        }
        let _span = pintle_trace::span("cacher.GetList");
        let moment = self.moment(&resource, request).await?;
        // kube-apiserver ignores a limit with resourceVersion=0, also if the list continues: a quirk pinned by
        // list-rv-match-unset.http and list-paging-quirks.http.
        let limit = if options.resource_version == "0" { 0 } else { options.limit.max(0) };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let selects = self.prepare_selectors(selects, target, &moment.view).await?;
        let mut items = Vec::new();
        if let Some(key) = single_key(request) {
            let continues = moment.after.as_deref().is_none_or(|start| key.as_str() >= start);
            let found = moment.view.get(&key).filter(|object| continues && selects.matches(object));
            items.extend(found.cloned());
            self.check_listable(target, &items).await?;
            let continue_token = String::new();
            return Ok(Listed { items, revision: moment.revision, continue_token, remaining: None, shard });
        }
        let mut candidates = moment.view.range(namespace, moment.after.as_deref()).peekable();
        let mut more = false;
        let mut fetched: usize = 0;
        // Examining each object costs more than counting, so only do it if an object may be undecodable.
        let may_be_unreadable = resource.may_have_unreadable();
        let mut unreadable = Vec::new();
        while let Some(object) = candidates.next() {
            fetched = fetched.saturating_add(1);
            if fetched.is_multiple_of(EXAMINED_BETWEEN_YIELDS) {
                // A million objects take a tenth of a second, in which this thread could not answer other requests.
                tokio::task::yield_now().await;
            }
            if may_be_unreadable && object.unreadable().is_some() {
                unreadable.push(object.clone());
            } else if selects.matches(object) {
                items.push(object.clone());
            }
            if limit > 0 && items.len() >= limit {
                more = candidates.peek().is_some();
                break;
            }
        }
        if target.kind.conversion.is_some() || !unreadable.is_empty() {
            self.check_listable(target, if unreadable.is_empty() { &items } else { &unreadable }).await?;
        }
        let remaining = match items.last() {
            Some(last) if more && selects.counts_all() => {
                i64::try_from(moment.view.count_after(namespace, last.key().as_str())).ok()
            }
            _ => None,
        };
        measures::listed(target, fetched, items.len());
        let continue_token = match items.last() {
            Some(last) if more => {
                resource.pin(&moment.view);
                let key = last.key().as_str();
                let start = namespace.map_or(key, |ns| key.get(ns.len().saturating_add(1)..).unwrap_or(key));
                let version = i64::try_from(moment.revision).unwrap_or(0);
                ContinueToken { version, start: format!("{start}\u{0}") }.encode()
            }
            _ => String::new(),
        };
        Ok(Listed { items, revision: moment.revision, continue_token, remaining, shard })
    }

    /// Prepares the selectors of a list. If a webhook converts, they apply to the requested version, so the objects are
    /// converted first.
    async fn prepare_selectors(
        &self,
        mut selects: Selects,
        target: &Target,
        view: &View,
    ) -> Result<Selects, Status> {
        if target.kind.conversion.is_none() || !selects.needs_object_content() {
            return Ok(selects);
        }
        let objects: Vec<Arc<Object>> = view.range(list_namespace(target), None).cloned().collect();
        self.check_listable(target, &objects).await?;
        selects.extract_selected(self, target, &objects)?;
        Ok(selects)
    }

    /// Converts the objects of a list, or returns an error if one cannot be converted.
    async fn check_listable(&self, target: &Target, objects: &[Arc<Object>]) -> Result<(), Status> {
        let faults = self.convert_all(target, objects).await;
        if faults.is_empty() { Ok(()) } else { Err(self.unreadable_list_error(target, &faults)) }
    }

    /// Refuses to list or watch a collection with undecodable objects from the cache: kube-apiserver has a cache per
    /// version, which cannot be initialized with such an object.
    pub(crate) fn check_followable(&self, target: &Target, resource: &Resource) -> Result<(), Status> {
        if !resource.may_have_unreadable() {
            return Ok(());
        }
        let mut faults = Faults::default();
        for object in resource.view().iter() {
            if let Some(why) = object.unreadable()
                && faults.add(object, why)
            {
                break;
            }
        }
        if faults.is_empty() {
            return Ok(());
        }
        Err(self.unreadable_watch_error(target, &self.unreadable_list_error(target, &faults)))
    }

    /// Waits until the cache is current.
    async fn catch_up_for_list(&self, target: &Target) -> Result<(), Status> {
        // kube-apiserver gets etcd's current revision with a list that returns nothing.
        let _span = pintle_trace::span("List(recursive=false) etcd3");
        let began = std::time::Instant::now();
        self.storage.catch_up(target).await?;
        measures::consistent_read(target, began.elapsed());
        Ok(())
    }

    /// Determines the revision that a list reads.
    async fn moment(&self, resource: &Resource, request: &ListRequest) -> Result<Moment, Status> {
        let options = &request.options;
        if !options.continue_token.is_empty() {
            return self.continued(resource, request).await;
        }
        if options.resource_version.is_empty() {
            self.catch_up_for_list(&request.target).await?;
        }
        let wanted = rv::parse_for_list(&options.resource_version)?;
        let exact = match options.resource_version_match {
            Some(VersionMatch::Exact) => true,
            Some(VersionMatch::NotOlderThan) => false,
            // Without resourceVersionMatch, only a list of a whole collection is of the requested revision. kube-apiserver
            // reads the present for a selector of one name in one namespace, because that is a read of one key.
            None => options.limit > 0 && wanted > 0 && single_key(request).is_none(),
        };
        if reads_one_key_from_store(request) {
            // etcd answers at once whether it has the revision.
            let current = resource.revision();
            if current < wanted {
                return Err(rv::too_large(wanted, current, 0));
            }
        }
        wait_for(&request.target, resource, wanted).await?;
        // Only "0" is refused with an exact match; other spellings of zero reach etcd, where they are the present.
        if !exact || wanted == 0 {
            let view = resource.view();
            return Ok(Moment { revision: view.revision(), view, after: None });
        }
        let view = match resource.view_at(wanted) {
            Ok(view) => view,
            Err(RevisionError::Expired { .. }) => {
                self.stored_view(resource, wanted).await?.ok_or_else(rv::expired_list)?
            }
            Err(RevisionError::Future { current, .. }) => {
                return Err(too_large(&request.target, wanted, current));
            }
        };
        Ok(Moment { view, after: None, revision: wanted })
    }

    /// Reads the resource from the store at a revision that the cache no longer has; `None` if the store has compacted
    /// it.
    async fn stored_view(&self, resource: &Resource, revision: u64) -> Result<Option<View>, Status> {
        match self.storage.store.read_at(resource.prefix(), Revision(revision)).await {
            Ok(stored) => Ok(Some(resource.view_of(&stored))),
            Err(ReadError::Compacted | ReadError::Future { .. }) => Ok(None),
            Err(ReadError::Unavailable(fault)) => Err(Status::internal(&fault.to_string())),
        }
    }

    /// Determines the revision and position from a continue token.
    async fn continued(&self, resource: &Resource, request: &ListRequest) -> Result<Moment, Status> {
        let options = &request.options;
        let token = ContinueToken::decode_for_list(&options.continue_token, &options.resource_version)?;
        // Continue tokens of lists that kube-apiserver answers from its cache begin with a slash.
        let start = token.start.trim_start_matches('/');
        let after =
            Some(list_namespace(&request.target).map_or(start.to_owned(), |ns| format!("{ns}/{start}")));
        // A negative revision continues with the current state.
        let Ok(revision) = u64::try_from(token.version) else {
            self.catch_up_for_list(&request.target).await?;
            let view = resource.view();
            return Ok(Moment { revision: view.revision(), view, after });
        };
        // The cache has the revision of its own tokens, also while the store does not answer. Another server on the same
        // store may be ahead.
        if resource.revision() < revision {
            self.catch_up_for_list(&request.target).await?;
        }
        match resource.view_at(revision) {
            Ok(view) => Ok(Moment { view, after, revision }),
            Err(RevisionError::Future { current, .. }) => Err(too_large(&request.target, revision, current)),
            Err(RevisionError::Expired { .. }) => match self.stored_view(resource, revision).await? {
                Some(view) => Ok(Moment { view, after, revision }),
                None => Err(rv::expired_continue(&token.start)),
            },
        }
    }
}

impl Storage {
    /// The resource in the cache.
    pub(crate) fn resource(&self, target: &Target) -> Result<Arc<Resource>, Status> {
        let resource = self.cache.resource(&target.kind.store_prefix);
        resource.ok_or_else(|| Status::internal("the resource is not served any more"))
    }

    /// Waits until the cache has every write to this resource that any server acknowledged before the call.
    pub(crate) async fn catch_up(&self, target: &Target) -> Result<(), Status> {
        if !self.store.is_shared() {
            return Ok(());
        }
        let caught_up = self.store.barrier_for(&target.kind.store_prefix).await;
        caught_up.map(drop).map_err(|fault| Status::internal(&fault.to_string()))
    }

    /// Waits until the cache has every write that any server acknowledged before the call.
    pub(crate) async fn catch_up_all(&self) -> Result<(), Status> {
        let caught_up = self.store.barrier().await;
        caught_up.map(drop).map_err(|fault| Status::internal(&fault.to_string()))
    }
}

/// Waits a limited time until the cache reaches `revision`.
pub(crate) async fn wait_for(target: &Target, resource: &Resource, revision: u64) -> Result<(), Status> {
    if resource.revision() >= revision || resource.wait_for(revision, FUTURE_WAIT).await.is_ok() {
        return Ok(());
    }
    Err(too_large(target, revision, resource.revision()))
}

fn too_large(target: &Target, wanted: u64, current: u64) -> Status {
    rv::too_large(wanted, current, if target.kind.rules.uncached { 0 } else { FUTURE_RETRY_SECONDS })
}

/// Parses the resourceVersion of a get.
fn parse_version(target: &Target, text: &str) -> Result<u64, Status> {
    if target.kind.rules.uncached { rv::parse_for_list(text) } else { rv::parse_for_get(text) }
}

/// The key of the only object that a list can return, if its field selector names it. Such a list has no pages.
fn single_key(request: &ListRequest) -> Option<Str> {
    let target = &request.target;
    let name = request.options.field_selector.required_value("metadata.name")?;
    let placed = !target.kind.namespaced || !target.namespace.is_empty();
    placed.then(|| crate::object_key(target.kind.namespaced, &target.namespace, name))
}

/// Returns whether kube-apiserver reads the one object of a list from etcd: its cache has no earlier states of one object.
fn reads_one_key_from_store(request: &ListRequest) -> bool {
    let options = &request.options;
    let is_exact = match options.resource_version_match {
        Some(version_match) => version_match == VersionMatch::Exact,
        None => options.limit > 0 && !matches!(options.resource_version.as_str(), "" | "0"),
    };
    is_exact && single_key(request).is_some()
}

/// Returns whether kube-apiserver would answer a list from its cache. It reads pages and exact revisions from etcd.
fn is_served_from_cache(options: &ListOptions) -> bool {
    let selects = !options.label_selector.is_empty() || !options.field_selector.terms().is_empty();
    let is_exact = options.resource_version_match == Some(VersionMatch::Exact);
    options.continue_token.is_empty() && !is_exact && (options.limit <= 0 || selects)
}

/// The namespace that a list is restricted to; `None` across all namespaces and for cluster-scoped kinds.
pub(crate) fn list_namespace(target: &Target) -> Option<&str> {
    (target.kind.namespaced && !target.namespace.is_empty()).then_some(target.namespace.as_str())
}
