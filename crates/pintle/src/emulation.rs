//! `--emulated-version` and `--min-compatibility-version`: the server reports, serves and enables the same as an
//! earlier version of Kubernetes.

use crate::flags::{FlagError, Flags};
use std::collections::BTreeMap;

/// The latest minor version that can be emulated: the server's own.
pub(crate) const MINOR: u64 = 36;
/// The earliest minor version that can be emulated.
pub(crate) const MINOR_MIN: u64 = 33;

/// The resources whose versions were introduced since the earliest version that can be emulated, with the minor version
/// that introduced them. The other versions of these resources are listed too, and of a version that has further resources
/// at least one that is older.
const INTRODUCED: &[(&str, &str, &[&str], u64)] = &[
    (
        "admissionregistration.k8s.io",
        "v1",
        &["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"],
        36,
    ),
    ("admissionregistration.k8s.io", "v1", &["validatingadmissionpolicies"], 30),
    (
        "admissionregistration.k8s.io",
        "v1beta1",
        &["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"],
        34,
    ),
    ("admissionregistration.k8s.io", "v1beta1", &["validatingadmissionpolicies"], 28),
    ("certificates.k8s.io", "v1beta1", &["clustertrustbundles"], 33),
    ("certificates.k8s.io", "v1beta1", &["podcertificaterequests"], 35),
    ("resource.k8s.io", "v1", DEVICES, 34),
    ("resource.k8s.io", "v1beta2", DEVICES, 33),
    ("resource.k8s.io", "v1beta2", &["devicetaintrules"], 36),
    ("resource.k8s.io", "v1beta1", DEVICES, 32),
    ("resource.k8s.io", "v1alpha3", &["devicetaintrules"], 33),
    ("resource.k8s.io", "v1alpha3", &["resourcepoolstatusrequests"], 36),
    ("storage.k8s.io", "v1", &["storageclasses"], 6),
    ("storage.k8s.io", "v1", &["volumeattributesclasses"], 34),
    ("storage.k8s.io", "v1beta1", &["volumeattributesclasses"], 31),
    ("storagemigration.k8s.io", "v1beta1", &["storageversionmigrations"], 35),
];
/// Groups whose resources are behind feature gates that are off in earlier versions, so that naming a version of them enables
/// nothing.
const BEHIND_GATES: [&str; 1] = ["storagemigration.k8s.io"];
const DEVICES: &[&str] = &["deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"];

/// The versions that the server emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Emulation {
    /// The emulated version is 1.N.
    pub(crate) minor: u64,
    /// The earliest version that must be able to run beside this server is 1.N.
    pub(crate) min_compatibility_minor: u64,
    /// Whether newer versions of a resource are served if an older one is.
    pub(crate) forward_compatible: bool,
    /// Whether `--runtime-config` may enable versions that the emulated version did not have.
    pub(crate) runtime_config_forward_compatible: bool,
}

impl Default for Emulation {
    fn default() -> Self {
        Emulation {
            minor: MINOR,
            min_compatibility_minor: MINOR.saturating_sub(1),
            forward_compatible: false,
            runtime_config_forward_compatible: false,
        }
    }
}

impl Emulation {
    /// Reads the flags, which may still be out of range.
    pub(crate) fn of(flags: &Flags) -> Result<Emulation, FlagError> {
        let minor = version(flags, "emulated-version")?.map_or(MINOR, |(_, minor)| minor);
        let lowest = version(flags, "min-compatibility-version")?;
        Ok(Emulation {
            minor,
            min_compatibility_minor: lowest
                .map_or_else(|| minor.saturating_sub(1).max(MINOR_MIN), |(_, minor)| minor),
            forward_compatible: flags.bool("emulation-forward-compatible"),
            runtime_config_forward_compatible: flags.bool("runtime-config-emulation-forward-compatible"),
        })
    }
}

/// The minor version that introduced a version of a resource, if it may be later than the emulated one.
pub(crate) fn introduced(group: &str, version: &str, resource: &str) -> Option<u64> {
    let found = INTRODUCED
        .iter()
        .find(|(g, v, resources, _)| *g == group && *v == version && resources.contains(&resource));
    found.map(|(.., minor)| *minor)
}

