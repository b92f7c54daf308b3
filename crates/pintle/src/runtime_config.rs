//! `--runtime-config`: enables and disables versions of the API.

use crate::emulation::{self, Emulation};
use crate::flags::Flags;
use pintle_kinds::{Selectable, builtin_versions, features};
use pintle_meta::strconv;
use std::collections::BTreeMap;

/// The parsed flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuntimeConfig {
    /// `api/all`, `api/ga`, `api/beta` and `api/alpha` as given, in this order: later ones take precedence.
    stages: Vec<(Stage, bool)>,
    /// `group/version`, which takes precedence over stages. The core group is `v1` or `/v1`.
    versions: BTreeMap<String, bool>,
    /// `group/version/resource`, which takes precedence over all.
    resources: BTreeMap<String, bool>,
    emulation: Emulation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    All,
    Stable,
    Beta,
    Alpha,
}

const STAGES: [(&str, Stage); 4] = [
    ("api/all", Stage::All),
    ("api/ga", Stage::Stable),
    ("api/beta", Stage::Beta),
    ("api/alpha", Stage::Alpha),
];

/// Versions that kube-apiserver knows but never serves. The flag accepts them without effect, as in kube-apiserver.
const NOT_SERVED: [(&str, &str); 22] = [
    ("admission.k8s.io", "v1"),
    ("admission.k8s.io", "v1beta1"),
    ("apps", "v1beta1"),
    ("apps", "v1beta2"),
    ("authentication.k8s.io", "v1alpha1"),
    ("authentication.k8s.io", "v1beta1"),
    ("authorization.k8s.io", "v1beta1"),
    ("batch", "v1beta1"),
    ("discovery.k8s.io", "v1beta1"),
    ("events.k8s.io", "v1beta1"),
    ("extensions", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta2"),
    ("flowcontrol.apiserver.k8s.io", "v1beta3"),
    ("imagepolicy.k8s.io", "v1alpha1"),
    ("node.k8s.io", "v1alpha1"),
    ("node.k8s.io", "v1beta1"),
    ("policy", "v1beta1"),
    ("rbac.authorization.k8s.io", "v1alpha1"),
    ("rbac.authorization.k8s.io", "v1beta1"),
    ("scheduling.k8s.io", "v1beta1"),
    ("storage.k8s.io", "v1alpha1"),
];

/// The group and version of an entry, if no such group exists.
fn unknown_group(key: &str) -> Option<&str> {
    let slash = key.find('/')?;
    let (group, rest) = (key.get(..slash)?, key.get(slash.saturating_add(1)..)?);
    let served = builtin_versions();
    let mut known = served.iter().map(|(v, _)| v.group.as_str()).chain(NOT_SERVED.map(|(group, _)| group));
    // `api/v1` is the core group; `api` is no group with other versions.
    if known.any(|known| known == group) || (group == "api" && rest.split('/').next() == Some("v1")) {
        return None;
    }
    let end = rest.find('/').unwrap_or(rest.len());
    key.get(..slash.saturating_add(1).saturating_add(end))
}

/// The entries of the flag. As in kube-apiserver, all names of the core group and its resources mean the core group, and
/// `api/legacy` means nothing.
pub(crate) fn entries(flags: &Flags) -> BTreeMap<String, String> {
    let is_core = |key: &str| {
        let name = key.strip_prefix("api/").unwrap_or(key);
        name == "v1" || name.starts_with("v1/")
    };
    let given = flags.map("runtime-config").into_iter().filter(|(key, _)| key != "api/legacy");
    given.map(|(key, value)| (if is_core(&key) { "/v1".to_string() } else { key }, value)).collect()
}

impl RuntimeConfig {
    /// The error of entries that name no version, or no known group. A server without any version has no meaning.
    pub(crate) fn flag_error(entries: &BTreeMap<String, String>) -> Option<String> {
        if entries.len() == 1 && entries.get("api/all").is_some_and(|value| value == "false") {
            return Some("invalid runtime-config with only api/all=false".to_string());
        }
        let named = || entries.keys().filter(|key| STAGES.iter().all(|(stage, _)| stage != key));
        if let Some(key) = named().find(|key| !matches!(key.split('/').count(), 2 | 3)) {
            return Some(format!("runtime-config invalid key {key}"));
        }
        let mut unknown: Vec<&str> = named().filter_map(|key| unknown_group(key)).collect();
        unknown.dedup();
        (!unknown.is_empty()).then(|| format!("unknown api groups {}", unknown.join(",")))
    }

    /// Parses the entries of the flag.
    pub(crate) fn parse(entries: &BTreeMap<String, String>, emulation: Emulation) -> Result<Self, String> {
        let mut config = RuntimeConfig { emulation, ..RuntimeConfig::default() };
        for (key, stage) in STAGES {
            match entries.get(key).map(String::as_str) {
                None => {}
                Some("true") => config.stages.push((stage, true)),
                Some("false") => config.stages.push((stage, false)),
                Some(other) => return Err(format!("invalid value {key}={other}")),
            }
        }
        let named = || entries.iter().filter(|(key, _)| STAGES.iter().all(|(stage, _)| stage != key));
        for (key, value) in named() {
            config.add(key, value)?;
        }
        config.check_introduced()?;
        Ok(config)
    }

    fn add(&mut self, key: &str, value: &str) -> Result<(), String> {
        let on = if value.is_empty() { Some(true) } else { strconv::parse_bool(value) };
        let on = on.ok_or_else(|| {
            format!(
                "invalid value of {key}: {value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax"
            )
        })?;
        let parts: Vec<&str> = key.split('/').collect();
        let (group, version, resource) = match parts.as_slice() {
            [group, version] => (*group, *version, None),
            [group, version, resource] => (*group, *version, Some(*resource)),
            _ => return Err(format!("runtime-config invalid key {key}")),
        };
        // In the flag the core group is `api`, as in its path.
        let group = if group == "api" { "" } else { group };
        let served = builtin_versions();
        let served = || served.iter().map(|(v, _)| (v.group.as_str(), v.version.as_str()));
        let mut known = served().chain(NOT_SERVED).filter(|(known, _)| *known == group);
        if !known.any(|(_, known)| known == version) {
            return Err(format!("group version {group}/{version} that has not been registered"));
        }
        match resource {
            None => _ = self.versions.insert(format!("{group}/{version}"), on),
            Some(resource) if resource.to_lowercase() != resource => {
                return Err(format!(
                    "invalid key {key}: group/version/resource and resource is always lowercase plural, not \"{resource}\""
                ));
            }
            Some(resource) => _ = self.resources.insert(format!("{group}/{version}/{resource}"), on),
        }
        Ok(())
    }

    /// Whether a resource is served in a version. A resource whose feature gate is off is never served.
    pub(crate) fn selects(&self, resource: Selectable<'_>) -> bool {
        if !resource.gate.is_empty() && !features::is_enabled(resource.gate) {
            return false;
        }
        let (group, version) = (&resource.version.group, &resource.version.version);
        let is_on = match self.configured(group, version, resource.plural) {
            Some(on) => on,
            None => resource.by_default || self.follows_older(group, version, resource.plural),
        };
        is_on && self.exists(group, version, resource.plural)
    }

    /// Whether the flag enables a version of a resource; `None` if it does not mention it.
    fn configured(&self, group: &str, version: &str, resource: &str) -> Option<bool> {
        let named = self.resources.get(&format!("{group}/{version}/{resource}"));
        let versioned = || self.versions.get(&format!("{group}/{version}"));
        let staged =
            || self.stages.iter().rev().find(|(stage, _)| stage.has_version(version)).map(|(_, on)| on);
        named.or_else(versioned).or_else(staged).copied()
    }

    /// Returns whether the emulated version has a version of a resource, or later versions are served nevertheless.
    fn exists(&self, group: &str, version: &str, resource: &str) -> bool {
        let minor = emulation::introduced(group, version, resource);
        if minor.is_none_or(|minor| minor <= self.emulation.minor) {
            return true;
        }
        let is_named = || {
            let version = format!("{group}/{version}");
            let resource = self.resources.get(&format!("{version}/{resource}"));
            resource == Some(&true) || self.versions.get(&version) == Some(&true)
        };
        (self.emulation.runtime_config_forward_compatible && is_named())
            || self.follows_older(group, version, resource)
    }

    /// With `--emulation-forward-compatible`: returns whether an older version of a resource is served, which enables
    /// the newer ones. Alpha versions neither enable others nor are enabled by them.
    fn follows_older(&self, group: &str, version: &str, resource: &str) -> bool {
        let rank = |version: &str| (!Stage::Beta.has_version(version), version.to_string());
        let is_stable = |version: &str| !Stage::Alpha.has_version(version);
        let mut older = emulation::versions_of(group, resource)
            .filter(|other| is_stable(other) && rank(other) < rank(version));
        self.emulation.forward_compatible
            && is_stable(version)
            && older.any(|other| {
                let is_on =
                    self.configured(group, other, resource).unwrap_or(Stage::Stable.has_version(other));
                is_on && self.exists(group, other, resource)
            })
    }

    /// Refuses to enable a version by name that the emulated version does not have.
    fn check_introduced(&self) -> Result<(), String> {
        const HINT: &str = "Consider setting --runtime-config-emulation-forward-compatible=true";
        let current = self.emulation.minor;
        if self.emulation.runtime_config_forward_compatible {
            return Ok(());
        }
        for (key, _) in self.resources.iter().filter(|(_, on)| **on) {
            let Some((group, version, resource)) = split_resource(key) else { continue };
            let minor = emulation::introduced(group, version, resource).unwrap_or(0);
            if minor > current && !self.exists(group, version, resource) {
                return Err(format!(
                    "cannot enable resource {group}/{version}, Resource={resource} in runtime-config because it is \
                     introduced at 1.{minor} after the current version 1.{current}. {HINT}"
                ));
            }
        }
        for (key, _) in self.versions.iter().filter(|(_, on)| **on) {
            let Some((group, version)) = key.split_once('/') else { continue };
            if emulation::version_introduced(group, version).unwrap_or(0) > current {
                return Err(format!(
                    "cannot enable version {key} in runtime-config because all the resources have been introduced after \
                     the current version 1.{current}. {HINT}"
                ));
            }
        }
        Ok(())
    }
}

/// The parts of `group/version/resource`.
fn split_resource(key: &str) -> Option<(&str, &str, &str)> {
    let (group, rest) = key.split_once('/')?;
    let (version, resource) = rest.split_once('/')?;
    Some((group, version, resource))
}

impl Stage {
    fn has_version(self, version: &str) -> bool {
        match self {
            Stage::All => true,
            Stage::Stable => !version.contains("alpha") && !version.contains("beta"),
            Stage::Beta => version.contains("beta"),
            Stage::Alpha => version.contains("alpha"),
        }
    }
}

/// The priorities of a group-version that is not served by default: the group's, and the version's within it.
pub(crate) fn priorities(group: &str, version: &str) -> (i64, i64) {
    const GROUPS: [(&str, i64); 9] = [
        ("certificates.k8s.io", 17_300),
        ("networking.k8s.io", 17_200),
        ("storage.k8s.io", 16_800),
        ("admissionregistration.k8s.io", 16_700),
        ("coordination.k8s.io", 16_500),
        ("resource.k8s.io", 16_200),
        ("internal.apiserver.k8s.io", 16_000),
        ("scheduling.k8s.io", 16_600),
        ("storagemigration.k8s.io", 15_800),
    ];
    const VERSIONS: [(&str, &str, i64); 7] = [
        ("admissionregistration.k8s.io", "v1alpha1", 9),
        ("admissionregistration.k8s.io", "v1beta1", 12),
        ("coordination.k8s.io", "v1alpha2", 12),
        ("coordination.k8s.io", "v1beta1", 13),
        ("resource.k8s.io", "v1beta2", 15),
        ("scheduling.k8s.io", "v1alpha2", 2),
        ("internal.apiserver.k8s.io", "v1alpha1", 9),
    ];
    let of_group = GROUPS.iter().find(|(name, _)| *name == group).map_or(16_000, |(_, priority)| *priority);
    let by_stage = match (Stage::Alpha.has_version(version), Stage::Beta.has_version(version)) {
        (true, _) => 1,
        (_, true) => 9,
        _ => 15,
    };
    let own = VERSIONS.iter().find(|(g, v, _)| *g == group && *v == version);
    (of_group, own.map_or(by_stage, |(.., priority)| *priority))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_kinds::builtin_selected;

    fn served(flag: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let entries = flag.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect();
        let config = RuntimeConfig::parse(&entries, Emulation::default())?;
        let groups = builtin_selected(&|resource| config.selects(resource)).groups;
        let versions =
            groups.iter().flat_map(|g| g.versions.iter().map(|v| format!("{}/{}", g.name, v.name)));
        Ok(versions.collect())
    }

    #[test]
    fn versions_are_turned_on_and_off() {
        let default = served(&[]).unwrap();
        assert_eq!(default.len(), 22);
        assert_eq!(served(&[("api/all", "true")]).unwrap().len(), 32);
        let beta = served(&[("api/beta", "true")]).unwrap();
        assert!(
            beta.contains(&"resource.k8s.io/v1beta1".into())
                && !beta.contains(&"resource.k8s.io/v1alpha3".into())
        );
        let one = served(&[("resource.k8s.io/v1beta1", "true")]).unwrap();
        assert_eq!(one.len(), 23);
        let but = served(&[("api/all", "true"), ("resource.k8s.io/v1beta1", "false")]).unwrap();
        assert_eq!(but.len(), 31);
        assert_eq!(served(&[("batch/v1/cronjobs", "false")]).unwrap().len(), 22);
        assert_eq!(served(&[("apps/v1", "false")]).unwrap().len(), 21);
        for known in ["certificates.k8s.io/v1beta1", "apps/v1beta1", "extensions/v1beta1"] {
            assert_eq!(served(&[(known, "true")]).unwrap().len(), 22, "{known}");
        }
    }

    #[test]
    fn what_is_unknown_is_refused() {
        for (key, value) in
            [("api/all", "maybe"), ("apps/v7", "true"), ("apps", "true"), ("no.such.group/v1", "true")]
        {
            assert!(served(&[(key, value)]).is_err(), "{key}");
        }
    }
}
