//! The proposal of a write: the object that a client requests, computed from its body and the live object.

use super::{Live, MANAGED_FIELDS, WriteRequest, note_request_object};
use crate::convert::Conversions;
use crate::precondition::{check_no_uid, check_uid};
use crate::propose::{self, Change, Proposed};
use crate::subresource::scale::ScaleProposal;
use crate::{Target, Writer, metadata, object, ownership, subresource};
use pintle_meta::{GroupKind, Status};
use pintle_schema::typed::{Empties, Remaining};
use pintle_value::{Value, json};

/// The object that a request reads and writes, as admission sees it.
pub(crate) struct Proposal {
    /// The requested object in the version that the write works in, or the requested Scale.
    pub(crate) object: Value,
    /// The warnings for the client.
    pub(crate) warnings: Vec<String>,
    /// Which empty lists and maps the object has.
    pub(crate) empties: Remaining,
    /// Whether the labels of a new object are those of its pod template.
    pub(crate) shares_template_labels: bool,
    /// The kind that the body states, if it is a custom resource of another kind.
    pub(crate) other_kind: Option<GroupKind>,
    /// If the object is a Scale: its parent, and the Scale before the write.
    pub(crate) scale: Option<Box<ScaleProposal>>,
}

impl Proposal {
    /// Returns the object to be stored, in the version that the write works in: the proposed object, or the parent with
    /// the proposed scale.
    pub(super) fn into_candidate(self, target: &Target) -> Result<Value, Status> {
        match self.scale {
            None => Ok(self.object),
            Some(scale) => scale.into_parent(target, &self.object),
        }
    }
}

impl Writer {
    /// Computes what the request proposes.
    pub(super) async fn propose(
        &self,
        request: &WriteRequest,
        live: Option<&Live>,
    ) -> Result<Proposal, Status> {
        let target = &request.target;
        if let Some(paths) = subresource::scale::paths(target) {
            return self.propose_scale(request, live, paths);
        }
        // kube-apiserver decodes a body before it looks up the object, but does not decode a patch of an object that
        // does not exist.
        if live.is_none() && matches!(request.change, Change::Apply { .. }) && !creates(request) {
            note_request_patch(&request.change);
            return Err(Status::not_found(&target.group_resource(), &target.name));
        }
        let mut conversions = Conversions::default();
        let proposed = loop {
            let live_in_request_version = live.map(|live| self.reader.to_request_version(target, &live.tree));
            let proposed = self.propose_on(request, target, live_in_request_version.as_deref(), &conversions);
            if !conversions.make(&self.reader, &target.kind).await {
                break proposed;
            }
        };
        let mut proposed = proposed?.checked(|object| {
            if let Change::Replace(_) = request.change {
                check_uid(target, object, live, request.dry_run)?;
            }
            if live.is_none() && !creates(request) {
                return Err(Status::not_found(&target.group_resource(), &target.name));
            }
            Ok(())
        })?;
        object::convert(&target.kind, &mut proposed.object, target.version, target.working());
        let Proposed { object, warnings, empties, shares_template_labels, other_kind, .. } = proposed;
        Ok(Proposal { object, warnings, empties, shares_template_labels, other_kind, scale: None })
    }

