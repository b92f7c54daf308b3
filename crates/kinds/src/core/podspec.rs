//! The pod spec and template, shared by all kinds that create pods.

pub(crate) mod affinity;
pub(crate) mod aggregate;
pub(crate) mod annotations;
pub(crate) mod containers;
pub(crate) mod defaults;
pub(crate) mod disabled;
pub(crate) mod env;
pub(crate) mod handlers;
pub(crate) mod image;
pub(crate) mod internal;
pub(crate) mod mounts;
pub(crate) mod options;
pub(crate) mod overlaps;
pub(crate) mod paths;
pub(crate) mod projected;
pub(crate) mod qos;
pub(crate) mod resources;
pub(crate) mod scheduling;
pub(crate) mod security;
pub(crate) mod spec;
pub(crate) mod spread;
pub(crate) mod volume_sources;
pub(crate) mod volumes;
pub(crate) mod warnings;
pub(crate) mod windows;

use pintle_value::{Path, Value};

/// Calls `visit` for each container of a spec with its path: init containers first, ephemeral ones last.
pub(crate) fn visit_containers<'a>(
    spec: &'a Value,
    path: &Path<'_>,
    mut visit: impl FnMut(&'a Value, &Path<'_>),
) {
    for name in defaults::CONTAINER_LISTS {
        let list = path.field(name);
        for (at, container) in spec.items_at(&[name]).iter().enumerate() {
            visit(container, &list.index(at));
        }
    }
}
