//! Validates the spec of a definition.
//!
//! kube-apiserver validates definitions in an internal form: parts that are equal in all versions (schema,
//! subresources, columns, selectable fields) belong to the spec as a whole there, and errors about them are reported
//! under the spec.

use super::props::Props;
use super::rules::{Context, Tally};
use super::{conversion, defaults, names, openapi, selectable, structural, version};
use crate::check;
use crate::error_text::{self, Internal};
use pintle_meta::{FieldErrors, names as meta_names};
use pintle_schema::Schema;
use pintle_value::{Path, Str, Value};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// How strict the validation is: values that the old object already has stay accepted.
pub(super) struct Options {
    pub(super) require_schema: bool,
    pub(super) require_structural: bool,
    pub(super) require_valid_types: bool,
    pub(super) require_pruned_defaults: bool,
    pub(super) require_atomic_sets: bool,
    pub(super) require_list_map_keys: bool,
    pub(super) require_known_review: bool,
    pub(super) require_authorities: bool,
    /// Versions ("" for the spec) that may exceed the limit of selectable fields.
    pub(super) many_selectable: Vec<String>,
    /// Versions with an unchanged schema, whose rules may exceed the cost limit.
    pub(super) unchanged: HashSet<Str>,
    /// The type of metadata, which defaults inside of metadata are read as.
    pub(super) metadata: Option<Schema>,
}

impl Options {
    /// For new definitions.
    pub(super) fn strict(metadata: Option<Schema>) -> Self {
        Options {
            require_schema: true,
            require_structural: true,
            require_valid_types: true,
            require_pruned_defaults: true,
            require_atomic_sets: true,
            require_list_map_keys: true,
            require_known_review: true,
            // An invalid CA bundle is accepted, but then the definition is not established.
            require_authorities: false,
            many_selectable: Vec::new(),
            unchanged: HashSet::new(),
            metadata,
        }
    }

    /// The options for an update of `old`.
    pub(super) fn after(old: &Value, new: &Value, established: bool, metadata: Option<Schema>) -> Self {
        let schemas: Vec<Props<'_>> = schemas(old).collect();
        let has =
            |wanted: &dyn Fn(Props<'_>) -> bool| schemas.iter().any(|schema| schema.any(&|s| wanted(s)));
        let non_structural = |schema: &Props<'_>| {
            structural::not_structural_reason(*schema).is_some()
                || !structural::validate(*schema, &Path::ROOT).is_empty()
        };
        let known = ["array", "boolean", "integer", "number", "object", "string", ""];
        let unkeyed = |schema: Props<'_>| {
            let mut errors = FieldErrors::new();
            openapi::validate_list_map_items(schema, &Path::ROOT, &mut errors);
            !errors.is_empty()
        };
        Options {
            require_schema: schemas.len() == old.items_at(&["versions"]).len(),
            require_structural: !schemas.iter().any(non_structural),
            require_valid_types: !has(&|s| !known.contains(&s.kind())),
            require_pruned_defaults: !schemas.iter().any(|s| defaults::has_unpruned(*s, metadata.as_ref())),
            require_atomic_sets: !has(&|s| openapi::non_atomic_set(s).is_some()),
            require_list_map_keys: !has(&unkeyed),
            require_known_review: conversion::supports_known_review_version(old.get("conversion")),
            require_authorities: established && !conversion::has_invalid_ca_bundle(old.get("conversion")),
            many_selectable: unchanged_selectable(old, new),
            unchanged: unchanged_schemas(old, new),
            metadata,
        }
    }

    fn is_unchanged(&self, version: &str) -> bool {
        self.unchanged.contains(version)
    }
}

fn schemas(spec: &Value) -> impl Iterator<Item = Props<'_>> {
    spec.items_at(&["versions"]).iter().filter_map(|v| v.at(&["schema", "openAPIV3Schema"])).map(Props)
}

fn unchanged_schemas(old: &Value, new: &Value) -> HashSet<Str> {
    let (before, after) = (versions_by_name(old), versions_by_name(new));
    let schema = |version: &&Value| version.get("schema").cloned();
    let is_unchanged =
        |(name, version): &(&&str, &&Value)| before.get(*name).map(schema) == Some(schema(version));
    after.iter().filter(is_unchanged).map(|(name, _)| Str::from(*name)).collect()
}

