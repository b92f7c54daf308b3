//! The `scale` subresource: an `autoscaling/v1` Scale over the replicas of its parent.
//!
//! A write reads the parent as a Scale, changes the Scale as any object is changed, and puts the replicas back.

use crate::convert::Conversions;
use crate::precondition::check_uid;
use crate::propose::{Change, Proposed};
use crate::write::{Live, Proposal, WriteRequest, attributes, note_request_patch};
use crate::{Reader, Target, Writer, decode, object};
use pintle_admission::Measuring;
use pintle_apply::fieldset::FieldPath;
use pintle_apply::managed::{ReplicasPath, scale_to_parent, scale_to_subresource};
use pintle_kinds::ScalePaths;
use pintle_meta::selector::LabelSelector;
use pintle_meta::{FieldErrors, GroupKind, GroupResource, Status, names, objectmeta};
use pintle_schema::typed;
use pintle_value::{Path, Str, Value};

/// Marks absent replicas of a custom resource: a number that no client sends on purpose.
const UNSET: i64 = i32::MIN as i64;

/// The paths of the replicas in the target, if the request is about its scale.
pub(crate) fn paths(target: &Target) -> Option<&ScalePaths> {
    if target.subresource != "scale" {
        return None;
    }
    target.kind_version().subresource("scale")?.scale.as_ref()
}

/// The value at a path. The values on the way must be objects or null.
fn at<'a>(tree: &'a Value, path: &[Str]) -> Result<Option<&'a Value>, String> {
    let mut value = tree;
    for (depth, key) in path.iter().enumerate() {
        value = match value {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(key) {
                Some(below) => below,
                None => return Ok(None),
            },
            other => {
                let way = path.get(..=depth).unwrap_or(path);
                return Err(accessor_error(way, other, "map[string]interface{}"));
            }
        };
    }
    Ok(Some(value))
}

fn dotted(path: &[Str]) -> String {
    path.iter().map(|part| format!(".{part}")).collect()
}

/// Returns whether the parent is a built-in kind, whose fields are typed.
fn is_typed(target: &Target) -> bool {
    target.kind_version().schema.decodes_into_go_struct()
}

/// The error for a body that cannot be decoded. For the Scale of a custom resource, kube-apiserver looks up the name of the
/// type where it is not registered, and reports only that.
pub(crate) fn undecodable(target: &Target, status: Status) -> Status {
    const UNREGISTERED: &str = "no kind is registered for the type v1.Scale in scheme \
        \"k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go:781\"";
    match paths(target) {
        Some(_) if !is_typed(target) && status.code == 400 => Status::bad_request(UNREGISTERED),
        _ => status,
    }
}

impl Reader {
    /// Returns the Scale of a parent, in the version of the request. After a write, kube-apiserver returns it without
    /// replicas in the status.
    pub fn scale_tree(&self, target: &Target, parent: &Value, is_written: bool) -> Result<Value, Status> {
        let Some(paths) = paths(target) else { return Err(Status::internal("there is no scale")) };
        let (mut scale, found) = view(target, paths, parent)?;
        if !found && !is_written {
            let field = dotted(&paths.spec_replicas);
            return Err(Status::internal(&format!("the spec replicas field \"{field}\" does not exist")));
        }
        self.normalize_scale(&mut scale);
        Ok(scale)
    }

    fn normalize_scale(&self, scale: &mut Value) {
        if let Some(schema) = self.storage.types.by_kind("autoscaling/v1", "Scale") {
            typed::normalize(&schema, scale);
        }
    }
}

impl Writer {
    /// Computes the Scale that a request proposes.
    pub(crate) fn propose_scale(
        &self,
        request: &WriteRequest,
        live: Option<&Live>,
        paths: &ScalePaths,
    ) -> Result<Proposal, Status> {
        let target = &request.target;
        let body_target = self.storage.body_target(target)?;
        let Some(live) = live else {
            let absent = || Status::not_found(&target.kind.group_resource(), &target.name);
            // kube-apiserver decodes a body before it looks up the parent, but a patch after. An audit event has both.
            return Err(match &request.change {
                Change::Replace(_) => {
                    self.propose_on(request, &body_target, None, &Conversions::default())?.refused(absent())
                }
                change => {
                    note_request_patch(change);
                    absent()
                }
            });
        };
        let parent = self.reader.to_request_version(target, &live.tree).into_owned();
        let (mut old, found) = view(target, paths, &parent)?;
        if !found {
            old.set_at(&["spec", "replicas"], Value::Int(UNSET));
        }
        let replicas_paths = replicas_paths(target);
        let entries = parent.items_at(&["metadata", "managedFields"]).to_vec();
        let entries =
            scale_to_subresource(&entries, &replicas_paths).map_err(|why| Status::internal(&why))?;
        if !entries.is_empty() {
            old.set_at(&["metadata", "managedFields"], Value::Array(entries));
        }
        self.reader.normalize_scale(&mut old);
        let proposed = self.propose_on(request, &body_target, Some(&old), &Conversions::default())?;
        let Proposed { object, warnings, .. } = proposed.checked(|scale| match request.change {
            Change::Replace(_) => check_uid(target, scale, Some(live), request.dry_run),
            _ => Ok(()),
        })?;
        let scale = ScaleProposal { target: body_target, old, parent, paths: paths.clone(), replicas_paths };
        Ok(Proposal {
            object,
            warnings,
            empties: typed::Remaining::Nothing,
            shares_template_labels: false,
            other_kind: None,
            scale: Some(Box::new(scale)),
        })
    }

