//! LeaseCandidate: a candidate for holding a lease, with its versions.

use super::lease::validate_strategy;
use crate::{Hooks, facts};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};
use std::cmp::Ordering;

const OLDEST: &str = "OldestEmulationVersion";

pub(crate) struct LeaseCandidate;

impl Hooks for LeaseCandidate {
    fn name_errors(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::is_config_map_key(name)
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let path = Path::of("spec");
        let text = |field: &str| object.str_at(&["spec", field]);
        let spec = object.get("spec").unwrap_or(&Value::Null);
        facts::check(spec, "coordination/v1beta1.LeaseCandidateSpec", &path, errors);
        let mut version = |field: &str| {
            let given = Some(text(field)).filter(|given| !given.is_empty())?;
            let parsed = Version::parse(given);
            if parsed.is_none() {
                errors.invalid(&path.field(field), given, "must be a valid semantic version");
            }
            parsed
        };
        let emulated = version("emulationVersion");
        let binary = version("binaryVersion");
        if text("binaryVersion").is_empty() {
            errors.required(&path.field("binaryVersion"), "");
        } else if !text("emulationVersion").is_empty()
            && binary.clone().unwrap_or_default() < emulated.clone().unwrap_or_default()
        {
            let why = "must be greater than or equal to `emulationVersion`";
            errors.invalid(&path.field("binaryVersion"), text("binaryVersion"), why);
        }
        let strategy = text("strategy");
        if strategy.is_empty() {
            return errors.required(&path.field("strategy"), "");
        }
        if strategy == OLDEST && emulated.unwrap_or_default() == Version::default() {
            let why = "must be specified when `strategy` is 'OldestEmulationVersion'";
            errors.required(&path.field("emulationVersion"), why);
        }
        validate_strategy(strategy, &path.field("strategy"), errors);
    }
}

/// A semantic version: three numbers and a pre-release. Build metadata is ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    numbers: [u64; 3],
    prerelease: Vec<String>,
}

impl Version {
    /// Parses a complete version, without prefix.
    pub fn parse(text: &str) -> Option<Version> {
        let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
        let (core, before) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
        let mut numbers = [0; 3];
        let mut parts = core.split('.');
        for number in &mut numbers {
            *number = parts.next().filter(|part| is_number(part))?.parse().ok()?;
        }
        let words = |text: &str| text.split('.').all(is_word);
        let fits = parts.next().is_none() && build.is_none_or(words) && before.is_none_or(words);
        let prerelease: Vec<String> =
            before.into_iter().flat_map(|b| b.split('.')).map(String::from).collect();
        let padded = |word: &String| word.bytes().all(|b| b.is_ascii_digit()) && !is_number(word);
        (fits && !prerelease.iter().any(padded)).then_some(Version { numbers, prerelease })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let words = || match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, true) => Ordering::Equal,
            // A release is greater than its pre-releases.
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let pairs = self.prerelease.iter().zip(&other.prerelease);
                let first = pairs.map(|(a, b)| compare_words(a, b)).find(|order| order.is_ne());
                first.unwrap_or(self.prerelease.len().cmp(&other.prerelease.len()))
            }
        };
        Some(self.numbers.cmp(&other.numbers).then_with(words))
    }
}

fn compare_words(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::created;

    #[test]
    fn versions_are_semantic_and_in_order() {
        let candidate = |emulation: &str, binary: &str| {
            let spec = format!(
                r#"{{"spec":{{"leaseName":"l","strategy":"OldestEmulationVersion","emulationVersion":"{emulation}","binaryVersion":"{binary}"}}}}"#
            );
            created(&LeaseCandidate, &spec)
        };
        assert!(candidate("1.2.3", "1.2.3").is_empty());
        assert!(candidate("1.2.3-rc.1", "1.2.3").is_empty());
        assert_eq!(
            candidate("1.3.0", "1.2.9"),
            [
                "spec.binaryVersion: Invalid value: \"1.2.9\": must be greater than or equal to `emulationVersion`"
            ]
        );
        assert_eq!(
            candidate("1.0.0", "1.02.0").first().map(String::as_str),
            Some("spec.binaryVersion: Invalid value: \"1.02.0\": must be a valid semantic version")
        );
    }
}