/// The versions of a spec; the first of each name.
fn versions_by_name(spec: &Value) -> HashMap<&str, &Value> {
    let mut out = HashMap::new();
    for version in spec.items_at(&["versions"]) {
        out.entry(version.str_at(&["name"])).or_insert(version);
    }
    out
}

/// The versions that exceed the limit of selectable fields and did before.
fn unchanged_selectable(old: &Value, new: &Value) -> Vec<String> {
    let fields = |v: &Value| v.get("selectableFields").cloned();
    let old = versions_by_name(old);
    let before = |name: &str| old.get(name).and_then(|version| fields(version));
    let mut out = Vec::new();
    for version in new.items_at(&["versions"]) {
        let name = version.str_at(&["name"]);
        let many = version.items_at(&["selectableFields"]).len() > selectable::FIELDS_MAX;
        if many && before(name) == fields(version) {
            out.push(name.to_string());
        }
    }
    if !out.is_empty() && out.len() == new.items_at(&["versions"]).len() {
        out.push(String::new());
    }
    out
}

/// Parts that all versions have in common, which kube-apiserver's internal type has in the spec.
struct Shared<'a> {
    versions: &'a [Value],
    /// Those of `SHARED` that are equal in all versions.
    keys: Vec<&'static str>,
}

const PROPS: &str = "apiextensions/v1.JSONSchemaProps";
/// The parts of a version that can be in the spec.
const SHARED: [&str; 4] = ["subresources", "schema", "additionalPrinterColumns", "selectableFields"];

impl<'a> Shared<'a> {
    /// Compares the versions once, because each of them is validated without the shared parts.
    fn new(versions: &'a [Value]) -> Self {
        let is_shared = |key: &&str| match versions.split_first() {
            Some((first, others)) => others.iter().all(|version| version.get(key) == first.get(key)),
            None => false,
        };
        Shared { versions, keys: SHARED.into_iter().filter(is_shared).collect() }
    }

    fn is_shared(&self, key: &str) -> bool {
        self.keys.contains(&key)
    }

    /// A part that all versions share.
    fn of_spec(&self, key: &str) -> Option<&'a Value> {
        self.versions.first()?.get(key).filter(|v| self.is_shared(key) && !v.is_null())
    }

    /// A part of one version, unless all versions share it.
    fn own(&self, version: &'a Value, key: &str) -> Option<&'a Value> {
        version.get(key).filter(|v| !self.is_shared(key) && !v.is_null())
    }

    /// A version without what all versions share, as the internal type has it.
    fn without_shared(&self, version: &Value) -> Value {
        let mut version = version.clone();
        for key in &self.keys {
            version.remove_at(&[key]);
        }
        version
    }

    fn has_status(&self, version: &Value) -> bool {
        version.at(&["subresources", "status"]).is_some_and(|s| !s.is_null())
    }
}

/// Validates a spec.
pub(super) fn validate(spec: &Value, mut options: Options, path: &Path<'_>, errors: &mut FieldErrors) {
    let versions = spec.items_at(&["versions"]);
    let shared = Shared::new(versions);
    let preserves = spec.get("preserveUnknownFields").and_then(Value::as_bool).unwrap_or(false);
    validate_group_and_scope(spec, path, errors);
    options.require_structural |= !preserves;
    require_schemas(&shared, &options, preserves, path, errors);
    if schemas(spec).any(|schema| schema.any(&|s| s.has("default"))) {
        options.require_structural = true;
        if preserves {
            let why = "must be false in order to use defaults in the schema";
            errors.invalid(&path.field("preserveUnknownFields"), true, why);
        }
    }
    options.require_structural |= schemas(spec).any(|schema| schema.any(&has_extensions));
    let versions_path = path.field("versions");
    for (at, version) in versions.iter().enumerate() {
        let name = version.str_at(&["name"]);
        let complaints = meta_names::is_dns1035_label(name);
        if !complaints.is_empty() {
            errors.invalid(&versions_path.index(at).field("name"), name, &complaints.join(","));
        }
        validate_version(version, &shared, &options, &versions_path.index(at), errors);
    }
    validate_version_set(spec, &shared, path, errors);
    for key in ["plural", "singular", "kind", "listKind"] {
        if spec.str_at(&["names", key]).is_empty() {
            errors.required(&path.field("names").field(key), "");
        }
    }
    if let Some(given) = spec.get("names") {
        names::validate(given, &path.field("names"), errors);
    }
    validate_shared(&shared, &options, path, errors);
    let strategy = spec.str_at(&["conversion", "strategy"]);
    let conversion_path = path.field("conversion");
    if preserves && strategy != "None" {
        conversion::must_be_none(strategy, &conversion_path.field("strategy"), errors);
    }
    conversion::validate(spec.get("conversion"), &options, &conversion_path, errors);
}