    /// Runs validating admission for a write of a scale. `old` and `new` are the parent in the version that writes work
    /// in.
    pub(crate) async fn validate_scaled(
        &self,
        request: &WriteRequest,
        paths: &ScalePaths,
        old: &Value,
        new: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<Measuring<'_>, Status> {
        let target = &request.target;
        let scale = |parent: &Value| {
            let (mut scale, _) = view(target, paths, &self.reader.to_request_version(target, parent))?;
            self.reader.normalize_scale(&mut scale);
            Ok::<_, Status>(scale)
        };
        let (old, new) = (scale(old)?, scale(new)?);
        let attributes = attributes(request, Some(&old), &target.name);
        self.admission
            .validate_admitted(&attributes, &self.storage.body_target(target)?, Some(&new), warnings)
            .await
    }
}

/// A proposed Scale with its parent.
pub(crate) struct ScaleProposal {
    /// The target of the request with the kind Scale.
    pub(crate) target: Target,
    /// The Scale of the live parent.
    pub(crate) old: Value,
    /// The live parent, in the version of the request.
    parent: Value,
    paths: ScalePaths,
    replicas_paths: Vec<ReplicasPath>,
}

impl ScaleProposal {
    /// Validates the proposed Scale and returns its parent with the new replicas, in the version that writes work in.
    pub(crate) fn into_parent(self, target: &Target, scale: &Value) -> Result<Value, Status> {
        let ScaleProposal { mut parent, paths, replicas_paths, .. } = self;
        let replicas = scale.at(&["spec", "replicas"]).and_then(Value::as_int).unwrap_or(0);
        check(target, &paths, scale, replicas)?;
        let wanted = scale.str_at(&["metadata", "uid"]);
        let actual = parent.str_at(&["metadata", "uid"]);
        if !wanted.is_empty() && wanted != actual {
            let why =
                format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}");
            let resource = GroupResource::new(&target.kind.group, &format!("{}/scale", target.kind.plural));
            return Err(Status::conflict(&resource, &target.name, &why));
        }
        let version = target.kind_version();
        let api_version = decode::api_version(&version.group, &version.name);
        let entries = parent.items_at(&["metadata", "managedFields"]).to_vec();
        let written = scale.items_at(&["metadata", "managedFields"]);
        let entries = scale_to_parent(&entries, written, &api_version, &replicas_paths)
            .map_err(|why| Status::internal(&why))?;
        let keys: Vec<&str> = paths.spec_replicas.iter().map(Str::as_str).collect();
        parent.set_at(&keys, Value::Int(replicas));
        if entries.is_empty() {
            _ = parent.remove_at(&["metadata", "managedFields"])
        } else {
            parent.set_at(&["metadata", "managedFields"], Value::Array(entries))
        }
        let revision = scale.str_at(&["metadata", "resourceVersion"]);
        if !revision.is_empty() {
            parent.set_at(&["metadata", "resourceVersion"], revision.into());
        }
        object::convert(&target.kind, &mut parent, target.version, target.working());
        Ok(parent)
    }
}

/// Validates the scale that a client requests.
fn check(target: &Target, paths: &ScalePaths, scale: &Value, replicas: i64) -> Result<(), Status> {
    if !is_typed(target) {
        if replicas == UNSET {
            let field = dotted(&paths.spec_replicas);
            return Err(Status::bad_request(format!("the spec replicas field \"{field}\" cannot be empty")));
        }
        return Ok(());
    }
    let mut errors = FieldErrors::new();
    let (metadata, path) = (scale.get("metadata").unwrap_or(&Value::Null), Path::of("metadata"));
    objectmeta::validate_create(metadata, true, &names::dns_subdomain, &path, &mut errors);
    objectmeta::validate_core_finalizers(metadata, &path, &mut errors);
    if replicas < 0 {
        errors.invalid(&Path::of("spec.replicas"), replicas, "must be greater than or equal to 0");
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("autoscaling", "Scale"), &target.name, &errors))
}

