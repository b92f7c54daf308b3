//! Reads: get and list, with the rules of resourceVersion, paging and selectors.

use crate::measures;
use crate::select::Selects;
use crate::unreadable::Faults;

use crate::{Engine, Target};
use pintle_cache::{Object, Resource, RevisionError, View};
use pintle_meta::Status;
use pintle_meta::options::{ListOptions, VersionMatch};
use pintle_meta::rv::{self, ContinueToken};
use pintle_store::{ReadError, Revision};
use pintle_value::Str;
use std::sync::Arc;
use std::time::Duration;

/// How long a read waits for a revision that is not there yet.
pub(crate) const FUTURE_WAIT: Duration = Duration::from_secs(3);
/// When a client shall ask again for a revision that did not come.
const FUTURE_RETRY_SECONDS: i32 = 1;

/// A list and what narrows it.
#[derive(Clone)]
pub struct ListRequest {
    /// The collection.
    pub target: Target,
    /// Selectors, limit, continuation and revision. The labels of the field selector are those of the kind.
    pub options: ListOptions,
}

impl ListRequest {
    /// The whole collection as it is now.
    pub fn all(target: Target) -> Self {
        ListRequest { target, options: ListOptions::default() }
    }
}

/// A page of a list.
#[derive(Clone)]
pub struct Listed {
    /// The items in order of their keys.
    pub items: Vec<Arc<Object>>,
    /// Revision of the list.
    pub revision: u64,
    /// Where the next page begins; "" on the last one.
    pub continue_token: String,
    /// How many items are left behind this page, where that is known.
    pub remaining: Option<i64>,
}

/// The moment that a list shows, and where in it the page begins.
struct Moment {
    view: View,
    after: Option<String>,
    revision: u64,
}

impl Engine {
    /// One object, ready to be shown.
    pub async fn get(&self, target: &Target, resource_version: &str) -> Result<Arc<Object>, Status> {
        target.check_path_name()?;
        let _span = pintle_trace::span("cacher.Get");
        let wanted = rv::parse_for_get(resource_version)?;
        if resource_version.is_empty() {
            self.catch_up().await?;
        }
        self.wait_for(wanted).await?;
        let found = self.kept(&target.kind, &target.object_key());
        let found = found.ok_or_else(|| Status::not_found(&target.group_resource(), &target.name))?;
        // kube-apiserver reads the store here and asks a conversion webhook anew; what it has in memory serves only those
        // who ask for any version.
        let found = if resource_version.is_empty() { self.unconverted(target, found) } else { found };
        self.prepare(target, std::slice::from_ref(&found)).await?;
        Ok(found)
    }

    /// A page of a collection, ready to be shown.
    pub async fn list(&self, request: &ListRequest) -> Result<Listed, Status> {
        let options = &request.options;
        let target = &request.target;
        let namespace = list_namespace(target);
        let resource = self.resource(target)?;
        if asks_cache(options) {
            self.check_followable(target, &resource)?;
        }
        let _span = pintle_trace::span("cacher.GetList");
        if options.resource_version.is_empty() {
            // kube-apiserver asks etcd for its revision by a list of nothing.
            let _span = pintle_trace::span("List(recursive=false) etcd3");
            let began = std::time::Instant::now();
            self.catch_up().await?;
            measures::consistent_read(target, began.elapsed());
        }
        let moment = self.moment(&resource, request).await?;
        // A limit beside version 0 is not observed on the first page: a quirk pinned by list-rv-match-unset.http.
        let first = options.continue_token.is_empty();
        let limit = if options.resource_version == "0" && first { 0 } else { options.limit.max(0) };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let selects = self.selects(request, &moment.view).await?;
        let mut items = Vec::new();
        if let Some(key) = single_key(request) {
            items.extend(moment.view.get(&key).filter(|object| selects.matches(object)).cloned());
            self.check_listable(target, &items).await?;
            let continue_token = String::new();
            return Ok(Listed { items, revision: moment.revision, continue_token, remaining: None });
        }
        let mut candidates = moment.view.range(namespace, moment.after.as_deref()).peekable();
        let mut more = false;
        let mut fetched: usize = 0;
        // Looking at each object costs more than counting it, so only where there is a reason.
        let may_be_unreadable = resource.may_have_unreadable();
        let mut unreadable = Vec::new();
        while let Some(object) = candidates.next() {
            fetched = fetched.saturating_add(1);
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
        let remaining = (more && selects.is_empty()).then(|| i64::try_from(candidates.count()).unwrap_or(0));
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
        Ok(Listed { items, revision: moment.revision, continue_token, remaining })
    }

    /// The selectors of a list. Where a webhook converts, they look at the version asked for, and the objects are
    /// converted to look at them.
    async fn selects(&self, request: &ListRequest, view: &View) -> Result<Selects, Status> {
        let mut selects = Selects::new(request);
        let target = &request.target;
        if target.kind.conversion.is_none() || !selects.looks_inside() {
            return Ok(selects);
        }
        let objects: Vec<Arc<Object>> = view.range(list_namespace(target), None).cloned().collect();
        self.check_listable(target, &objects).await?;
        selects.look_at(self, target, &objects)?;
        Ok(selects)
    }

    /// Has these objects of a list converted; an error where one of them cannot be shown.
    async fn check_listable(&self, target: &Target, objects: &[Arc<Object>]) -> Result<(), Status> {
        let faults = self.convert_all(target, objects).await;
        if faults.is_empty() { Ok(()) } else { Err(self.cannot_list(target, &faults)) }
    }

    /// Refuses to show a collection from memory, as a whole or as it changes, that has unreadable objects: where
    /// kube-apiserver keeps each version for itself, it never gets such a one together.
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
        Err(self.cannot_follow(target, &self.cannot_list(target, &faults)))
    }

