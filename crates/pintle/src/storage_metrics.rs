//! Metrics that are computed on scrape: objects and sizes by resource, the build, the feature gates.

use crate::config::Config;
use crate::emulation::Emulation;
use pintle_cache::View;
use pintle_engine::Engine;
use pintle_http::version::GIT_VERSION;
use pintle_kinds::Kind;
use pintle_metrics::families;
use std::path::Path;

/// The number of objects whose size is measured to estimate the total.
const SAMPLED_MAX: usize = 100;

/// Updates the metrics of each resource; numbers of objects only if `counts`.
pub(crate) fn update(engine: &Engine, data: &Path, counts: bool) {
    for kind in engine.storage().registry().kinds().all() {
        // Reviews, bindings and component statuses are not stored.
        if !kind.verbs.watch {
            continue;
        }
        let Some(resource) = engine.storage().cache().resource(&kind.store_prefix) else { continue };
        let view = resource.view();
        let labels = [kind.group.as_str(), kind.plural.as_str()];
        if counts {
            count_objects(kind, &view);
        }
        families::CACHE_REVISION.set(&labels, float(usize::try_from(view.revision()).unwrap_or(0)));
        // The cache is filled once from the store and follows it from then on.
        let events = resource.events();
        if events > 0 {
            families::STORE_EVENTS.set_count(&labels, events);
            families::CACHE_EVENTS_RECEIVED.set_count(&labels, events);
        }
        families::CACHE_INITIALIZATIONS.set_count(&labels, 1);
        families::STORE_LISTS.set_count(&labels, 1);
        for family in
            [&families::STORE_LIST_EVALUATED, &families::STORE_LIST_FETCHED, &families::STORE_LIST_RETURNED]
        {
            family.add(&labels, 0);
        }
        families::ETCD_BOOKMARKS.add(&labels, 0);
    }
    // The size of etcd is requested periodically instead.
    if !engine.storage().store().is_shared() {
        families::STORE_BYTES.set(&["pintle"], float(folder_bytes(data)));
    }
}

fn count_objects(kind: &Kind, view: &View) {
    let labels = [kind.group.as_str(), kind.plural.as_str()];
    families::RESOURCE_OBJECTS.set(&labels, float(view.len()));
    let sampled: usize = view.iter().take(SAMPLED_MAX).map(|object| object.value().len()).sum();
    let count = view.len().clamp(1, SAMPLED_MAX);
    families::RESOURCE_BYTES.set(&labels, float(sampled) / float(count) * float(view.len()));
    let name = if kind.group.is_empty() {
        kind.plural.to_string()
    } else {
        format!("{}.{}", kind.plural, kind.group)
    };
    families::STORE_OBJECTS.set(&[&name], float(view.len()));
}

fn folder_bytes(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().filter_map(|entry| entry.metadata().ok()).filter(|m| m.is_file());
    usize::try_from(sizes.map(|metadata| metadata.len()).sum::<u64>()).unwrap_or(usize::MAX)
}

/// Sets the metrics that do not change while the server runs.
pub(crate) fn describe_build(config: &Config) {
    let platform = pintle_http::version::platform();
    let build = [
        "1970-01-01T00:00:00Z",
        "rustc",
        env!("PINTLE_GIT_COMMIT"),
        "clean",
        GIT_VERSION,
        "",
        "1",
        "36",
        &platform,
    ];
    families::BUILD_INFO.set(&build, 1.0);
    let Emulation { minor, min_compatibility_minor, .. } = config.emulation;
    let binary = GIT_VERSION.trim_start_matches('v');
    let versions = [binary, "kube", &format!("1.{minor}"), &format!("1.{min_compatibility_minor}")];
    families::VERSION_INFO.set(&versions, 1.0);
    for (name, stage, enabled) in config.gate_stages() {
        families::FEATURES.set(&[name, stage], if enabled { 1.0 } else { 0.0 });
    }
    for (labels, count) in families::count_by_stability() {
        families::REGISTERED_METRICS.set_count(&labels, count);
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures of metrics are floats")]
fn float(number: usize) -> f64 {
    number as f64
}