fn validate_group_and_scope(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let group = spec.str_at(&["group"]);
    let at = path.field("group");
    let complaints = meta_names::is_dns1123_subdomain(group);
    if group.is_empty() {
        errors.required(&at, "");
    } else if !complaints.is_empty() {
        errors.invalid(&at, group, &complaints.join(","));
    } else if !group.contains('.') {
        errors.invalid(&at, group, "should be a domain with at least one dot");
    }
    match spec.str_at(&["scope"]) {
        "" => errors.required(&path.field("scope"), ""),
        "Cluster" | "Namespaced" => {}
        other => errors.not_supported(&path.field("scope"), other, &["Cluster", "Namespaced"]),
    }
}

fn require_schemas(
    shared: &Shared<'_>,
    options: &Options,
    preserves: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let has_schema = |v: &Value| v.at(&["schema", "openAPIV3Schema"]).is_some();
    for (index, version) in shared.versions.iter().enumerate().filter(|(_, v)| !has_schema(v)) {
        let served = version.get("served").and_then(Value::as_bool).unwrap_or(false);
        let at = path.field("versions");
        let at = at.index(index);
        let at = at.field("schema");
        if options.require_schema {
            errors.required(&at.field("openAPIV3Schema"), "");
        } else if !preserves && served {
            errors.required(&at.field("openAPIV3Schema"), "because otherwise all fields are pruned");
        }
    }
}

fn has_extensions(schema: Props<'_>) -> bool {
    schema.flag("x-kubernetes-embedded-resource")
        || schema.has("x-kubernetes-preserve-unknown-fields")
        || schema.flag("x-kubernetes-int-or-string")
        || !schema.list("x-kubernetes-list-map-keys").is_empty()
        || schema.has("x-kubernetes-list-type")
        || !schema.list("x-kubernetes-validations").is_empty()
}

/// Validates the unshared parts of a version.
fn validate_version(
    version: &Value,
    shared: &Shared<'_>,
    options: &Options,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    version::validate_deprecation(version, &path.field("deprecationWarning"), errors);
    let has_status = shared.has_status(version);
    let schema = shared.own(version, "schema");
    let unlimited = options.is_unchanged(version.str_at(&["name"]));
    validate_schema(schema, has_status, unlimited, options, &path.field("schema"), errors);
    version::validate_subresources(shared.own(version, "subresources"), &path.field("subresources"), errors);
    let columns = shared.own(version, "additionalPrinterColumns");
    version::validate_columns(columns, &path.field("additionalPrinterColumns"), errors);
    let fields = shared.own(version, "selectableFields").and_then(Value::as_array).unwrap_or(&[]);
    if fields.is_empty() {
        return;
    }
    match schema.and_then(|s| s.get("openAPIV3Schema")) {
        None => {
            let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.invalid(&path.field("selectableFields"), "", why);
        }
        Some(schema) => {
            let name = version.str_at(&["name"]);
            validate_selectable_fields(fields, Props(schema), name, options, path, errors);
        }
    }
}

fn validate_selectable_fields(
    fields: &[Value],
    schema: Props<'_>,
    version: &str,
    options: &Options,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let at = path.field("selectableFields");
    if let Some(why) = structural::not_structural_reason(schema) {
        errors.invalid(&path.field("schema.openAPIV3Schema"), "", why);
        return selectable::validate_without_schema(fields, &at, errors);
    }
    let many = options.many_selectable.iter().any(|v| v == version);
    selectable::validate(fields, schema, many, &at, errors);
}

