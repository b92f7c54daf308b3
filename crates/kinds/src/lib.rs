//! The kinds: what a kind is, the embedded tables of the built-in ones, and hooks for behaviour that no schema can
//! express. A kind without hooks has no file.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apiserverinternal;
mod apps;
mod autoscaling;
mod batch;
pub mod builtin;
mod builtin_hooks;
mod builtin_resources;
mod builtin_rules;
mod builtin_types;
mod certificates;
mod check;
mod coordination;
mod core;
pub mod custom;
mod defaults;
pub mod descriptions;
mod diff;
mod discovery;
pub mod endpoint;
mod error_text;
mod events;
mod facts;
pub mod features;
mod fields;
mod fill;
mod flowcontrol;
pub mod hooks;
pub mod kind;
mod metadata;
mod networking;
mod node;
mod ownable;
mod policy;
mod rbac;
mod resource;
mod scheduling;
mod storage;
mod storagemigration;
pub mod table;
#[cfg(test)]
mod testing;
mod webhook;
mod workload;

pub use admissionregistration::expressions as admission_expressions;
pub use apiextensions::{approval, definition, rules as definition_rules};
pub use builtin::{
    Builtin, Group, GroupVersionEntry, Selectable, Types, builtin, builtin_selected, builtin_versions,
};
pub use certificates::RequestSubject;
pub use core::podspec::qos::class as qos_class;
pub use core::podspec::resources::is_extended as is_extended_resource;
pub use core::podspec::scheduling::validate_tolerations;
pub use core::podspec::security::set_allow_privileged;
pub use core::service::addresses as service_addresses;
pub use core::service::allocate as service_allocation;
pub use defaults::Defaults;
pub use hooks::{Hooks, Namespace, NoHooks, Requester, Scope, TEMPLATE_LABELS};
pub use kind::{
    Column, Generation, ImmutableField, Keep, Kind, KindVersion, MetadataOnUpdate, Rules, ScalePaths,
    SelectableField, Strategy, Subresource, Verbs,
};
pub use pintle_cel::library::kubernetes::semver::Version as SemanticVersion;

/// What OpenAPI documents say of each type of the API: lines of a name and the facts of its schema in OpenAPI v3, with
/// bare names for references.
pub const PUBLISHED_SCHEMAS: &str = include_str!("../data/schemas.txt");
pub use ownable::never_owned;
