//! Field ownership: managedFields of updates, and server-side apply.

use crate::Target;
use crate::convert::Conversions;
use crate::propose::Proposed;
use pintle_apply::fieldset::{Filter, Set};
use pintle_apply::managed::{self, Applied, Context, Versions};
use pintle_kinds::never_owned;
use pintle_meta::Status;
use pintle_schema::Schema;
use pintle_schema::typed::{self, Strict};
use pintle_value::Value;

const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

/// The writer, as a managedFields entry identifies it.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) manager: &'a str,
    pub(crate) now: &'a str,
}

/// Records in managedFields that the writer owns what differs between `live` and `object`. Both are in the version of
/// the request.
pub(crate) fn record(target: &Target, owner: Owner<'_>, live: Option<&Value>, object: &mut Value) {
    record_with(target, owner, live, object, &Conversions::default());
}

/// Like `record`, with conversions that only a webhook can make.
pub(crate) fn record_with(
    target: &Target,
    owner: Owner<'_>,
    live: Option<&Value>,
    object: &mut Value,
    conversions: &Conversions,
) {
    if target.kind.has_raw() {
        return record_raw(target, owner, live, object, conversions);
    }
    record_plain(target, owner, live, object, conversions);
}

/// Like `record`, for an object with raw fields: ownership compares their values, not their texts.
fn record_raw(
    target: &Target,
    owner: Owner<'_>,
    live: Option<&Value>,
    object: &mut Value,
    conversions: &Conversions,
) {
    let schema = &target.kind_version().schema;
    let plain = |tree: &Value| {
        let mut tree = tree.clone();
        typed::drop_raw(schema, &mut tree);
        tree
    };
    let mut recorded = plain(object);
    record_plain(target, owner, live.map(plain).as_ref(), &mut recorded, conversions);
    match recorded.remove_at(&MANAGED_FIELDS) {
        Some(fields) => object.set_at(&MANAGED_FIELDS, fields),
        None => _ = object.remove_at(&MANAGED_FIELDS),
    }
}

fn record_plain(
    target: &Target,
    owner: Owner<'_>,
    live: Option<&Value>,
    object: &mut Value,
    conversions: &Conversions,
) {
    let versions = TargetVersions::new(target, conversions);
    let kind = target.kind_version().gvk(&target.kind);
    let cx = Context { kind: &kind, versions: &versions };
    // As in kube-apiserver, an update whose ownership cannot be computed is stored without an entry.
    if let Err(error) = managed::update(&cx, live, object, named(target, owner)) {
        tracing::debug!(%error, "a write could not be attributed");
    }
}

/// Like `record`, for a proposal. Fields that JSON omits have no owner.
pub(crate) fn record_proposed(
    target: &Target,
    owner: Owner<'_>,
    live: Option<&Value>,
    proposed: &mut Proposed,
    conversions: &Conversions,
) {
    if proposed.empties < typed::Remaining::Hidden {
        return record_with(target, owner, live, &mut proposed.object, conversions);
    }
    let mut normalized = proposed.object.clone();
    typed::normalize_with(&target.kind_version().schema, &mut normalized, typed::Empties::PreserveSerialized);
    if let Some(requested) = proposed.object.at(&MANAGED_FIELDS) {
        normalized.set_at(&MANAGED_FIELDS, requested.clone());
    }
    record_with(target, owner, live, &mut normalized, conversions);
    match normalized.remove_at(&MANAGED_FIELDS) {
        Some(fields) => proposed.object.set_at(&MANAGED_FIELDS, fields),
        None => _ = proposed.object.remove_at(&MANAGED_FIELDS),
    }
}

/// Merges an applied configuration into the live object. The result is decoded but not defaulted. `changed` is false if
/// only managedFields may differ.
pub(crate) fn apply(
    target: &Target,
    owner: Owner<'_>,
    live: Option<&Value>,
    config: &Value,
    force: bool,
    conversions: &Conversions,
) -> Result<(Value, Strict), Status> {
    let versions = TargetVersions::new(target, conversions);
    let kind = target.kind_version().gvk(&target.kind);
    let cx = Context { kind: &kind, versions: &versions };
    // Applied fields are merged as maps, and raw fields are printed from them again. If nothing changes, the raw fields
    // retain their text.
    let plain = live.filter(|_| target.kind.has_raw()).map(|live| {
        let mut plain = live.clone();
        typed::drop_raw(&target.kind_version().schema, &mut plain);
        plain
    });
    let applied = managed::apply(&cx, plain.as_ref().or(live), config, named(target, owner), force);
    let Applied { mut object, changed } = applied.map_err(|e| e.to_status())?;
    if let Some(live) = live.filter(|_| !changed && plain.is_some()) {
        let fields = object.remove_at(&MANAGED_FIELDS);
        object = live.clone();
        match fields {
            Some(fields) => object.set_at(&MANAGED_FIELDS, fields),
            None => _ = object.remove_at(&MANAGED_FIELDS),
        }
    }
    let mut strict = Strict::default();
    // The entries were written just now, in the form that decoding would give them.
    let fields = object.remove_at(&MANAGED_FIELDS);
    let mut object = pintle_schema::decode_applied(&target.kind_version().schema, object, &mut strict)
        .map_err(|error| managed::cannot_convert(&kind, config, error.message()).to_status())?;
    if let Some(fields) = fields {
        object.set_at(&MANAGED_FIELDS, fields);
    }
    Ok((object, strict))
}

