//! Reads: get and list, with the rules of resourceVersion, paging and selectors.

use crate::{Engine, Target};
use pintle_cache::{Object, View, ViewError};
use pintle_meta::rv::{self, Continue};
use pintle_meta::selector::{FieldSelector, LabelSelector};
use pintle_meta::{Reason, Status};
use pintle_store::Revision;
use std::sync::Arc;
use std::time::Duration;

/// How long a read waits for a revision that is not there yet.
const FUTURE_WAIT: Duration = Duration::from_secs(3);
/// When a client shall ask again for a revision that did not come.
const FUTURE_RETRY_SECONDS: i32 = 1;

const LIST_TOO_OLD: &str = "The resourceVersion for the provided list is too old.";
const CONTINUE_TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list result. \
    You can start a new list without the continue parameter, or use the continue token in this response to retrieve \
    the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that \
    were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// A list and what narrows it.
pub struct ListRequest {
    /// The collection.
    pub target: Target,
    /// Which labels the items have.
    pub labels: LabelSelector,
    /// Which fields the items have; labels are those of the kind.
    pub fields: FieldSelector,
    /// At most so many items; 0 or less is no limit.
    pub limit: i64,
    /// Where an earlier page ended.
    pub continue_token: String,
    /// `resourceVersion`, as the client wrote it.
    pub resource_version: String,
    /// `resourceVersionMatch`
    pub version_match: Option<VersionMatch>,
}

/// `resourceVersionMatch`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// A page of a list.
pub struct Listed {
    /// The items in order of their keys.
    pub items: Vec<Arc<Object>>,
    /// Revision of the list.
    pub revision: Revision,
    /// Where the next page begins; "" on the last one.
    pub continue_token: String,
    /// How many items are left behind this page, where that is known.
    pub remaining: Option<i64>,
}

/// A view, where in it the page begins, and what is said when it is gone.
struct Moment {
    view: View,
    after: Option<String>,
    /// Revision that the list shows.
    revision: Revision,
}

impl Engine {
    /// One object.
    pub async fn get(&self, target: &Target, resource_version: &str) -> Result<Arc<Object>, Status> {
        let wanted = rv::parse(resource_version).map_err(|why| Status::new(500, Reason::Unknown, why))?;
        self.wait_for(Revision(wanted)).await?;
        let found = self.cache.get(&target.kind.store_prefix, &target.object_key());
        found.ok_or_else(|| Status::not_found(&target.kind.group_resource(), &target.name))
    }

    /// A page of a collection.
    pub async fn list(&self, request: &ListRequest) -> Result<Listed, Status> {
        let prefix = list_prefix(&request.target);
        let moment = self.moment(request, &prefix).await?;
        let limit = if request.resource_version == "0" { 0 } else { request.limit.max(0) };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let selects = Selects::new(request);
        let mut items = Vec::new();
        let mut more = false;
        let start = moment.after.as_deref().unwrap_or(&prefix);
        let mut candidates = moment.view.range(start, &prefix).peekable();
        let mut seen = 0i64;
        while let Some(object) = candidates.next() {
            seen += 1;
            if selects.matches(object) {
                items.push(object.clone());
            }
            if limit > 0 && items.len() >= limit {
                more = candidates.peek().is_some();
                break;
            }
        }
        let unfiltered = request.labels.is_empty() && request.fields.is_empty();
        let remaining = if more && unfiltered { Some(i64::try_from(candidates.count()).unwrap_or(0)) } else { None };
        let _ = seen;
        let continue_token = match items.last() {
            Some(last) if more => {
                let start = format!("{}\u{0}", last.key().strip_prefix(&*prefix).unwrap_or(last.key()));
                self.cache.pin(&request.target.kind.store_prefix, &moment.view);
                rv::encode_continue(&Continue { revision: i64::try_from(moment.revision.0).unwrap_or(0), start })
            }
            _ => String::new(),
        };
        Ok(Listed { items, revision: moment.revision, continue_token, remaining })
    }

