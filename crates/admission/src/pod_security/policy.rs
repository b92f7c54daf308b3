//! The policy of a namespace, read from its labels.

use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};
use std::fmt;

/// How strict a policy is, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// Which version of the rules counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Latest,
    Minor(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl LevelVersion {
    const PRIVILEGED: LevelVersion = LevelVersion { level: Level::Privileged, version: Version::Latest };
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Latest => write!(f, "{level}:latest"),
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

pub(super) struct Policy {
    pub(super) enforce: LevelVersion,
    pub(super) audit: LevelVersion,
    pub(super) warn: LevelVersion,
}

impl Policy {
    /// The policy and what is wrong with the labels. There is always a policy: what cannot be read is enforced as
    /// strictly as can be, and neither warned of nor audited.
    pub(super) fn of_namespace(namespace: &Value) -> (Policy, FieldErrors) {
        let label = |name: &str| {
            let key = format!("pod-security.kubernetes.io/{name}");
            let value = namespace.at(&["metadata", "labels", &key]).and_then(Value::as_str)?;
            Some((key, value))
        };
        let mut errors = FieldErrors::new();
        let none = LevelVersion::PRIVILEGED;
        let mut policy = Policy { enforce: none, audit: none, warn: none };
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

    /// Whether nothing is looked at.
    pub(super) fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|lv| lv.level == Level::Privileged)
    }
}

fn parse_level(key: &str, value: &str, errors: &mut FieldErrors) -> Option<Level> {
    match value {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => {
            let path = Path::of("metadata");
            let path = path.field("labels");
            errors.invalid(&path.key(key), value, "must be one of privileged, baseline, restricted");
            None
        }
    }
}

fn parse_version(key: &str, value: &str, errors: &mut FieldErrors) -> Version {
    if value == "latest" {
        return Version::Latest;
    }
    let digits = value.strip_prefix("v1.").filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()));
    let plain = digits.filter(|d| *d == "0" || !d.starts_with('0'));
    if let Some(minor) = plain.and_then(|d| d.parse().ok()) {
        return Version::Minor(minor);
    }
    let path = Path::of("metadata");
    let path = path.field("labels");
    errors.invalid(&path.key(key), value, "must be \"latest\" or \"v1.x\"");
    Version::Latest
}