/// Restores managedFields that admission made undecodable, with a warning.
pub(crate) fn restore_managed_fields(object: &mut Value, before: Option<Value>) -> Option<String> {
    if object.at(&MANAGED_FIELDS) == before.as_ref() {
        return None;
    }
    let why = managed::check_managed_fields(object).err()?;
    match before {
        Some(before) => object.set_at(&MANAGED_FIELDS, before),
        None => _ = object.remove_at(&MANAGED_FIELDS),
    }
    Some(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
         mutating admission controller; please fix your requests: {why}"
    ))
}

/// Restores the old times of managedFields if nothing else in them changed.
pub(crate) fn keep_times(object: &mut Value, old: &Value) {
    let began = std::time::Instant::now();
    let comparison = managed::keep_times(object, old);
    crate::measures::compared(comparison, began.elapsed());
}

fn named<'a>(target: &'a Target, owner: Owner<'a>) -> managed::Owner<'a> {
    managed::Owner { manager: owner.manager, subresource: &target.subresource, now: owner.now }
}

/// The versions of a target's kind.
struct TargetVersions<'a> {
    target: &'a Target,
    filter: Option<Filter>,
    conversions: &'a Conversions,
}

impl<'a> TargetVersions<'a> {
    fn new(target: &'a Target, conversions: &'a Conversions) -> Self {
        let reset = never_owned(&target.kind, target.kind_version().hooks, target.scope());
        let filter = (!reset.is_empty()).then(|| Filter { reset: Set::of(&reset) });
        TargetVersions { target, filter, conversions }
    }

    fn position(&self, api_version: &str) -> Option<usize> {
        let versions = &self.target.kind.versions;
        versions.iter().position(|v| crate::decode::is_api_version(&v.group, &v.name, api_version))
    }
}

impl Versions for TargetVersions<'_> {
    fn schema(&self, api_version: &str) -> Option<Schema> {
        self.target.kind.versions.get(self.position(api_version)?).map(|version| version.schema.clone())
    }

    fn convert(&self, tree: &Value, api_version: &str) -> Result<Value, String> {
        let to = self.position(api_version).ok_or_else(|| format!("no version {api_version}"))?;
        self.conversions.get(&self.target.kind, tree, to)
    }

    /// The converter of a custom resource only knows the versions of its definition and refuses others.
    fn unknown_version(&self, api_version: &str) -> Option<String> {
        let converts_all = self.target.kind_version().schema.converts_through_internal_version();
        (!converts_all).then(|| invalid_version(api_version))
    }

    fn unappliable(&self) -> Option<String> {
        let version = self.target.kind_version();
        let api_version = crate::decode::api_version(&version.group, &version.name);
        self.target.kind.rules.unappliable.then(|| invalid_version(&api_version))
    }

    /// The fields that a custom resource resets are only known for the written version, those of its status for all versions
    /// with that subresource.
    fn filter(&self, api_version: &str) -> Option<&Filter> {
        let version = self.target.kind_version();
        let has_status = || {
            let other = self.position(api_version).and_then(|at| self.target.kind.versions.get(at));
            other.is_some_and(|other| other.subresources.iter().any(|sub| sub.name == "status"))
        };
        self.filter.as_ref().filter(|_| {
            crate::decode::is_api_version(&version.group, &version.name, api_version)
                || (self.target.subresource == "status" && has_status())
                || version.schema.converts_through_internal_version()
        })
    }
}

fn invalid_version(api_version: &str) -> String {
    format!("request to convert CR to an invalid group/version: {api_version}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    #[test]
    fn managed_fields_that_admission_broke_are_taken_back() {
        let tree = |text: &str| json::parse(text.as_bytes()).unwrap().value;
        let good = r#"[{"manager":"a","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}}]"#;
        let object = |fields: &str| tree(&format!(r#"{{"metadata":{{"managedFields":{fields}}}}}"#));
        let mut broken = object(r#"[{"operation":"Destroy"}]"#);
        let warning = restore_managed_fields(&mut broken, Some(tree(good)));
        assert!(
            warning.unwrap().ends_with("please fix your requests: operation must be `Apply` or `Update`")
        );
        assert_eq!(broken, object(good));
        let mut changed = object(good);
        assert_eq!(restore_managed_fields(&mut changed, None), None);
        assert_eq!(changed, object(good));
    }
}
