//! The OpenAPI v2 document, assembled from cached parts, so that a change costs only its own part.

use super::model::{Dialect, object, texts};
use super::operations::{META, Paths, of_version};
use super::params;
use super::part::{Content, Form, Members, Part};
use super::stitch::{Frame, merged};
use super::{
    OTHERS, Rendered, Source, clashes, custom_parts, described_tag, group_paths, hash, identify, info,
    other_paths, schemas, security_definitions,
};
use crate::discovery::{self, DiscoveryState, Group};
use pintle_controllers::aggregation::RemoteSpec;
use pintle_value::{Map, Str, Value};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// The document.
pub(super) fn v2(source: Source<'_>, form: Form) -> Arc<Rendered> {
    source.state.openapi.get("v2", form, || {
        let mut own = vec![server_part().members(Dialect::V2, form, server_content)];
        let mut custom = Vec::new();
        for group in every_group(source.state) {
            if group.installed {
                own.push(group.part.members(Dialect::V2, form, || group_content(group, source.cbor)))
            } else {
                let in_version = |version| move |resource| (group, version, resource);
                custom.extend(group.versions.iter().flat_map(|v| v.resources.iter().map(in_version(v))));
            }
        }
        let custom = custom_parts(source, &custom, Dialect::V2, form);
        let (remote, changed) = remote_parts(source.state, form);
        // If several paths have the same name, that of this server takes precedence.
        let parts = || remote.iter().chain(own.iter().copied()).chain(custom.iter().copied()).chain(&changed);
        let frame = Frame {
            dialect: Dialect::V2,
            head: object([("swagger", "2.0".into()), ("info", info())]),
            tail: object([
                ("parameters", parameters(source.state)),
                ("tags", Value::Array(tags(source.state))),
                ("securityDefinitions", security_definitions()),
                ("security", Value::Array(vec![object([("BearerToken", texts([]))])])),
            ]),
        };
        let paths = merged(parts().flat_map(|part| &part.paths));
        let used = used_definitions(&own);
        let types = own.iter().flat_map(|part| &part.schemas).filter(|schema| used.contains(&*schema.name));
        let remote_schemas = remote.iter().flat_map(|part| &part.schemas);
        let schemas = merged(remote_schemas.chain(types).chain(custom.iter().flat_map(|part| &part.schemas)));
        Rendered { texts: frame.around(form, &paths, &schemas), hash: v2_hash(source, form), modified: 0 }
    })
}

/// The types of the API that are published: those that the operations of the server and its parameters refer to, directly
/// or not, and what all custom resources have. Versions that are not served have none.
fn used_definitions(own: &[&Members]) -> BTreeSet<String> {
    let mut wanted: BTreeSet<String> = own.iter().flat_map(|part| part.uses.iter().cloned()).collect();
    schemas::references(&params::shared().into(), 0, &mut wanted);
    wanted.extend(["ObjectMeta", "ListMeta", "Status"].map(|name| format!("{META}{name}")));
    schemas::reachable(wanted)
}

/// The tags of groups and their versions, with the descriptions of the groups.
fn tags(state: &DiscoveryState) -> Vec<Value> {
    let installed = every_group(state).filter(|group| group.installed);
    let of_group = |group: &Group| {
        let versions = std::iter::once("").chain(group.versions.iter().map(|version| version.name.as_str()));
        versions.filter_map(|version| described_tag(group, version)).collect::<Vec<_>>()
    };
    installed.flat_map(of_group).collect()
}

/// Parameters that operations refer to: those of this server, and those of extension servers under other names.
fn parameters(state: &DiscoveryState) -> Value {
    let remote = every_spec(state).flat_map(|spec| &spec.parameters);
    let mut all: Map = remote.map(|(name, param)| (Str::from(name.as_str()), param.clone())).collect();
    for (name, param) in params::shared().iter() {
        all.insert(name.clone(), param.clone());
    }
    all.into()
}

/// The hash of the OpenAPI v2 document, computed without rendering it.
pub(super) fn v2_hash(source: Source<'_>, form: Form) -> Arc<str> {
    source.state.openapi_v2_hash(form == Form::Json, || {
        let mut text = format!("{} {form:?}", source.identity());
        for group in every_group(source.state) {
            group.versions.iter().for_each(|version| identify(group, version, &mut text));
        }
        every_spec(source.state).for_each(|spec| text.push_str(&format!(" {:x}", spec.hash)));
        hash(text.as_bytes())
    })
}

/// The core group, then the named ones.
fn every_group(state: &DiscoveryState) -> impl Iterator<Item = &Group> {
    state.group("").into_iter().chain(state.groups().map(|group| &**group))
}

/// The OpenAPI documents of extension servers.
fn every_spec(state: &DiscoveryState) -> impl Iterator<Item = &RemoteSpec> {
    let listed = state.groups().flat_map(|group| &group.listing);
    listed.filter_map(|version| match &version.source {
        discovery::Source::Remote(remote) => remote.openapi_v2.as_deref(),
        discovery::Source::Own(_) => None,
    })
}

/// The parts that extension servers add: their own, and definitions of this server that also describe kinds of theirs.
fn remote_parts(state: &DiscoveryState, form: Form) -> (Option<Members>, Option<Members>) {
    if every_spec(state).next().is_none() {
        return (None, None);
    }
    let own =
        schemas::all(Dialect::V2).iter().map(|(name, schema)| (name.to_string(), schema.clone())).collect();
    let resolved = clashes::resolve(own, every_spec(state));
    let remote = Members::of_trees(&resolved.paths, &resolved.definitions, form);
    (Some(remote), Some(Members::of_trees(&[], &resolved.changed, form)))
}

/// The part that belongs to no group.
fn server_part() -> &'static Part {
    static PART: OnceLock<Part> = OnceLock::new();
    PART.get_or_init(Part::default)
}

fn server_content() -> Content {
    let mut paths = Paths::new();
    for name in ["api", "apis"].into_iter().chain(OTHERS.iter().map(|other| other.0)) {
        paths.extend(other_paths(name).unwrap_or_default());
    }
    Content { paths, schemas: schemas::all(Dialect::V2), installed: true }
}

/// The content of a built-in group.
fn group_content(group: &Group, cbor: bool) -> Content {
    let mut paths = if group.name.is_empty() { Paths::new() } else { group_paths(group) };
    for version in &group.versions {
        paths.extend(of_version(group, version, cbor));
    }
    Content { paths, schemas: Map::new(), installed: true }
}