/// Returns a parent as a Scale, and whether it has replicas at all.
fn view(target: &Target, paths: &ScalePaths, parent: &Value) -> Result<(Value, bool), Status> {
    let mut scale = Value::object();
    scale.set_at(&["kind"], "Scale".into());
    scale.set_at(&["apiVersion"], "autoscaling/v1".into());
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = parent.at(&["metadata", key]) {
            scale.set_at(&["metadata", key], value.clone());
        }
    }
    let wanted = read_number(parent, &paths.spec_replicas)?;
    scale.set_at(&["spec", "replicas"], Value::Int(wanted.unwrap_or(0)));
    let running = read_number(parent, &paths.status_replicas)?;
    scale.set_at(&["status", "replicas"], Value::Int(running.unwrap_or(0)));
    let selector = selector_text(target, paths, parent)?;
    if !selector.is_empty() {
        scale.set_at(&["status", "selector"], selector.into());
    }
    Ok((scale, wanted.is_some() || is_typed(target)))
}

fn read_number(parent: &Value, path: &[Str]) -> Result<Option<i64>, Status> {
    match at(parent, path).map_err(Status::unclassified)? {
        None => Ok(None),
        Some(Value::Int(number)) => Ok(Some(*number)),
        Some(other) => Err(Status::unclassified(accessor_error(path, other, "int64"))),
    }
}

fn selector_text(target: &Target, paths: &ScalePaths, parent: &Value) -> Result<String, Status> {
    if paths.label_selector.is_empty() {
        return Ok(String::new());
    }
    let found = at(parent, &paths.label_selector).map_err(Status::unclassified)?;
    let Some(selector) = found else { return Ok(String::new()) };
    if !is_typed(target) {
        let text = selector.as_str().map(str::to_string);
        return text
            .ok_or_else(|| Status::unclassified(accessor_error(&paths.label_selector, selector, "string")));
    }
    // ReplicationControllers have a plain map of labels as selector.
    if target.kind.group.is_empty() {
        let labels = selector.as_object().map(LabelSelector::from_labels);
        return Ok(labels.map(|l| l.to_string()).unwrap_or_default());
    }
    LabelSelector::from_value(selector).map(|s| s.to_string()).map_err(Status::bad_request)
}

/// Go's error for a field of the wrong type.
fn accessor_error(path: &[Str], value: &Value, wanted: &str) -> String {
    let kind = value.go_type();
    let text = pintle_apply::patch::go_text::go_text(value);
    format!("{} accessor error: {text} is of the type {kind}, expected {wanted}", dotted(path))
}

/// The path of the replicas in each version of the parent.
fn replicas_paths(target: &Target) -> Vec<ReplicasPath> {
    let versions = target.kind.versions.iter();
    versions
        .map(|version| {
            let scale = version.subresource("scale").and_then(|sub| sub.scale.as_ref());
            let path = scale.map(|paths| {
                let keys: Vec<&str> = paths.spec_replicas.iter().map(Str::as_str).collect();
                FieldPath::of(&keys)
            });
            ReplicasPath { api_version: decode::api_version(&version.group, &version.name), path }
        })
        .collect()
}

/// Validates the replica counts of a custom resource with a scale, whichever way it is written.
pub(crate) fn validate_numbers(target: &Target, object: &Value, errors: &mut FieldErrors) {
    let Some(paths) = target.working_version().subresource("scale").and_then(|sub| sub.scale.as_ref()) else {
        return;
    };
    for path in [&paths.spec_replicas, &paths.status_replicas] {
        validate_number(object, path, errors);
    }
    if paths.label_selector.is_empty() {
        return;
    }
    let wrong = match at(object, &paths.label_selector) {
        Ok(None | Some(Value::String(_))) => return,
        Ok(Some(other)) => accessor_error(&paths.label_selector, other, "string"),
        Err(why) => why,
    };
    errors.invalid(&Path::of(&dotted(&paths.label_selector)), "", &wrong);
}

fn validate_number(object: &Value, path: &[Str], errors: &mut FieldErrors) {
    let field = dotted(path);
    let field = Path::of(&field);
    match at(object, path) {
        Ok(None) => {}
        Ok(Some(Value::Int(number))) if *number < 0 => {
            errors.invalid(&field, *number, "should be a non-negative integer");
        }
        Ok(Some(Value::Int(number))) if *number > i64::from(i32::MAX) => {
            errors.invalid(&field, *number, &format!("should be less than or equal to {}", i32::MAX));
        }
        Ok(Some(Value::Int(_))) => {}
        Ok(Some(other)) => errors.invalid(&field, 0, &accessor_error(path, other, "int64")),
        Err(why) => errors.invalid(&field, 0, &why),
    }
}
