//! The document of OpenAPI v2: all of it in one, from parts that are kept, so that a change costs no more than its own.

use super::model::{Dialect, object, texts};
use super::operations::{Paths, of_version};
use super::part::{Content, Form, Members, Part};
use super::stitch::{Frame, merged};
use super::{
    OTHERS, Rendered, Source, custom_parts, group_paths, hash, identify, info, other_paths, schemas, security,
};
use crate::discovery::{self, DiscoveryState, Group};
use pintle_controllers::aggregation::RemoteSpec;
use pintle_value::{Map, Value};
use std::sync::{Arc, OnceLock};

/// The document.
pub(super) fn v2(source: Source<'_>, form: Form) -> Arc<Rendered> {
    source.state.openapi.get("v2", form, || {
        let mut own = vec![server_part().members(Dialect::V2, form, server_content)];
        let mut custom = Vec::new();
        for group in every_group(source.state) {
            match group.installed {
                true => own.push(group.part.members(Dialect::V2, form, || group_content(group, source.cbor))),
                false => {
                    let of = |version| move |resource| (group, version, resource);
                    custom.extend(group.versions.iter().flat_map(|v| v.resources.iter().map(of(v))));
                }
            }
        }
        let custom = custom_parts(source, &custom, Dialect::V2, form);
        let remote: Vec<Members> =
            every_spec(source.state).map(|spec| Members::of_spec(spec, form)).collect();
        // Of paths and definitions with the same name those of this server stay.
        let parts = || remote.iter().chain(own.iter().copied()).chain(custom.iter().copied());
        let frame = Frame {
            dialect: Dialect::V2,
            head: object([("swagger", "2.0".into()), ("info", info())]),
            tail: object([
                ("securityDefinitions", security()),
                ("security", Value::Array(vec![object([("BearerToken", texts([]))])])),
            ]),
        };
        let paths = merged(parts().flat_map(|part| &part.paths));
        let schemas = merged(parts().flat_map(|part| &part.schemas));
        Rendered { texts: frame.around(form, &paths, &schemas), hash: v2_hash(source, form) }
    })
}

/// The hash of the document of OpenAPI v2 in a form, which is told without making it.
pub(super) fn v2_hash(source: Source<'_>, form: Form) -> Arc<str> {
    source.state.openapi_v2_hash(form == Form::Json, || {
        let mut text = format!("{} {} {form:?}", env!("CARGO_PKG_VERSION"), source.cbor);
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

/// What extension servers say of their groups.
fn every_spec(state: &DiscoveryState) -> impl Iterator<Item = &RemoteSpec> {
    let listed = state.groups().flat_map(|group| &group.listing);
    listed.filter_map(|version| match &version.source {
        discovery::Source::Remote(remote) => remote.openapi_v2.as_deref(),
        discovery::Source::Own(_) => None,
    })
}

/// What belongs to no group: the same in every server.
fn server_part() -> &'static Part {
    static PART: OnceLock<Part> = OnceLock::new();
    PART.get_or_init(Part::default)
}

fn server_content() -> Content {
    let mut paths = Paths::new();
    for name in ["api", "apis"].into_iter().chain(OTHERS.iter().map(|other| other.0)) {
        paths.extend(other_paths(name).unwrap_or_default());
    }
    Content { paths, schemas: schemas::all(Dialect::V2) }
}

/// A group that is part of the server.
fn group_content(group: &Group, cbor: bool) -> Content {
    let mut paths = if group.name.is_empty() { Paths::new() } else { group_paths(group) };
    for version in &group.versions {
        paths.extend(of_version(group, version, cbor));
    }
    Content { paths, schemas: Map::new() }
}
