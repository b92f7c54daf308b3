//! Parses the table of served resources into kinds, each with its row of the table of rules.

use crate::builtin_hooks::hooks_for;
use crate::builtin_rules::{self, Row};
use crate::kind::{ScalePaths, UNSUPPORTED_LABEL};
use crate::{Group, GroupVersionEntry, Kind, KindVersion, Selectable, Subresource, Types, Verbs, defaults};
use pintle_meta::{GroupVersion, GroupVersionKind};
use pintle_schema::Schema;
use pintle_value::Str;
use std::collections::HashMap;

/// The group-versions of the table, each with whether it is served by default.
pub(crate) fn versions(resources: &'static str) -> impl Iterator<Item = (GroupVersion, bool)> {
    resources.lines().filter_map(|line| line.strip_prefix("version ")).map(version_line)
}

/// Parses a line `GROUP/VERSION [off]`; returns whether the version is served by default.
fn version_line(line: &str) -> (GroupVersion, bool) {
    match line.strip_suffix(" off") {
        Some(name) => (group_version(name), false),
        None => (group_version(line), true),
    }
}

/// Reads both tables.
pub(crate) fn load(
    resources: &'static str,
    rules: &'static str,
    types: &Types,
    selected: &dyn Fn(Selectable<'_>) -> bool,
) -> (Vec<Kind>, Vec<Group>) {
    let rules = builtin_rules::read(rules);
    let gate = |plural: &str, gv: &GroupVersion| {
        rules.get(resource_name(plural, &gv.group).as_str()).map_or("", |row| row.gate)
    };
    let selected = |version: &GroupVersion, plural: &str, by_default| {
        selected(Selectable { version, plural, by_default, gate: gate(plural, version) })
    };
    let served = served_resources(resources, &selected);
    let mut kinds: Vec<Kind> = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    let (mut gv, mut by_default) = (GroupVersion::default(), true);
    // The kind that the following subresources belong to.
    let mut current = None;
    for line in resources.lines().filter(|l| !l.starts_with('#')) {
        if let Some(name) = line.strip_prefix("version ") {
            (gv, by_default) = version_line(name);
        } else if let Some(sub) = line.strip_prefix("  ") {
            let version =
                current.and_then(|at| kinds.get_mut(at)).and_then(|k: &mut Kind| k.versions.last_mut());
            if let Some(version) = version {
                version.subresources.push(parse_subresource(sub));
            }
        } else {
            let plural = plural_of(line);
            current = None;
            if !served.contains(&resource_name(plural, &gv.group)) {
                continue;
            }
            let at = add_resource(&mut kinds, line.trim_start(), &gv, types, &rules);
            current = Some(at);
            let is_served = selected(&gv, plural, by_default);
            if let Some(version) = kinds.get_mut(at).and_then(|kind| kind.versions.last_mut()) {
                version.served = is_served;
            }
            if is_served {
                add_version(&mut groups, &gv);
                if let Some(version) = groups.last_mut().and_then(|g| g.versions.last_mut()) {
                    version.kinds.push(at);
                }
            }
        }
    }
    (kinds, groups)
}

fn plural_of(line: &str) -> &str {
    line.trim_start().split(' ').next().unwrap_or_default()
}

/// The resources that are served in any version, as `pods` or `deployments.apps`.
fn served_resources(
    resources: &'static str,
    selected: &dyn Fn(&GroupVersion, &str, bool) -> bool,
) -> std::collections::HashSet<String> {
    let (mut gv, mut by_default) = (GroupVersion::default(), true);
    let mut out = std::collections::HashSet::new();
    for line in resources.lines().filter(|l| !l.starts_with(['#']) && !l.starts_with("  ")) {
        if let Some(name) = line.strip_prefix("version ") {
            (gv, by_default) = version_line(name);
        } else if selected(&gv, plural_of(line), by_default) {
            out.insert(resource_name(plural_of(line), &gv.group));
        }
    }
    out
}

fn group_version(name: &str) -> GroupVersion {
    let (group, version) = name.split_once('/').unwrap_or(("", name));
    GroupVersion::new(group, version)
}

fn add_version(groups: &mut Vec<Group>, gv: &GroupVersion) {
    if groups.last().is_none_or(|g| g.name != gv.group) {
        groups.push(Group { name: gv.group.clone(), versions: Vec::new() });
    }
    if let Some(group) = groups.last_mut().filter(|g| g.versions.last().is_none_or(|v| v.name != gv.version))
    {
        group.versions.push(GroupVersionEntry { name: gv.version.clone(), kinds: Vec::new() });
    }
}

/// Adds a resource, as a new kind or as another version of a known one; returns the kind's index.
fn add_resource(
    kinds: &mut Vec<Kind>,
    line: &'static str,
    gv: &GroupVersion,
    types: &Types,
    rules: &HashMap<&'static str, Row>,
) -> usize {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (plural, kind, scope, singular, verbs) = (word(), word(), word(), word(), word());
    let fact = |name: &str| line.split(' ').find_map(|w| w.strip_prefix(name)).unwrap_or_default();
    let row = rules.get(resource_name(plural, &gv.group).as_str());
    let version = kind_version(gv, kind, types, row);
    // The same kind in a second version, or (events) in a second group.
    let known = kinds.iter().position(|k| k.plural == plural && (k.group == gv.group || plural == "events"));
    if let Some(at) = known {
        if let Some(known) = kinds.get_mut(at) {
            known.versions.push(version);
        }
        return at;
    }
    let names = |text: &str| text.split(',').filter(|n| !n.is_empty()).map(Str::from).collect();
    kinds.push(Kind {
        group: gv.group.clone(),
        kind: Str::from(kind),
        list_kind: Str::from(format!("{kind}List")),
        plural: Str::from(plural),
        singular: Str::from(singular),
        short_names: names(fact("short=")),
        categories: names(fact("cat=")),
        namespaced: scope == "namespaced",
        versions: vec![version],
        storage: 0,
        verbs: Verbs::of(verbs),
        storage_version_hash: Str::from(fact("hash=")),
        store_prefix: Str::from(format!(
            "/registry/{}/",
            row.map(|r| r.prefix).filter(|p| !p.is_empty()).unwrap_or(plural)
        )),
        rules: row.map(|r| r.rules).unwrap_or_default(),
        strategy: row.map_or_else(builtin_rules::usual_strategy, |row| row.strategy.clone()),
        hooks: hooks_for(&gv.group, kind),
        conversion: None,
        definition: Str::default(),
    });
    kinds.len().saturating_sub(1)
}

/// The resource with its group: `pods` or `deployments.apps`.
fn resource_name(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_string() } else { format!("{plural}.{group}") }
}

