//! `--emulated-version` and `--min-compatibility-version`: the server reports, serves and enables the same as an
//! earlier version of Kubernetes.

use crate::flags::{FlagError, Flags};

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
    let mut found: Option<(String, u64)> = None;
    for item in flags.list(name) {
        let text = match item.split_once('=') {
            None => item.as_str(),
            Some(("kube", text)) => text,
            Some((other, _)) => return Err(FlagError::new(&format!("component not registered: {other}"))),
        };
        if let Some((earlier, _)) = &found {
            return Err(FlagError::new(&format!("duplicate version flag, kube={earlier} and kube={text}")));
        }
        let number = |part: Option<&str>| part.and_then(|part| part.parse::<u64>().ok());
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts = text.split('.');
        let (Some(major), Some(minor)) = (number(parts.next()), number(parts.next())) else {
            return Err(FlagError::new(&format!("could not parse {text:?} as version")));
        };
        if number(parts.next()).is_some_and(|patch| patch != 0) {
            return Err(FlagError::new(&format!("patch version not allowed, got: kube={text}")));
        }
        // Other major versions are out of range in any case.
        found = Some((text.to_string(), if major == 1 { minor } else { 0 }));
    }
    Ok(found)
}