    /// The resource in the cache.
    pub(crate) fn resource(&self, target: &Target) -> Result<Arc<Resource>, Status> {
        let resource = self.cache.resource(&target.kind.store_prefix);
        resource.ok_or_else(|| Status::internal("the resource is not served any more"))
    }

    /// The moment that a list shows.
    async fn moment(&self, resource: &Resource, request: &ListRequest) -> Result<Moment, Status> {
        let options = &request.options;
        if !options.continue_token.is_empty() {
            return self.continued(resource, request).await;
        }
        let wanted = rv::parse_for_list(&options.resource_version)?;
        let exact = match options.resource_version_match {
            Some(VersionMatch::Exact) => true,
            Some(VersionMatch::NotOlderThan) => false,
            // The old form names a moment only of whole collections. A selector of one name is a read of one key to
            // kube-apiserver, and those are of the present.
            None => {
                let one_name = options.field_selector.required_value("metadata.name").is_some();
                options.limit > 0 && wanted > 0 && !one_name
            }
        };
        self.wait_for(wanted).await?;
        if !exact {
            let view = resource.view();
            return Ok(Moment { revision: view.revision(), view, after: None });
        }
        let view = match resource.view_at(wanted) {
            Ok(view) => view,
            Err(RevisionError::Expired { .. }) => {
                self.stored_view(resource, wanted).await?.ok_or_else(rv::expired_list)?
            }
            Err(RevisionError::Future { current, .. }) => return Err(too_large(wanted, current)),
        };
        Ok(Moment { view, after: None, revision: wanted })
    }

    /// The resource at a revision that the cache no longer has, from the store; `None` if that has it no more either.
    async fn stored_view(&self, resource: &Resource, revision: u64) -> Result<Option<View>, Status> {
        match self.store.read_at(resource.prefix(), Revision(revision)).await {
            Ok(stored) => Ok(Some(resource.view_of(&stored))),
            Err(ReadError::Compacted | ReadError::Future { .. }) => Ok(None),
            Err(ReadError::Unavailable(fault)) => Err(Status::internal(&fault.to_string())),
        }
    }

    /// Waits until the cache has every write that any server acknowledged before the call.
    pub(crate) async fn catch_up(&self) -> Result<(), Status> {
        if !self.store.is_shared() {
            return Ok(());
        }
        let caught_up = self.store.barrier().await;
        caught_up.map(drop).map_err(|fault| Status::internal(&fault.to_string()))
    }

    /// The moment of an earlier page.
    async fn continued(&self, resource: &Resource, request: &ListRequest) -> Result<Moment, Status> {
        let options = &request.options;
        let token = ContinueToken::decode_for_list(&options.continue_token, &options.resource_version)?;
        // Lists that kube-apiserver answers from its cache have tokens that begin with a slash.
        let start = token.start.trim_start_matches('/');
        let after =
            Some(list_namespace(&request.target).map_or(start.to_owned(), |ns| format!("{ns}/{start}")));
        // A negative revision asks for the rest as it is now.
        let Ok(revision) = u64::try_from(token.version) else {
            let view = resource.view();
            return Ok(Moment { revision: view.revision(), view, after });
        };
        match resource.view_at(revision) {
            Ok(view) => Ok(Moment { view, after, revision }),
            Err(RevisionError::Future { current, .. }) => Err(too_large(revision, current)),
            Err(RevisionError::Expired { .. }) => match self.stored_view(resource, revision).await? {
                Some(view) => Ok(Moment { view, after, revision }),
                None => Err(rv::expired_continue(&token.start)),
            },
        }
    }

    /// Waits until the cache has seen `revision`, but not for long.
    pub(crate) async fn wait_for(&self, revision: u64) -> Result<(), Status> {
        if self.cache.revision() >= revision || self.cache.wait_for(revision, FUTURE_WAIT).await.is_ok() {
            return Ok(());
        }
        Err(too_large(revision, self.cache.revision()))
    }
}

fn too_large(wanted: u64, current: u64) -> Status {
    rv::too_large(wanted, current, FUTURE_RETRY_SECONDS)
}

/// The one object that a list can be about, when its field selector names it: such a list has no pages.
fn single_key(request: &ListRequest) -> Option<Str> {
    let target = &request.target;
    let name = request.options.field_selector.required_value("metadata.name")?;
    let placed = !target.kind.namespaced || !target.namespace.is_empty();
    placed.then(|| crate::object_key(target.kind.namespaced, &target.namespace, name))
}

/// Whether kube-apiserver would answer a list from memory. One page of everything it reads from the store as long as
/// there is nothing in memory, and so it does with pages and revisions of the past.
fn asks_cache(options: &ListOptions) -> bool {
    let selects = !options.label_selector.is_empty() || !options.field_selector.terms().is_empty();
    let is_exact = options.resource_version_match == Some(VersionMatch::Exact);
    options.continue_token.is_empty() && !is_exact && (options.limit <= 0 || selects)
}

/// The namespace that a list stays in; none across all and for cluster-scoped kinds.
pub(crate) fn list_namespace(target: &Target) -> Option<&str> {
    (target.kind.namespaced && !target.namespace.is_empty()).then_some(target.namespace.as_str())
}