fn kind_version(gv: &GroupVersion, kind: &str, types: &Types, row: Option<&Row>) -> KindVersion {
    let schema = types.by_kind(&gv.to_string(), kind);
    let go_name = types.go_name(&gv.to_string(), kind);
    KindVersion {
        name: gv.version.clone(),
        served: true,
        group: gv.group.clone(),
        schema: schema.unwrap_or_else(|| Schema::new(types.arena.clone(), pintle_schema::NodeId(0))),
        protobuf: true,
        subresources: Vec::new(),
        selectable: row.map(|r| r.select.clone()).unwrap_or_default(),
        namespace_selectable: row.is_none_or(|r| r.namespace),
        unsupported_label: Str::from(
            row.map(|r| r.unsupported).unwrap_or(UNSUPPORTED_LABEL).replace("{gv}", &gv.to_string()),
        ),
        columns: Vec::new(),
        deprecation: row.and_then(|r| deprecation(r, gv, kind)),
        defaults: go_name.and_then(|name| defaults::of_type(&name)),
        hooks: hooks_for(&gv.group, kind),
    }
}

/// The warning for requests in a version: `v1 Endpoints is deprecated in v1.33+`.
fn deprecation(row: &Row, gv: &GroupVersion, kind: &str) -> Option<Str> {
    let of_version = |line: &&'static str| line.strip_prefix(gv.version.as_str())?.strip_prefix(' ');
    let why = row.deprecated.iter().find_map(of_version)?;
    Some(Str::from(format!("{gv} {kind} is deprecated in {why}")))
}

fn parse_subresource(line: &str) -> Subresource {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (name, gvk, verbs) = (word(), word(), word());
    let (version, kind) = gvk.rsplit_once('.').unwrap_or(("", gvk));
    let gv = group_version(version);
    Subresource {
        name: Str::from(name),
        gvk: GroupVersionKind { group: gv.group, version: gv.version, kind: Str::from(kind) },
        verbs: Verbs::of(verbs),
        scale: (name == "scale").then(scale_paths),
    }
}

/// All built-in kinds with a scale have their replica counts at the same paths.
fn scale_paths() -> ScalePaths {
    let path = |parts: [&str; 2]| parts.iter().map(|part| Str::from(*part)).collect();
    ScalePaths {
        spec_replicas: path(["spec", "replicas"]),
        status_replicas: path(["status", "replicas"]),
        label_selector: path(["spec", "selector"]),
    }
}