/// The minor version that introduced the first resource of a version, if it may be later than the emulated one.
pub(crate) fn version_introduced(group: &str, version: &str) -> Option<u64> {
    let of_version = INTRODUCED.iter().filter(|(g, v, ..)| *g == group && *v == version);
    let of_version = of_version.filter(|(g, ..)| !BEHIND_GATES.contains(g));
    of_version.map(|(.., minor)| *minor).min()
}

/// The listed versions of a resource.
pub(crate) fn versions_of(group: &str, resource: &str) -> impl Iterator<Item = &'static str> {
    let of_resource =
        INTRODUCED.iter().filter(move |(g, _, resources, _)| *g == group && resources.contains(&resource));
    of_resource.map(|(_, version, ..)| *version)
}

/// Errors of the flags.
pub(crate) fn errors(flags: &Flags) -> Result<Vec<String>, FlagError> {
    let mut errors = Vec::new();
    let emulation = Emulation::of(flags)?;
    if let Some((text, minor)) = version(flags, "emulated-version")?
        && !(MINOR_MIN..=MINOR).contains(&minor)
    {
        errors.push(format!("emulation version {text} is not between [1.{MINOR_MIN}, 1.{MINOR}.0]"));
    }
    let latest = emulation.minor;
    let lowest = emulation.min_compatibility_minor;
    if !(MINOR_MIN..=latest).contains(&lowest) {
        let given = version(flags, "min-compatibility-version")?;
        let text = given.map_or_else(|| format!("1.{lowest}"), |(text, _)| text);
        errors.push(format!(
            "minCompatibilityVersion version {text} is not between [1.{MINOR_MIN}, 1.{latest}]"
        ));
    }
    for (is_set, name) in [
        (emulation.forward_compatible, "EmulationForwardCompatible"),
        (emulation.runtime_config_forward_compatible, "RuntimeConfigEmulationForwardCompatible"),
    ] {
        if is_set && latest == MINOR {
            errors.push(format!(
                "ServerRunOptions.{name} cannot be set to true if the emulation version is the same as the binary version"
            ));
        }
    }
    Ok(errors)
}

/// The version of a flag, `[kube=]1.N`: its text and N.
fn version(flags: &Flags, name: &str) -> Result<Option<(String, u64)>, FlagError> {
    let mut found: BTreeMap<String, (String, u64)> = BTreeMap::new();
    for item in flags.list(name) {
        let (component, text) = match item.split_once('=') {
            None => ("kube", item.as_str()),
            Some((component, text)) => (component.trim(), text.trim()),
        };
        let numbers = components(text).map_err(|why| FlagError::new(&why))?;
        let text = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".");
        let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
        if number(2) != 0 {
            return Err(FlagError::new(&format!("patch version not allowed, got: {component}={text}")));
        }
        if let Some((earlier, _)) = found.get(component) {
            return Err(FlagError::new(&format!(
                "duplicate version flag, {component}={earlier} and {component}={text}"
            )));
        }
        // Other major versions are out of range in any case.
        found.insert(component.to_string(), (text, if number(0) == 1 { number(1) } else { 0 }));
    }
    match found.keys().find(|component| *component != "kube") {
        Some(other) => Err(FlagError::new(&format!("component not registered: {other}"))),
        None => Ok(found.remove("kube")),
    }
}

/// The numbers of a version. What follows them is ignored.
fn components(text: &str) -> Result<Vec<u64>, String> {
    let start = text.strip_prefix('v').unwrap_or(text);
    let mut end = start.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(start.len());
    // A point belongs to the numbers if a digit follows.
    if let Some(at) = start.get(..end).and_then(|numbers| numbers.find("..")) {
        end = at;
    }
    let numbers = start.get(..end).unwrap_or_default().trim_end_matches('.');
    if !numbers.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("could not parse {text:?} as version"));
    }
    if !numbers.contains('.') {
        return Err(format!("illegal version string {text:?}"));
    }
    let first = numbers.split('.').next().unwrap_or_default();
    if first.starts_with('0') && first != "0" {
        return Err(format!("illegal zero-prefixed version component {first:?} in {text:?}"));
    }
    let number = |part: &str| {
        part.parse::<u64>().map_err(|_| {
            format!(
                "illegal non-numeric version component {part:?} in {text:?}: strconv.ParseUint: parsing {part:?}: value \
                 out of range"
            )
        })
    };
    numbers.split('.').map(number).collect()
}
