//! The policy of a namespace, read from its labels.

use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};
use std::fmt;

/// Levels, from the least to the most strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// The version of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Latest,
    Minor(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl Level {
    pub(super) fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }
}

impl LevelVersion {
    pub(super) const PRIVILEGED: LevelVersion =
        LevelVersion { level: Level::Privileged, version: Version::Latest };

    fn is_equivalent(self, other: LevelVersion) -> bool {
        (self.level == Level::Privileged && other.level == Level::Privileged) || self == other
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.name();
        match self.version {
            Version::Latest => write!(f, "{level}:latest"),
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// The levels to enforce, audit and warn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    pub(super) enforce: LevelVersion,
    pub(super) audit: LevelVersion,
    pub(super) warn: LevelVersion,
}

impl Policy {
    /// Checks nothing.
    pub(super) const PRIVILEGED: Policy = Policy {
        enforce: LevelVersion::PRIVILEGED,
        audit: LevelVersion::PRIVILEGED,
        warn: LevelVersion::PRIVILEGED,
    };

    /// The policy of a namespace, see `of_labels`.
    pub(super) fn of_namespace(namespace: &Value, defaults: Policy) -> (Policy, FieldErrors) {
        let label = |name: &str| namespace.at(&["metadata", "labels", name]).and_then(Value::as_str);
        Policy::of_labels(label, defaults)
    }

    /// The policy from a namespace's labels, of which `value_of` returns one, and errors of the labels. Missing labels take
    /// the value from `defaults`; an invalid enforce label is restricted, and invalid audit and warn labels are privileged.
    pub(super) fn of_labels<'a>(
        value_of: impl Fn(&str) -> Option<&'a str>,
        defaults: Policy,
    ) -> (Policy, FieldErrors) {
        let label = |name: &str| {
            let key = format!("pod-security.kubernetes.io/{name}");
            let value = value_of(&key)?;
            Some((key, value))
        };
        let mut errors = FieldErrors::new();
        let mut policy = defaults;
        let mut enforced = false;
        if let Some((key, value)) = label("enforce") {
            let level = parse_level(&key, value, &mut errors);
            enforced = level.is_some();
            policy.enforce.level = level.unwrap_or(Level::Restricted);
        }
        if let Some((key, value)) = label("enforce-version") {
            policy.enforce.version = parse_version(&key, value, &mut errors);
        }
        if let Some((key, value)) = label("audit") {
            policy.audit.level = parse_level(&key, value, &mut errors).unwrap_or(Level::Privileged);
        }
        if let Some((key, value)) = label("audit-version") {
            policy.audit.version = parse_version(&key, value, &mut errors);
        }
        if let Some((key, value)) = label("warn") {
            policy.warn.level = parse_level(&key, value, &mut errors).unwrap_or(Level::Privileged);
        }
        if let Some((key, value)) = label("warn-version") {
            policy.warn.version = parse_version(&key, value, &mut errors);
        }
        if label("warn").is_none() && enforced && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if label("warn-version").is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    pub(super) fn is_equivalent(&self, other: &Policy) -> bool {
        self.enforce.is_equivalent(other.enforce)
            && self.audit.is_equivalent(other.audit)
            && self.warn.is_equivalent(other.warn)
    }

    /// Returns whether no level needs any checks.
    pub(super) fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|lv| lv.level == Level::Privileged)
    }
}

/// The error texts for an invalid level and an invalid version.
pub(super) const NO_LEVEL: &str = "must be one of privileged, baseline, restricted";
pub(super) const NO_VERSION: &str = "must be \"latest\" or \"v1.x\"";

impl Level {
    pub(super) fn parse(text: &str) -> Option<Level> {
        match text {
            "privileged" => Some(Level::Privileged),
            "baseline" => Some(Level::Baseline),
            "restricted" => Some(Level::Restricted),
            _ => None,
        }
    }
}

impl Version {
    pub(super) fn parse(text: &str) -> Option<Version> {
        if text == "latest" {
            return Some(Version::Latest);
        }
        let digits = text.strip_prefix("v1.")?;
        let is_plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let is_canonical = digits == "0" || !digits.starts_with('0');
        digits.parse().ok().filter(|_| is_plain && is_canonical).map(Version::Minor)
    }
}

fn parse_level(key: &str, value: &str, errors: &mut FieldErrors) -> Option<Level> {
    let level = Level::parse(value);
    if level.is_none() {
        let path = Path::of("metadata.labels");
        errors.invalid(&path.key(key), value, NO_LEVEL);
    }
    level
}

fn parse_version(key: &str, value: &str, errors: &mut FieldErrors) -> Version {
    Version::parse(value).unwrap_or_else(|| {
        let path = Path::of("metadata.labels");
        errors.invalid(&path.key(key), value, NO_VERSION);
        Version::Latest
    })
}