/// Validates the shared parts.
fn validate_shared(shared: &Shared<'_>, options: &Options, path: &Path<'_>, errors: &mut FieldErrors) {
    let any_status = shared.versions.iter().any(|v| shared.has_status(v));
    let schema = shared.of_spec("schema");
    let unlimited =
        shared.versions.first().is_some_and(|first| options.is_unchanged(first.str_at(&["name"])));
    validate_schema(schema, any_status, unlimited, options, &path.field("validation"), errors);
    version::validate_subresources(shared.of_spec("subresources"), &path.field("subresources"), errors);
    let columns = shared.of_spec("additionalPrinterColumns");
    version::validate_columns(columns, &path.field("additionalPrinterColumns"), errors);
    let fields = shared.of_spec("selectableFields").and_then(Value::as_array).unwrap_or(&[]);
    if fields.is_empty() {
        return;
    }
    match schema {
        None => {
            let why = "may only be set when validations.schema is included";
            errors.invalid(&path.field("selectableFields"), "", why);
        }
        Some(schema) => {
            let schema = Props(schema.get("openAPIV3Schema").unwrap_or(&Value::Null));
            validate_selectable_fields(fields, schema, "", options, path, errors);
        }
    }
}

/// Validates the set of versions.
fn validate_version_set(spec: &Value, shared: &Shared<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let versions = shared.versions;
    let at = path.field("versions");
    let stored = versions.iter().filter(|v| v.get("storage").and_then(Value::as_bool) == Some(true)).count();
    let unique = !check::has_repeated(versions.iter().map(|version| version.str_at(&["name"])));
    let own = spec.get("versions").and_then(Value::as_array);
    let own = own.map(|all| Value::Array(all.iter().map(|version| shared.without_shared(version)).collect()));
    let error_text = || Internal(own.as_ref(), "[]apiextensions/v1.CustomResourceDefinitionVersion");
    if !unique {
        errors.invalid(&at, error_text(), "must contain unique version names");
    }
    if stored != 1 {
        errors.invalid(&at, error_text(), "must have exactly one version marked as storage version");
    }
    // The internal type also has the first version's name in the spec.
    let first = versions.first().map_or("", |version| version.str_at(&["name"]));
    let complaints = meta_names::is_dns1035_label(first);
    if !first.is_empty() && !complaints.is_empty() {
        errors.invalid(&path.field("version"), first, &complaints.join(","));
    }
}

/// Keywords that may be at the root of a schema with a status subresource.
const ROOT_FIELDS: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

fn validate_schema(
    validation: Option<&Value>,
    has_status: bool,
    unlimited: bool,
    options: &Options,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let Some(schema) = validation.and_then(|v| v.get("openAPIV3Schema")).map(Props) else { return };
    let mut found = FieldErrors::new();
    if has_status {
        validate_status_root(schema, path, &mut found);
    }
    if schema.flag("nullable") {
        found.forbidden(&path.field("openAPIV3Schema.nullable"), "nullable cannot be true at the root");
    }
    let at = path.field("openAPIV3Schema");
    let not_structural_reason =
        structural::not_structural_reason(schema).filter(|_| options.require_structural);
    let tally = RefCell::new(Tally::new(unlimited));
    let root = Context::of_root(schema, &tally);
    // Rules are only validated in structural schemas.
    let mut rules = None;
    if options.require_structural && not_structural_reason.is_none() {
        let mut schema_errors = structural::validate(schema, &at);
        if schema_errors.is_empty() {
            let (pruned, metadata) = (options.require_pruned_defaults, options.metadata.as_ref());
            defaults::validate(schema, pruned, metadata, &at, &mut schema_errors);
        }
        rules = schema_errors.is_empty().then_some(&root);
        found.append(schema_errors);
    }
    openapi::validate(schema, &openapi::Place::root(rules), options, &at, &mut found);
    found.append(std::mem::take(&mut tally.borrow_mut().errors));
    if let Some(why) = not_structural_reason.filter(|_| found.is_empty()) {
        found.invalid(&at, "", why);
    }
    tally.borrow().validate_total_cost(&at, &mut found);
    errors.append(found);
}

fn validate_status_root(schema: Props<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    for go_name in error_text::go_names(schema.0, PROPS) {
        if go_name == "Type" && schema.kind() != "object" {
            let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            return errors.invalid(&path.field("openAPIV3Schema.type"), schema.kind(), why);
        }
        if !ROOT_FIELDS.contains(&go_name) {
            let allowed = ROOT_FIELDS.join(" ");
            let why = format!(
                "only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
            );
            return errors.invalid(&path.field("openAPIV3Schema"), Internal(Some(schema.0), PROPS), &why);
        }
    }
}