    /// Returns the requested object in the version of the request. `live` is the live object in that version.
    pub(crate) fn propose_on(
        &self,
        request: &WriteRequest,
        target: &Target,
        live: Option<&Value>,
        conversions: &Conversions,
    ) -> Result<Proposed, Status> {
        let now = self.storage.now_text();
        let manager = metadata::manager(&request.field_manager, &request.user_agent);
        let kinds = self.storage.registry.kinds();
        let registered =
            |kind: &str, gv: &pintle_meta::GroupVersion| self.storage.is_built_in(&kinds, kind, gv);
        let owner = ownership::Owner { manager: &manager, now: &now };
        let cx = propose::Context { target, validation: request.validation(), registered: &registered };
        let proposed = match &request.change {
            Change::Create(body) => {
                let decoded = propose::decode_object(&cx, body, Empties::Preserve)?;
                note_request_object(target, &decoded.object);
                let mut proposed = decoded.checked(|object| {
                    metadata::wipe_system_fields(object);
                    metadata::default_namespace(object, target)
                })?;
                ownership::record_proposed(target, owner, None, &mut proposed, conversions);
                proposed
            }
            Change::Replace(body) => {
                let decoded = propose::decode_object(&cx, body, Empties::Preserve)
                    .map_err(|status| subresource::scale::undecodable(&request.target, status))?;
                note_request_object(target, &decoded.object);
                let mut proposed = decoded.checked(|object| {
                    metadata::default_namespace(object, target)?;
                    metadata::check_name(object, target)
                })?;
                ownership::record_proposed(target, owner, live, &mut proposed, conversions);
                proposed
            }
            Change::Patch(kind, body) => {
                note_request_patch(&request.change);
                let Some(live) = live else {
                    return Err(Status::not_found(&target.group_resource(), &target.name));
                };
                let mut proposed = propose::patch_object(&cx, live, *kind, body)?;
                ownership::record_proposed(target, owner, Some(live), &mut proposed, conversions);
                proposed
            }
            Change::Apply { body, force } => {
                let config = propose::Configuration::decode(body)?;
                note_request_patch(&request.change);
                let (mut object, unknown) =
                    ownership::apply(target, owner, live, &config.tree, *force, conversions)?;
                crate::object_size::check(&object)?;
                check_convertible(target, &config.tree, &object)?;
                let shares_template_labels = target.kind_version().hooks.shares_template_labels(&object);
                // The entries have the form that is stored already.
                let fields = object.remove_at(&MANAGED_FIELDS);
                let empties = propose::complete(target, &mut object, Empties::Preserve);
                if let Some(fields) = fields {
                    object.set_at(&MANAGED_FIELDS, fields);
                }
                let warnings = config.complaints(request.validation(), &unknown)?;
                let proposed = Proposed::plain(object, warnings, empties);
                Proposed { shares_template_labels, ..proposed }.checked(|object| {
                    check_no_uid(target, object, live)?;
                    metadata::default_namespace(object, target)?;
                    metadata::check_name(object, target)
                })?
            }
        };
        Ok(proposed)
    }
}

/// Returns whether a write creates the object if it does not exist.
fn creates(request: &WriteRequest) -> bool {
    let target = &request.target;
    let rules = &target.kind.rules;
    match request.change {
        Change::Create(_) => true,
        Change::Apply { .. } if target.subresource == "status" && rules.create_on_status_apply => true,
        // The status is stored by the same rules as the object.
        _ if target.subresource == "status" => rules.create_on_update,
        _ if !target.subresource.is_empty() => false,
        Change::Apply { .. } => true,
        Change::Replace(_) | Change::Patch(..) => rules.create_on_update,
    }
}

/// Records the patch or applied configuration of a request for the audit event.
pub(crate) fn note_request_patch(change: &Change) {
    pintle_audit::note_request_document(|| match change {
        Change::Patch(_, body) => json_document(body),
        Change::Apply { body, .. } => Some(json::bytes(&propose::Configuration::decode(body).ok()?.tree)),
        Change::Create(_) | Change::Replace(_) => None,
    });
}

/// The patch for an audit event, if it is JSON.
fn json_document(body: &[u8]) -> Option<Vec<u8>> {
    Some(json::bytes(&json::parse(body).ok()?.value))
}

/// Refuses an applied object that kube-apiserver cannot convert into its internal type. The error names the configuration.
fn check_convertible(target: &Target, config: &Value, object: &Value) -> Result<(), Status> {
    let version = target.kind_version();
    let Some(why) = version.hooks.conversion_error(object) else { return Ok(()) };
    let (namespace, name) = (config.str_at(&["metadata", "namespace"]), config.str_at(&["metadata", "name"]));
    let gvk = version.gvk(&target.kind);
    let gvk = format!("{}/{}, Kind={}", gvk.group, gvk.version, gvk.kind);
    Err(Status::unclassified(format!("failed to convert to unversioned ({namespace}/{name}; {gvk}): {why}")))
}