    /// The moment that a list shows.
    async fn moment(&self, request: &ListRequest, prefix: &str) -> Result<Moment, Status> {
        if !request.continue_token.is_empty() {
            return self.continued(request, prefix);
        }
        let bad = |why: String| Status::bad_request(format!("invalid resource version: {why}"));
        let wanted = Revision(rv::parse(&request.resource_version).map_err(bad)?);
        let exact = match request.version_match {
            Some(VersionMatch::Exact) => true,
            Some(VersionMatch::NotOlderThan) => false,
            None => request.limit > 0 && wanted.0 > 0,
        };
        self.wait_for(wanted).await?;
        let resource = &request.target.kind.store_prefix;
        if exact {
            let view = self.cache.view_at(resource, wanted).map_err(|error| match error {
                ViewError::Expired { .. } => Status::expired(LIST_TOO_OLD),
                ViewError::Future { current } => too_large(wanted, current),
            })?;
            return Ok(Moment { view, after: None, revision: wanted });
        }
        let (view, revision) = self.cache.view(resource);
        Ok(Moment { view, after: None, revision })
    }

    fn continued(&self, request: &ListRequest, prefix: &str) -> Result<Moment, Status> {
        let bad = |why: String| Status::bad_request(format!("invalid continue token: {why}"));
        let token = rv::decode_continue(&request.continue_token).map_err(bad)?;
        if !request.resource_version.is_empty() && request.resource_version != "0" {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        let after = Some(format!("{prefix}{}", token.start));
        let resource = &request.target.kind.store_prefix;
        // A negative revision asks for the rest as it is now.
        let Ok(revision) = u64::try_from(token.revision) else {
            let (view, revision) = self.cache.view(resource);
            return Ok(Moment { view, after, revision });
        };
        match self.cache.view_at(resource, Revision(revision)) {
            Ok(view) => Ok(Moment { view, after, revision: Revision(revision) }),
            Err(ViewError::Future { current }) => Err(too_large(Revision(revision), current)),
            Err(ViewError::Expired { .. }) => {
                let mut status = Status::expired(CONTINUE_TOO_OLD);
                status.continue_token = rv::encode_continue(&Continue { revision: -1, start: token.start });
                Err(status)
            }
        }
    }

    /// Waits until the cache has seen `revision`, but not for long.
    async fn wait_for(&self, revision: Revision) -> Result<(), Status> {
        if self.cache.revision() >= revision || self.cache.wait_for(revision, FUTURE_WAIT).await {
            return Ok(());
        }
        Err(too_large(revision, self.cache.revision()))
    }
}

fn too_large(wanted: Revision, current: Revision) -> Status {
    Status::too_large_resource_version(wanted.0, current.0, FUTURE_RETRY_SECONDS)
}

/// What the keys of a list begin with: `namespace/` within a namespace, nothing across all.
pub(crate) fn list_prefix(target: &Target) -> String {
    if target.kind.namespaced && !target.namespace.is_empty() { format!("{}/", target.namespace) } else { String::new() }
}

/// The selectors of a list or watch, ready to be matched against kept objects.
pub(crate) struct Selects {
    labels: LabelSelector,
    fields: Vec<(FieldAt, bool, pintle_value::Str)>,
}

enum FieldAt {
    Name,
    Namespace,
    Kept(usize),
    Unknown,
}

impl Selects {
    pub(crate) fn new(request: &ListRequest) -> Self {
        let version = request.target.kind.storage_version();
        let place = |label: &str| match label {
            "metadata.name" => FieldAt::Name,
            "metadata.namespace" => FieldAt::Namespace,
            _ => version.selectable.iter().position(|f| f.label == label).map_or(FieldAt::Unknown, FieldAt::Kept),
        };
        let fields = request.fields.terms().map(|t| (place(&t.label), t.equal, t.value.clone())).collect();
        Selects { labels: request.labels.clone(), fields }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        let field = |place: &FieldAt| match place {
            FieldAt::Name => object.name(),
            FieldAt::Namespace => object.namespace(),
            FieldAt::Kept(at) => object.fields().get(*at).map_or("", |s| s.as_str()),
            FieldAt::Unknown => "",
        };
        self.fields.iter().all(|(place, equal, value)| (field(place) == value.as_str()) == *equal)
            && self.labels.matches(|key| object.label(key))
    }
}
